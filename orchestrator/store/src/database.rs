//! One SQLite file that this process alone writes: its directory, lock, connections, mark and checkpoints.
//! Knows no table but the one row that counts commits, and no record.
//!
//! What a commit returned has been synced; what a restart finds in the write-ahead log is copied into the
//! database and synced there before anything is read, so nothing is shown that only the page cache holds.

pub(crate) mod checkpoint;
pub(crate) mod connection;
pub(crate) mod copy;
pub(crate) mod files;
pub(crate) mod indexes;
pub(crate) mod mark;
pub(crate) mod namespaces;
pub(crate) mod opening;
pub(crate) mod schema;
pub(crate) mod values;
pub(crate) mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

pub use self::checkpoint::Checkpointing;
use self::checkpoint::{Checkpoints, Shared, checkpoint};
pub use self::files::{Files, Lock, OpenFile, open_private};
use self::mark::{Mark, MarkFile};
use crate::StoreFault;

/// The lock of the directory.
pub(crate) const LOCK_FILE: &str = "lock";

/// How long closing waits for readers before it leaves the write-ahead log to the next start.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// The folder in which a restore or a conversion puts a store together before it has its name.
pub(crate) const STAGE: &str = "restoring";

/// The names of one database and of what belongs to it, in the directory of the store.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) database: &'static str,
    /// SQLite's names for the write-ahead log beside it, for the log's index in shared memory, and for its journal.
    pub(crate) log: &'static str,
    pub(crate) log_index: &'static str,
    pub(crate) journal: &'static str,
    pub(crate) mark: &'static str,
}

impl Names {
    /// Returns all of them.
    pub(crate) fn all(&self) -> [&'static str; 5] {
        let Self {
            database,
            log,
            log_index,
            journal,
            mark,
        } = *self;
        [database, log, log_index, journal, mark]
    }
}

/// Executions and runs.
pub(crate) const STORE: Names = Names {
    database: "store.db",
    log: "store.db-wal",
    log_index: "store.db-shm",
    journal: "store.db-journal",
    mark: "store.mark",
};

/// The executions of earlier versions.
pub(crate) const EARLIER_EXECUTIONS: Names = Names {
    database: "executions.db",
    log: "executions.db-wal",
    log_index: "executions.db-shm",
    journal: "executions.db-journal",
    mark: "mark",
};

/// The runs of earlier versions.
pub(crate) const EARLIER_RUNS: Names = Names {
    database: "runs.db",
    log: "runs.db-wal",
    log_index: "runs.db-shm",
    journal: "runs.db-journal",
    mark: "runs.mark",
};

/// The folder that keeps the files of an earlier version once they are converted.
pub(crate) const BEFORE: &str = "before-store";

/// Returns the names of all files of earlier versions.
pub(crate) fn earlier_names() -> impl Iterator<Item = &'static str> {
    [EARLIER_EXECUTIONS.all(), EARLIER_RUNS.all()]
        .into_iter()
        .flatten()
}

/// How to open an embedded store.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {
    /// Open although something acknowledged is missing; the numbers go on behind the highest ever seen. Repairs
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

/// An open database.
#[derive(Debug)]
pub(crate) struct Database {
    files: Arc<dyn Files>,
    path: PathBuf,
    /// The files that hold what is acknowledged, as they were opened.
    in_place: Vec<(PathBuf, Option<(u64, u64)>)>,
    connection: Connection,
    mark: MarkFile,
    shared: Arc<Shared>,
    checkpoints: Checkpoints,
    /// Last, so that the directory is free only when everything else is closed.
    _lock: Lock,
}

impl Database {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns a connection that only reads.
    pub(crate) fn open_reader(&self) -> Result<Connection, StoreFault> {
        connection::open_reader(&*self.files, &self.path)
    }

    /// Applies a change in the turn of a commit, which ends its own transaction, and writes the mark that it returns.
    pub(crate) fn change<T>(
        &mut self,
        apply: impl FnOnce(&Connection) -> Result<(T, Option<Mark>), StoreFault>,
    ) -> Result<T, StoreFault> {
        if let Some(fault) = self.shared.condemned() {
            return Err(fault);
        }
        let changed = {
            let _gate = self.shared.pass_gate();
            self.try_change(apply)
        };
        match &changed {
            Ok(_) => self.checkpoints.after_commit(),
            Err(fault @ StoreFault::Fatal(_)) => self.shared.condemn(fault),
            Err(_) => {}
        }
        changed
    }

    fn try_change<T>(
        &self,
        apply: impl FnOnce(&Connection) -> Result<(T, Option<Mark>), StoreFault>,
    ) -> Result<T, StoreFault> {
        let (applied, mark) = match apply(&self.connection) {
            Ok(applied) => applied,
            // The file is not touched again behind a fatal fault, not even to undo.
            Err(fault @ StoreFault::Fatal(_)) => return Err(fault),
            Err(fault) => {
                work::roll_back(&self.connection).map_err(|fault| StoreFault::Fatal(fault.into()))?;
                return Err(fault);
            }
        };
        if let Some(mark) = mark {
            self.mark
                .write(mark)
                .map_err(|error| StoreFault::Fatal(error.into()))?;
        }
        self.require_in_place()?;
        Ok(applied)
    }

    /// Refuses if no commit could be acknowledged any more.
    pub(crate) fn require_usable(&self) -> Result<(), StoreFault> {
        self.shared.condemned().map_or(Ok(()), Err)?;
        self.require_in_place()
            .inspect_err(|fault| self.shared.condemn(fault))
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

impl Drop for Database {
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

pub(crate) fn cannot_open(path: &Path, error: std::io::Error) -> StoreFault {
    if error.kind() == std::io::ErrorKind::StorageFull {
        return StoreFault::Full(error.into());
    }
    StoreFault::Open {
        path: path.to_owned(),
        source: error.into(),
    }
}
