//! Copies of databases as files, and databases of such copies. A copy is complete, checked and synced before it has its
//! name; a restored database is put together in a directory of its own. Overwrites nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use super::connection::{at_opening, working};
use super::files::{FileSystem, Files, Lock, open_private};
use super::opening::lock;
use super::{LOCK_FILE, STAGE, STORE, cannot_open};
use crate::{FaultSource, StoreFault};

/// A copy that is complete, checked and synced, and has no name. It is gone when it is dropped without one.
pub(crate) struct Copy {
    partial: Partial,
    pub(crate) n_bytes: u64,
}

/// Copies the database that `open` connects to beside the file that it will become, and checks it.
pub(crate) fn copy<T>(
    from: &Path,
    open: impl FnOnce() -> Result<Connection, StoreFault>,
    file: &Path,
    check: impl FnOnce(&Path) -> Result<T, StoreFault>,
) -> Result<(T, Copy), StoreFault> {
    let source = open()?;
    let partial = Partial::create(file)?;
    let name = partial.0.to_str().ok_or_else(|| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "the name is not UTF-8");
        cannot_open(file, error)
    })?;
    source
        .pragma_update(None, "query_only", false)
        .and_then(|()| source.execute("VACUUM INTO ?1", [name]))
        .map_err(|error| not_copied(error, from, file))?;
    drop(source);
    let failed = |error: io::Error| unwritable(file, error);
    let n_bytes = File::open(&partial.0)
        .and_then(|file| file.sync_all().and_then(|()| file.metadata()))
        .map_err(failed)?
        .len();
    let checked = check(&partial.0)?;
    Ok((checked, Copy { partial, n_bytes }))
}

impl Copy {
    /// Gives it its name.
    pub(crate) fn name(self, file: &Path) -> Result<(), StoreFault> {
        self.partial.name(file)
    }
}

/// The parts of a backup, as bytes of its file: one, or the executions and the runs of an earlier version.
pub(crate) struct Parts {
    pub(crate) first: Range<u64>,
    pub(crate) runs: Option<Range<u64>>,
}

impl Parts {
    /// Reads what stands at the end of a backup of two parts; any other file is one part.
    ///
    /// # Errors
    /// [`StoreFault::NoBackup`] if the file is empty, or a database that is longer or shorter than it says: then the end
    /// of the backup is missing.
    pub(crate) fn of(file: &Path) -> Result<Self, StoreFault> {
        let failed = |error: io::Error| cannot_open(file, error);
        let source = File::open(file).map_err(failed)?;
        let n_bytes = source.metadata().map_err(failed)?.len();
        let no_backup = |why: &str| StoreFault::NoBackup {
            path: file.to_owned(),
            source: why.into(),
        };
        if n_bytes == 0 {
            return Err(no_backup("it is empty"));
        }
        let mut footer = [0; FOOTER_BYTES];
        let begins_at = n_bytes.checked_sub(FOOTER_BYTES as u64);
        if let Some(begins_at) = begins_at {
            source.read_exact_at(&mut footer, begins_at).map_err(failed)?;
        }
        let Some(lengths) = footer.strip_prefix(FOOTER_BEGIN) else {
            let mut header = [0; 100];
            // What is shorter is no database, which its opening says.
            let is_read = source.read_exact_at(&mut header, 0).is_ok();
            if is_read && database_bytes(&header).is_some_and(|length| length != n_bytes) {
                return Err(no_backup("its length is not the one that it was written with"));
            }
            return Ok(Self {
                first: 0..n_bytes,
                runs: None,
            });
        };
        let (first, second) = lengths.split_at(8);
        let length = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let (first, second) = (length(first), length(second));
        if first.checked_add(second) != begins_at {
            return Err(no_backup("its parts are not as long as they were written"));
        }
        Ok(Self {
            first: 0..first,
            runs: Some(first..first + second),
        })
    }
}

/// How long a database is by its header; `None` if it is none.
fn database_bytes(header: &[u8; 100]) -> Option<u64> {
    if !header.starts_with(b"SQLite format 3\0") {
        return None;
    }
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        page_bytes => u64::from(page_bytes),
    };
    let n_pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    Some(page_bytes * u64::from(n_pages))
}

/// A place in the directory of a store in which a store is put together. Until it has settled, no orchestrator
/// starts there: the place stays behind empty, and says that there is no store.
pub(crate) struct Stage<'a> {
    path: PathBuf,
    directory: &'a Path,
    is_settled: bool,
}

