//! The store in one SQLite file of this machine. Shares its directory with no other process.
//!
//! In the directory: `executions.db` with SQLite's own `-wal` and `-shm` beside it, `lock`, and `mark`. All of them
//! are their owner's alone, and while the store is open they must stay where they are.
//! What a commit returned has been synced; what a restart finds in the write-ahead log is copied into the
//! database and synced there before anything is read, so nothing is shown that only the page cache holds.
//!
//! Not checked at opening, because it would cost a look at every record: a record that is missing between
//! others. It reads as damaged, and only it.

mod columns;
mod copy;
mod examine;
mod give_up;
mod list;
mod opening;
mod operators;
#[doc(hidden)]
pub mod probe;
mod reader;
mod removal;
mod schema;
mod table;
mod tally;
mod tombstones;
mod writer;

use std::path::Path;

use rusqlite::Connection;

pub(crate) use self::copy::{copied, staged, withhold_queued};
pub use self::examine::{Examination, ExaminedPage, Examiner, Finding};
pub use self::give_up::GivenUp;
use self::reader::EmbeddedReader;
use self::removal::Walk;
use self::schema::SCHEMA;
use self::tally::Tally;
pub use crate::database::open_private;
pub use crate::database::opening::Opening;
use crate::database::{Database, EXECUTIONS, EmbeddedOptions, Lock, connection};
use crate::{Outcome, Reader, Removal, Removed, Store, StoreFault, Write};

/// A reader of the store in a directory, also while an orchestrator runs on it, and also if nothing may be
/// written. No data there is created or changed.
///
/// # Errors
/// [`StoreFault::Open`] if there is none, [`StoreFault::Incompatible`] if its schema is another one,
/// [`StoreFault::Damaged`] if it does not read.
pub fn open_reader(directory: &Path) -> Result<Box<dyn Reader>, StoreFault> {
    let path = directory.join(EXECUTIONS.database);
    let connection = connection::open_bystander(&path)?;
    SCHEMA.require_newest(&connection, &path)?;
    Ok(Box::new(EmbeddedReader::new(connection)))
}

/// The embedded store: the one writer of its directory.
#[derive(Debug)]
pub struct Embedded {
    opening: Opening,
    tally: Tally,
    /// How far removal is.
    walk: Walk,
    database: Database,
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
        let path = directory.join(EXECUTIONS.database);
        opening::open(directory, &options).map_err(|fault| connection::at_opening(&path, fault))
    }

    /// What its opening found and did.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Returns the lock of the directory, for another file of this process there.
    pub fn lock(&self) -> Lock {
        self.database.lock()
    }

    /// Returns the latest time among the newest executions, the last removal and the last act of an operator, or the earliest one
    /// since the clock was set back among those executions, Unix milliseconds; `None` in a store that has none, and if it
    /// cannot be read.
    pub fn newest_ms(&self) -> Option<i64> {
        removal::newest_ms(self.database.connection()).ok().flatten()
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

impl Store for Embedded {
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault> {
        if batch.is_empty() {
            self.database.require_usable()?;
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
        Ok(Box::new(EmbeddedReader::new(self.database.open_reader()?)))
    }
}
