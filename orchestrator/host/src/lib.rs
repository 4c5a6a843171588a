//! Drives the engine and the writer of the store: what makes a batch, in which order it is handled, who waits for what, and
//! which writes share a commit; and what a start recovers.
//! Has no thread, no channel and no clock: `handle_*` is told what has come, `poll_*` says what to do. The orchestrator drives
//! it with threads, the simulation with virtual time.

#![warn(clippy::too_many_lines)]

mod committer;
pub mod execution_log;
mod host;
pub mod recovery;
mod write_queue;

pub use committer::Committer;
pub use host::{Batch, Host, Links, Message, Output, Route, StoredBatch};
pub use write_queue::{COMMIT_WRITES_MAX, Commit, Job, WriteQueue};
