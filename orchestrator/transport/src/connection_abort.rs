//! Handle by which a call ends its whole connection.

use std::sync::Arc;
use tokio::sync::Notify;

/// Ends the connection of a request. Stored in the extensions of every request.
#[derive(Clone, Debug, Default)]
pub struct ConnectionAbort(Arc<Notify>);

impl ConnectionAbort {
    /// Drops the connection with everything on it.
    pub fn abort(&self) {
        self.0.notify_one();
    }

    /// Returns once it is to be dropped.
    pub async fn aborted(&self) {
        self.0.notified().await;
    }
}
