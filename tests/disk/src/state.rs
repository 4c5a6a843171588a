//! The disk model: files, names, locks, shared memory, and the gate that every call passes, where it is counted
//! and may fail. Knows neither SQLite nor threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use crate::inode::Inode;
use crate::locks::Locks;
use crate::names::{Names, folder_of};
use crate::plan::{Call, Counts, Failure, Fault, Plan, Stop};

/// Memory that connections of one process share beside a database. It is no part of the disk.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory {
    regions: Mutex<Vec<Box<[AtomicU64]>>>,
}

impl SharedMemory {
    /// Returns the address of a region, which stays where it is as long as this lives; `None` if there is none yet.
    pub(crate) fn region(&self, index: usize) -> Option<*const AtomicU64> {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.get(index).map(|region| region.as_ptr())
    }

    fn grow(&self, n_regions: usize, bytes: usize) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        while regions.len() < n_regions {
            regions.push((0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect());
        }
    }
}

/// Everything about one disk.
#[derive(Debug, Default)]
pub(crate) struct State {
    files: Vec<Inode>,
    names: Names,
    /// By file.
    locks: BTreeMap<usize, Locks>,
    memories: BTreeMap<usize, Arc<SharedMemory>>,
    /// Names locked by [`State::hold`].
    held: BTreeSet<String>,
    /// Handles of another generation belong to a process that is no more.
    pub(crate) generation: u64,
    n_handles: u64,
    stopped: bool,
    pub(crate) full: bool,
    pub(crate) counts: Counts,
    plan: Plan,
    n_planned: u64,
    n_planned_reads: u64,
    /// The disk behind each counted call, where that is asked for.
    recording: Option<Vec<State>>,
}

impl State {
    pub(crate) fn alive(&self, generation: u64) -> Result<(), Fault> {
        if self.stopped || generation != self.generation {
            return Err(Fault::Io);
        }
        Ok(())
    }

