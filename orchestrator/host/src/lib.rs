//! Drives the engine and the writer of the store: batches and their order, callers that wait, writes that share a commit, and
//! the recovery at a start.
//! Has no thread, no channel and no clock: `handle_*` takes inputs, `poll_*` returns outputs. The orchestrator drives it with
//! threads, the simulation with virtual time.

#![warn(clippy::too_many_lines)]

mod committer;
pub mod execution_log;
#[cfg(test)]
mod fixtures;
mod host;
mod joint;
pub mod recovery;
mod write_queue;

pub use committer::{Committer, refusal};
pub use host::{Batch, Host, Links, Message, Output, Route};
pub use joint::{FromRuns, RunsCommit, ToRuns};
pub use write_queue::{COMMIT_WRITES_MAX, Commit, Job, JointJobs, StoredBatch, WriteQueue};
