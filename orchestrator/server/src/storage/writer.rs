//! The thread that owns the store: takes every write that waits, commits them together, reports what came of them.
//! Decides nothing, and acknowledges nothing that is not durable.

use super::retention::Maintenance;
use crate::exit::{EXIT_STORE, ExitOnPanic, stop_here};
use crate::limits::STORE_LOOK_INTERVAL;
use escapement_engine::WriteOutcome;
use escapement_host::{Commit, Committer, Job, JointJobs, StoredBatch, WriteQueue, execution_log};
use escapement_metrics::Metrics;
use escapement_operators::{Recording, Scribe};
use escapement_runs_shell::{Joined, StoreRequest, WaitingBatch};
use escapement_store::{JointStore, StoreFault};
use escapement_traces::Traces;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tracing::error;

/// The way from the writer back to the engine.
///
/// Unbounded, so that the writer never waits for the engine while the engine waits for nobody: they cannot block each
/// other. Bounded all the same by construction: it holds at most one outcome for each write that the engine has open,
/// and these are bounded by the executions that it holds.
pub(crate) type StoredReceiver = UnboundedReceiver<StoredBatch>;

/// What the writer is asked for.
#[derive(Debug)]
pub(crate) enum ToWriter {
    /// Writes of the engine.
    Jobs(Vec<Job>),
    /// An entry of what operators did.
    Record(Recording),
    /// Requests of the thread of runs, which waits for the answer.
    Runs(StoreRequest),
    /// Batch of that thread with writes of the engine for the same commit.
    Joint(WaitingBatch, JointJobs),
}

/// Starts the thread. It ends, and gives the store back, when nobody has the other end of `asked` any more and everything is written.
///
/// `asked` is unbounded for the reason given at `StoredReceiver`, and bounded in the same way; entries by the calls that wait for them.
///
/// # Errors
/// If the operating system gives no thread.
pub(crate) fn spawn<S: JointStore + 'static>(
    store: S,
    asked: Receiver<ToWriter>,
    stored: UnboundedSender<StoredBatch>,
    scribe: Scribe,
    maintenance: Maintenance,
    (metrics, traces): (Option<Metrics>, Option<Traces>),
) -> std::io::Result<JoinHandle<S>> {
    std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || {
            let _exit_on_panic = ExitOnPanic { thread: "writer" };
            Writer {
                committer: Committer::new(store),
                asked,
                stored,
                scribe,
                waiting: WriteQueue::default(),
                of_runs: None,
                maintenance,
                metrics,
                traces,
            }
            .run()
        })
}

struct Writer<S> {
    committer: Committer<S>,
    asked: Receiver<ToWriter>,
    stored: UnboundedSender<StoredBatch>,
    scribe: Scribe,
    /// Taken from the channel and not committed yet, in order.
    waiting: WriteQueue,
    /// The same of runs, whose thread waits for it.
    of_runs: Option<(WaitingBatch, JointJobs)>,
    maintenance: Maintenance,
    /// `None` if nobody looks at figures.
    metrics: Option<Metrics>,
    /// `None` if nothing is exported.
    traces: Option<Traces>,
}

