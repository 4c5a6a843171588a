//! The store in one SQLite file of this machine. Shares its directory with no other process.
//!
//! In the directory: `executions.db` with SQLite's own `-wal` and `-shm` beside it, `lock`, and `mark`.
//! What a commit returned has been synced; what a restart finds in the write-ahead log is copied into the
//! database and synced there before anything is read, so nothing is shown that only the page cache holds.
//!
//! Not checked at opening, because it would cost a look at every record: a record that is missing between
//! others. It reads as damaged, and only it.

mod checkpoint;
mod columns;
mod connection;
mod copy;
mod examine;
mod files;
mod indexes;
mod mark;
#[doc(hidden)]
pub mod probe;
mod reader;
mod removal;
mod schema;
mod tally;
mod tombstones;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

pub use self::copy::{BackedUp, RestoreOptions, Restored, back_up, restore};
pub use self::examine::{Examination, ExaminedPage, Examiner, Finding};

pub use self::checkpoint::Checkpointing;
use self::checkpoint::{Checkpoints, Shared, checkpoint};
use self::files::FileSystem;
pub use self::files::{Files, OpenFile};
use self::indexes::Cut;
use self::mark::MarkFile;
use self::reader::EmbeddedReader;
use self::removal::Walk;
use self::tally::Tally;
use crate::{Outcome, Reader, Removal, Removed, Store, StoreFault, Write};

const DATABASE_FILE: &str = "executions.db";
/// SQLite's name for the write-ahead log beside it.
const LOG_FILE: &str = "executions.db-wal";
const LOCK_FILE: &str = "lock";
const MARK_FILE: &str = "mark";

/// How long closing waits for readers before it leaves the write-ahead log to the next start.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// How to open an embedded store.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {
    /// Open although acknowledged executions are missing; the numbers go on behind the highest ever seen, and
    /// a damaged index is made anew.
    pub accept_loss: bool,
    /// Test hook: the file does not grow beyond this many pages of 4 KiB, as if the disk were full.
    pub pages_max: Option<u32>,
    /// Test hook: where the files are; `None` for the file system.
    pub files: Option<Arc<dyn Files>>,
    /// When and by whom the write-ahead log is copied into the database.
    pub checkpointing: Checkpointing,
}

/// A reader of the store in a directory, also while an orchestrator runs on it. Nothing there is created or changed.
///
/// # Errors
/// [`StoreFault::Open`] where there is none, [`StoreFault::Incompatible`] where its schema is another one.
pub fn open_reader(directory: &Path) -> Result<Box<dyn Reader>, StoreFault> {
    let path = directory.join(DATABASE_FILE);
    let connection = connection::open_reader(&FileSystem, &path)?;
    schema::require_newest(&connection, &path)?;
    Ok(Box::new(EmbeddedReader::new(connection)))
}

/// The embedded store: the one writer of its directory.
#[derive(Debug)]
pub struct Embedded {
    files: Arc<dyn Files>,
    path: PathBuf,
    connection: Connection,
    tally: Tally,
    /// How far removal is.
    walk: Walk,
    mark: MarkFile,
    shared: Arc<Shared>,
    checkpoints: Checkpoints,
    /// Last, so that the directory is free only when everything else is closed.
    _lock: Box<dyn OpenFile>,
}

impl Embedded {
    /// Opens the store in a directory; creates both where there is none, for this user only.
    ///
    /// Checks that every number is there, that the end of the database is not behind its mark, and that every
    /// index agrees with the executions; the cost does not depend on the size of records. A store that is
    /// refused is left as it is.
    ///
    /// # Errors
    /// [`StoreFault::Locked`], [`StoreFault::Incompatible`], [`StoreFault::Gap`], [`StoreFault::Open`],
    /// [`StoreFault::Full`], and [`StoreFault::Fatal`] where the file cannot be read.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, StoreFault> {
        let files = options.files.unwrap_or_else(|| Arc::new(FileSystem));
        files
            .create_directory(directory)
            .map_err(|error| cannot_open(directory, error))?;
        let lock = lock(&*files, &directory.join(LOCK_FILE))?;
        let mark_path = directory.join(MARK_FILE);
        let (mark_file, mark) =
            MarkFile::open(&*files, &mark_path).map_err(|error| cannot_open(&mark_path, error))?;

        let path = directory.join(DATABASE_FILE);
        let lost = || StoreFault::Gap {
            what: "commits",
            expected: mark.n_commits,
            found: 0,
        };
        // SQLite deletes the log of a database that is empty.
        let may_be_new = mark.n_commits == 0 || options.accept_loss;
        if !may_be_new && database_length(&*files, &path)? == 0 {
            return Err(lost());
        }
        // The log of an earlier process is only what this one sees of it. It is made durable before anything
        // is built on it: a checkpoint overwrites pages that nothing but the log repairs.
        let log_path = directory.join(LOG_FILE);
        files::write_again(&*files, &log_path).map_err(|error| cannot_open(&log_path, error))?;

