//! A disk in memory that outlives its store, and that counts, fails and crashes on demand. Knows no content.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use escapement_store::StoreFault;

/// What lies on such a disk. The same changes in the same order make the same contents.
pub trait DiskContents: Clone + Default {
    /// A change.
    type Change;

    /// Applies a change that was applied to equal contents before.
    fn replay(&mut self, change: Self::Change);
}

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
#[derive(Clone)]
pub struct Disk<C: DiskContents> {
    inner: Arc<Mutex<Inner<C>>>,
}

pub(crate) struct Inner<C: DiskContents> {
    /// What a restart finds.
    synced: C,
    /// What was written: the synced contents and everything behind them.
    pub(crate) written: C,
    /// Changes that are in `written` and not in `synced`.
    pub(crate) unsynced: Vec<C::Change>,
    /// An entry per coming commit.
    faults: VecDeque<Option<MemoryFault>>,
    dead: bool,
    /// Counts the stores that were opened; an older one is refused.
    opened: u64,
    n_commits: u64,
    /// Reads by the name of the thread that made them.
    n_reads: BTreeMap<String, u64>,
}

impl<C: DiskContents> Disk<C> {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                synced: C::default(),
                written: C::default(),
                unsynced: Vec::new(),
                faults: VecDeque::new(),
                dead: false,
                opened: 0,
                n_commits: 0,
                n_reads: BTreeMap::new(),
            })),
        }
    }

    /// Opens what is synced. A store that was opened before is refused from now on, as after the end of its
    /// process.
    pub fn open(&self) -> OnDisk<C> {
        let mut inner = self.lock();
        inner.written = inner.synced.clone();
        inner.unsynced.clear();
        inner.dead = false;
        inner.opened += 1;
        OnDisk {
            disk: self.clone(),
            opened: inner.opened,
        }
    }

    /// The process dies and starts again: everything that was not synced is lost, faults to come are
    /// forgotten.
    pub fn crash(&self) -> OnDisk<C> {
        self.lock().faults.clear();
        self.open()
    }

    /// The next commit that no fault was ordered for yet fails in this way.
    pub fn fail_next_commit(&self, fault: MemoryFault) {
        self.lock().faults.push_back(Some(fault));
    }

    /// Changes the contents that readers see without a commit, as damage does.
    pub(crate) fn damage(&self, change: impl FnOnce(&mut C)) {
        change(&mut self.lock().synced);
    }

    /// The next commit that no fault was ordered for yet goes well.
    pub fn pass_next_commit(&self) {
        self.lock().faults.push_back(None);
    }

    /// Commits that were acknowledged, empty ones excepted.
    pub fn n_commits(&self) -> u64 {
        self.lock().n_commits
    }

    /// Reads that threads of this name have made.
    pub fn n_reads_by(&self, thread: &str) -> u64 {
        self.lock().n_reads.get(thread).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        // A defect panics before anything is changed, so that the contents hold.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: DiskContents> Default for Disk<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: DiskContents> fmt::Debug for Disk<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a disk in memory")
    }
}

/// A store that is open on such a disk, or a reader of it.
#[derive(Debug)]
pub struct OnDisk<C: DiskContents> {
    disk: Disk<C>,
    opened: u64,
}

impl<C: DiskContents> OnDisk<C> {
    /// Creates an empty store on a disk of its own.
    #[expect(clippy::new_without_default, reason = "a store is opened, not defaulted")]
    pub fn new() -> Self {
        Disk::new().open()
    }

    /// Returns the disk, for faults and crashes.
    pub fn disk(&self) -> Disk<C> {
        self.disk.clone()
    }

    /// Writes, syncs, acknowledges, and fails if it was told to.
    pub(crate) fn change<T>(&mut self, apply: impl FnOnce(&mut Inner<C>) -> T) -> Result<T, StoreFault> {
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

    /// Says what was written, acknowledged or not.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&C) -> T) -> Result<T, StoreFault> {
        let inner = self.disk.lock();
        refuse_the_dead(&inner, self.opened)?;
        Ok(look(&inner.written))
    }

    /// Reads what is synced.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&C) -> T) -> Result<T, StoreFault> {
        let mut inner = self.disk.lock();
        refuse_the_past(&inner, self.opened)?;
        inner.count_read();
        Ok(read(&inner.synced))
    }

    /// The same store once more, to read it.
    pub(crate) fn reading(&self) -> Result<Self, StoreFault> {
        refuse_the_past(&self.disk.lock(), self.opened)?;
        Ok(Self {
            disk: self.disk(),
            opened: self.opened,
        })
    }
}

impl<C: DiskContents> Inner<C> {
    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            self.synced.replay(change);
        }
    }

    fn count_read(&mut self) {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        match self.n_reads.get_mut(name) {
            Some(n) => *n += 1,
            None => drop(self.n_reads.insert(name.to_owned(), 1)),
        }
    }

    fn die(&mut self, why: &str) -> StoreFault {
        self.dead = true;
        StoreFault::Fatal(why.into())
    }
}

fn refuse_the_dead<C: DiskContents>(inner: &Inner<C>, opened: u64) -> Result<(), StoreFault> {
    refuse_the_past(inner, opened)?;
    if inner.dead {
        Err(StoreFault::Fatal("a commit failed before".into()))
    } else {
        Ok(())
    }
}

fn refuse_the_past<C: DiskContents>(inner: &Inner<C>, opened: u64) -> Result<(), StoreFault> {
    if inner.opened == opened {
        return Ok(());
    }
    Err(StoreFault::Fatal(
        "the disk was opened by another store since".into(),
    ))
}
