//! The store of runs in memory, for tests. Touches no disk; its disk is the model of [`Disk`].

mod contents;

use bytes::Bytes;
use escapement_model::{InputRequestId, RunId};

use self::contents::{Change, RunContents};
use crate::memory::{Disk, OnDisk};
use escapement_store::StoreFault;
use escapement_store::runs::StoredNotice;
use escapement_store::runs::{BatchOutcome, RunBatch};
use escapement_store::runs::{
    Definition, DefinitionKey, DefinitionKind, DefinitionOutcome, DefinitionPage, DefinitionWrite, Scope,
    StoredRevision,
};
use escapement_store::runs::{
    EndedPage, InputRequestPage, JournalPage, LastNumbers, ListCount, Listing, RemovedRun, RunCounts,
    RunFilter, RunKey, RunPage, RunSummary, StoredInputRequest, StoredRun,
};
use escapement_store::runs::{RunReader, RunStore};
use escapement_store::runs::{RunRemoval, RunRemoved, RunsRemoved};

/// The disk of a memory store of runs.
pub type MemoryRunsDisk = Disk<RunContents>;

/// The memory store of runs.
pub type MemoryRuns = OnDisk<RunContents>;

impl MemoryRunsDisk {
    /// Loses a content, as damage does while a process runs.
    pub fn lose_content(&self, digest: &[u8; 32]) {
        self.damage(|contents| contents.lose_content(digest));
    }
}

impl RunStore for MemoryRuns {
    /// A batch that is refused is no commit and meets no fault.
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        let refused = self.look(|written| batch.too_large().or_else(|| written.refusal(batch)))?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        if batch.is_empty() {
            return Ok(BatchOutcome::Done);
        }
        self.change(|inner| {
            inner.unsynced.push(Change::Batch(batch.clone()));
            inner.written.apply(batch);
            BatchOutcome::Done
        })
    }

    /// A step that finds nothing to remove is no commit and meets no fault.
    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        if !self.look(|written| written.has_due(policy, now_unix_ms))? {
            return Ok(RunsRemoved::default());
        }
        self.change(|inner| {
            inner.unsynced.push(Change::Removal(*policy, now_unix_ms));
            inner.written.remove_ended(policy, now_unix_ms)
        })
    }

    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        match self.look(|written| written.summary(id))? {
            None => Ok(RunRemoved::NotFound),
            Some(run) if run.progress.ended_at.is_none() => Ok(RunRemoved::Live),
            Some(run) => self.change(|inner| {
                inner.unsynced.push(Change::RunRemoval(run.number, now_unix_ms));
                inner.written.remove(run.number, now_unix_ms);
                RunRemoved::Done
            }),
        }
    }

    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        match self.look(|written| written.summary(id))? {
            None => Ok(RunRemoved::NotFound),
            Some(run) => self.change(|inner| {
                inner
                    .unsynced
                    .push(Change::Discard(run.number, state, now_unix_ms));
                inner.written.discard(run.number, state, now_unix_ms);
                RunRemoved::Done
            }),
        }
    }

    /// A change that is refused is no commit and meets no fault.
    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        if let Err(bound) = write.check_bounds() {
            return Ok(DefinitionOutcome::TooLarge(bound));
        }
        let refused = self.look(|written| written.definition_refusal(write))?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        self.change(|inner| {
            inner.unsynced.push(Change::Definition(write.clone()));
            let version = inner.written.define(write);
            DefinitionOutcome::Done { version }
        })
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        Ok(Box::new(self.reading()?))
    }
}

impl RunReader for MemoryRuns {
    fn run(&self, id: RunId, bytes_max: usize) -> Result<Option<StoredRun>, StoreFault> {
        self.read(|contents| contents.run(id, bytes_max))
    }

    fn summary(&self, id: RunId) -> Result<Option<RunSummary>, StoreFault> {
        self.read(|contents| contents.summary(id))
    }

