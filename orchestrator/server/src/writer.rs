//! The thread that owns the store: takes every write that waits, commits them together, reports what came of
//! them.
//! Decides nothing, and acknowledges nothing that is not durable.

use crate::engine_thread::StoredBatch;
use crate::failure::{EXIT_STORE, ExitOnPanic, stop_here};
use crate::limits::{COMMIT_BYTES_MAX, COMMIT_WRITES_MAX};
use crate::records;
use escapement_contract::{AuditKind, Settlement, Status};
use escapement_engine::{StoreWrite, WriteConflict, WriteId, WriteOutcome};
use escapement_store::{AcceptWrite, Conflict, Outcome, Store, StoreFault, Write};
use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{error, info, warn};

/// One write that the engine asked for.
#[derive(Debug)]
pub(crate) struct Job {
    /// Comes back with the outcome.
    pub(crate) write: WriteId,
    /// What.
    pub(crate) content: StoreWrite,
}

/// Starts the thread. It ends, and gives the store back, when the engine's end of `jobs` is gone and
/// everything was
/// written.
///
/// `jobs` is unbounded for the reason given at `StoredReceiver`, and bounded in the same way.
///
/// # Errors
/// Where the operating system gives no thread.
pub(crate) fn spawn<S: Store + 'static>(
    store: S,
    jobs: Receiver<Vec<Job>>,
    stored: UnboundedSender<StoredBatch>,
) -> std::io::Result<JoinHandle<S>> {
    std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || {
            let _exit_on_panic = ExitOnPanic { thread: "writer" };
            Writer {
                store,
                jobs,
                stored,
                waiting: VecDeque::new(),
                is_refusing: false,
            }
            .run()
        })
}

struct Writer<S> {
    store: S,
    jobs: Receiver<Vec<Job>>,
    stored: UnboundedSender<StoredBatch>,
    /// Taken from the channel and not committed yet, in order.
    waiting: VecDeque<Job>,
    /// True after a commit that failed and may be tried again.
    is_refusing: bool,
}

impl<S: Store> Writer<S> {
    /// Group commit: while one commit runs the next one's writes gather in the channel.
    fn run(mut self) -> S {
        while self.take_waiting() {
            let (writes, ids) = self.next_batch();
            let outcomes = self.commit(&writes);
            let stored = ids.into_iter().zip(outcomes).collect();
            // The engine ends before the writer when the process stops; then nobody needs the answer.
            let _engine_ended = self.stored.send(stored);
        }
        self.store
    }

    /// Waits for a write and takes what else is there; false where no more can come.
    fn take_waiting(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.jobs.recv() {
                Ok(jobs) => self.waiting.extend(jobs),
                Err(_engine_ended) => return false,
            }
        }
        while self.waiting.len() < COMMIT_WRITES_MAX {
            let Ok(jobs) = self.jobs.try_recv() else { break };
            self.waiting.extend(jobs);
        }
        true
    }

    fn next_batch(&mut self) -> (Vec<Write>, Vec<WriteId>) {
        let (mut writes, mut ids) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while writes.len() < COMMIT_WRITES_MAX && bytes < COMMIT_BYTES_MAX {
            let Some(job) = self.waiting.pop_front() else {
                break;
            };
            let write = encode(job.content);
            bytes += record_bytes(&write);
            writes.push(write);
            ids.push(job.write);
        }
        (writes, ids)
    }

    fn commit(&mut self, writes: &[Write]) -> Vec<WriteOutcome> {
        match self.store.commit(writes) {
            Ok(outcomes) => {
                if std::mem::take(&mut self.is_refusing) {
                    info!("store takes writes again");
                }
                outcomes.into_iter().map(write_outcome).collect()
            }
            Err(fault @ (StoreFault::Full(_) | StoreFault::Busy(_))) => {
                if !std::mem::replace(&mut self.is_refusing, true) {
                    warn!(
                        error = &fault as &dyn std::error::Error,
                        "store takes no writes now"
                    );
                }
                vec![WriteOutcome::Failed; writes.len()]
            }
            Err(StoreFault::Corrupt { .. }) if writes.len() > 1 => {
                // Nothing was written, and the batch goes through without the write that met the damage:
                // halving finds it with few commits and keeps the order.
                let (first, second) = writes.split_at(writes.len() / 2);
                let mut outcomes = self.commit(first);
                outcomes.extend(self.commit(second));
                outcomes
            }
            Err(fault @ StoreFault::Corrupt { .. }) if matches!(writes, [Write::Accept(_)]) => {
                warn!(
                    error = &fault as &dyn std::error::Error,
                    "execution not accepted: what it is in conflict with is damaged"
                );
                vec![WriteOutcome::Failed]
            }
            // Damage included: an accepted execution whose start or end cannot be recorded cannot go on.
            Err(fault) => {
                error!(
                    error = &fault as &dyn std::error::Error,
                    "store failed; nothing more is acknowledged"
                );
                stop_here(EXIT_STORE);
            }
        }
    }
}

