//! How much is kept and sent, and how long.

use std::time::Duration;

/// Traces that wait to be exported.
pub(crate) const TRACES_MAX: usize = 1_024;
/// Log records that wait: a start that finds a thousand interrupted executions says so of each.
pub(crate) const RECORDS_MAX: usize = 16_384;
/// About the bytes that either take: 64 MiB.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Spans that are handed in together; of more the one at the top alone is.
#[cfg(feature = "live")]
pub(crate) const TREE_SPANS_MAX: usize = 2_048;
/// About the bytes that these take: 1 MiB.
#[cfg(feature = "live")]
pub(crate) const TREE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a text in a span; the rest is cut.
#[cfg(feature = "live")]
pub(crate) const TEXT_BYTES_MAX: usize = 1_024;
/// Bytes of a text in a log record; the rest is cut.
#[cfg(feature = "logs")]
pub(crate) const LOG_TEXT_BYTES_MAX: usize = 16 << 10;
/// Spans, or log records, of one message.
pub(crate) const BATCH_MAX: usize = 512;
/// Bytes in one message; a single span, record or figure may be larger. Collectors take 4 MiB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Time that a batch waits to become full.
pub(crate) const BATCH_TIME: Duration = Duration::from_secs(1);
/// Time that traces gather before they are taken: short enough that a queue of them does not fill in it.
pub(crate) const GATHER_TIME: Duration = Duration::from_millis(5);
/// Time that the collector has to take a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that the collector has to answer.
pub(crate) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to export what waits when the process ends.
pub(crate) const FLUSH_TIME: Duration = Duration::from_secs(3);
/// Bytes of the file of headers: 64 KiB.
pub(crate) const HEADERS_BYTES_MAX: u64 = 64 << 10;
