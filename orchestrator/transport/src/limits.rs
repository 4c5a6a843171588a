//! Every limit of connections and calls that no flag sets. Enforces none of them.

use escapement_model::limits::CALLER_MESSAGE_BYTES_MAX;
use std::time::Duration;

/// Bytes of records of settled executions that are held for watchers and for further pages: 64 MiB in all. Those who want the
/// same record share it.
pub(crate) const WATCHED_RECORDS_BYTES_MAX: usize = 64 << 20;
/// Time that a new connection has to say that it speaks HTTP/2, its TLS handshake included.
pub(crate) const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum of silent connections; a new one evicts the oldest.
pub(crate) const SILENT_CONNECTIONS_MAX: usize = 1_024;
/// Maximum of connections that have sent data, perhaps of a TLS handshake, but not the HTTP/2 preface; a new one evicts the oldest.
pub(crate) const BEGINNING_CONNECTIONS_MAX: usize = 1_024;
/// Maximum of connections that speak HTTP/2 without an authorized call; a new one evicts the oldest.
/// Each takes some 50 KiB.
pub(crate) const STRANGERS_MAX: usize = 2_048;
/// Time after which such a connection is drained if no call is open on it.
pub(crate) const STRANGER_IDLE_MAX: Duration = Duration::from_secs(30);
/// Lower bound of each of these limits, also with few connections: some that come at once are not a flood.
pub(crate) const NEWCOMERS_MIN: usize = 16;
/// Time between two lines of the log about connections that fail for one reason.
pub(crate) const NOTICE_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which a connection without an open request is drained.
pub(crate) const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(300);
/// Time that a draining connection has to end.
pub(crate) const CONNECTION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted, for example for want of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time without such a failure after which connections count as accepted again.
pub(crate) const ACCEPT_CALM: Duration = Duration::from_secs(10);
/// Reads of one connection, of some 16 KiB each, after which others get their turn.
pub(crate) const READS_PER_TURN: u32 = 4;
/// Bytes of a submission that the reading thread serves itself, without a way to the threads of callers.
/// It takes about as much as reading it, so a flood of them costs others little more than any other flood.
pub(crate) const SERVED_AT_ONCE_BYTES_MAX: usize = 1 << 10;
/// Frames of such a plan.
pub(crate) const SERVED_AT_ONCE_FRAMES_MAX: usize = 4;
/// Bytes of a request of a caller above which it is read and validated on threads for such requests only: 64 KiB.
pub(crate) const LARGE_REQUEST_BYTES: usize = 64 << 10;
/// HTTP/2: unread bytes of one connection. Small frames that pile up beyond it end the whole connection.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// HTTP/2: unread bytes of one stream.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// HTTP/2: maximum of open requests on one connection. Those of all connections are bounded by kind.
pub(crate) const STREAMS_PER_CONNECTION_MAX: u32 = 1_024;
/// Time until the one message of a call must be complete, for all calls but those that stream their requests.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of requests of callers in transit, over all connections, for each of submissions and reads:
/// 32 of the largest.
pub(crate) const REQUESTS_BYTES_MAX: usize = 32 * CALLER_MESSAGE_BYTES_MAX;
/// The same for what workers and operators send: 64 MiB.
pub(crate) const WORKERS_BYTES_MAX: usize = 64 << 20;
/// The same for what those may send who have proven nothing: 1 MiB. A message of theirs counts with what it has beyond
/// [`SMALL_REQUEST_BYTES`], which is next to nothing.
pub(crate) const STRANGERS_BYTES_MAX: usize = 1 << 20;
/// Bytes of one message of a call that is open to all: 4 KiB.
pub(crate) const OPEN_CALL_MESSAGE_BYTES_MAX: usize = 4 << 10;
/// The part of these bytes that one connection may have: half of them.
pub(crate) const REQUESTS_SHARE: usize = 2;
/// Bytes of a refused request that are read and thrown away: 64 KiB.
pub(crate) const REFUSED_BYTES_MAX: usize = 64 << 10;
/// Time that a refused request has to end.
pub(crate) const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of each request that do not count, so that large requests do not block small ones.
pub(crate) const SMALL_REQUEST_BYTES: usize = 4 << 10;
/// Maximum of open calls: `SubmitPlan`.
pub(crate) const OPEN_WRITES_MAX: usize = 4_096;
/// Maximum of open calls: `ExecutePlan`, which wait for results.
pub(crate) const OPEN_EXECUTES_MAX: usize = 20_000;
/// Maximum of open calls: reads that are answered at once.
pub(crate) const OPEN_READS_MAX: usize = 4_096;
/// Maximum of open calls: `WaitExecution`.
pub(crate) const OPEN_WAITS_MAX: usize = 20_000;
/// Maximum of open calls: `WatchExecution`.
pub(crate) const OPEN_WATCHES_MAX: usize = 20_000;
/// Maximum of open calls: `SubscribeEvents` and `StreamIsActive`.
pub(crate) const OPEN_SUBSCRIPTIONS_MAX: usize = 4_096;
/// Maximum of open calls: requests of operators.
pub(crate) const OPEN_CONTROLS_MAX: usize = 1_024;
/// Maximum of open calls: outcomes without a session.
pub(crate) const OPEN_REPORTS_MAX: usize = 4_096;
/// Maximum of open calls: health checks, which are answered at once.
pub(crate) const OPEN_HEALTH_MAX: usize = 4_096;
/// Open health checks of one connection without credentials.
pub(crate) const STRANGER_CALLS_MAX: usize = 32;
/// Time in which such a connection takes an answer.
pub(crate) const STRANGER_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum of open calls: streams of the health.
pub(crate) const OPEN_HEALTH_WATCHES_MAX: usize = 1_024;
/// Maximum of open calls: reflection.
pub(crate) const OPEN_REFLECTIONS_MAX: usize = 256;
/// Bytes of large answers to callers that are not taken yet, as they are stored: 128 MiB.
/// On its way an answer takes more memory for a moment: record, message and frame.
pub(crate) const ANSWERS_BYTES_MAX: usize = 128 << 20;
/// The same for operators: 32 MiB.
pub(crate) const CONTROL_ANSWERS_BYTES_MAX: usize = 32 << 20;
/// Bytes from which an answer counts as large.
pub(crate) const SMALL_ANSWER_BYTES: usize = 16 << 10;
/// Time that a caller has to take a large answer, and one that has proven nothing to take any; then its connection is cut.
pub(crate) const ANSWER_TAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// HTTP/2: bytes of the headers of one request.
pub(crate) const HEADER_LIST_BYTES_MAX: u32 = 32 << 10;
/// HTTP/2: pause between pings.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// HTTP/2: time that a ping has to be answered.
pub(crate) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Failed authentications on one connection, which then is cut.
pub(crate) const FAILED_AUTHENTICATIONS_MAX: u32 = 16;
/// Callers with credentials of their own that are remembered for each connection.
pub(crate) const PRINCIPALS_PER_CONNECTION_MAX: usize = 16;
/// Bytes of the encoded details of one status. They travel as a header, and common clients take 8 KiB of headers.
pub(crate) const STATUS_DETAILS_BYTES_MAX: usize = 5 << 10;
/// Bytes of the message of one status, for the same reason.
pub(crate) const STATUS_MESSAGE_BYTES_MAX: usize = 512;
