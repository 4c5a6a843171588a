//! Every limit of the shell that no flag sets. Enforces none of them.
//!
//! What callers, workers and the orchestrator must agree on stands in `escapement_model::limits`.

use std::time::Duration;

/// Questions and orders of operators that wait for the engine.
pub(crate) const CONTROL_LANE_MAX: usize = 1_024;
/// Messages of workers that wait for the engine. Sessions wait when there are more, and read no further meanwhile.
pub(crate) const WORKERS_LANE_MAX: usize = 8_192;
/// Plans handed in that wait for the engine.
pub(crate) const WRITES_LANE_MAX: usize = 4_096;
/// Questions of callers that wait for the engine.
pub(crate) const READS_LANE_MAX: usize = 4_096;
/// Questions of callers that take the engine long, and that wait for it.
pub(crate) const LONG_READS_LANE_MAX: usize = 1_024;
/// Open calls, such as watches, that ask on and have their place in the queue of the engine; the others wait for one.
pub(crate) const OPEN_LANE_MAX: usize = 1_024;
/// Questions of operators that the engine takes in one batch. One of them may list 10,000 workers.
pub(crate) const CONTROL_BATCH_MAX: usize = 16;
/// Messages of workers that the engine takes in one batch.
pub(crate) const WORKERS_BATCH_MAX: usize = 512;
/// Plans that the engine takes in one batch: so many stand between an outcome and its place at most.
pub(crate) const WRITES_BATCH_MAX: usize = 128;
/// Questions of callers that the engine takes in one batch.
pub(crate) const READS_BATCH_MAX: usize = 128;
/// Questions of callers that take long that the engine takes in one batch. One of them may look at 1,024 steps and 16,384
/// entries of a record, or at 65,536 actions.
pub(crate) const LONG_READS_BATCH_MAX: usize = 4;
/// Open calls that ask on that the engine takes in one batch.
pub(crate) const OPEN_BATCH_MAX: usize = 256;
/// Notices of callers that gave up that the engine takes in one batch: more than it takes calls.
pub(crate) const GONE_BATCH_MAX: usize = 2_048;
/// How long a plan waits for a place in its lane before it is refused.
pub(crate) const WRITES_PATIENCE: Duration = Duration::from_secs(2);
/// How long a question waits for a place in its lane before it is refused: reads give way before writes do.
pub(crate) const READS_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of plans that were handed in and of which it is not known yet whether they are accepted: 256 MiB.
pub(crate) const UNDECIDED_BYTES_MAX: usize = 256 << 20;
/// Bytes of one unit of them; a plan has one at least.
pub(crate) const UNDECIDED_UNIT_BYTES: usize = 4 << 10;
/// Answers of the store that the engine takes in one batch; each stands for one commit.
pub(crate) const STORED_BATCH_MAX: usize = 64;
/// Entries of a live execution that are held for one watcher. It gets the next ones once it has read these.
pub(crate) const WATCHED_ENTRIES_MAX: usize = 64;
/// About the bytes of these entries: 16 KiB, unless one alone is larger. The watchers of an execution share them.
pub(crate) const WATCHED_BYTES_MAX: usize = 16 << 10;
/// Time that such a record is held for a watcher, or after a page. A reader that is not done by then goes on with another reading.
pub(crate) const WATCHED_RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// Readers of the store, each with a connection of its own.
pub(crate) const READERS_MAX: usize = 6;
/// Readers that lists have at most. A list may read much.
pub(crate) const LISTING_READERS_MAX: usize = 2;
/// Readers that watches have at most. A watch may read a record of tens of MiB.
pub(crate) const WATCH_READERS_MAX: usize = 1;
/// Readers that readers of events have at most.
pub(crate) const FEED_READERS_MAX: usize = 1;
/// Readers that repeated submissions have at most. So one is left for everything else, and none of the five waits for another.
pub(crate) const SUBMISSION_READERS_MAX: usize = 1;
/// Questions that wait for a reader.
pub(crate) const READERS_QUEUE_MAX: usize = 1_024;
/// How long a question waits for a reader before it is refused.
pub(crate) const READERS_PATIENCE: Duration = Duration::from_secs(2);
/// Executions that are replayed at a time, each on a thread of its own.
/// While it is checked a record takes several times its stored bytes: its messages, and what the core makes of it again.
pub(crate) const REPLAYS_MAX: usize = 2;
/// Requests of queued executions that the engine takes in one batch.
pub(crate) const LOADED_BATCH_MAX: usize = 256;

