//! What waits between those who hand in and the thread that exports. Does nothing.

use escapement_codec::trace::Trace;
use escapement_contract::{Request, Settlement};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// An execution that waits to be exported, and the room that it takes until then.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) settlement: Arc<Settlement>,
    pub(crate) request: Arc<Request>,
    pub(crate) trace: Trace,
    pub(crate) room: OwnedSemaphorePermit,
}
