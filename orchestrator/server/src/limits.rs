//! Every limit of the shell that no flag sets. Enforces none of them.
//!
//! What callers, workers and the orchestrator must agree on stands in `escapement_model::limits`.

use escapement_model::limits::CALLER_MESSAGE_BYTES_MAX;
use std::time::Duration;

/// Messages that wait for the engine. The edge waits when there are more; the engine itself never waits for
/// the edge.
pub const ENGINE_QUEUE_MAX: usize = 8_192;
/// Messages of the edge that the engine takes in one batch.
pub const ENGINE_BATCH_MAX: usize = 512;
/// Answers of the store that the engine takes in one batch; each stands for one commit.
pub const STORED_BATCH_MAX: usize = 64;
/// Batches of entries that wait for one watcher. One that reads more slowly is told to watch again.
pub const WATCHER_QUEUE_MAX: usize = 1_024;

/// Writes in one commit.
pub const COMMIT_WRITES_MAX: usize = 1_024;
/// Bytes of records after which a commit takes no further write: 32 MiB.
pub const COMMIT_BYTES_MAX: usize = 32 << 20;
/// Readers of the store, each with a connection of its own.
pub const READERS_MAX: usize = 4;
/// Executions read at a time when the process starts.
pub const RECOVERY_PAGE: usize = 512;
/// Index rows of executions read at a time when the process starts.
pub const RECOVERY_SUMMARIES_PAGE: usize = 4_096;
/// Requests of queued executions that the engine takes in one batch.
pub const LOADED_BATCH_MAX: usize = 256;

/// Pause between two looks for something to remove.
pub const REMOVAL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a step of removal lets writes go first.
pub const REMOVAL_PATIENCE: Duration = Duration::from_secs(1);
/// Time that a step of removal counts at least.
pub const REMOVAL_STEP_MIN: Duration = Duration::from_millis(1);
/// While there is more to remove and no write waits: a pause of so many times what a step took.
pub const REMOVAL_IDLE_SHARE: u32 = 2;
/// The same while writes wait.
pub const REMOVAL_BUSY_SHARE: u32 = 4;
/// Pause between two pages of a look through the store, at least.
pub const SCRUB_PAUSE_MIN: Duration = Duration::from_millis(100);
/// And so many times what the page took: half a percent of one core.
pub const SCRUB_SHARE: u32 = 200;

/// Messages that wait to be sent to one worker.
///
/// Assignments and cancels are bounded by credits (`SESSION_IN_FLIGHT_MAX`), every other message answers one
/// of the
/// worker's own; so only a worker that talks and does not read gets here, and its session is closed.
pub const SESSION_QUEUE_MAX: usize = 16_384;
/// Bytes of a message that count as one more in that queue, so that it holds 64 MiB at most.
pub const SESSION_QUEUE_UNIT_BYTES: usize = 4 << 10;
/// Time that a closed session has to take what was sent before its connection is cut.
pub const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Units of messages of one session that wait for the engine; then its stream is not read on for a moment.
/// The queue is shared, and one session must not fill it.
pub const SESSION_UNHANDLED_UNITS_MAX: u32 = 128;
/// Bytes of one such unit; a message has one and one more for each of these.
pub const SESSION_UNHANDLED_UNIT_BYTES: usize = 64 << 10;
/// Items of one `ReportOutcomes`.
pub const REPORTED_OUTCOMES_MAX: usize = 4_096;

/// Peers that a worker is told of.
pub const PEERS_MAX: usize = 64;
/// Bytes of the address of one of them.
pub const PEER_BYTES_MAX: usize = 512;

/// Bytes of lines of the session journal that wait to be written. What does not fit is dropped and counted.
pub const JOURNAL_BYTES_MAX: usize = 64 << 20;

/// Time that a new connection has to say that it speaks HTTP/2.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two looks at a preface of which only a part has come.
pub const PREFACE_PAUSE: Duration = Duration::from_millis(50);
/// Time after which a connection without an open request is told to go.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(300);
/// Time that a connection has to end once it was told to go.
pub const CONNECTION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted, for example for want of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// HTTP/2: unread bytes of one connection. Small frames that pile up beyond it end the whole connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// HTTP/2: unread bytes of one stream.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// HTTP/2: requests open at a time on one connection.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 256;
/// Time until the one message of a call must be complete, for all calls but those that stream their requests.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of such messages that are on their way at a time, over all connections: 64 of the largest.
pub const REQUESTS_BYTES_MAX: usize = 64 * CALLER_MESSAGE_BYTES_MAX;
/// Bytes of one message that asks for reflection; its requests are a stream, which no time ends.
pub const REFLECTION_MESSAGE_BYTES_MAX: usize = 16 << 10;
/// HTTP/2: bytes of the headers of one request.
pub const HEADER_LIST_BYTES_MAX: u32 = 32 << 10;
/// HTTP/2: pause between pings.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// HTTP/2: time that a ping has to be answered.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the encoded details of one status. They travel as a header, and common clients take 8 KiB of
/// headers.
pub const STATUS_DETAILS_BYTES_MAX: usize = 5 << 10;
/// Bytes of the message of one status, for the same reason.
pub const STATUS_MESSAGE_BYTES_MAX: usize = 512;
/// Default of `WaitExecution.timeout_ms`.
pub const WAIT_TIMEOUT_MS_DEFAULT: i64 = 30_000;
/// Largest `WaitExecution.timeout_ms`.
pub const WAIT_TIMEOUT_MS_MAX: i64 = 3_600_000;
/// Default of `ListExecutions.page_size`.
pub const EXECUTIONS_PAGE_DEFAULT: i32 = 100;
/// Largest `ListExecutions.page_size`.
pub const EXECUTIONS_PAGE_MAX: i32 = 1_000;
/// Default and largest `ListAuditEntries.page_size`.
pub const AUDIT_PAGE_MAX: i32 = 1_000;
/// Bytes of one answer to `ListAuditEntries`, unless its first entry alone is larger: 4 MiB.
pub const AUDIT_PAGE_BYTES_MAX: usize = 4 << 20;

/// Events that a subscriber may lag behind before it loses some.
pub const SUBSCRIBER_QUEUE_MAX: usize = 1_024;
/// Events that wait for the webhook.
pub const WEBHOOK_QUEUE_MAX: usize = 1_024;
/// Time that the webhook has to answer one event.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Failures that wait for the error handler.
pub const ERROR_HANDLER_QUEUE_MAX: usize = 1_024;

/// What the engine gets beyond the drain's grace to report that it has ended.
pub const DRAIN_MARGIN: Duration = Duration::from_secs(2);
/// What the whole process gets beyond the drain's grace before it exits in any case.
pub const HARD_EXIT_MARGIN: Duration = Duration::from_secs(15);
