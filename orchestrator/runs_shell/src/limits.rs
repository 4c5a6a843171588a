//! Every limit of the shell of runs that no flag sets. Enforces none of them.

use std::time::Duration;

/// Calls that wait for the thread of runs or for their answer.
pub const CALLS_MAX: usize = 8_192;
/// Bytes of these calls: 256 MiB.
pub const CALL_BYTES_MAX: usize = 256 << 20;
/// Bytes of one unit of them; a call has one at least.
pub const CALL_UNIT_BYTES: usize = 4 << 10;
/// How long a call waits for its place before it is refused.
pub const CALL_PATIENCE: Duration = Duration::from_secs(2);
/// How long a call waits for its answer. Then it is not known whether what it changed is durable.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Number of times that a write is decided while others change what it rests on.
pub const DECISIONS_MAX: u32 = 8;
/// Messages that share a commit.
pub const BATCH_MAX: usize = 512;
/// Pause before a commit that the store had no room for is tried again.
pub const REFUSED_PAUSE: Duration = Duration::from_millis(200);
/// The same once it was refused again and again.
pub const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Longer than this between two turns is time in which the process stood still, milliseconds.
pub const STALL_MS_MIN: i64 = 2_000;
/// Age of the last write, in milliseconds, above which it does not prove that the store takes writes.
pub const PROBE_MS_MIN: i64 = 1_000;
/// Longest interval between two turns while a run is active.
pub const STALL_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a store that nobody writes is looked for.
pub const STORE_LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Pause before a child run is made again for which there was no room.
pub const CHILD_PAUSE: Duration = Duration::from_secs(1);
/// Readers of the store of runs, each with a connection of its own.
pub const READERS_MAX: usize = 4;
/// Additional readers, for calls with many documents.
pub const LONG_READINGS_MAX: usize = 2;
/// Questions that wait for a reader.
pub const READERS_QUEUE_MAX: usize = 1_024;
/// How long a question waits for a reader before it is refused.
pub const READERS_PATIENCE: Duration = Duration::from_secs(2);
/// Levels of runs below one that nobody asked for.
pub const DEPTH_MAX: u32 = 8;
/// Pause between two looks for ended runs to remove.
pub const REMOVAL_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a step of removal counts at least.
pub const REMOVAL_STEP_MIN: Duration = Duration::from_millis(1);
/// While there is more to remove: a pause of so many times what a step took.
pub const REMOVAL_SHARE: u32 = 4;
/// By how much the wall clock may be ahead of the newest run at a start; the rest does not count as age.
pub const REMOVAL_AHEAD_MAX_MS: u64 = 24 * 3_600_000;
/// Pause before a submission is tried again that the contract had no room for.
pub const SUBMIT_PAUSE: Duration = Duration::from_millis(50);
/// The same once it was refused again and again.
pub const SUBMIT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long one wait for the end of an execution takes; then the next one begins.
pub const WAIT_CYCLE: Duration = Duration::from_secs(60);
/// What a call to the contract gets beyond what it asks for, before it counts as lost.
pub const CONTRACT_PATIENCE: Duration = Duration::from_secs(30);
/// Questions about records of executions that wait for their turn.
pub const RECORDS_QUEUE_MAX: usize = 64;
/// How long such a question waits for its answer; without one nothing is known of the records.
pub const RECORD_PATIENCE: Duration = Duration::from_secs(2);
/// How often the contract is asked which actions there are.
pub const ACTIONS_INTERVAL: Duration = Duration::from_secs(5);
/// Longest pause while runs wait for knowledge of their actions.
pub const KNOWN_INTERVAL: Duration = Duration::from_millis(200);
/// Number of actions with new descriptions in one write.
pub const SAVED_MAX: usize = 256;
/// Approximate number of their bytes in one write.
pub const SAVED_BYTES: usize = 1 << 20;
/// Bytes of one action that are kept.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// Actions that are remembered as offered.
pub const SEEN_ACTIONS_MAX: usize = 65_536;
/// Bytes of what workers say of actions that is remembered: 16 MiB.
pub const OFFERED_TEXT_BYTES_MAX: usize = 16 << 20;
/// Pause between two such questions as a multiple of the time that the first one took, however many runs are made for which the
/// answer counts: so they take at most a fifth of the time.
pub const ACTIONS_PAUSE_FACTOR: u32 = 4;
/// The shortest such pause.
pub const ACTIONS_PAUSE_MIN: Duration = Duration::from_millis(1);
/// How long the making of such a run waits for newer knowledge.
pub const OFFERED_PATIENCE: Duration = Duration::from_secs(1);
/// Profiles of actions that operators may keep.
pub const PROFILES_MAX: usize = 4096;
/// Bytes of requests that are being submitted: 256 MiB.
pub const SUBMITTED_BYTES_MAX: usize = 256 << 20;
/// Bytes of what expressions are about that are being evaluated; the last one of them may have 8 MiB more.
pub const EVALUATED_BYTES: usize = 32 << 20;
/// Pause before a request is read again from a store that did not give it.
pub const STORED_PAUSE: Duration = Duration::from_secs(1);
