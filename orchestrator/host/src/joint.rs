//! Commits that runs share with their attempts. The accept of an attempt is part of the commit of its intent. The end of an attempt
//! is part of the commit of the outcome that its run records.
//!
//! A run receives an end before that is durable. The end is written with the batch that builds on it, or alone after a limit of
//! time.

use crate::write_queue::{Job, JointJobs};
use escapement_contract::Settlement;
use escapement_engine::{StoreWrite, Submission, WriteFailure, WriteId, WriteOutcome};
use escapement_model::ExecutionId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Message from the thread of runs. `A` is the link from an attempt to its run, `B` a batch of runs with the link to its thread.
#[derive(Debug)]
pub enum FromRuns<A, B> {
    /// Write a batch.
    Commit(RunsCommit<A, B>),
    /// This number of ends was received, and nothing is written for them.
    Received(u64),
}

/// Batch of runs with the rest of its commit.
#[derive(Debug)]
pub struct RunsCommit<A, B> {
    /// Batch.
    pub batch: B,
    /// Number of ends that were received before they were durable. The batch may build on each of them.
    pub n_received: u64,
    /// Attempts with their intents in the batch.
    pub attempts: Vec<(Submission, A)>,
}

/// Message to the thread of runs, or to the store for it.
#[derive(Debug)]
pub enum ToRuns<A, B> {
    /// Write the batch in one commit with these jobs.
    Write {
        /// Batch.
        batch: B,
        /// Jobs.
        jobs: JointJobs,
    },
    /// The batch builds on an end that could not be written, and is refused.
    Refuse {
        /// Batch.
        batch: B,
        /// Failure of that write.
        failure: WriteFailure,
    },
    /// Deliver the end of an attempt to its run.
    Deliver {
        /// Link to the run.
        attempt: A,
        /// End.
        settlement: Arc<Settlement>,
        /// False if the end is not durable. Its number in [`RunsCommit::n_received`] is the next one then.
        is_durable: bool,
    },
}

/// Attempts of runs that are in the engine, and their ends until these are durable.
#[derive(Debug)]
pub(crate) struct Attempts<A, B> {
    /// Links of attempts without an end, by execution.
    linked: BTreeMap<ExecutionId, A>,
    /// Accepts that are not durable yet, with their executions.
    accepting: BTreeMap<WriteId, ExecutionId>,
    /// Number of ends that were delivered before they were durable.
    n_delivered: u64,
    /// Delivered ends whose writes were not requested yet, in order.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Delivered ends whose writes were requested and are not durable.
    undurable: BTreeMap<WriteId, Undurable>,
    /// Ends that are delivered once they are durable.
    late: BTreeMap<WriteId, (A, Arc<Settlement>)>,
    /// Batch that waits for a write of an end.
    deferred: Option<RunsCommit<A, B>>,
    joining: Option<Joining<B>>,
    outputs: VecDeque<ToRuns<A, B>>,
}

/// End that waits for the batch of its run.
#[derive(Debug)]
struct Held {
    number: u64,
    due_ms: u64,
    bytes: usize,
    job: Job,
}

#[derive(Debug)]
struct Undurable {
    number: u64,
    /// Failure of the last write, which the engine requests again later.
    failure: Option<WriteFailure>,
}

/// Batch that is written after this turn.
#[derive(Debug)]
struct Joining<B> {
    batch: B,
    settles: Vec<Job>,
    /// Executions without an accept so far.
    expected: BTreeSet<ExecutionId>,
    accepts: Vec<Job>,
}

impl<A, B> Default for Attempts<A, B> {
    fn default() -> Self {
        Self {
            linked: BTreeMap::new(),
            accepting: BTreeMap::new(),
            n_delivered: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            undurable: BTreeMap::new(),
            late: BTreeMap::new(),
            deferred: None,
            joining: None,
            outputs: VecDeque::new(),
        }
    }
}

