//! What waits between those who hand in and the thread that exports. Does nothing.

use std::fmt;
use tokio::sync::OwnedSemaphorePermit;

/// A span or a log record in the bytes of OTLP: `opentelemetry.proto.trace.v1.Span`, `opentelemetry.proto.logs.v1.LogRecord`.
pub type Encoded = Vec<u8>;

/// Makes the spans of a trace or the record, or says why there are none.
pub(crate) type Make = Box<dyn FnOnce() -> Result<Vec<Encoded>, String> + Send>;

/// A trace or a record that waits to be exported, and the room that it takes until then.
pub(crate) struct Waiting {
    pub(crate) make: Make,
    pub(crate) room: OwnedSemaphorePermit,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}