        let mut connection = connection::open_writer(&*files, &path)?;
        if !may_be_new && schema::is_empty(&connection, &path)? {
            return Err(lost());
        }
        schema::migrate(&mut connection, &path)?;
        // First, because it brings what the others read into memory.
        let indexes_agree = indexes::agree(
            &connection,
            &|| connection::open_walker(&*files, &path).ok(),
            Cut::of(options.checkpointing),
        );
        // Before the checkpoint: where something is missing, what is left of the log stays as it is.
        let tally = tally::check(&connection, &mark, options.accept_loss)?;
        if !indexes_agree {
            indexes::check(&connection, options.accept_loss)?;
        }
        checkpoint(&connection, CheckpointMode::TRUNCATE)?;
        mark_file
            .write(tally.mark())
            .map_err(|error| cannot_open(&mark_path, error))?;
        files
            .sync_directory(directory)
            .map_err(|error| cannot_open(directory, error))?;
        if let Some(pages_max) = options.pages_max {
            connection
                .pragma_update_and_check(None, "max_page_count", pages_max, |_| Ok(()))
                .map_err(connection::working)?;
        }

        let database = files
            .open_database(&path)
            .map_err(|error| cannot_open(&path, error))?;
        let shared = Arc::new(Shared::new(database, options.checkpointing));
        let told = Arc::clone(&shared);
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
                told.log_has(pages.unsigned_abs());
                Ok(())
            }))
            .map_err(connection::working)?;
        let theirs = connection::open_writer(&*files, &path)?;
        let checkpoints = Checkpoints::start(theirs, Arc::clone(&shared), options.checkpointing)
            .map_err(|error| cannot_open(&path, error))?;
        Ok(Self {
            files,
            path,
            connection,
            tally,
            walk: Walk::default(),
            mark: mark_file,
            shared,
            checkpoints,
            _lock: lock,
        })
    }

    /// Examines this store on a connection of its own, while it is open.
    ///
    /// # Errors
    /// [`StoreFault::Open`] where no further connection can be had.
    pub fn examiner(&self) -> Result<Examiner, StoreFault> {
        Examiner::over(connection::open_reader(&*self.files, &self.path)?, &self.path)
    }

    /// Applies a change in the turn of a commit, behind the same gate and with the same consequences.
    fn change<T>(
        &mut self,
        apply: impl FnOnce(&Connection, &mut Tally) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        if let Some(fault) = self.shared.condemned() {
            return Err(fault);
        }
        let shared = Arc::clone(&self.shared);
        let changed = {
            let _gate = shared.pass_gate();
            self.try_change(apply)
        };
        match &changed {
            Ok(_) => self.checkpoints.after_commit(),
            Err(fault @ StoreFault::Fatal(_)) => shared.condemn(fault),
            Err(_) => {}
        }
        changed
    }

    fn try_change<T>(
        &mut self,
        apply: impl FnOnce(&Connection, &mut Tally) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let mut tally = self.tally;
        let applied = match apply(&self.connection, &mut tally) {
            Ok(applied) => applied,
            // The file is not touched again behind a fatal fault, not even to undo.
            Err(fault @ StoreFault::Fatal(_)) => return Err(fault),
            Err(fault) => {
                writer::roll_back(&self.connection).map_err(|fault| StoreFault::Fatal(fault.into()))?;
                return Err(fault);
            }
        };
        if tally != self.tally {
            self.tally = tally;
            self.mark
                .write(tally.mark())
                .map_err(|error| StoreFault::Fatal(error.into()))?;
        }
        Ok(applied)
    }
}

impl Store for Embedded {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        if batch.is_empty() {
            return self.shared.condemned().map_or(Ok(Vec::new()), Err);
        }
        self.change(|connection, tally| writer::apply(connection, tally, batch))
    }

    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        let mut walk = self.walk;
        let executions = self.change(|connection, tally| {
            removal::remove_executions(connection, tally, &mut walk, policy, now_unix_ms)
        });
        self.walk = walk;
        let executions = executions?;
        let ids = self.change(|connection, tally| {
            removal::forget_ids(connection, tally, &mut walk, policy, now_unix_ms)
        });
        self.walk = walk;
        let ids = ids?;
        Ok(Removed {
            n_executions: executions.n_executions,
            n_ids: ids.n_ids,
            has_more: executions.has_more || ids.has_more,
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault> {
        Ok(Box::new(EmbeddedReader::new(connection::open_reader(
            &*self.files,
            &self.path,
        )?)))
    }
}

impl Drop for Embedded {
    /// Leaves an empty write-ahead log behind where it can. Nothing durable depends on it.
    fn drop(&mut self) {
        self.checkpoints.stop();
        if self.shared.condemned().is_none() {
            // Where this fails, the next start copies the log.
            let _ = self.connection.busy_timeout(CLOSE_TIMEOUT);
            let _ = checkpoint(&self.connection, CheckpointMode::TRUNCATE);
        }
    }
}

/// Zero where there is no database.
fn database_length(files: &dyn Files, path: &Path) -> Result<u64, StoreFault> {
    match files.open_database(path).and_then(|database| database.length()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        found => found.map_err(|error| cannot_open(path, error)),
    }
}

fn lock(files: &dyn Files, path: &Path) -> Result<Box<dyn OpenFile>, StoreFault> {
    files
        .lock(path)
        .map_err(|error| cannot_open(path, error))?
        .ok_or_else(|| StoreFault::Locked {
            path: path.to_owned(),
        })
}

fn cannot_open(path: &Path, error: std::io::Error) -> StoreFault {
    if error.kind() == std::io::ErrorKind::StorageFull {
        return StoreFault::Full(error.into());
    }
    StoreFault::Open {
        path: path.to_owned(),
        source: error.into(),
    }
}
