//! The store as the thread of runs has it: the one writer writes for it, in the commit that comes next, and the thread waits.

use std::sync::mpsc::{SyncSender, sync_channel};

use escapement_model::{ExecutionId, RunId};
use escapement_store::StoreFault;
use escapement_store::runs::{
    BatchOutcome, DefinitionOutcome, DefinitionWrite, RunBatch, RunReader, RunRemoval, RunRemoved, RunStore,
    RunsRemoved,
};

/// A batch on its way to the store, and the way to the thread that waits for it.
#[derive(Debug)]
pub struct WaitingBatch {
    /// Batch.
    pub batch: RunBatch,
    /// Takes its outcome.
    pub answer: SyncSender<Result<Joined, StoreFault>>,
}

/// Outcome of a batch, and of the attempts whose intents stand in it.
#[derive(Debug)]
pub struct Joined {
    /// That of the batch.
    pub outcome: BatchOutcome,
    /// Executions that were accepted in the same commit.
    pub accepted: Vec<ExecutionId>,
}

/// A request to the writer of the store.
pub enum StoreRequest {
    /// Writes a batch, and returns its outcome.
    Batch(WaitingBatch),
    /// Does anything else to the store, between two commits.
    Work(WorkOnStore),
}

/// Work on the store.
type WorkOnStore = Box<dyn FnOnce(&mut dyn RunStore) + Send>;

impl std::fmt::Debug for StoreRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Batch(..) => "Batch",
            Self::Work(_) => "Work",
        })
    }
}

/// The way to the writer.
pub struct StorePort {
    /// Sends a request; false if the writer has ended.
    send: Box<dyn Fn(StoreRequest) -> bool + Send>,
}

impl std::fmt::Debug for StorePort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorePort").finish_non_exhaustive()
    }
}

impl StorePort {
    /// Creates a port that sends requests so; false if the writer has ended.
    pub fn new(send: impl Fn(StoreRequest) -> bool + Send + 'static) -> Self {
        Self { send: Box::new(send) }
    }

    /// Sends a request to the writer, and waits for its answer.
    fn ask<T>(
        &self,
        request: impl FnOnce(SyncSender<Result<T, StoreFault>>) -> StoreRequest,
    ) -> Result<T, StoreFault> {
        let (answer, answered) = sync_channel(1);
        let ended = || StoreFault::Fatal("the writer of the store has ended".into());
        match (self.send)(request(answer)) {
            true => answered.recv().unwrap_or_else(|_| Err(ended())),
            false => Err(ended()),
        }
    }

    /// Lets the writer do something between two commits, and waits for it.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn RunStore) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, StoreFault> {
        self.ask(|answer| {
            StoreRequest::Work(Box::new(move |store| {
                // The thread waits for this, or has ended.
                let _ended = answer.send(work(store));
            }))
        })
    }
}

impl RunStore for StorePort {
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        if batch.is_empty() {
            return self.work(|store| store.commit(&RunBatch::new()));
        }
        let batch = batch.clone();
        let joined = self.ask(|answer| StoreRequest::Batch(WaitingBatch { batch, answer }))?;
        Ok(joined.outcome)
    }

    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        let policy = *policy;
        self.work(move |store| store.remove_ended(&policy, now_unix_ms))
    }

    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.work(move |store| store.remove_run(id, now_unix_ms))
    }

    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.work(move |store| store.discard_run(id, state, now_unix_ms))
    }

    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        let write = write.clone();
        self.work(move |store| store.define(&write))
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        self.work(|store| store.reader())
    }
}