/// One write in the store's terms, with its records encoded.
fn encode(content: StoreWrite) -> Write {
    match content {
        StoreWrite::Accept {
            execution_id,
            request,
            accepted_at,
            deadline_ms,
            started_at,
        } => {
            let plan = request.plan();
            Write::Accept(AcceptWrite {
                execution_id,
                plan_id: plan.id(),
                request_digest: *request.digest(),
                priority: plan.priority(),
                accepted_at,
                started_at,
                deadline_ms,
                parent_execution_id: request.parent_execution_id(),
                plan_name: plan.name().to_owned(),
                user_id: request.user_id().map(str::to_owned),
                request_id: request.request_id().map(str::to_owned),
                tags: plan.tags().to_vec(),
                record: records::encode_accepted(&request, execution_id),
            })
        }
        StoreWrite::Start {
            execution_id,
            started_at,
        } => Write::Start {
            execution_id,
            started_at,
        },
        StoreWrite::Settle { settlement } => Write::Settle {
            execution_id: settlement.result.execution_id,
            status: status_number(settlement.result.status),
            started_at: started_at(&settlement),
            settled_at: settlement.result.completed_at,
            result: records::encode_result(&settlement.result),
            audit: records::encode_audit(&settlement.audit),
        },
    }
}

/// When it started; `None` for what was settled from the queue. The entry is among the first.
fn started_at(settlement: &Settlement) -> Option<i64> {
    settlement.audit.iter().find_map(|entry| match entry.kind {
        AuditKind::Started { started_at } => Some(started_at),
        _ => None,
    })
}

/// The numbers of `PlanResult.Status`.
fn status_number(status: Status) -> u8 {
    match status {
        Status::Success => 1,
        Status::Partial => 2,
        Status::Failure => 3,
    }
}

fn record_bytes(write: &Write) -> usize {
    match write {
        Write::Accept(accept) => accept.record.len(),
        Write::Start { .. } => 0,
        Write::Settle { result, audit, .. } => result.len() + audit.len(),
    }
}

fn write_outcome(outcome: Outcome) -> WriteOutcome {
    let conflict = match outcome {
        Outcome::Done { .. } => return WriteOutcome::Durable,
        Outcome::Conflict(Conflict::ExecutionIdUsed { request_digest }) => {
            WriteConflict::ExecutionIdUsed { request_digest }
        }
        Outcome::Conflict(Conflict::PlanIdUsed { execution_id }) => {
            WriteConflict::PlanIdUsed { execution_id }
        }
        Outcome::Conflict(Conflict::NotFound) => WriteConflict::NotFound,
        Outcome::Conflict(Conflict::AlreadyStarted | Conflict::AlreadySettled) => WriteConflict::AlreadyThere,
    };
    WriteOutcome::Conflict(conflict)
}

#[cfg(test)]
mod tests;