    fn journal(&self, id: RunId, from: u64, bytes_max: usize) -> Result<Option<JournalPage>, StoreFault> {
        self.read(|contents| contents.journal(id, from, bytes_max))
    }

    fn live(&self, after: Option<u64>, limit: usize) -> Result<Vec<RunSummary>, StoreFault> {
        self.read(|contents| contents.live(after, limit))
    }

    fn list(&self, filter: &RunFilter, behind: Option<RunKey>, limit: usize) -> Result<RunPage, StoreFault> {
        self.read(|contents| contents.list(filter, behind, limit))
    }

    fn count(&self, listing: Listing<'_>) -> Result<ListCount, StoreFault> {
        self.read(|contents| contents.count(listing))
    }

    fn ended(&self, after: u64, limit: usize) -> Result<EndedPage, StoreFault> {
        self.read(|contents| contents.ended(after, limit))
    }

    fn newest_run_of(&self, plan: &str) -> Result<Option<RunSummary>, StoreFault> {
        self.read(|contents| contents.newest_run_of(plan))
    }

    fn content(&self, digest: &[u8; 32]) -> Result<Option<Bytes>, StoreFault> {
        self.read(|contents| contents.content(digest))
    }

    fn revision(&self, digest: &[u8; 32], scopes: &[Scope]) -> Result<Option<StoredRevision>, StoreFault> {
        self.read(|contents| contents.revision(digest, scopes))
    }

    fn content_of_revision(
        &self,
        digest: &[u8; 32],
        scopes: &[Scope],
    ) -> Result<Option<[u8; 32]>, StoreFault> {
        self.read(|contents| contents.revision(digest, scopes).map(|found| found.content))
    }

    fn definition(&self, kind: DefinitionKind, name: &str) -> Result<Option<Definition>, StoreFault> {
        self.read(|contents| contents.definition(kind, name))
    }

    fn definitions(
        &self,
        kind: DefinitionKind,
        scopes: Option<&[Scope]>,
        before: Option<DefinitionKey>,
        limit: usize,
    ) -> Result<DefinitionPage, StoreFault> {
        self.read(|contents| contents.definitions(kind, scopes, before, limit))
    }

    fn definitions_by_name(
        &self,
        kind: DefinitionKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<DefinitionPage, StoreFault> {
        self.read(|contents| contents.definitions_by_name(kind, after, limit))
    }

    fn n_definitions(&self, kind: DefinitionKind) -> Result<usize, StoreFault> {
        self.read(|contents| contents.n_definitions(kind))
    }

    fn input_request(&self, id: InputRequestId) -> Result<Option<StoredInputRequest>, StoreFault> {
        self.read(|contents| contents.input_request(id))
    }

    fn open_input_requests(
        &self,
        scopes: Option<&[Scope]>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<InputRequestPage, StoreFault> {
        self.read(|contents| contents.open_input_requests(scopes, after, limit))
    }

    fn notices(&self, stream: &str, after: u64, limit: usize) -> Result<Vec<StoredNotice>, StoreFault> {
        self.read(|contents| contents.notices(stream, after, limit))
    }

    fn notices_until(&self, stream: &str, number: u64) -> Result<Option<u64>, StoreFault> {
        self.read(|contents| contents.notices_until(stream, number))
    }

    fn last_numbers(&self) -> Result<LastNumbers, StoreFault> {
        self.read(RunContents::last_numbers)
    }

    fn created_by(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, StoreFault> {
        self.read(|contents| contents.created_by(key))
    }

    fn answered(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, StoreFault> {
        self.read(|contents| contents.answered(key))
    }

    fn removed(&self, id: RunId) -> Result<Option<RemovedRun>, StoreFault> {
        self.read(|contents| contents.removed(id))
    }

    fn counts(&self) -> Result<RunCounts, StoreFault> {
        self.read(RunContents::counts)
    }
}
