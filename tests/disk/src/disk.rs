//! The disk as a test holds it, and the list of all disks of the process. Models nothing itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use escapement_store::Files;

use crate::files::Place;
use crate::plan::{Counts, Plan};
use crate::state::State;

/// What every root begins with.
const ROOT: &str = "/disk-";

static DISKS: Mutex<BTreeMap<u64, Weak<Inner>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A disk in memory. Works from any thread; its content goes with the last handle on it.
///
/// Files are called by what stands behind [`Disk::directory`] in their path: `store.mark`, `store.db`.
#[derive(Clone, Debug)]
pub struct Disk {
    inner: Arc<Inner>,
}

/// What handles share with the disk.
pub(crate) struct Inner {
    id: u64,
    state: Mutex<State>,
}

impl std::fmt::Debug for Inner {
    /// Its root; the files are far too long.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.root())
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn root(&self) -> String {
        format!("{ROOT}{}", self.id)
    }

    /// Returns the name of a path on this disk.
    pub(crate) fn name(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(self.root()).ok()?;
        name.to_str().map(str::to_owned)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        disks().remove(&self.id);
    }
}

fn disks() -> MutexGuard<'static, BTreeMap<u64, Weak<Inner>>> {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the disk of a path and the name there.
pub(crate) fn find(path: &str) -> Option<(Arc<Inner>, &str)> {
    let (id, name) = path.strip_prefix(ROOT)?.split_once('/')?;
    let disk = disks().get(&id.parse().ok()?)?.upgrade()?;
    Some((disk, name))
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::with(State::default())
    }

    fn with(state: State) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(Inner {
            id,
            state: Mutex::new(state),
        });
        disks().insert(id, Arc::downgrade(&inner));
        Self { inner }
    }

    /// Returns a second disk with the same files, all of them durable, nothing open, nothing planned.
    #[must_use]
    pub fn copy(&self) -> Self {
        let image = self.inner.state().image();
        Self::with(image)
    }

    /// From now on keeps what the disk is now and behind each counted call.
    pub fn record(&self) {
        self.inner.state().record();
    }

    /// What was kept since [`Disk::record`], each as a disk of its own on which nothing is open: the first is
    /// from before any call, number `n` from between the `n`-th call and the next. Ends the recording.
    pub fn recorded(&self) -> Vec<Self> {
        let moments = self.inner.state().recorded();
        moments.into_iter().map(Self::with).collect()
    }

    /// Returns a second disk with the same files and the same unsynced changes, on which nothing is open.
    #[must_use]
    pub fn fork(&self) -> Self {
        let moment = self.inner.state().moment();
        Self::with(moment)
    }

    /// Where a store is opened: the root of the disk.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(self.inner.root())
    }

    /// What the store's options take.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::new(Place::new(Arc::clone(&self.inner)))
    }

    /// Everything stops and all handles are dead. What was not synced is kept, lost or torn as the dice say:
    /// they are given a bound and answer with a number below it.
    pub fn power_cut(&self, dice: &mut dyn FnMut(u64) -> u64) {
        self.inner.state().power_cut(dice);
    }

    /// The process ends and all its handles are dead; the page cache survives.
    pub fn process_killed(&self) {
        self.inner.state().end_process();
    }

    /// The kernel forgets clean pages: reads show the disk, where a failed sync left it behind.
    pub fn drop_page_cache(&self) {
        self.inner.state().drop_page_cache();
    }

    /// What goes wrong from now on, in place of what was planned before.
    pub fn plan(&self, plan: Plan) {
        self.inner.state().plan(plan);
    }

    /// Returns true if everything has stopped as planned and nobody has said yet what it was.
    pub fn is_stopped(&self) -> bool {
        self.inner.state().is_stopped()
    }

    /// While full, nothing is created and no file grows.
    pub fn set_full(&self, full: bool) {
        self.inner.state().full = full;
    }

    /// Calls so far.
    pub fn counts(&self) -> Counts {
        self.inner.state().counts
    }

    /// The names of all files, in order.
    pub fn names(&self) -> Vec<String> {
        self.inner.state().names()
    }

    /// Returns a file as reads show it.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.inner.state().content(name).map(<[u8]>::to_vec)
    }

    /// Returns a file as a power cut that loses everything would leave it.
    pub fn durable_content(&self, name: &str) -> Option<Vec<u8>> {
        self.inner.state().durable(name).map(<[u8]>::to_vec)
    }

    /// Puts a file there in place of what was there, durably; `None` removes it. For files that nobody has open.
    pub fn put(&self, name: &str, content: Option<&[u8]>) {
        self.inner.state().put(name, content);
    }

    /// Flips a bit of a file; false if the file is not that long.
    pub fn flip_bit(&self, name: &str, byte: usize, bit: u32) -> bool {
        self.inner.state().flip(name, byte, bit)
    }
}
