//! Tells a call that the credentials that it was made with are worth nothing any more. Ends no call.

use crate::call_access::ConnectionAccess;
use escapement_access::Principal;
use std::sync::Arc;

/// Of one call. Stands among the extensions of the request that begins a session of a worker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CredentialsEnd {
    access: Arc<ConnectionAccess>,
    principal: Arc<Principal>,
}

impl CredentialsEnd {
    pub(crate) fn new(access: &Arc<ConnectionAccess>, principal: &Arc<Principal>) -> Self {
        Self {
            access: Arc::clone(access),
            principal: Arc::clone(principal),
        }
    }

    /// Returns once the credentials have expired, are revoked, or are not in the policy any more.
    pub async fn come(&self) {
        self.access.ended().await;
        // Others call on the connection too, and what they lose is theirs.
        if !self.access.is_void(&self.principal) {
            std::future::pending().await
        }
    }
}
