//! The files of the store apart from those that SQLite opens itself. Knows nothing of what stands in them.
//!
//! Everything that the embedded store does to a disk goes through one [`Files`] or through the VFS of SQLite
//! that it names, so that a test can put a whole disk of its own below the store.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CStr;
use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{BEFORE, LOCK_FILE, STAGE, STORE, earlier_names};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// What others than the owner may do with a file or a directory.
const OTHERS: u32 = 0o077;

/// Held until the last clone is dropped or the process ends.
pub type Lock = Arc<dyn Debug + Send + Sync>;

/// A place where stores live: a file system, or what a test has in place of one.
pub trait Files: Debug + Send + Sync {
    /// Makes the directory and what is missing above it, for this user only; its name is durable behind it. One that
    /// is there already and holds nothing but a store is kept for this user as far as it is this user's.
    ///
    /// # Errors
    /// As the place fails.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Creates the file if there is none and locks it and its directory; it says then which process holds the lock.
    /// `None` if another one does.
    ///
    /// # Errors
    /// As the place fails.
    fn lock(&self, path: &Path) -> io::Result<Option<Lock>>;

    /// Keeps a file for its owner alone, also one that others could open until now. If there is none, makes an
    /// empty one or does nothing. A place without users does nothing at all.
    ///
    /// # Errors
    /// As the place fails.
    fn keep_private(&self, _path: &Path, _create: bool) -> io::Result<()> {
        Ok(())
    }

    /// What tells the file or directory of this name from every other one; `None` if the place cannot say.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none; otherwise as the place fails.
    fn identity(&self, _path: &Path) -> io::Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// Returns the mode of a file or directory that others than its owner may read, write or search.
    fn mode_for_others(&self, _path: &Path) -> Option<u32> {
        None
    }

    /// Opens a file to read and write it; if there is none, creates an empty one or fails as
    /// [`io::ErrorKind::NotFound`].
    ///
    /// # Errors
    /// As the place fails.
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn OpenFile>>;

    /// The database, which SQLite may have open, once more, to measure and to sync it beside SQLite.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none; otherwise as the place fails.
    fn open_database(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the place fails.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Returns the registered VFS by which SQLite opens files here; `None` for its own.
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
pub(crate) struct FileSystem;

impl Files for FileSystem {
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let is_new = !directory.exists();
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        if is_new {
            // The umask may have taken more away.
            std::fs::set_permissions(directory, Permissions::from_mode(0o700))?;
        } else if holds_nothing_else(directory) {
            take_from_others(&File::open(directory)?)?;
        }
        // The directory's own name must survive a power cut, too.
        directory
            .canonicalize()
            .ok()
            .as_deref()
            .and_then(Path::parent)
            .map_or(Ok(()), |parent| self.sync_directory(parent))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        let file = open_private(OpenOptions::new().write(true).create(true).truncate(false), path)?;
        let Some(file) = Locked::by_trying(file)? else {
            return Ok(None);
        };
        // People delete the file because they take it for a leftover; the directory is there as long as the store.
        let directory = File::open(path.parent().unwrap_or(path))?;
        let directory = match Locked::by_trying(directory) {
            Ok(None) => return Ok(None),
            Ok(locked) => locked,
            // Not every file system locks directories.
            Err(_) => None,
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        // A pid has at most seven digits; every process writes as many bytes.
        let holder = format!("process {:<7} on host {}\n", std::process::id(), host.trim());
        file.0.set_len(0)?;
        file.0.write_all_at(holder.as_bytes(), 0)?;
        Ok(Some(Arc::new((file, directory))))
    }

    fn keep_private(&self, path: &Path, create: bool) -> io::Result<()> {
        // Never by a handle of a file that is there: to close it drops the locks of SQLite's connections.
        if create {
            match open_private(OpenOptions::new().write(true).create_new(true), path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(drop),
            }
        }
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(metadata) if metadata.mode() & OTHERS == 0 => Ok(()),
            Ok(metadata) => {
                let mode = Permissions::from_mode(metadata.mode() & !OTHERS);
                where_allowed(std::fs::set_permissions(path, mode))
            }
        }
    }

    fn identity(&self, path: &Path) -> io::Result<Option<(u64, u64)>> {
        let metadata = path.metadata()?;
        Ok(Some((metadata.dev(), metadata.ino())))
    }

    fn mode_for_others(&self, path: &Path) -> Option<u32> {
        let mode = path.metadata().ok()?.mode() & 0o7777;
        (mode & OTHERS != 0).then_some(mode)
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn OpenFile>> {
        let file = open_private(
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(create)
                .truncate(false),
            path,
        )?;
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

/// Opens a file that is its owner's alone: a new one whatever the umask is, and one that is there as far as this user
/// may say so. Pipes and devices stay as they are.
///
/// # Errors
/// As the file system fails.
pub fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        take_from_others(&file)?;
        if metadata.mode() & 0o600 != 0o600 {
            // The umask took more away than from others.
            where_allowed(file.set_permissions(Permissions::from_mode(metadata.mode() & !OTHERS | 0o600)))?;
        }
    }
    Ok(file)
}

fn take_from_others(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    where_allowed(file.set_permissions(Permissions::from_mode(mode & !OTHERS)))
}

/// Only the owner changes a mode, and not every file system has one.
fn where_allowed(changed: io::Result<()>) -> io::Result<()> {
    match changed {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        changed => changed,
    }
}

/// Returns true if there is nothing but a store and what a file system itself puts there; false if that cannot be told.
fn holds_nothing_else(directory: &Path) -> bool {
    let is_ours = |entry: io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(belongs_to_a_store))
    };
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.all(is_ours))
}

fn belongs_to_a_store(name: &str) -> bool {
    let others = [LOCK_FILE, STAGE, BEFORE, "lost+found"];
    STORE.all().contains(&name) || others.contains(&name) || earlier_names().any(|earlier| earlier == name)
}

/// A locked file. The lock is let go by name and not by the close alone: between its fork and its exec, a child of this process
/// has the descriptor as well, and would keep the lock for that long.
#[derive(Debug)]
struct Locked(File);

impl Locked {
    /// `None` if another handle has the lock.
    fn by_trying(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // If it fails, the close lets go.
        let _unlocked = self.0.unlock();
    }
}

/// Writes what the file reads as, once more, and syncs it; if there is no file, does nothing.
///
/// A kernel whose sync has failed takes what it could not write as clean: reads show it, and another sync says
/// that it is durable although it is not. A process that builds on what an earlier one has left writes it again.
pub(crate) fn write_again(files: &dyn Files, path: &Path) -> io::Result<()> {
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

/// Returns a handle of the file that stays open until the process ends, one for each file.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor of the same open file is what a child has that is forked and not yet another program.
    #[test]
    fn a_lock_is_let_go_although_a_child_has_its_descriptor_too() {
        let path = std::env::temp_dir().join(format!("escapement-lock-{}", std::process::id()));
        let open = || File::create(&path).unwrap();
        let file = open();
        let of_child = file.try_clone().unwrap();
        let locked = Locked::by_trying(file).unwrap().unwrap();
        assert!(Locked::by_trying(open()).unwrap().is_none(), "it is locked");
        drop(locked);
        let again = Locked::by_trying(open()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(again.is_some(), "the lock is free while {of_child:?} is open");
    }
}
