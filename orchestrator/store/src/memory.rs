//! The store in memory, for tests. Touches no disk; its disk is a model that can lose what was not synced.
//!
//! A commit writes, then syncs, then acknowledges; a fault can be put before, between and behind these steps.
//! Readers see what is synced.

mod contents;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use escapement_model::ExecutionId;

use self::contents::{Change, Contents};
use crate::{
    ActionMemory, Counts, ListFilter, Outcome, Reader, Removal, Removed, RemovedExecution, Store, StoreFault,
    StoredExecution, StoredSummary, Write,
};

/// Where a commit of a memory store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFault {
    /// Before anything is written: [`StoreFault::Full`].
    Full,
    /// Before anything is written: [`StoreFault::Busy`].
    Busy,
    /// Before anything is written: [`StoreFault::Fatal`].
    Fatal,
    /// Written, but the sync fails: [`StoreFault::Fatal`], and a crash loses the batch.
    WrittenNotSynced,
    /// Synced, but the acknowledgement fails: [`StoreFault::Fatal`], and the batch is there after a crash.
    SyncedNotAcknowledged,
}

/// The disk of a memory store: outlives the store, counts, fails and crashes on demand.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What a restart finds.
    synced: Contents,
    /// What was written: the synced contents and everything behind them.
    written: Contents,
    /// Changes that are in `written` and not in `synced`.
    unsynced: Vec<Change>,
    /// One entry per coming commit.
    faults: VecDeque<Option<MemoryFault>>,
    dead: bool,
    /// Counts the stores that were opened; an older one is refused.
    opened: u64,
    n_commits: u64,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens what is synced. A store that was opened before is refused from now on, as after the end of its
    /// process.
    pub fn open(&self) -> Memory {
        let mut inner = self.lock();
        inner.written = inner.synced.clone();
        inner.unsynced.clear();
        inner.dead = false;
        inner.opened += 1;
        Memory {
            disk: self.clone(),
            opened: inner.opened,
        }
    }

    /// The process dies and starts again: everything that was not synced is lost, faults to come are
    /// forgotten.
    pub fn crash(&self) -> Memory {
        self.lock().faults.clear();
        self.open()
    }

    /// The next commit that no fault was ordered for yet fails in this way.
    pub fn fail_next_commit(&self, fault: MemoryFault) {
        self.lock().faults.push_back(Some(fault));
    }

    /// The next commit that no fault was ordered for yet goes well.
    pub fn pass_next_commit(&self) {
        self.lock().faults.push_back(None);
    }

    /// Commits that were acknowledged, empty ones excepted.
    pub fn n_commits(&self) -> u64 {
        self.lock().n_commits
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A defect panics before anything is changed, so that the contents hold.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory store.
#[derive(Debug)]
pub struct Memory {
    disk: MemoryDisk,
    opened: u64,
}

impl Memory {
    /// An empty store on a disk of its own.
    #[expect(clippy::new_without_default, reason = "a store is opened, not defaulted")]
    pub fn new() -> Self {
        MemoryDisk::new().open()
    }

    /// The disk, for faults and crashes.
    pub fn disk(&self) -> MemoryDisk {
        self.disk.clone()
    }
}

impl Memory {
    /// Writes, syncs, acknowledges, and fails if it was told to.
    fn change<T>(&mut self, apply: impl FnOnce(&mut Inner) -> T) -> Result<T, StoreFault> {
        let mut inner = self.disk.lock();
        refuse_the_dead(&inner, self.opened)?;
        let fault = inner.faults.pop_front().flatten();
        match fault {
            Some(MemoryFault::Full) => return Err(StoreFault::Full("injected: no space".into())),
            Some(MemoryFault::Busy) => return Err(StoreFault::Busy("injected: busy".into())),
            Some(MemoryFault::Fatal) => return Err(inner.die("injected: before the write")),
            Some(MemoryFault::WrittenNotSynced | MemoryFault::SyncedNotAcknowledged) | None => {}
        }
        let applied = apply(&mut inner);
        if fault == Some(MemoryFault::WrittenNotSynced) {
            return Err(inner.die("injected: written, not synced"));
        }
        inner.sync();
        if fault == Some(MemoryFault::SyncedNotAcknowledged) {
            return Err(inner.die("injected: synced, not acknowledged"));
        }
        inner.n_commits += 1;
        Ok(applied)
    }
}

impl Store for Memory {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        if batch.is_empty() {
            refuse_the_dead(&self.disk.lock(), self.opened)?;
            return Ok(Vec::new());
        }
        self.change(|inner| {
            inner.unsynced.extend(batch.iter().cloned().map(Change::Write));
            batch.iter().map(|write| inner.written.apply(write)).collect()
        })
    }

    /// A step that finds nothing to remove is no commit and meets no fault.
    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        {
            let inner = self.disk.lock();
            refuse_the_dead(&inner, self.opened)?;
            if !inner.written.has_due(policy, now_unix_ms) {
                return Ok(Removed::default());
            }
        }
        self.change(|inner| {
            inner.unsynced.push(Change::Removal(*policy, now_unix_ms));
            inner.written.remove_settled(policy, now_unix_ms)
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        refuse_the_past(&self.disk.lock(), self.opened)?;
        Ok(Box::new(MemoryReader {
            disk: self.disk.clone(),
            opened: self.opened,
        }))
    }
}

impl Inner {
    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write(write) => {
                    self.synced.apply(&write);
                }
                Change::Removal(policy, now_unix_ms) => {
                    self.synced.remove_settled(&policy, now_unix_ms);
                }
            }
        }
    }

    fn die(&mut self, why: &str) -> StoreFault {
        self.dead = true;
        StoreFault::Fatal(why.into())
    }
}

fn refuse_the_dead(inner: &Inner, opened: u64) -> Result<(), StoreFault> {
    refuse_the_past(inner, opened)?;
    if inner.dead {
        Err(StoreFault::Fatal("a commit failed before".into()))
    } else {
        Ok(())
    }
}

fn refuse_the_past(inner: &Inner, opened: u64) -> Result<(), StoreFault> {
    if inner.opened == opened {
        return Ok(());
    }
    Err(StoreFault::Fatal(
        "the disk was opened by another store since".into(),
    ))
}

#[derive(Debug)]
struct MemoryReader {
    disk: MemoryDisk,
    opened: u64,
}

impl MemoryReader {
    fn read<T>(&self, read: impl FnOnce(&Contents) -> T) -> Result<T, StoreFault> {
        let inner = self.disk.lock();
        refuse_the_past(&inner, self.opened)?;
        Ok(read(&inner.synced))
    }
}

impl Reader for MemoryReader {
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

    fn remembered_actions(&self) -> Result<Vec<ActionMemory>, StoreFault> {
        self.read(Contents::remembered_actions)
    }

    fn counts(&self) -> Result<Counts, StoreFault> {
        self.read(Contents::counts)
    }
}
