//! The store in one SQLite file of this machine. Shares its directory with no other process.
//!
//! In the directory: `executions.db` with SQLite's own `-wal` and `-shm` beside it, `lock`, and `mark`. All of them
//! are their owner's alone, and while the store is open they must stay where they are.
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
mod give_up;
mod indexes;
mod mark;
mod opening;
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
pub use self::files::{Files, Lock, OpenFile, open_private};
pub use self::give_up::GivenUp;
use self::mark::MarkFile;
pub use self::opening::Opening;
use self::opening::lock;
use self::reader::EmbeddedReader;
use self::removal::Walk;
use self::tally::Tally;
use crate::{Outcome, Reader, Removal, Removed, Store, StoreFault, Write};

const DATABASE_FILE: &str = "executions.db";
/// SQLite's names for the write-ahead log beside it, and for its index in shared memory.
const LOG_FILE: &str = "executions.db-wal";
const LOG_INDEX_FILE: &str = "executions.db-shm";
const LOCK_FILE: &str = "lock";
const MARK_FILE: &str = "mark";

/// How long closing waits for readers before it leaves the write-ahead log to the next start.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// How to open an embedded store.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {
    /// Open although acknowledged executions are missing; the numbers go on behind the highest ever seen. Repairs
    /// as well.
    pub accept_loss: bool,
    /// Make anew what the tables themselves say: indexes, and counts by state. Loses nothing.
    pub repair: bool,
    /// Refuse if there is no store, and make none.
    pub must_exist: bool,
    /// Test hook: the file does not grow beyond this many pages of 4 KiB, as if the disk were full.
    pub pages_max: Option<u32>,
    /// Test hook: the place of the files; `None` for the file system.
    pub files: Option<Arc<dyn Files>>,
    /// When and by whom the write-ahead log is copied into the database.
    pub checkpointing: Checkpointing,
}

/// A reader of the store in a directory, also while an orchestrator runs on it, and also if nothing may be
/// written. No data there is created or changed.
///
/// # Errors
/// [`StoreFault::Open`] if there is none, [`StoreFault::Incompatible`] if its schema is another one,
/// [`StoreFault::Damaged`] if it does not read.
pub fn open_reader(directory: &Path) -> Result<Box<dyn Reader>, StoreFault> {
    let path = directory.join(DATABASE_FILE);
    let connection = connection::open_bystander(&path)?;
    schema::require_newest(&connection, &path)?;
    Ok(Box::new(EmbeddedReader::new(connection)))
}

/// The embedded store: the one writer of its directory.
#[derive(Debug)]
pub struct Embedded {
    files: Arc<dyn Files>,
    path: PathBuf,
    opening: Opening,
    /// The files that hold what is acknowledged, as they were opened.
    in_place: Vec<(PathBuf, Option<(u64, u64)>)>,
    connection: Connection,
    tally: Tally,
    /// How far removal is.
    walk: Walk,
    mark: MarkFile,
    shared: Arc<Shared>,
    checkpoints: Checkpoints,
    /// Last, so that the directory is free only when everything else is closed.
    _lock: Lock,
}

impl Embedded {
    /// Opens the store in a directory; creates both if there is none, for this user only.
    ///
    /// Checks that every number is there, that the end of the database is not behind its mark, and that every
    /// index agrees with the executions; the cost does not depend on the size of records. A store that is
    /// refused is left as it is.
    ///
    /// # Errors
    /// [`StoreFault::Locked`], [`StoreFault::Unfinished`], [`StoreFault::Incompatible`], [`StoreFault::Damaged`],
    /// [`StoreFault::Indexes`], [`StoreFault::Gap`], [`StoreFault::Open`], [`StoreFault::Full`], and
    /// [`StoreFault::Fatal`] if the file cannot be read.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, StoreFault> {
        let path = directory.join(DATABASE_FILE);
        Self::try_open(directory, options).map_err(|fault| connection::at_opening(&path, fault))
    }

    /// What its opening found and did.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The latest time among the newest executions and the last removal, or the earliest one since the clock was set
    /// back among those executions, Unix milliseconds; `None` in a store that has none, and if it cannot be read.
    pub fn newest_ms(&self) -> Option<i64> {
        removal::newest_ms(&self.connection).ok().flatten()
    }

    /// Examines this store on a connection of its own, while it is open.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if no further connection can be had.
    pub fn examiner(&self) -> Result<Examiner, StoreFault> {
        Examiner::over(connection::open_reader(&*self.files, &self.path)?, &self.path)
    }

    /// Gives one damaged execution up: its rows and records go, its ids stay used if they can be read.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn give_up(&mut self, number: u64, now_unix_ms: i64) -> Result<GivenUp, StoreFault> {
        self.change(|connection, tally| give_up::give_up(connection, tally, number, now_unix_ms))
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
        self.require_in_place()?;
        Ok(applied)
    }

    /// Refuses if another start would not find what is written here.
    fn require_in_place(&self) -> Result<(), StoreFault> {
        for (path, identity) in &self.in_place {
            let is_there = match self.files.identity(path) {
                Ok(found) => found == *identity,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                Err(error) => return Err(StoreFault::Fatal(error.into())),
            };
            if !is_there {
                let said = format!("{} was removed or replaced while it was in use", path.display());
                return Err(StoreFault::Fatal(said.into()));
            }
        }
        Ok(())
    }
}

impl Store for Embedded {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        if batch.is_empty() {
            self.shared.condemned().map_or(Ok(()), Err)?;
            self.require_in_place()
                .inspect_err(|fault| self.shared.condemn(fault))?;
            return Ok(Vec::new());
        }
        let outcomes = self.change(|connection, tally| writer::apply(connection, tally, batch))?;
        for (write, outcome) in batch.iter().zip(&outcomes) {
            if let (Write::Accept(accept), Outcome::Done { number }) = (write, outcome) {
                self.walk.accepted(*number, accept.accepted_at);
            }
        }
        Ok(outcomes)
    }

    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        let mut walk = std::mem::take(&mut self.walk);
        let executions = self.change(|connection, tally| {
            removal::remove_executions(connection, tally, &mut walk, policy, now_unix_ms)
        });
        let removed = executions.and_then(|executions| {
            let ids = self.change(|connection, tally| {
                removal::forget_ids(connection, tally, &mut walk, policy, now_unix_ms)
            })?;
            Ok((executions, ids))
        });
        self.walk = walk;
        let (executions, ids) = removed?;
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
    /// Leaves an empty write-ahead log behind if it can. Nothing durable depends on it.
    fn drop(&mut self) {
        self.checkpoints.stop();
        if self.shared.condemned().is_none() {
            // If this fails, the next start copies the log.
            let _ = self.connection.busy_timeout(CLOSE_TIMEOUT);
            let _ = checkpoint(&self.connection, CheckpointMode::TRUNCATE);
        }
    }
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
