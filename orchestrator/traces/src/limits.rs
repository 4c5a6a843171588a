//! How much is kept and sent, and how long.

use std::time::Duration;

/// Spans of one execution. If there are more, the last one says how many are missing.
pub const SPANS_MAX: usize = 2_048;
/// Events of one span. Of more their number alone is told.
pub(crate) const EVENTS_MAX: usize = 32;
/// Executions that wait to be exported.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// About the bytes that these take, requests and results included: 64 MiB.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Spans of one message.
pub(crate) const BATCH_SPANS_MAX: usize = 512;
/// Time that a batch waits to become full.
pub(crate) const BATCH_TIME: Duration = Duration::from_secs(1);
/// Time that the collector has to take a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that the collector has to answer.
pub(crate) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to export what waits when the process ends.
pub(crate) const FLUSH_TIME: Duration = Duration::from_secs(3);
/// Bytes of the file of headers: 64 KiB.
pub(crate) const HEADERS_BYTES_MAX: u64 = 64 << 10;
