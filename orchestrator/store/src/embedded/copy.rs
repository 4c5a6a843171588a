//! Backups and what is made of them. A backup is one file that is complete, checked and synced before it has
//! its name; a restored store is a directory of its own. Overwrites nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use escapement_model::ExecutionId;
use rusqlite::ErrorCode;

use super::connection::{at_opening, working};
use super::files::{FileSystem, Files, open_private};
use super::{DATABASE_FILE, Embedded, EmbeddedOptions, LOCK_FILE, LOG_FILE, MARK_FILE, cannot_open, lock};
use super::{Examination, Examiner, Finding};
use crate::{FaultSource, ListFilter, Reader, Store, StoreFault, StoredState, Write};

/// Where a store is put together before it has its name.
pub(super) const STAGE: &str = "restoring";
/// Executions that one commit of a restore withholds.
const WITHHELD_MAX: usize = 512;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// What the check of the copy found.
    pub examination: Examination,
    /// Its size.
    pub n_bytes: u64,
    /// False if the copy is damaged and was thrown away.
    pub is_kept: bool,
}

/// Copies a store into one file, of one moment: everything that was acknowledged before the call, while an
/// orchestrator runs on it or not. Commits go on meanwhile; only the write-ahead log cannot be shortened.
///
/// The copy is checked as [`Examiner::examine_all`] does; a damaged one has no name unless `accept_damage`.
///
/// # Errors
/// [`StoreFault::Exists`] if the file is there; otherwise as reading and writing fail.
pub fn back_up(
    directory: &Path,
    file: &Path,
    accept_damage: bool,
    told: &mut dyn FnMut(&Finding),
) -> Result<BackedUp, StoreFault> {
    refuse_existing(file)?;
    let source = Examiner::open(directory)?;
    let partial = Partial::create(file)?;
    let name = partial.0.to_str().ok_or_else(|| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "the name is not UTF-8");
        cannot_open(file, error)
    })?;
    source
        .connection()
        .pragma_update(None, "query_only", false)
        .and_then(|()| source.connection().execute("VACUUM INTO ?1", [name]))
        .map_err(|error| not_copied(error, &directory.join(DATABASE_FILE), file))?;
    drop(source);
    let failed = |error: io::Error| unwritable(file, error);
    let n_bytes = File::open(&partial.0)
        .and_then(|file| file.sync_all().and_then(|()| file.metadata()))
        .map_err(failed)?
        .len();
    let examination = Examiner::open_file(&partial.0)?.examine_all(told)?;
    let is_kept = examination.is_clean() || accept_damage;
    if is_kept {
        partial.name(file)?;
    }
    Ok(BackedUp {
        examination,
        n_bytes,
        is_kept,
    })
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

/// How to restore.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Executions that were queued at the time of the backup stay queued, and run once more if they have run
    /// since. Else they are withheld from running, so that nothing of them runs again.
    pub run_queued: bool,
    /// Restore although executions in the backup are damaged.
    pub accept_damage: bool,
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the check of the backup found.
    pub examination: Examination,
    /// Executions that were queued and are withheld from running now.
    pub n_withheld: u64,
    /// False if the backup is damaged and nothing was restored.
    pub is_kept: bool,
}

/// Makes a store of a backup.
///
/// Until it is whole, what there is of it stands in a directory of its own, which an orchestrator that is started on
/// it meanwhile, or behind a restore that failed, refuses.
///
/// # Errors
/// [`StoreFault::Exists`] if the directory holds a store, [`StoreFault::NoBackup`] if the file is damaged or
/// none; otherwise as reading and writing fail.
pub fn restore(
    file: &Path,
    directory: &Path,
    options: RestoreOptions,
    told: &mut dyn FnMut(&Finding),
) -> Result<Restored, StoreFault> {
    // A mark or a log without its database is what is left of a store, and would be taken for this one's.
    for name in [DATABASE_FILE, MARK_FILE, LOG_FILE] {
        refuse_existing(&directory.join(name))?;
    }
    let mut source = File::open(file).map_err(|error| cannot_open(file, error))?;
    create(directory)?;
    let _lock = lock(&FileSystem, &directory.join(LOCK_FILE))?;
    let stage = directory.join(STAGE);
    // An earlier restore may have been cut short.
    empty(&stage)?;
    let restored = fill(&mut source, file, &stage, options, told).and_then(|restored| {
        if restored.is_kept {
            settle_in(&stage, directory)?;
        }
        Ok(restored)
    });
    match &restored {
        Ok(Restored { is_kept: true, .. }) => {
            std::fs::remove_dir_all(&stage).map_err(|error| cannot_open(&stage, error))?;
        }
        // It stays behind empty, and says that there is no store.
        Ok(_) | Err(_) => empty(&stage)?,
    }
    restored
}

