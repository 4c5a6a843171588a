//! The store in one SQLite file of this machine: executions and runs, with one writer. Shares its directory with no other process.
//!
//! In the directory: `store.db` with SQLite's own `-wal` and `-shm` beside it, `lock`, and `store.mark`. All of them
//! are their owner's alone, and while the store is open they must stay where they are.
//! What a commit returned has been synced; what a restart finds in the write-ahead log is copied into the
//! database and synced there before anything is read, so nothing is shown that only the page cache holds.
//!
//! Not checked at opening, because it would cost a look at every record: a record that is missing between
//! others. It reads as damaged, and only it.

mod conversion;
mod copy;
mod examine;
mod opening;
#[doc(hidden)]
pub mod probe;
mod schema;

use std::path::Path;

use escapement_model::RunId;
use rusqlite::Connection;

pub use self::conversion::{convert, try_to_convert};
pub(crate) use self::copy::{copied, staged, withhold_queued};
pub use self::examine::Examiner;
use self::schema::SCHEMA;
pub use crate::database::open_private;
pub use crate::database::opening::{Converted, Opening};
use crate::database::{Database, EmbeddedOptions, STORE, connection, work};
pub use crate::examination::{Examination, ExaminedPage, Finding};
pub use crate::executions::give_up::GivenUp;
use crate::executions::reader::EmbeddedReader;
use crate::executions::{self, removal::Walk};
use crate::runs::tables::reader::EmbeddedRunReader;
use crate::runs::tables::{self, removal::Walk as RunWalk};
use crate::runs::{
    BatchOutcome, DefinitionOutcome, DefinitionWrite, RunBatch, RunGivenUp, RunReader, RunRemoval,
    RunRemoved, RunStore, RunsRemoved,
};
use crate::tally::Tally;
use crate::{JointStore, Outcome, Reader, Removal, Removed, Store, StoreFault, Together, Write};

/// Returns a reader of the executions in a directory, also while an orchestrator runs on it, and also if nothing may be
/// written. No data there is created or changed.
///
/// # Errors
/// [`StoreFault::Open`] if there is none, [`StoreFault::Incompatible`] if its schema is another one,
/// [`StoreFault::Damaged`] if it does not read.
pub fn open_reader(directory: &Path) -> Result<Box<dyn Reader>, StoreFault> {
    Ok(Box::new(EmbeddedReader::new(bystander(directory)?)))
}

/// Returns a reader of the runs in a directory, in the same way.
///
/// # Errors
/// As [`open_reader`].
pub fn open_run_reader(directory: &Path) -> Result<Box<dyn RunReader>, StoreFault> {
    Ok(Box::new(EmbeddedRunReader::new(bystander(directory)?)))
}

/// Returns a connection that only reads, for a directory in which an orchestrator may run.
fn bystander(directory: &Path) -> Result<Connection, StoreFault> {
    conversion::refuse_earlier(directory)?;
    let path = directory.join(STORE.database);
    let connection = connection::open_bystander(&path)?;
    SCHEMA.require_newest(&connection, &path)?;
    Ok(connection)
}

/// The embedded store: the one writer of its directory.
#[derive(Debug)]
pub struct Embedded {
    opening: Opening,
    tally: Tally,
    /// Progress of the removal of executions.
    walk: Walk,
    /// Progress of the removal of runs.
    run_walk: RunWalk,
    database: Database,
}

