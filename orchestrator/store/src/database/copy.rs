//! Backups of a database and what is made of them. A backup is one file that is complete, checked and synced before
//! it has its name; a restored database is put together in a directory of its own. Overwrites nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use super::connection::{at_opening, working};
use super::files::{FileSystem, Files, open_private};
use super::opening::lock;
use super::{LOCK_FILE, Names, cannot_open};
use crate::{FaultSource, StoreFault};

/// What a check says of a copy, and whether the copy is kept.
pub(crate) type Checked<T> = Result<(T, bool), StoreFault>;

/// Copies the database that `open` connects to into a file, and gives that its name if `check` says so. Returns the
/// length of the copy as well.
pub(crate) fn back_up<T>(
    from: &Path,
    open: impl FnOnce() -> Result<Connection, StoreFault>,
    file: &Path,
    check: impl FnOnce(&Path) -> Checked<T>,
) -> Result<(T, bool, u64), StoreFault> {
    refuse_existing(file)?;
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
    let (checked, is_kept) = check(&partial.0)?;
    if is_kept {
        partial.name(file)?;
    }
    Ok((checked, is_kept, n_bytes))
}

/// Makes a database of a backup: copies it into the stage, lets `open` open and check it there, and moves it to its
/// place.
pub(crate) fn restore<T>(
    file: &Path,
    directory: &Path,
    names: &Names,
    open: impl FnOnce(&Path) -> Checked<T>,
) -> Checked<T> {
    // A mark or a log without its database is what is left of a store, and would be taken for this one's.
    for name in [names.database, names.mark, names.log] {
        refuse_existing(&directory.join(name))?;
    }
    let mut source = File::open(file).map_err(|error| cannot_open(file, error))?;
    create(directory)?;
    let _lock = lock(&FileSystem, &directory.join(LOCK_FILE))?;
    let stage = directory.join(names.stage);
    // An earlier restore may have been cut short.
    empty(&stage)?;
    let restored = fill(&mut source, file, &stage.join(names.database))
        .and_then(|()| {
            open(&stage).map_err(|fault| no_backup(file, at_opening(&stage.join(names.database), fault)))
        })
        .and_then(|(restored, is_kept)| {
            if is_kept {
                settle_in(&stage, directory, names)?;
            }
            Ok((restored, is_kept))
        });
    match &restored {
        Ok((_, true)) => {
            std::fs::remove_dir_all(&stage).map_err(|error| cannot_open(&stage, error))?;
        }
        // It stays behind empty, and says that there is no store.
        Ok(_) | Err(_) => empty(&stage)?,
    }
    restored
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
    /// An empty file beside the one that it will become, for this user only.
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
fn empty(stage: &Path) -> Result<(), StoreFault> {
    match std::fs::remove_dir_all(stage) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot_open(stage, error)),
        Ok(()) | Err(_) => create(stage),
    }
}

/// Copies the backup into the stage.
fn fill(source: &mut File, file: &Path, database: &Path) -> Result<(), StoreFault> {
    let n_bytes = open_private(OpenOptions::new().write(true).create_new(true), database)
        .and_then(|mut copy| {
            let n_bytes = io::copy(source, &mut copy)?;
            copy.sync_all().map(|()| n_bytes)
        })
        .map_err(|error| unwritable(database, error))?;
    if n_bytes > 0 {
        return Ok(());
    }
    Err(StoreFault::NoBackup {
        path: file.to_owned(),
        source: "it is empty".into(),
    })
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
fn settle_in(stage: &Path, directory: &Path, names: &Names) -> Result<(), StoreFault> {
    let log = stage.join(names.log);
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let error = io::Error::other("its write-ahead log could not be emptied");
        return Err(cannot_open(&log, error));
    }
    let (from, to) = (stage.join(names.database), directory.join(names.database));
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

fn sync_directory(directory: &Path) -> Result<(), StoreFault> {
    FileSystem
        .sync_directory(directory)
        .map_err(|error| cannot_open(directory, error))
}

fn refuse_existing(path: &Path) -> Result<(), StoreFault> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_open(path, error)),
        Ok(_) => Err(StoreFault::Exists {
            path: path.to_owned(),
        }),
    }
}
