//! What waits between those who hand in and the thread that exports. Does nothing.

use opentelemetry_proto::tonic::trace::v1::Span;
use std::fmt;
use tokio::sync::OwnedSemaphorePermit;

/// Makes the spans of a trace, or says why there are none.
pub(crate) type MakeSpans = Box<dyn FnOnce() -> Result<Vec<Span>, String> + Send>;

/// A trace that waits to be exported, and the room that it takes until then.
pub(crate) struct Waiting {
    pub(crate) spans: MakeSpans,
    pub(crate) room: OwnedSemaphorePermit,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}
