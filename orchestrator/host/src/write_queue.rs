//! The writes that wait for the store, and which of them share a commit. Writes nothing.

use escapement_codec::store_write::{blob_bytes, encode};
use escapement_engine::{StoreWrite, WriteId, WriteOutcome};
use escapement_model::ExecutionId;
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

/// Outcomes of the writes of one commit.
pub type StoredBatch = Vec<(WriteId, WriteOutcome)>;

/// Writes in the commit of a batch of runs.
#[derive(Debug, Default)]
pub struct JointJobs {
    /// Ends that the batch builds on.
    pub settles: Vec<Job>,
    /// Accepts that need the batch.
    pub accepts: Vec<Job>,
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
    /// Number of writes at the end that need the batch of runs in the same commit.
    pub n_dependent: usize,
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
            bytes += commit.push(job);
        }
        commit
    }
}

impl Commit {
    /// Adds the writes of a batch of runs. No other write in the commit is about the same executions.
    pub fn join(&mut self, jobs: JointJobs) {
        let JointJobs { settles, accepts } = jobs;
        self.n_dependent = accepts.len();
        for job in settles.into_iter().chain(accepts) {
            self.push(job);
        }
    }

    /// Returns the executions that were accepted with a batch of runs.
    pub fn accepted_with_runs(&self, stored: &StoredBatch) -> Vec<ExecutionId> {
        let dependent = self
            .jobs
            .iter()
            .zip(stored)
            .skip(self.jobs.len() - self.n_dependent);
        let accepted = dependent.filter_map(|(job, (_, outcome))| match (&job.content, outcome) {
            (StoreWrite::Accept { execution_id, .. }, WriteOutcome::Durable) => Some(*execution_id),
            _ => None,
        });
        accepted.collect()
    }

    /// Adds a write. Returns the bytes of its records.
    fn push(&mut self, job: Job) -> usize {
        let write = encode(&job.content);
        let bytes = blob_bytes(&write);
        self.writes.push(write);
        self.jobs.push(job);
        bytes
    }
}

/// Writes in one commit.
pub const COMMIT_WRITES_MAX: usize = 1_024;
/// Bytes of records after which a commit takes no further write: 32 MiB.
const COMMIT_BYTES_MAX: usize = 32 << 20;
