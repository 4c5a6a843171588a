//! The writes that wait for the store, and which of them share a commit. Writes nothing.

use escapement_codec::store_write::{blob_bytes, encode};
use escapement_engine::{StoreWrite, WriteId};
use escapement_store::Write;
use std::collections::VecDeque;

/// A write that the engine asked for.
#[derive(Clone, Debug)]
pub struct Job {
    /// Comes back with the outcome.
    pub write: WriteId,
    /// Write.
    pub content: StoreWrite,
}

/// Writes in their order. Bounded by the executions that the engine holds: each has one open write at most.
#[derive(Debug, Default)]
pub struct WriteQueue(VecDeque<Job>);

/// Writes of one commit: at most 1,024, and no further one once it has 32 MiB.
#[derive(Debug, Default)]
pub struct Commit {
    /// Writes that the engine requested, in order.
    pub jobs: Vec<Job>,
    /// The same for the store.
    pub writes: Vec<Write>,
}

impl WriteQueue {
    /// Adds writes after all others.
    pub fn handle_jobs(&mut self, jobs: Vec<Job>) {
        self.0.extend(jobs);
    }

    /// Returns true if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if more would not get into the next commit.
    pub fn is_full(&self) -> bool {
        self.0.len() >= COMMIT_WRITES_MAX
    }

    /// Takes what the next commit is made of, encoded; without writes if nothing waits.
    pub fn poll_commit(&mut self) -> Commit {
        let mut commit = Commit::default();
        let mut bytes = 0;
        while commit.jobs.len() < COMMIT_WRITES_MAX && bytes < COMMIT_BYTES_MAX {
            let Some(job) = self.0.pop_front() else {
                break;
            };
            let write = encode(&job.content);
            bytes += blob_bytes(&write);
            commit.writes.push(write);
            commit.jobs.push(job);
        }
        commit
    }
}

/// Writes in one commit.
pub const COMMIT_WRITES_MAX: usize = 1_024;
/// Bytes of records after which a commit takes no further write: 32 MiB.
const COMMIT_BYTES_MAX: usize = 32 << 20;