    pub(crate) fn plan(&mut self, plan: Plan) {
        self.plan = plan;
        self.n_planned = 0;
        self.n_planned_reads = 0;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn new_handle(&mut self) -> u64 {
        self.n_handles += 1;
        self.n_handles
    }

    /// Counts a call and lets it happen as planned.
    fn counted(
        &mut self,
        call: Call,
        action: impl FnOnce(&mut Self, Option<Failure>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        *match call {
            Call::Write => &mut self.counts.writes,
            Call::Sync => &mut self.counts.syncs,
            Call::Truncate => &mut self.counts.truncates,
            Call::Delete => &mut self.counts.deletes,
            Call::Create => &mut self.counts.creates,
        } += 1;
        self.n_planned += 1;
        let stop = self.plan.stop_at.filter(|(nth, _)| *nth == self.n_planned);
        if let Some((_, Stop::Before)) = stop {
            self.stopped = true;
            return Err(Fault::Io);
        }
        let failure = self.plan.fail_nth.filter(|(nth, _)| *nth == self.n_planned);
        let done = match failure {
            Some((_, failure)) => {
                // What the failure does by half, it does itself.
                action(self, Some(failure)).and(Err(match failure {
                    Failure::Full | Failure::ShortWrite => Fault::Full,
                    Failure::Io | Failure::SyncFails => Fault::Io,
                }))
            }
            None => action(self, None),
        };
        if self.recording.is_some() {
            let moment = self.moment();
            self.recording.get_or_insert_default().push(moment);
        }
        if stop.is_some() {
            self.stopped = true;
            return Err(Fault::Io);
        }
        done
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// Opens a name.
    pub(crate) fn open(&mut self, name: &str, create: bool) -> Result<usize, Fault> {
        if let Some(file) = self.names.find(name) {
            return Ok(file);
        }
        if !create {
            return Err(Fault::Missing);
        }
        let file = self.files.len();
        self.counted(Call::Create, |state, failure| {
            if failure.is_some() {
                return Ok(());
            }
            if state.full {
                return Err(Fault::Full);
            }
            state.files.push(Inode::default());
            state.names.create(name, file);
            Ok(())
        })?;
        Ok(file)
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<(), Fault> {
        if self.names.find(name).is_none() {
            return Err(Fault::Missing);
        }
        self.counted(Call::Delete, |state, failure| {
            if failure.is_none() {
                state.names.delete(name);
            }
            Ok(())
        })
    }

    /// Fills the buffer; says how many bytes there were.
    pub(crate) fn read(&mut self, file: usize, offset: usize, buffer: &mut [u8]) -> Result<usize, Fault> {
        self.count_read()?;
        let content = self.files[file].content();
        let start = offset.min(content.len());
        let end = (offset + buffer.len()).min(content.len());
        buffer[..end - start].copy_from_slice(&content[start..end]);
        Ok(end - start)
    }

    fn count_read(&mut self) -> Result<(), Fault> {
        self.counts.reads += 1;
        self.n_planned_reads += 1;
        if self.plan.fail_nth_read == Some(self.n_planned_reads) {
            return Err(Fault::Io);
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, file: usize, offset: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.counted(Call::Write, |state, failure| {
            let inode = &mut state.files[file];
            match failure {
                None if state.full && offset + bytes.len() > inode.length() => return Err(Fault::Full),
                None => inode.write(offset, bytes),
                Some(Failure::ShortWrite) => inode.write(offset, &bytes[..bytes.len() / 2]),
                Some(Failure::Full | Failure::Io | Failure::SyncFails) => {}
            }
            Ok(())
        })
    }

    pub(crate) fn truncate(&mut self, file: usize, length: usize) -> Result<(), Fault> {
        self.counted(Call::Truncate, |state, failure| {
            if failure.is_none() {
                state.files[file].truncate(length);
            }
            Ok(())
        })
    }

    pub(crate) fn sync(&mut self, file: usize) -> Result<(), Fault> {
        self.counted(Call::Sync, |state, failure| {
            match failure {
                None => state.files[file].sync(),
                Some(Failure::SyncFails) => state.files[file].sync_fails(),
                Some(Failure::Full | Failure::Io | Failure::ShortWrite) => {}
            }
            Ok(())
        })
    }

    pub(crate) fn sync_folder(&mut self, folder: &str) -> Result<(), Fault> {
        self.counted(Call::Sync, |state, failure| {
            if failure.is_none() {
                state.names.sync(folder);
            }
            Ok(())
        })
    }

    /// Makes durable the folder that a name stands in.
    pub(crate) fn sync_folder_of(&mut self, name: &str) -> Result<(), Fault> {
        self.sync_folder(folder_of(name))
    }

    pub(crate) fn length(&self, file: usize) -> usize {
        self.files[file].length()
    }

    pub(crate) fn locks(&mut self, file: usize) -> &mut Locks {
        self.locks.entry(file).or_default()
    }

    /// Locks a name for a process; false if it is locked.
    pub(crate) fn hold(&mut self, name: &str) -> bool {
        self.held.insert(name.to_owned())
    }

    pub(crate) fn let_go(&mut self, name: &str) {
        self.held.remove(name);
    }

    pub(crate) fn memory(&mut self, file: usize) -> Arc<SharedMemory> {
        Arc::clone(self.memories.entry(file).or_default())
    }

    /// Makes room for a region. It is backed by a file, so it fails where a write does.
    pub(crate) fn grow_memory(
        &mut self,
        memory: &SharedMemory,
        n_regions: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.counted(Call::Write, |state, failure| {
            if state.full {
                return Err(Fault::Full);
            }
            if failure.is_none() {
                memory.grow(n_regions, bytes);
            }
            Ok(())
        })
    }

    /// Forgets a shared memory that no handle has any more; the next one begins empty.
    pub(crate) fn leave_memory(&mut self, file: usize) {
        if self
            .memories
            .get(&file)
            .is_some_and(|memory| Arc::strong_count(memory) == 1)
        {
            self.memories.remove(&file);
        }
    }

    /// The process ends here, whatever it is in the middle of.
    pub(crate) fn end_process(&mut self) {
        self.generation += 1;
        self.stopped = false;
        self.plan(Plan::default());
        self.locks.clear();
        self.memories.clear();
        self.held.clear();
    }

    pub(crate) fn power_cut(&mut self, dice: &mut dyn FnMut(u64) -> u64) {
        self.end_process();
        self.names.power_cut(dice);
        let mut named: Vec<usize> = self.names.iter().map(|(_, file)| file).collect();
        named.sort_unstable();
        for (file, inode) in self.files.iter_mut().enumerate() {
            if named.binary_search(&file).is_ok() {
                inode.power_cut(dice);
            } else {
                *inode = Inode::default();
            }
        }
    }

    pub(crate) fn drop_page_cache(&mut self) {
        for inode in &mut self.files {
            inode.drop_page_cache();
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.names.iter().map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn content(&self, name: &str) -> Option<&[u8]> {
        self.names.find(name).map(|file| self.files[file].content())
    }

    pub(crate) fn durable(&self, name: &str) -> Option<&[u8]> {
        self.names.find(name).map(|file| self.files[file].durable())
    }

    pub(crate) fn flip(&mut self, name: &str, byte: usize, bit: u32) -> bool {
        self.names
            .find(name)
            .is_some_and(|file| self.files[file].flip(byte, bit))
    }

    /// Puts a file there, durably; `None` removes it.
    pub(crate) fn put(&mut self, name: &str, content: Option<&[u8]>) {
        if let Some(bytes) = content {
            self.names.create(name, self.files.len());
            self.files.push(Inode::with_content(bytes));
        } else {
            self.names.delete(name);
        }
        self.names.sync_all();
    }

    /// From now on keeps the disk as it is now and behind each counted call.
    pub(crate) fn record(&mut self) {
        self.recording = Some(vec![self.moment()]);
    }

    pub(crate) fn recorded(&mut self) -> Vec<Self> {
        self.recording.take().unwrap_or_default()
    }

    /// Files and names with what is not durable of them; nothing is open.
    pub(crate) fn moment(&self) -> Self {
        Self {
            files: self.files.clone(),
            names: self.names.clone(),
            ..Self::default()
        }
    }

    /// Returns the files as reads show them, durable, on a disk where nothing is open.
    pub(crate) fn image(&self) -> Self {
        let mut image = Self::default();
        for (name, file) in self.names.iter() {
            image.put(name, Some(self.files[file].content()));
        }
        image
    }
}