/// Makes the directory, or empties it.
fn empty(stage: &Path) -> Result<(), StoreFault> {
    match std::fs::remove_dir_all(stage) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot_open(stage, error)),
        Ok(()) | Err(_) => create(stage),
    }
}

/// Puts the store together in the stage.
fn fill(
    source: &mut File,
    file: &Path,
    stage: &Path,
    options: RestoreOptions,
    told: &mut dyn FnMut(&Finding),
) -> Result<Restored, StoreFault> {
    let database = stage.join(DATABASE_FILE);
    let n_bytes = open_private(OpenOptions::new().write(true).create_new(true), &database)
        .and_then(|mut copy| {
            let n_bytes = io::copy(source, &mut copy)?;
            copy.sync_all().map(|()| n_bytes)
        })
        .map_err(|error| unwritable(&database, error))?;
    if n_bytes == 0 {
        return Err(StoreFault::NoBackup {
            path: file.to_owned(),
            source: "it is empty".into(),
        });
    }
    let opened = EmbeddedOptions {
        accept_loss: options.accept_damage,
        ..EmbeddedOptions::default()
    };
    let of_backup = |fault| no_backup(file, at_opening(&database, fault));
    let mut store = Embedded::open(stage, opened).map_err(of_backup)?;
    let examination = store.examiner()?.examine_all(told).map_err(of_backup)?;
    let is_kept = examination.is_clean() || options.accept_damage;
    let n_withheld = if is_kept && !options.run_queued {
        withhold_queued(&mut store)?
    } else {
        0
    };
    Ok(Restored {
        examination,
        n_withheld,
        is_kept,
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

/// Withholds everything that is queued from running, so that the next start settles it as interrupted.
fn withhold_queued(store: &mut Embedded) -> Result<u64, StoreFault> {
    let reader = store.reader()?;
    let mut n_withheld = 0;
    let mut before = None;
    loop {
        let page = queued(reader.as_ref(), &mut before)?;
        if page.is_empty() {
            return Ok(n_withheld);
        }
        n_withheld += page.len() as u64;
        let starts: Vec<Write> = page
            .iter()
            .map(|execution_id| Write::Start {
                execution_id: *execution_id,
                started_at: None,
            })
            .collect();
        store.commit(&starts)?;
    }
}

/// The next ones that are queued; what is damaged is passed over, for it cannot run either.
fn queued(reader: &dyn Reader, before: &mut Option<u64>) -> Result<Vec<ExecutionId>, StoreFault> {
    let filter = ListFilter {
        state: Some(StoredState::Queued),
        ..ListFilter::default()
    };
    loop {
        match reader.list(&filter, *before, WITHHELD_MAX) {
            Ok(page) => {
                *before = page.last().map(|summary| summary.number).or(*before);
                return Ok(page.iter().map(|summary| summary.execution_id).collect());
            }
            Err(StoreFault::Corrupt { number, .. }) => *before = Some(number),
            Err(fault) => return Err(fault),
        }
    }
}

/// Moves the database from the stage to its place. Closing has emptied its log.
fn settle_in(stage: &Path, directory: &Path) -> Result<(), StoreFault> {
    let log = stage.join(LOG_FILE);
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let error = io::Error::other("its write-ahead log could not be emptied");
        return Err(cannot_open(&log, error));
    }
    let (from, to) = (stage.join(DATABASE_FILE), directory.join(DATABASE_FILE));
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