impl<A, B> Attempts<A, B> {
    /// Returns the next time at which an end is written alone, in monotonic milliseconds.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.held.front().map(|held| held.due_ms)
    }

    /// Takes the outcome of a write.
    pub(crate) fn stored(&mut self, write: WriteId, outcome: WriteOutcome) {
        if let Some(execution_id) = self.accepting.remove(&write)
            && outcome != WriteOutcome::Durable
        {
            self.linked.remove(&execution_id);
        }
        if let WriteOutcome::Failed(failure) = outcome {
            if let Some(end) = self.undurable.get_mut(&write) {
                end.failure = Some(failure);
            }
            return;
        }
        // A conflict means that the end was written before.
        self.undurable.remove(&write);
        if let Some((attempt, settlement)) = self.late.remove(&write) {
            self.outputs.push_back(ToRuns::Deliver {
                attempt,
                settlement,
                is_durable: true,
            });
        }
    }

    /// Takes a message of runs. Returns the submissions of a batch that is written after this turn.
    pub(crate) fn take(&mut self, said: FromRuns<A, B>, writes: &mut Vec<Job>) -> Vec<Submission> {
        match said {
            FromRuns::Received(n_received) => {
                writes.extend(self.take_held(n_received));
                Vec::new()
            }
            FromRuns::Commit(commit) => self.commit(commit),
        }
    }

    /// Returns the submissions of a batch that waited, if it is written after this turn.
    pub(crate) fn go_on(&mut self) -> Vec<Submission> {
        let deferred = self.deferred.take();
        deferred.map(|commit| self.commit(commit)).unwrap_or_default()
    }

    /// Prepares a commit. A batch is written together with the ends that it builds on or after them, never before.
    fn commit(&mut self, commit: RunsCommit<A, B>) -> Vec<Submission> {
        let unwritten = self.undurable.values();
        let mut unwritten = unwritten.filter(|end| end.number <= commit.n_received).peekable();
        if unwritten.peek().is_some() {
            match unwritten.find_map(|end| end.failure) {
                Some(failure) => self.outputs.push_back(ToRuns::Refuse {
                    batch: commit.batch,
                    failure,
                }),
                None => self.deferred = Some(commit),
            }
            return Vec::new();
        }
        let RunsCommit {
            batch,
            n_received,
            attempts,
        } = commit;
        let (mut expected, mut submissions) = (BTreeSet::new(), Vec::new());
        for (submission, attempt) in attempts {
            let named = submission.request.execution_id();
            let execution_id = named.unwrap_or(submission.fresh_id);
            // Another task waits for its end already.
            if self.linked.contains_key(&execution_id) {
                continue;
            }
            self.linked.insert(execution_id, attempt);
            expected.insert(execution_id);
            submissions.push(submission);
        }
        let settles = self.take_held(n_received);
        self.joining = Some(Joining {
            batch,
            settles,
            expected,
            accepts: Vec::new(),
        });
        submissions
    }

    /// Requests the writes of ends that have waited for the limit of time.
    pub(crate) fn release(&mut self, now_ms: u64, writes: &mut Vec<Job>) {
        let due = self.held.iter().take_while(|held| held.due_ms <= now_ms).last();
        if let Some(number) = due.map(|held| held.number) {
            writes.extend(self.take_held(number));
        }
    }

    fn take_held(&mut self, n_received: u64) -> Vec<Job> {
        let mut jobs = Vec::new();
        while let Some(held) = self.held.pop_front_if(|held| held.number <= n_received) {
            self.held_bytes -= held.bytes;
            let (number, failure) = (held.number, None);
            self.undurable
                .insert(held.job.write, Undurable { number, failure });
            jobs.push(held.job);
        }
        jobs
    }

    /// Takes a write of the engine. Returns it if no batch of runs shares its commit.
    pub(crate) fn write(&mut self, job: Job, now_ms: u64) -> Option<Job> {
        match &job.content {
            StoreWrite::Accept { execution_id, .. } => {
                let Some(joining) = &mut self.joining else {
                    return Some(job);
                };
                if !joining.expected.remove(execution_id) {
                    return Some(job);
                }
                self.accepting.insert(job.write, *execution_id);
                joining.accepts.push(job);
                None
            }
            StoreWrite::Settle { settlement, .. } => {
                // The engine repeats a failed write.
                if let Some(end) = self.undurable.get_mut(&job.write) {
                    end.failure = None;
                    return Some(job);
                }
                let Some(attempt) = self.linked.remove(&settlement.result.execution_id) else {
                    return Some(job);
                };
                let settlement = Arc::clone(settlement);
                let bytes = settlement.inputs.bytes() + settlement.result.result_payload.len();
                if self.held.len() >= HELD_MAX || self.held_bytes + bytes > HELD_BYTES_MAX {
                    self.late.insert(job.write, (attempt, settlement));
                    return Some(job);
                }
                self.n_delivered += 1;
                self.held_bytes += bytes;
                self.held.push_back(Held {
                    number: self.n_delivered,
                    due_ms: now_ms.saturating_add(HELD_MS_MAX),
                    bytes,
                    job,
                });
                self.outputs.push_back(ToRuns::Deliver {
                    attempt,
                    settlement,
                    is_durable: false,
                });
                None
            }
            StoreWrite::Start { .. } | StoreWrite::RememberActions { .. } => Some(job),
        }
    }

    /// Returns the next message.
    pub(crate) fn poll_message(&mut self) -> Option<ToRuns<A, B>> {
        self.outputs.pop_front()
    }

    /// Returns the batch that is written after this turn. Attempts that the engine did not accept lose their links, since runs
    /// submit them again.
    pub(crate) fn poll_commit(&mut self) -> Option<ToRuns<A, B>> {
        let Joining {
            batch,
            settles,
            expected,
            accepts,
        } = self.joining.take()?;
        for execution_id in expected {
            self.linked.remove(&execution_id);
        }
        let jobs = JointJobs { settles, accepts };
        Some(ToRuns::Write { batch, jobs })
    }
}

/// Limit of ends that wait for the batches of their runs. Further ends are delivered once they are durable.
const HELD_MAX: usize = 256;
/// Limit of the bytes of these ends: 8 MiB.
const HELD_BYTES_MAX: usize = 8 << 20;
/// Time for which an end waits for the batch of its run, milliseconds.
const HELD_MS_MAX: u64 = 200;

#[cfg(test)]
mod tests;
