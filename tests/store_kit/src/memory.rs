//! The store in memory, for tests. Touches no disk; its disk is a model that can lose what was not synced.
//!
//! A commit writes, then syncs, then acknowledges; a fault can be put before, between and behind these steps.
//! Readers see what is synced.

mod contents;
mod disk;
mod operators;

use bytes::Bytes;
use escapement_model::ExecutionId;

use self::contents::{Change, Contents};
pub use self::disk::{Disk, DiskContents, MemoryFault, OnDisk};
use escapement_store::{
    ActionMemory, Counts, ListFilter, OperatorAction, OperatorFilter, Outcome, Reader, Removal, Removed,
    RemovedExecution, SettledPage, Store, StoreFault, StoredExecution, StoredSummary, Write,
};

/// The disk of a memory store of executions.
pub type MemoryDisk = Disk<Contents>;

/// The memory store of executions.
pub type Memory = OnDisk<Contents>;

impl Store for Memory {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        if batch.is_empty() {
            return self.look(|_| Vec::new());
        }
        self.change(|inner| {
            inner.unsynced.extend(batch.iter().cloned().map(Change::Write));
            batch.iter().map(|write| inner.written.apply(write)).collect()
        })
    }

    /// A step that finds nothing to remove is no commit and meets no fault.
    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        if !self.look(|written| written.has_due(policy, now_unix_ms))? {
            return Ok(Removed::default());
        }
        self.change(|inner| {
            inner.unsynced.push(Change::Removal(*policy, now_unix_ms));
            inner.written.remove_settled(policy, now_unix_ms)
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        Ok(Box::new(self.reading()?))
    }
}

impl Reader for Memory {
    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreFault> {
        self.read(|contents| contents.execution(id))
    }

    fn audit(&self, id: ExecutionId) -> Result<Option<Bytes>, StoreFault> {
        self.read(|contents| contents.audit(id))
    }

    fn removed(&self, id: ExecutionId) -> Result<Option<RemovedExecution>, StoreFault> {
        self.read(|contents| contents.removed(id))
    }

    fn list(
        &self,
        filter: &ListFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredSummary>, StoreFault> {
        self.read(|contents| contents.list(filter, before, limit))
    }

    fn unsettled(&self, after: Option<u64>, limit: usize) -> Result<Vec<StoredExecution>, StoreFault> {
        self.read(|contents| contents.unsettled(after, limit))
    }

    fn settled(&self, after: u64, limit: usize) -> Result<SettledPage, StoreFault> {
        self.read(|contents| contents.settled(after, limit))
    }

    fn remembered_actions(&self) -> Result<Vec<ActionMemory>, StoreFault> {
        self.read(Contents::remembered_actions)
    }

    fn operator_actions(
        &self,
        filter: &OperatorFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<OperatorAction>, StoreFault> {
        self.read(|contents| contents.operators.actions(filter, before, limit))
    }

    fn counts(&self) -> Result<Counts, StoreFault> {
        self.read(Contents::counts)
    }
}
