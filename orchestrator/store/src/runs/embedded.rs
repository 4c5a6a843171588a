//! The store of runs in one SQLite file of this machine, beside the executions of the contract.
//! Shares their directory and its lock, and nothing else.
//!
//! In the directory: `runs.db` with SQLite's own `-wal` and `-shm` beside it, and `runs.mark`.

mod columns;
mod contents;
mod copy;
mod definitions;
mod endings;
mod examine;
mod give_up;
mod lists;
mod notices;
mod reader;
mod refusal;
mod removal;
mod requests;
mod rows;
mod table;
mod tally;
mod tombstones;
mod writer;

use std::path::Path;

use escapement_model::RunId;
use rusqlite::Connection;

pub(crate) use self::copy::{copied, staged};
pub use self::examine::{RunExamination, RunExaminedPage, RunExaminer, RunFinding};
pub use self::give_up::RunGivenUp;
use self::reader::EmbeddedRunReader;
use self::removal::Walk;
use self::table::TABLES;
use self::tally::Tally;
use super::definitions::{DefinitionOutcome, DefinitionWrite};
use super::removal::{RunRemoval, RunRemoved, RunsRemoved};
use super::write::{BatchOutcome, RunBatch};
use super::{RunReader, RunStore};
use crate::StoreFault;
use crate::database::indexes::{self, Cut};
use crate::database::opening::{HeldDirectory, Opening};
use crate::database::schema::Schema;
use crate::database::{Database, EmbeddedOptions, RUNS, connection};

/// Marked "ESCR".
const SCHEMA: Schema = Schema {
    migrations: &[
        include_str!("embedded/0001_runs.sql"),
        include_str!("embedded/0002_namespaces.sql"),
        include_str!("embedded/0003_endings.sql"),
        include_str!("embedded/0004_lists.sql"),
    ],
    application_id: 0x4553_4352,
};

/// The embedded store of runs: the one writer of its file.
#[derive(Debug)]
pub struct EmbeddedRuns {
    opening: Opening,
    tally: Tally,
    /// How far removal is.
    walk: Walk,
    database: Database,
}

impl EmbeddedRuns {
    /// Opens the store of runs in a directory; creates both if there is none, for this user only. A process that
    /// holds the directory for the executions passes their lock on in the options.
    ///
    /// Checks that every number is there, that the end of the database is not behind its mark, and that the indexes
    /// which a restart depends on agree with the runs; the cost does not depend on the length of journals. A store
    /// that is refused is left as it is.
    ///
    /// # Errors
    /// As [`Embedded::open`](crate::Embedded::open).
    pub fn open(directory: &Path, options: &EmbeddedOptions) -> Result<Self, StoreFault> {
        let path = directory.join(RUNS.database);
        Self::try_open(directory, options).map_err(|fault| connection::at_opening(&path, fault))
    }

    fn try_open(directory: &Path, options: &EmbeddedOptions) -> Result<Self, StoreFault> {
        let held = HeldDirectory::hold(directory, &RUNS, options)?;
        let mut connection = held.connect(&SCHEMA, options)?;
        let indexes_agree = TABLES.iter().all(|table| {
            let cut = Cut::of(options.checkpointing);
            indexes::agree(&connection, table, &|| held.walker(), cut)
        });
        let mut repaired = Vec::new();
        if options.repair || (!indexes_agree && options.accept_loss) {
            connection::bound_work(&mut connection)?;
            indexes::rebuild(&connection)?;
            repaired.push("indexes".to_owned());
        } else if !indexes_agree {
            for table in TABLES {
                indexes::check(&connection, table)?;
            }
        }
        connection::bound_work(&mut connection)?;
        let tally = tally::check(&connection, held.mark(), options, &mut repaired)?;
        let (database, opening) = held.serve(&SCHEMA, connection, tally.mark(), repaired, options)?;
        Ok(Self {
            opening,
            tally,
            walk: Walk::default(),
            database,
        })
    }