impl Embedded {
    /// Opens the store in a directory; creates both if there is none, for this user only. Files of an earlier version are
    /// converted first.
    ///
    /// Checks that every number is there, that the end of the database is not dependent its mark, and that every
    /// index on which a lookup or a restart depends agrees with its table; the cost does not depend on the size of records. A store
    /// that is refused is left as it is.
    ///
    /// # Errors
    /// [`StoreFault::Locked`], [`StoreFault::Unfinished`], [`StoreFault::Incompatible`], [`StoreFault::Damaged`],
    /// [`StoreFault::Indexes`], [`StoreFault::Gap`], [`StoreFault::Open`], [`StoreFault::Full`], and
    /// [`StoreFault::Fatal`] if the file cannot be read.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, StoreFault> {
        let path = directory.join(STORE.database);
        let at_opening = |fault| connection::at_opening(&path, fault);
        let (lock, converted) = conversion::bring(directory, &options)?;
        let mut store = opening::open(directory, lock, &options).map_err(at_opening)?;
        store.opening.converted = converted;
        Ok(store)
    }

    fn new(opening: Opening, tally: Tally, database: Database) -> Self {
        Self {
            opening,
            tally,
            walk: Walk::default(),
            run_walk: RunWalk::default(),
            database,
        }
    }

    /// What its opening found and did.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Returns the latest time among the newest executions, the last removal and the last act of an operator, or the earliest one
    /// since the clock was set back among those executions, Unix milliseconds; `None` in a store that has none, and if it
    /// cannot be read.
    pub fn newest_ms(&self) -> Option<i64> {
        executions::removal::newest_ms(self.database.connection())
            .ok()
            .flatten()
    }

    /// Returns the latest time among the newest runs and the last removal of one, in the same way.
    pub fn newest_of_runs_ms(&self) -> Option<i64> {
        tables::removal::newest_ms(self.database.connection())
            .ok()
            .flatten()
    }

    /// Examines this store on a connection of its own, while it is open.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if no further connection can be had.
    pub fn examiner(&self) -> Result<Examiner, StoreFault> {
        Examiner::over(self.database.open_reader()?, self.database.path())
    }

    /// Gives one damaged execution up: its rows and records go, its ids stay used if they can be read.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn give_up(&mut self, number: u64, now_unix_ms: i64) -> Result<GivenUp, StoreFault> {
        self.change(|connection, tally| {
            executions::give_up::give_up(connection, &mut tally.executions, number, now_unix_ms)
        })
    }

    /// Gives one damaged run up: everything of it goes, its ids stay used if they can be read.
    ///
    /// # Errors
    /// As [`RunStore::commit`].
    pub fn give_up_run(&mut self, number: u64, now_unix_ms: i64) -> Result<RunGivenUp, StoreFault> {
        self.change(|connection, tally| {
            tables::give_up::give_up(connection, &mut tally.runs, number, now_unix_ms)
        })
    }

    fn commit_executions(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        if batch.is_empty() {
            self.database.require_usable()?;
            return Ok(Vec::new());
        }
        let outcomes = self.change(|connection, tally| {
            executions::writer::apply(connection, &mut tally.executions, batch)
        })?;
        self.note_accepted(batch, &outcomes);
        Ok(outcomes)
    }

    fn note_accepted(&mut self, batch: &[Write], outcomes: &[Outcome]) {
        for (write, outcome) in batch.iter().zip(outcomes) {
            if let (Write::Accept(accept), Outcome::Done { number }) = (write, outcome) {
                self.walk.accepted(*number, accept.accepted_at);
            }
        }
    }

    /// Applies a change in a transaction of its own, and counts it if it changed something.
    fn change<T>(
        &mut self,
        apply: impl FnOnce(&Connection, &mut Tally) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let before = self.tally;
        let (applied, tally) = self.database.change(|connection| {
            work::begin(connection, before.n_commits)?;
            let mut tally = before;
            let applied = apply(connection, &mut tally)?;
            let has_changed = tally != before;
            if has_changed {
                tally.n_commits = before.n_commits + 1;
                tally.save(&before, connection).map_err(connection::working)?;
            }
            work::commit(connection)?;
            Ok(((applied, tally), has_changed.then(|| tally.mark())))
        })?;
        self.tally = tally;
        Ok(applied)
    }
}

/// Applies a batch of runs. A batch that is done counts as a commit, even if no counter changes.
fn apply_runs(
    connection: &Connection,
    tally: &mut Tally,
    batch: &RunBatch,
) -> Result<BatchOutcome, StoreFault> {
    let outcome = tables::writer::apply(connection, &mut tally.runs, batch)?;
    tally.n_commits += u64::from(outcome == BatchOutcome::Done);
    Ok(outcome)
}