impl<S: JointStore> Writer<S> {
    /// Group commit: while one commit runs the next one's writes gather in the channel.
    fn run(mut self) -> S {
        while self.take_waiting() {
            let mut commit = self.waiting.poll_commit();
            let of_runs = self.of_runs.take().map(|(waiting, jobs)| {
                commit.join(jobs);
                waiting
            });
            let began = Instant::now();
            let (stored, joined) = self.commit(&commit, of_runs.as_ref());
            let took = began.elapsed();
            if !stored.is_empty() {
                // The engine ends before the writer when the process stops; then nobody needs the answer.
                let _engine_ended = self.stored.send(stored.clone());
            }
            // The next batch may build on these outcomes, so the engine receives them first.
            if let Some((waiting, joined)) = of_runs.zip(joined) {
                // The thread waits for this outcome unless it has ended.
                let _ended = waiting.answer.send(joined);
            }
            // Behind the answer, for which callers wait.
            let outcomes = commit.jobs.iter().zip(&stored);
            for (job, _) in outcomes.filter(|(_, (_, outcome))| matches!(outcome, WriteOutcome::Durable)) {
                execution_log::written(&job.content, self.traces.as_ref().map(Traces::sampling));
                if let Some(metrics) = &self.metrics {
                    metrics.written(&job.content);
                }
                if let Some(traces) = &self.traces {
                    traces.written(&job.content);
                }
            }
            if let Some(metrics) = self.metrics.as_ref().filter(|_| !stored.is_empty()) {
                metrics.committed(stored.len(), took);
            }
            self.tell_state();
        }
        self.committer.into_store()
    }

    /// Waits for a write and takes what else is there; false if no more can come.
    fn take_waiting(&mut self) -> bool {
        self.maintain(true);
        while self.waiting.is_empty() && self.of_runs.is_none() {
            let patience = self.maintenance.patience(Instant::now());
            let patience = patience.map_or(STORE_LOOK_INTERVAL, |patience| patience.min(STORE_LOOK_INTERVAL));
            match self.asked.recv_timeout(patience) {
                Ok(asked) => self.take(asked),
                Err(RecvTimeoutError::Timeout) => {
                    self.committer.look().unwrap_or_else(|fault| give_up(&fault));
                    self.tell_state();
                    self.maintain(false);
                }
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        while !self.waiting.is_full() {
            let Ok(asked) = self.asked.try_recv() else { break };
            self.take(asked);
        }
        true
    }

    /// Entries are few, and have a commit of their own at once.
    fn take(&mut self, asked: ToWriter) {
        match asked {
            ToWriter::Jobs(jobs) => self.waiting.handle_jobs(jobs),
            ToWriter::Record(recording) => {
                let (now, aged) = self.maintenance.times();
                let written = self
                    .scribe
                    .write(self.committer.store_mut(), recording, now, aged);
                written.unwrap_or_else(|fault| give_up(&fault));
            }
            ToWriter::Runs(StoreRequest::Batch(waiting)) => {
                self.of_runs = Some((waiting, JointJobs::default()));
            }
            ToWriter::Joint(waiting, jobs) => self.of_runs = Some((waiting, jobs)),
            ToWriter::Runs(StoreRequest::Work(work)) => work(self.committer.store_mut()),
        }
    }

    /// Commits these writes, and a batch of runs with them.
    fn commit(
        &mut self,
        commit: &Commit,
        of_runs: Option<&WaitingBatch>,
    ) -> (StoredBatch, Option<Result<Joined, StoreFault>>) {
        let Some(WaitingBatch { batch, .. }) = of_runs else {
            let stored = self.committer.handle_commit(commit);
            return (stored.unwrap_or_else(|fault| give_up(&fault)), None);
        };
        let together = self.committer.handle_together(commit, batch);
        let (stored, of_runs) = together.unwrap_or_else(|fault| give_up(&fault));
        let joined = of_runs.map(|outcome| Joined {
            outcome,
            accepted: commit.accepted_with_runs(&stored),
        });
        (stored, Some(joined))
    }

    fn tell_state(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.store_takes_writes(self.committer.takes_writes());
        }
    }

    /// Takes a step of removal if one is due.
    fn maintain(&mut self, writes_may_wait: bool) {
        if self.maintenance.is_due(Instant::now(), writes_may_wait) {
            let stepped = self.maintenance.step(self.committer.store_mut());
            stepped.unwrap_or_else(|fault| give_up(&fault));
        }
    }
}

fn give_up(fault: &StoreFault) -> ! {
    error!(
        error = fault as &dyn std::error::Error,
        "store failed; nothing more is acknowledged"
    );
    stop_here(EXIT_STORE)
}

#[cfg(test)]
mod tests;
