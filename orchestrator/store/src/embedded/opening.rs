//! The way from a directory to an open store, in steps that each refuse what they cannot trust.
//! A store that is refused is left as it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::checkpoint::{Checkpoints, Shared, checkpoint};
use super::files::{self, FileSystem, Files, Lock};
use super::indexes::{self, Cut};
use super::mark::{Mark, MarkFile};
use super::removal::Walk;
use super::tally::{self, Accepted, Tally};
use super::{
    DATABASE_FILE, Embedded, EmbeddedOptions, LOCK_FILE, LOG_FILE, LOG_INDEX_FILE, MARK_FILE, cannot_open,
    connection, copy, schema,
};
use crate::StoreFault;

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
}

/// A directory that this process holds, before its database is opened.
struct HeldDirectory {
    files: Arc<dyn Files>,
    directory: PathBuf,
    lock: Lock,
    mark_file: MarkFile,
    mark: Mark,
    is_new: bool,
}

/// A database whose end, numbers and indexes are as they must be.
struct CheckedDatabase {
    connection: Connection,
    tally: Tally,
    repaired: Vec<String>,
}

impl Embedded {
    pub(super) fn try_open(directory: &Path, options: EmbeddedOptions) -> Result<Self, StoreFault> {
        let held = HeldDirectory::hold(directory, &options)?;
        held.make_files_private_and_durable(&options)?;
        let database = held.check_database(&options)?;
        held.serve(database, &options)
    }
}

impl HeldDirectory {
    /// Creates the directory if there is none, locks it, and reads how far the store must reach.
    fn hold(directory: &Path, options: &EmbeddedOptions) -> Result<Self, StoreFault> {
        let files = options.files.clone().unwrap_or_else(|| Arc::new(FileSystem));
        let path = directory.join(DATABASE_FILE);
        if options.must_exist && database_length(&*files, &path)? == 0 {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no store");
            return Err(cannot_open(directory, error));
        }
        files
            .create_directory(directory)
            .map_err(|error| cannot_open(directory, error))?;
        let lock = lock(&*files, &directory.join(LOCK_FILE))?;
        let is_new = database_length(&*files, &path)? == 0;
        let stage = directory.join(copy::STAGE);
        if is_new && matches!(files.identity(&stage), Ok(Some(_))) {
            return Err(StoreFault::Unfinished { path: stage });
        }
        let mark_path = directory.join(MARK_FILE);
        let (mark_file, mark) =
            MarkFile::open(&*files, &mark_path).map_err(|error| cannot_open(&mark_path, error))?;
        Ok(Self {
            files,
            directory: directory.to_owned(),
            lock,
            mark_file,
            mark,
            is_new,
        })
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
        for (name, create) in [(DATABASE_FILE, true), (LOG_FILE, false), (LOG_INDEX_FILE, false)] {
            let path = self.directory.join(name);
            // SQLite gives its own files the mode of the database.
            self.files
                .keep_private(&path, create)
                .map_err(|error| cannot_open(&path, error))?;
        }
        // The log of an earlier process is only what this one sees of it. It is made durable before anything
        // is built on it: a checkpoint overwrites pages that nothing but the log repairs.
        let log_path = self.directory.join(LOG_FILE);
        files::write_again(&*self.files, &log_path).map_err(|error| cannot_open(&log_path, error))
    }

    /// Brings the schema up to date and holds tables, indexes and mark against each other.
    fn check_database(&self, options: &EmbeddedOptions) -> Result<CheckedDatabase, StoreFault> {
        let path = self.directory.join(DATABASE_FILE);
        let mut connection = connection::open_writer(&*self.files, &path)?;
        connection::bound_work(&mut connection)?;
        self.refuse_if_lost(schema::is_empty(&connection, &path)?, options)?;
        schema::migrate(&mut connection, &path)?;
        // First, because it brings what the others read into memory.
        let indexes_agree = indexes::agree(
            &connection,
            &|| connection::open_walker(&*self.files, &path).ok(),
            Cut::of(options.checkpointing),
        );
        // Before the checkpoint: where something is missing, what is left of the log stays as it is.
        let mut repaired = Vec::new();
        if options.repair || (!indexes_agree && options.accept_loss) {
            // Before the tally, whose counts go along an index.
            connection::bound_work(&mut connection)?;
            indexes::rebuild(&connection)?;
            repaired.push("indexes".to_owned());
        } else if !indexes_agree {
            indexes::check(&connection)?;
        }
        let accepted = Accepted {
            counts: options.repair || options.accept_loss,
            loss: options.accept_loss,
        };
        connection::bound_work(&mut connection)?;
        let tally = tally::check(&connection, &self.mark, accepted, &mut repaired)?;
        connection::unbound_work(&mut connection)?;
        checkpoint(&connection, CheckpointMode::TRUNCATE)?;
        Ok(CheckedDatabase {
            connection,
            tally,
            repaired,
        })
    }

    /// Writes the mark and starts what a store that is written to needs.
    fn serve(self, database: CheckedDatabase, options: &EmbeddedOptions) -> Result<Embedded, StoreFault> {
        let CheckedDatabase {
            mut connection,
            tally,
            repaired,
        } = database;
        let (files, directory) = (self.files, self.directory);
        self.mark_file
            .write(tally.mark())
            .map_err(|error| cannot_open(&directory.join(MARK_FILE), error))?;
        files
            .sync_directory(&directory)
            .map_err(|error| cannot_open(&directory, error))?;
        if let Some(pages_max) = options.pages_max {
            connection
                .pragma_update_and_check(None, "max_page_count", pages_max, |_| Ok(()))
                .map_err(connection::working)?;
        }
        let path = directory.join(DATABASE_FILE);
        let shared = watch_log(&*files, &path, &mut connection, options)?;
        let theirs = connection::open_writer(&*files, &path)?;
        let checkpoints = Checkpoints::start(theirs, Arc::clone(&shared), options.checkpointing)
            .map_err(|error| cannot_open(&path, error))?;
        Ok(Embedded {
            opening: Opening {
                directory: std::path::absolute(&directory).unwrap_or_else(|_| directory.clone()),
                schema_version: schema::known(),
                is_new: self.is_new,
                mode_for_others: files.mode_for_others(&directory),
                repaired,
            },
            in_place: [DATABASE_FILE, LOG_FILE]
                .into_iter()
                .map(|name| identified(&*files, directory.join(name)))
                .collect::<Result<_, _>>()?,
            files,
            path,
            connection,
            tally,
            walk: Walk::default(),
            mark: self.mark_file,
            shared,
            checkpoints,
            _lock: self.lock,
        })
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

/// A file of the store with what tells it from every other file.
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

pub(super) fn lock(files: &dyn Files, path: &Path) -> Result<Lock, StoreFault> {
    let locked = files.lock(path).map_err(|error| cannot_open(path, error))?;
    locked.ok_or_else(|| StoreFault::Locked {
        path: path.to_owned(),
        holder: holder(files, path),
    })
}

/// What the holder of the lock has written into it.
fn holder(files: &dyn Files, path: &Path) -> Option<String> {
    let mut said = [0; 512];
    let n_read = files.open(path, false).ok()?.read_at(&mut said, 0).ok()?;
    let said = String::from_utf8_lossy(&said[..n_read]).trim().to_owned();
    (!said.is_empty()).then_some(said)
}