impl<'a> Stage<'a> {
    /// Creates an empty one. The directory must be held.
    pub(crate) fn make(directory: &'a Path) -> Result<Self, StoreFault> {
        let path = directory.join(STAGE);
        // An earlier restore may have been cut short.
        empty(&path)?;
        Ok(Self {
            path,
            directory,
            is_settled: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Copies a part of a backup into it, as a file of that name.
    pub(crate) fn fill(&self, file: &Path, part: &Range<u64>, name: &str) -> Result<(), StoreFault> {
        let database = self.path.join(name);
        let mut source = File::open(file).map_err(|error| cannot_open(file, error))?;
        open_private(OpenOptions::new().write(true).create_new(true), &database)
            .and_then(|mut copy| {
                source.seek(SeekFrom::Start(part.start))?;
                io::copy(&mut source.take(part.end - part.start), &mut copy)?;
                copy.sync_all()
            })
            .map_err(|error| unwritable(&database, error))
    }

    /// Opens what stands in it; what is wrong with it is wrong with the backup.
    pub(crate) fn open<T>(
        &self,
        file: &Path,
        open: impl FnOnce(&Path) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let database = self.path.join(STORE.database);
        open(&self.path).map_err(|fault| no_backup(file, at_opening(&database, fault)))
    }

    /// Moves the database to its place, and removes the stage. The database must be closed; that has emptied its log.
    pub(crate) fn settle(mut self) -> Result<(), StoreFault> {
        settle_in(&self.path, self.directory)?;
        self.is_settled = true;
        std::fs::remove_dir_all(&self.path).map_err(|error| cannot_open(&self.path, error))
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            // If even this fails, what is left is refused all the same.
            let _left = empty(&self.path);
        }
    }
}

/// Refuses a file that cannot be read, before anything is made.
pub(crate) fn require_readable(file: &Path) -> Result<(), StoreFault> {
    File::open(file)
        .map(drop)
        .map_err(|error| cannot_open(file, error))
}

/// Makes a directory and holds it.
pub(crate) fn hold(directory: &Path) -> Result<Lock, StoreFault> {
    create(directory)?;
    lock(&FileSystem, &directory.join(LOCK_FILE))
}

/// Whose fault it is that there is no copy.
fn not_copied(error: rusqlite::Error, from: &Path, to: &Path) -> StoreFault {
    /// `SQLITE_IOERR_READ` and `SQLITE_IOERR_SHORT_READ`: only what is copied from is read.
    const READS: [i32; 2] = [266, 522];
    let is_read = |error: &rusqlite::Error| {
        let code = error.sqlite_error().map(|error| error.extended_code);
        code.is_some_and(|code| READS.contains(&code))
    };
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull | ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied,
        ) => unwritable(to, error),
        Some(ErrorCode::SystemIoFailure) if !is_read(&error) => unwritable(to, error),
        _ => at_opening(from, working(error)),
    }
}

fn unwritable(path: &Path, error: impl Into<FaultSource>) -> StoreFault {
    StoreFault::Unwritable {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// A file that is not complete; removed if it gets no name.
struct Partial(PathBuf);

impl Partial {
    /// Creates an empty file beside the one that it will become, for this user only.
    fn create(file: &Path) -> Result<Self, StoreFault> {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let path = PathBuf::from(name);
        open_private(OpenOptions::new().write(true).create_new(true), &path)
            .map_err(|error| unwritable(file, error))?;
        Ok(Self(path))
    }

    /// Gives it its name, which nobody may have taken meanwhile.
    fn name(&self, file: &Path) -> Result<(), StoreFault> {
        match std::fs::hard_link(&self.0, file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_existing(file)?,
            // Not every file system has links.
            Err(_) => {
                refuse_existing(file)?;
                std::fs::rename(&self.0, file).map_err(|error| unwritable(file, error))?;
            }
        }
        match file.parent() {
            Some(parent) if parent.as_os_str().is_empty() => sync_directory(Path::new(".")),
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It may have its name already; SQLite leaves its journal behind if there is no space.
        for suffix in ["", "-journal"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Makes the directory, or empties it.
pub(crate) fn empty(stage: &Path) -> Result<(), StoreFault> {
    match std::fs::remove_dir_all(stage) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot_open(stage, error)),
        Ok(()) | Err(_) => create(stage),
    }
}

/// What a fault of the copy says of the backup.
fn no_backup(file: &Path, fault: StoreFault) -> StoreFault {
    let path = file.to_owned();
    match fault {
        StoreFault::Damaged { source, .. } => StoreFault::NoBackup { path, source },
        fault @ (StoreFault::Gap { .. } | StoreFault::Indexes { .. }) => StoreFault::NoBackup {
            path,
            source: fault.to_string().into(),
        },
        StoreFault::Incompatible { found, known, .. } if found > known => {
            StoreFault::Incompatible { path, found, known }
        }
        StoreFault::Incompatible { .. } => StoreFault::NoBackup {
            path,
            source: "another program wrote it".into(),
        },
        fault => fault,
    }
}

/// Moves the database from the stage to its place. Closing has emptied its log.
pub(crate) fn settle_in(stage: &Path, directory: &Path) -> Result<(), StoreFault> {
    let log = stage.join(STORE.log);
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let error = io::Error::other("its write-ahead log could not be emptied");
        return Err(cannot_open(&log, error));
    }
    let (from, to) = (stage.join(STORE.database), directory.join(STORE.database));
    File::open(&from)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(&from, &to))
        .map_err(|error| cannot_open(&to, error))?;
    sync_directory(directory)
}

fn create(directory: &Path) -> Result<(), StoreFault> {
    FileSystem
        .create_directory(directory)
        .map_err(|error| cannot_open(directory, error))
}

pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreFault> {
    FileSystem
        .sync_directory(directory)
        .map_err(|error| cannot_open(directory, error))
}

pub(crate) fn refuse_existing(path: &Path) -> Result<(), StoreFault> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_open(path, error)),
        Ok(_) => Err(StoreFault::Exists {
            path: path.to_owned(),
        }),
    }
}

/// How the end of a backup of two parts begins; their lengths follow, eight bytes each, lowest first.
const FOOTER_BEGIN: &[u8] = b"escapement backup 2\n";
const FOOTER_BYTES: usize = 36;
