//! The way from a directory to an open database, in steps that each refuse what they cannot trust.
//! A database that is refused is left as it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::checkpoint::{Checkpoints, Shared, checkpoint};
use super::files::{self, FileSystem, Files, Lock};
use super::mark::{Mark, MarkFile};
use super::schema::{self, Schema};
use super::{Database, EmbeddedOptions, LOCK_FILE, Names, STAGE, STORE, cannot_open, connection};
use crate::StoreFault;

/// Number of rows that a conversion has copied from the files of an earlier version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Executions, removed ones not counted.
    pub n_executions: u64,
    /// Runs, removed ones not counted.
    pub n_runs: u64,
}

/// What an opening found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The directory, absolute if that can be told.
    pub directory: PathBuf,
    /// The version of the schema, which is the newest one now.
    pub schema_version: i64,
    /// True if there was no store.
    pub is_new: bool,
    /// The directory's mode where users other than its owner may read, write or search it.
    pub mode_for_others: Option<u32>,
    /// What was made anew from the tables.
    pub repaired: Vec<String>,
    /// Number of converted rows, if the store was converted.
    pub converted: Option<Converted>,
}

/// A directory that this process holds, before a database in it is opened.
pub(crate) struct HeldDirectory {
    files: Arc<dyn Files>,
    directory: PathBuf,
    lock: Lock,
    mark_file: MarkFile,
    mark: Mark,
    is_new: bool,
}

impl HeldDirectory {
    /// Creates the directory if there is none, locks it, reads how far the database must reach, and makes what an
    /// earlier process has left private and durable. `held` is the lock, if this process has it already.
    pub(crate) fn hold(
        directory: &Path,
        held: Option<Lock>,
        options: &EmbeddedOptions,
    ) -> Result<Self, StoreFault> {
        let files = options.files.clone().unwrap_or_else(|| Arc::new(FileSystem));
        let path = directory.join(STORE.database);
        if options.must_exist && database_length(&*files, &path)? == 0 {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no store");
            return Err(cannot_open(directory, error));
        }
        files
            .create_directory(directory)
            .map_err(|error| cannot_open(directory, error))?;
        let lock = match held {
            Some(lock) => lock,
            None => lock(&*files, &directory.join(LOCK_FILE))?,
        };
        let is_new = database_length(&*files, &path)? == 0;
        let stage = directory.join(STAGE);
        if is_new && matches!(files.identity(&stage), Ok(Some(_))) {
            return Err(StoreFault::Unfinished { path: stage });
        }
        let mark_path = directory.join(STORE.mark);
        let (mark_file, mark) =
            MarkFile::open(&*files, &mark_path).map_err(|error| cannot_open(&mark_path, error))?;
        let held = Self {
            files,
            directory: directory.to_owned(),
            lock,
            mark_file,
            mark,
            is_new,
        };
        held.make_files_private_and_durable(options)?;
        Ok(held)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(STORE.database)
    }

    /// How far the database must reach.
    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Refuses an empty database if the mark says that it has commits, unless the operator accepts the loss.
    fn refuse_if_lost(&self, is_empty: bool, options: &EmbeddedOptions) -> Result<(), StoreFault> {
        // SQLite deletes the log of a database that is empty.
        let may_be_new = self.mark.n_commits == 0 || options.accept_loss;
        if is_empty && !may_be_new {
            return Err(StoreFault::Gap {
                what: "commits",
                expected: self.mark.n_commits,
                found: 0,
            });
        }
        Ok(())
    }

    fn make_files_private_and_durable(&self, options: &EmbeddedOptions) -> Result<(), StoreFault> {
        self.refuse_if_lost(self.is_new, options)?;
        let Names {
            database,
            log,
            log_index,
            ..
        } = STORE;
        for (name, create) in [(database, true), (log, false), (log_index, false)] {
            let path = self.directory.join(name);
            // SQLite gives its own files the mode of the database.
            self.files
                .keep_private(&path, create)
                .map_err(|error| cannot_open(&path, error))?;
        }
        // The log of an earlier process is only what this one sees of it. It is made durable before anything
        // is built on it: a checkpoint overwrites pages that nothing but the log repairs.
        let log_path = self.directory.join(log);
        files::write_again(&*self.files, &log_path).map_err(|error| cannot_open(&log_path, error))
    }

    /// Returns a connection to the database, in the newest schema. Its work is bounded.
    pub(crate) fn connect(
        &self,
        schema: &Schema,
        options: &EmbeddedOptions,
    ) -> Result<Connection, StoreFault> {
        let path = self.path();
        let mut connection = connection::open_writer(&*self.files, &path)?;
        connection::bound_work(&mut connection)?;
        self.refuse_if_lost(schema::is_empty(&connection, &path)?, options)?;
        schema.migrate(&mut connection, &path)?;
        Ok(connection)
    }