/// Pause between two looks for something to remove.
pub(crate) const REMOVAL_INTERVAL: Duration = Duration::from_secs(1);
/// By how much the wall clock may be ahead of the newest execution at a start; the rest does not count as age.
pub(crate) const REMOVAL_AHEAD_MAX_MS: u64 = 24 * 3_600_000;
/// How often a store that nobody writes is looked for.
pub(crate) const STORE_LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a step of removal lets writes go first.
pub(crate) const REMOVAL_PATIENCE: Duration = Duration::from_secs(1);
/// Time that a step of removal counts at least.
pub(crate) const REMOVAL_STEP_MIN: Duration = Duration::from_millis(1);
/// While there is more to remove and no write waits: a pause of so many times what a step took.
pub(crate) const REMOVAL_IDLE_SHARE: u32 = 2;
/// The same while writes wait.
pub(crate) const REMOVAL_BUSY_SHARE: u32 = 4;

/// Plans whose payloads are held against the schemas of workers at a time, each on a thread of its own.
pub(crate) const PAYLOAD_CHECKS_MAX: usize = 1;

/// Threads of each runtime for what blocks: readers, replays, simulations and records that are encoded. The rest waits.
pub(crate) const BLOCKING_THREADS_MAX: usize = 16;
/// Time after which such a thread ends if it has nothing to do: practically never.
pub(crate) const BLOCKING_THREADS_KEPT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Plans that are simulated at a time, each on a thread of its own.
pub(crate) const SIMULATIONS_MAX: usize = 2;
/// Simulations that have a place or wait for one. Others are refused at once.
pub(crate) const SIMULATIONS_QUEUE_MAX: usize = 16;
/// How long a simulation waits for a place before it is refused.
pub(crate) const SIMULATIONS_PATIENCE: Duration = Duration::from_secs(5);
/// Inputs of one simulation; what a failure has in its context counts as well. It takes a second or two at most.
pub(crate) const SIMULATION_INPUTS_MAX: usize = 1_000_000;
/// Bytes of the answer to one simulation: 16 MiB.
pub(crate) const SIMULATION_BYTES_MAX: usize = 16 << 20;

/// Messages that wait to be sent to one worker.
///
/// Assignments and cancels are bounded by credits (`SESSION_IN_FLIGHT_MAX`), every other message answers one of the
/// worker's own; so only a worker that talks and does not read gets here, and its session is closed.
pub(crate) const SESSION_QUEUE_MAX: usize = 16_384;
/// Bytes of a message that count as one more in that queue, so that it holds 64 MiB at most.
pub(crate) const SESSION_QUEUE_UNIT_BYTES: usize = 4 << 10;
/// Time that a closed session has to take what was sent before its connection is cut.
pub(crate) const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Units of messages of one session that wait for the engine; then its stream is not read on for a moment.
/// The queue is shared, and one session must not fill it.
pub(crate) const SESSION_UNHANDLED_UNITS_MAX: u32 = 128;
/// Bytes of one such unit; a message has one and one more for each of these.
pub(crate) const SESSION_UNHANDLED_UNIT_BYTES: usize = 64 << 10;
/// Items of one `ReportOutcomes`.
pub(crate) const REPORTED_OUTCOMES_MAX: usize = 4_096;

/// Executions of runs that are submitted and have not ended; more wait in order.
pub(crate) const RUN_EXECUTIONS_MAX: usize = 4_096;
/// Bytes of large requests of runs that wait in memory for their turn: 64 MiB.
pub(crate) const RUN_WAITING_BYTES_MAX: usize = 64 << 20;

/// Peers in one message to a worker.
pub(crate) const PEERS_MAX: usize = 64;
/// Bytes of the address of one of them.
pub(crate) const PEER_BYTES_MAX: usize = 512;
/// Actions that an operator may declare.
pub(crate) const DECLARED_ACTIONS_MAX: usize = 1_024;

/// Streams of workers that have not said anything yet.
pub(crate) const SILENT_SESSIONS_MAX: usize = 10_000;

/// Default of `WaitExecution.timeout_ms`.
pub(crate) const WAIT_TIMEOUT_MS_DEFAULT: i64 = 30_000;
/// Largest `WaitExecution.timeout_ms`.
pub(crate) const WAIT_TIMEOUT_MS_MAX: i64 = 3_600_000;
/// Default of `ListExecutions.page_size`.
pub(crate) const EXECUTIONS_PAGE_DEFAULT: i32 = 100;
/// Largest `ListExecutions.page_size`.
pub(crate) const EXECUTIONS_PAGE_MAX: i32 = 1_000;
/// Default and largest `ListAuditEntries.page_size`.
pub(crate) const AUDIT_PAGE_MAX: i32 = 1_000;
/// Bytes of one answer to `ListAuditEntries`, unless its first entry alone is larger: 4 MiB.
pub(crate) const AUDIT_PAGE_BYTES_MAX: usize = 4 << 20;

/// What the engine gets beyond the drain's grace to report that it has ended.
pub(crate) const DRAIN_MARGIN: Duration = Duration::from_secs(2);
/// What the whole process gets beyond the drain's grace before it exits in any case.
pub(crate) const HARD_EXIT_MARGIN: Duration = Duration::from_secs(15);
