//! A file that SQLite has open: its calls in safe terms. Converts no pointer and no result code.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::Inner;
use crate::locks::{Level, SLOTS};
use crate::plan::Fault;
use crate::state::{SharedMemory, State};

/// An open file below SQLite.
#[derive(Debug)]
pub(crate) struct Handle {
    disk: Arc<Inner>,
    id: u64,
    generation: u64,
    file: usize,
    name: String,
    /// SQLite's own file system syncs the folder of a log or journal that it may have created with this
    /// handle's first sync.
    syncs_folder: AtomicBool,
    memory: Mutex<Option<Arc<SharedMemory>>>,
}

impl Handle {
    pub(crate) fn open(disk: Arc<Inner>, name: &str, create: bool, is_log: bool) -> Result<Self, Fault> {
        let mut state = disk.state();
        let generation = state.generation;
        state.alive(generation)?;
        let file = state.open(name, create)?;
        let id = state.new_handle();
        drop(state);
        Ok(Self {
            disk,
            id,
            generation,
            file,
            name: name.to_owned(),
            syncs_folder: AtomicBool::new(create && is_log),
            memory: Mutex::default(),
        })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Fault> {
        let state = self.disk.state();
        state.alive(self.generation)?;
        Ok(state)
    }

    fn own_memory(&self) -> MutexGuard<'_, Option<Arc<SharedMemory>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self, offset: usize, buffer: &mut [u8]) -> Result<usize, Fault> {
        self.state()?.read(self.file, offset, buffer)
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.state()?.write(self.file, offset, bytes)
    }

    pub(crate) fn truncate(&self, length: usize) -> Result<(), Fault> {
        self.state()?.truncate(self.file, length)
    }

    pub(crate) fn sync(&self) -> Result<(), Fault> {
        let mut state = self.state()?;
        state.sync(self.file)?;
        if self.syncs_folder.swap(false, Ordering::Relaxed) {
            state.sync_folder_of(&self.name)?;
        }
        Ok(())
    }

    pub(crate) fn length(&self) -> Result<usize, Fault> {
        Ok(self.state()?.length(self.file))
    }

    pub(crate) fn lock(&self, want: Level) -> Result<(), Fault> {
        let free = self.state()?.locks(self.file).lock(self.id, want);
        if free { Ok(()) } else { Err(Fault::Busy) }
    }

    pub(crate) fn unlock(&self, keep: Level) -> Result<(), Fault> {
        self.state()?.locks(self.file).unlock(self.id, keep);
        Ok(())
    }

    pub(crate) fn is_reserved(&self) -> Result<bool, Fault> {
        Ok(self.state()?.locks(self.file).is_reserved())
    }

    /// Returns a region of the shared memory, made where asked for.
    pub(crate) fn memory(
        &self,
        index: usize,
        bytes: usize,
        make: bool,
    ) -> Result<Option<*const AtomicU64>, Fault> {
        let mut state = self.state()?;
        let memory = Arc::clone(self.own_memory().get_or_insert_with(|| state.memory(self.file)));
        if let Some(region) = memory.region(index) {
            return Ok(Some(region));
        }
        if !make {
            return Ok(None);
        }
        state.grow_memory(&memory, index + 1, bytes)?;
        Ok(memory.region(index))
    }

    pub(crate) fn lock_slots(&self, first: usize, n: usize, alone: bool) -> Result<(), Fault> {
        let mut state = self.state()?;
        let end = (first + n).min(SLOTS);
        let locks = state.locks(self.file);
        let free = if alone {
            locks.claim(self.id, first..end)
        } else {
            locks.share(self.id, first)
        };
        if free { Ok(()) } else { Err(Fault::Busy) }
    }

    pub(crate) fn unlock_slots(&self, first: usize, n: usize) -> Result<(), Fault> {
        let mut state = self.state()?;
        let end = (first + n).min(SLOTS);
        state.locks(self.file).release(self.id, first..end);
        Ok(())
    }

    pub(crate) fn leave_memory(&self) {
        let mut state = self.disk.state();
        drop(self.own_memory().take());
        if state.generation == self.generation {
            state.locks(self.file).release(self.id, 0..SLOTS);
            state.leave_memory(self.file);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.leave_memory();
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.locks(self.file).forget(self.id);
        }
    }
}