    /// Returns a connection to walk along with [`HeldDirectory::connect`]'s; `None` if it cannot be had.
    pub(crate) fn walker(&self) -> Option<Connection> {
        connection::open_walker(&*self.files, &self.path()).ok()
    }

    /// Empties the log, writes the mark, and starts what a database that is written to needs.
    pub(crate) fn serve(
        self,
        schema: &Schema,
        mut connection: Connection,
        mark: Mark,
        repaired: Vec<String>,
        options: &EmbeddedOptions,
    ) -> Result<(Database, Opening), StoreFault> {
        connection::unbound_work(&mut connection)?;
        checkpoint(&connection, CheckpointMode::TRUNCATE)?;
        let path = self.path();
        let (files, directory) = (self.files, self.directory);
        self.mark_file
            .write(mark)
            .map_err(|error| cannot_open(&directory.join(STORE.mark), error))?;
        files
            .sync_directory(&directory)
            .map_err(|error| cannot_open(&directory, error))?;
        if let Some(pages_max) = options.pages_max {
            connection
                .pragma_update_and_check(None, "max_page_count", pages_max, |_| Ok(()))
                .map_err(connection::working)?;
        }
        let shared = watch_log(&*files, &path, &mut connection, options)?;
        let theirs = connection::open_writer(&*files, &path)?;
        let checkpoints = Checkpoints::start(theirs, Arc::clone(&shared), options.checkpointing)
            .map_err(|error| cannot_open(&path, error))?;
        let opening = Opening {
            directory: std::path::absolute(&directory).unwrap_or_else(|_| directory.clone()),
            schema_version: schema.known(),
            is_new: self.is_new,
            mode_for_others: files.mode_for_others(&directory),
            repaired,
            converted: None,
        };
        let database = Database {
            in_place: [STORE.database, STORE.log]
                .into_iter()
                .map(|name| identified(&*files, directory.join(name)))
                .collect::<Result<_, _>>()?,
            files,
            path,
            connection,
            mark: self.mark_file,
            shared,
            checkpoints,
            _lock: self.lock,
        };
        Ok((database, opening))
    }
}

/// Lets the checkpoints know how long the write-ahead log is.
fn watch_log(
    files: &dyn Files,
    path: &Path,
    connection: &mut Connection,
    options: &EmbeddedOptions,
) -> Result<Arc<Shared>, StoreFault> {
    let database = files
        .open_database(path)
        .map_err(|error| cannot_open(path, error))?;
    let shared = Arc::new(Shared::new(database, options.checkpointing));
    let told = Arc::clone(&shared);
    connection
        .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            told.log_has(pages.unsigned_abs());
            Ok(())
        }))
        .map_err(connection::working)?;
    Ok(shared)
}

/// Returns a file of the store with what tells it from every other file.
fn identified(files: &dyn Files, path: PathBuf) -> Result<(PathBuf, Option<(u64, u64)>), StoreFault> {
    match files.identity(&path) {
        Ok(identity) => Ok((path, identity)),
        Err(error) => Err(cannot_open(&path, error)),
    }
}

/// Zero if there is no database.
fn database_length(files: &dyn Files, path: &Path) -> Result<u64, StoreFault> {
    match files.open_database(path).and_then(|database| database.length()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        found => found.map_err(|error| cannot_open(path, error)),
    }
}

/// Takes the lock. Waits a moment for a holder that was killed.
pub(crate) fn lock(files: &dyn Files, path: &Path) -> Result<Lock, StoreFault> {
    let end = Instant::now() + LOCK_PATIENCE;
    loop {
        if let Some(lock) = files.lock(path).map_err(|error| cannot_open(path, error))? {
            return Ok(lock);
        }
        if Instant::now() >= end {
            let (path, holder) = (path.to_owned(), holder(files, path));
            return Err(StoreFault::Locked { path, holder });
        }
        std::thread::sleep(LOCK_INTERVAL);
    }
}

/// What the holder of the lock has written into it.
fn holder(files: &dyn Files, path: &Path) -> Option<String> {
    let mut said = [0; 512];
    let n_read = files.open(path, false).ok()?.read_at(&mut said, 0).ok()?;
    let said = String::from_utf8_lossy(&said[..n_read]);
    let words: Vec<&str> = said.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Longest wait for the lock: the kernel ends a killed process and its writes within this.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Time between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);
