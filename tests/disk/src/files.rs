//! The disk as the store's own files see it: mark, lock, folder. SQLite's files come through `vfs.rs`.

use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use escapement_store::{Files, Lock, OpenFile};

use crate::disk::Inner;
use crate::plan::Fault;
use crate::vfs;

/// The place of all files of a disk.
#[derive(Debug)]
pub(crate) struct Place {
    disk: Arc<Inner>,
}

/// An open file beside SQLite.
#[derive(Debug)]
struct Beside {
    disk: Arc<Inner>,
    generation: u64,
    file: usize,
    /// The name that is free again when this is dropped.
    held: Option<String>,
}

impl Place {
    pub(crate) fn new(disk: Arc<Inner>) -> Self {
        Self { disk }
    }

    fn name(&self, path: &Path) -> io::Result<String> {
        self.disk.name(path).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} is on another disk", path.display()),
            )
        })
    }

    fn open_named(&self, path: &Path, create: bool, hold: bool) -> io::Result<Option<Beside>> {
        let name = self.name(path)?;
        let mut state = self.disk.state();
        let generation = state.generation;
        state.alive(generation).map_err(failed)?;
        let file = state.open(&name, create).map_err(failed)?;
        if hold && !state.hold(&name) {
            return Ok(None);
        }
        Ok(Some(Beside {
            disk: Arc::clone(&self.disk),
            generation,
            file,
            held: hold.then_some(name),
        }))
    }

    fn open_one(&self, path: &Path, create: bool) -> io::Result<Beside> {
        let opened = self.open_named(path, create, false)?;
        Ok(opened.expect("only a lock can be held by somebody else"))
    }
}

impl Files for Place {
    /// Folders are no part of the model; the root is there and durable.
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.name(directory).map(drop)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        let locked = self.open_named(path, true, true)?;
        Ok(locked.map(|file| Arc::new(file) as Lock))
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(self.open_one(path, create)?))
    }

    fn open_database(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(self.open_one(path, false)?))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let name = self.name(directory)?;
        let mut state = self.disk.state();
        let generation = state.generation;
        state.alive(generation).map_err(failed)?;
        state.sync_folder(&name).map_err(failed)
    }

    fn sqlite_vfs(&self) -> Option<&CStr> {
        Some(vfs::registered())
    }
}

impl OpenFile for Beside {
    fn length(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.alive(self.generation).map_err(failed)?;
        Ok(state.length(self.file) as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let offset = usize::try_from(offset).map_err(|_| failed(Fault::Io))?;
        let mut state = self.disk.state();
        state.alive(self.generation).map_err(failed)?;
        state.read(self.file, offset, buffer).map_err(failed)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(|_| failed(Fault::Full))?;
        let mut state = self.disk.state();
        state.alive(self.generation).map_err(failed)?;
        state.write(self.file, offset, bytes).map_err(failed)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.alive(self.generation).map_err(failed)?;
        state.sync(self.file).map_err(failed)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Some(name) = &self.held
            && state.generation == self.generation
        {
            state.let_go(name);
        }
    }
}

fn failed(fault: Fault) -> io::Error {
    match fault {
        Fault::Full => io::Error::new(io::ErrorKind::StorageFull, "the disk in memory is full"),
        Fault::Missing => io::Error::new(io::ErrorKind::NotFound, "no such file on the disk in memory"),
        Fault::Io | Fault::Busy => io::Error::other("the disk in memory failed"),
    }
}
