//! The files of the store apart from those that SQLite opens itself. Knows nothing of what stands in them.
//!
//! Everything that the embedded store does to a disk goes through one [`Files`] or through the VFS of SQLite
//! that it names, so that a test can put a whole disk of its own below the store.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CStr;
use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A place where stores live: a file system, or what a test has in place of one.
pub trait Files: Debug + Send + Sync {
    /// Makes the directory and what is missing above it, for this user only; its name is durable behind it.
    ///
    /// # Errors
    /// As the place fails.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Creates the file where there is none and locks it until the handle is dropped or the process ends.
    /// `None` where somebody else holds the lock.
    ///
    /// # Errors
    /// As the place fails.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn OpenFile>>>;

    /// Opens a file to read and write it; where there is none, creates an empty one or fails as
    /// [`io::ErrorKind::NotFound`].
    ///
    /// # Errors
    /// As the place fails.
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn OpenFile>>;

    /// The database, which SQLite may have open, once more, to measure and to sync it beside SQLite.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where there is none; otherwise as the place fails.
    fn open_database(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the place fails.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// The registered VFS by which SQLite opens files here; `None` for its own.
    fn sqlite_vfs(&self) -> Option<&CStr>;
}

/// An open file of a [`Files`].
pub trait OpenFile: Debug + Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// As the place fails.
    fn length(&self) -> io::Result<u64>;

    /// Fills the buffer from there on as far as the file goes; says how many bytes there were.
    ///
    /// # Errors
    /// As the place fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of the bytes there; the file grows as needed.
    ///
    /// # Errors
    /// As the place fails; some of the bytes may have been written then.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the content durable.
    ///
    /// # Errors
    /// As the place fails; the content must not be trusted any more then.
    fn sync(&self) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Debug)]
pub(super) struct FileSystem;

impl Files for FileSystem {
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // The directory's own name must survive a power cut, too.
        directory
            .canonicalize()
            .ok()
            .as_deref()
            .and_then(Path::parent)
            .map_or(Ok(()), |parent| self.sync_directory(parent))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn OpenFile>>> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn OpenFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .open(path)?;
        Ok(Box::new(file))
    }

    fn open_database(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        Ok(never_closed(path)?)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn sqlite_vfs(&self) -> Option<&CStr> {
        None
    }
}

impl OpenFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut n_read = 0;
        while n_read < buffer.len() {
            match FileExt::read_at(self, &mut buffer[n_read..], offset + n_read as u64) {
                Ok(0) => break,
                Ok(n) => n_read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(n_read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes what the file reads as, once more, and syncs it; where there is no file, does nothing.
///
/// A kernel whose sync has failed takes what it could not write as clean: reads show it, and another sync says
/// that it is durable although it is not. Whoever builds on what an earlier process has left writes it again.
pub(super) fn write_again(files: &dyn Files, path: &Path) -> io::Result<()> {
    let file = match files.open(path, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let n_read = file.read_at(&mut buffer, offset)?;
        if n_read == 0 {
            break;
        }
        file.write_at(&buffer[..n_read], offset)?;
        offset += n_read as u64;
    }
    if offset == 0 { Ok(()) } else { file.sync() }
}

/// A handle of the file that stays open until the process ends, one for each file.
///
/// To close any handle of a file drops all locks that this process has on it, those of SQLite's connections
/// included; another process could then take the write-ahead log away from under them.
fn never_closed(path: &Path) -> io::Result<Arc<File>> {
    static HANDLES: Mutex<BTreeMap<(u64, u64), Arc<File>>> = Mutex::new(BTreeMap::new());
    let metadata = path.metadata()?;
    // Nothing behind this lock can be left half done by a panic.
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    match handles.entry((metadata.dev(), metadata.ino())) {
        Entry::Occupied(handle) => Ok(Arc::clone(handle.get())),
        Entry::Vacant(place) => Ok(Arc::clone(place.insert(Arc::new(File::open(path)?)))),
    }
}