    /// What its opening found and did.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The latest time among the newest runs and the last removal, Unix milliseconds; `None` in a store that has none, and
    /// if it cannot be read.
    pub fn newest_ms(&self) -> Option<i64> {
        removal::newest_ms(self.database.connection()).ok().flatten()
    }

    /// Examines this store on a connection of its own, while it is open.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if no further connection can be had.
    pub fn examiner(&self) -> Result<RunExaminer, StoreFault> {
        RunExaminer::over(self.database.open_reader()?, self.database.path())
    }

    /// Gives one damaged run up: everything of it goes, its ids stay used if they can be read.
    ///
    /// # Errors
    /// As [`RunStore::commit`].
    pub fn give_up(&mut self, number: u64, now_unix_ms: i64) -> Result<RunGivenUp, StoreFault> {
        self.change(|connection, tally| give_up::give_up(connection, tally, number, now_unix_ms))
    }

    /// Applies a change in the turn of a commit.
    fn change<T>(
        &mut self,
        apply: impl FnOnce(&Connection, &mut Tally) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let before = self.tally;
        let (applied, tally) = self.database.change(|connection| {
            let mut tally = before;
            let applied = apply(connection, &mut tally)?;
            Ok(((applied, tally), (tally != before).then(|| tally.mark())))
        })?;
        self.tally = tally;
        Ok(applied)
    }
}

impl RunStore for EmbeddedRuns {
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        if batch.is_empty() {
            self.database.require_usable()?;
            return Ok(BatchOutcome::Done);
        }
        if let Some(refused) = batch.too_large() {
            self.database.require_usable()?;
            return Ok(refused);
        }
        self.change(|connection, tally| writer::apply(connection, tally, batch))
    }

    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        let mut walk = self.walk;
        let runs = self.change(|connection, tally| {
            removal::remove_runs(connection, tally, &mut walk, policy, now_unix_ms)
        });
        let removed = runs.and_then(|runs| {
            let ids = self.change(|connection, tally| {
                removal::forget_ids(connection, tally, &mut walk, policy, now_unix_ms)
            })?;
            Ok(RunsRemoved {
                n_runs: runs.n_runs,
                n_ids: ids.n_ids,
                has_more: runs.has_more || ids.has_more,
            })
        });
        self.walk = walk;
        removed
    }

    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.change(|connection, tally| {
            let Some(run) = rows::run(connection, &id)? else {
                return Ok(RunRemoved::NotFound);
            };
            if run.progress.ended_at.is_none() {
                return Ok(RunRemoved::Live);
            }
            removal::remove_all(connection, tally, &[run], now_unix_ms, false)?;
            Ok(RunRemoved::Done)
        })
    }

    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.change(|connection, tally| give_up::discard(connection, tally, &id, state, now_unix_ms))
    }

    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        if let Err(bound) = write.check_bounds() {
            return Ok(DefinitionOutcome::TooLarge(bound));
        }
        self.change(|connection, tally| definitions::apply(connection, tally, write))
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        Ok(Box::new(EmbeddedRunReader::new(self.database.open_reader()?)))
    }
}

/// Returns true if a directory holds runs, or what is left of them.
pub fn are_there(directory: &Path) -> bool {
    [RUNS.database, RUNS.mark, RUNS.stage]
        .into_iter()
        .any(|name| directory.join(name).symlink_metadata().is_ok())
}

/// A reader of the runs in a directory, also while an orchestrator runs on them, and also if nothing may be written.
/// No data there is created or changed.
///
/// # Errors
/// [`StoreFault::Open`] if there are none, [`StoreFault::Incompatible`] if their schema is another one,
/// [`StoreFault::Damaged`] if the file does not read.
pub fn open_reader(directory: &Path) -> Result<Box<dyn RunReader>, StoreFault> {
    let path = directory.join(RUNS.database);
    let connection = connection::open_bystander(&path)?;
    SCHEMA.require_newest(&connection, &path)?;
    Ok(Box::new(EmbeddedRunReader::new(connection)))
}