impl JointStore for Embedded {
    fn commit_together(
        &mut self,
        writes: &[Write],
        batch: &RunBatch,
        dependent: &[Write],
    ) -> Result<Together, StoreFault> {
        if let Some(refused) = batch.too_large() {
            return Ok(Together {
                outcomes: self.commit_executions(writes)?,
                of_runs: Ok(refused),
                dependent: Vec::new(),
            });
        }
        let together = self.change(|connection, tally| {
            let outcomes = executions::writer::apply(connection, &mut tally.executions, writes)?;
            let of_runs = match apply_runs(connection, tally, batch) {
                Err(fault @ StoreFault::CorruptRun { .. }) => Err(fault),
                of_runs => Ok(of_runs?),
            };
            let dependent = match of_runs {
                Ok(BatchOutcome::Done) => {
                    executions::writer::apply(connection, &mut tally.executions, dependent)?
                }
                _ => Vec::new(),
            };
            Ok(Together {
                outcomes,
                of_runs,
                dependent,
            })
        })?;
        self.note_accepted(writes, &together.outcomes);
        self.note_accepted(dependent, &together.dependent);
        Ok(together)
    }
}

impl Store for Embedded {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        self.commit_executions(batch)
    }

    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault> {
        let mut walk = std::mem::take(&mut self.walk);
        let executions = self.change(|connection, tally| {
            let tally = &mut tally.executions;
            executions::removal::remove_executions(connection, tally, &mut walk, policy, now_unix_ms)
        });
        let removed = executions.and_then(|executions| {
            let ids = self.change(|connection, tally| {
                let tally = &mut tally.executions;
                executions::removal::forget_ids(connection, tally, &mut walk, policy, now_unix_ms)
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
        Ok(Box::new(EmbeddedReader::new(self.database.open_reader()?)))
    }
}

impl RunStore for Embedded {
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault> {
        if batch.is_empty() {
            self.database.require_usable()?;
            return Ok(BatchOutcome::Done);
        }
        if let Some(refused) = batch.too_large() {
            self.database.require_usable()?;
            return Ok(refused);
        }
        self.change(|connection, tally| apply_runs(connection, tally, batch))
    }

    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault> {
        let mut walk = self.run_walk;
        let runs = self.change(|connection, tally| {
            tables::removal::remove_runs(connection, &mut tally.runs, &mut walk, policy, now_unix_ms)
        });
        let removed = runs.and_then(|runs| {
            let ids = self.change(|connection, tally| {
                tables::removal::forget_ids(connection, &mut tally.runs, &mut walk, policy, now_unix_ms)
            })?;
            Ok(RunsRemoved {
                n_runs: runs.n_runs,
                n_ids: ids.n_ids,
                has_more: runs.has_more || ids.has_more,
            })
        });
        self.run_walk = walk;
        removed
    }

    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.change(|connection, tally| {
            let Some(run) = tables::rows::run(connection, &id)? else {
                return Ok(RunRemoved::NotFound);
            };
            if run.progress.ended_at.is_none() {
                return Ok(RunRemoved::Live);
            }
            tables::removal::remove_all(connection, &mut tally.runs, &[run], now_unix_ms, false)?;
            Ok(RunRemoved::Done)
        })
    }

    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault> {
        self.change(|connection, tally| {
            tables::give_up::discard(connection, &mut tally.runs, &id, state, now_unix_ms)
        })
    }

    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault> {
        if let Err(bound) = write.check_bounds() {
            return Ok(DefinitionOutcome::TooLarge(bound));
        }
        self.change(|connection, tally| {
            let outcome = tables::definitions::apply(connection, &mut tally.runs, write)?;
            tally.n_commits += u64::from(matches!(outcome, DefinitionOutcome::Done { .. }));
            Ok(outcome)
        })
    }

    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault> {
        Ok(Box::new(EmbeddedRunReader::new(self.database.open_reader()?)))
    }
}
