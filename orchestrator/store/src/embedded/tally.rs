//! What must be there, and the check at opening that it is. Reads no record.
//!
//! Two witnesses: the tally, one row that changes with every batch, and the mark, a small file beside the
//! database that is written behind every durable commit. The tally shows what is missing inside the database;
//! the mark shows a lost end of the write-ahead log, of which the database itself knows nothing.

use escapement_model::planted::{self, Bug};
use rusqlite::{Connection, OptionalExtension};

use crate::database::connection::working;
use crate::database::mark::Mark;
use crate::database::values::{column_number, number_of};
use crate::{Counts, StoreFault};

/// The row of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// Commits that changed something.
    pub(super) n_commits: u64,
    /// The highest number that was given.
    pub(super) number_last: u64,
    /// Numbers whose loss was accepted.
    pub(super) n_lost: u64,
    pub(super) n_queued: u64,
    pub(super) n_running: u64,
    pub(super) n_settled: u64,
    /// Removed executions whose ids are kept.
    pub(super) n_removed: u64,
    /// Removed executions whose ids are forgotten.
    pub(super) n_forgotten: u64,
    /// The highest number of an entry of operators.
    pub(super) operators_last: u64,
    /// The highest place in the order of settling that was given.
    pub(super) settlements_last: u64,
    /// The highest one whose execution was removed.
    pub(super) settlements_removed: u64,
}

impl Tally {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT n_commits, number_last, n_lost, n_queued, n_running, n_settled, n_removed, \
                   n_forgotten, operators_last, settlements_last, settlements_removed FROM tally";
        connection.prepare_cached(sql)?.query_row([], |row| {
            let column = |index| row.get(index).and_then(number_of);
            Ok(Self {
                n_commits: column(0)?,
                number_last: column(1)?,
                n_lost: column(2)?,
                n_queued: column(3)?,
                n_running: column(4)?,
                n_settled: column(5)?,
                n_removed: column(6)?,
                n_forgotten: column(7)?,
                operators_last: column(8)?,
                settlements_last: column(9)?,
                settlements_removed: column(10)?,
            })
        })
    }

    pub(super) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE tally SET n_commits = ?1, number_last = ?2, n_lost = ?3, n_queued = ?4, \
                   n_running = ?5, n_settled = ?6, n_removed = ?7, n_forgotten = ?8, operators_last = ?9, \
                   settlements_last = ?10, settlements_removed = ?11";
        let columns = [
            self.n_commits,
            self.number_last,
            self.n_lost,
            self.n_queued,
            self.n_running,
            self.n_settled,
            self.n_removed,
            self.n_forgotten,
            self.operators_last,
            self.settlements_last,
            self.settlements_removed,
        ];
        connection
            .prepare_cached(sql)?
            .execute(rusqlite::params_from_iter(columns.map(column_number)))?;
        Ok(())
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            queued: self.n_queued,
            running: self.n_running,
            settled: self.n_settled,
            removed: self.n_removed.saturating_add(self.n_forgotten),
        }
    }

    /// Counts what is there; what has no row is lost.
    pub(super) fn count_anew(&mut self, census: &Census) {
        self.n_removed = census.n_removed;
        // Its numbers are links of a chain, so what is lost of it is not passed over.
        self.operators_last = census.operators_last;
        let n_numbers = [census.n_executions, self.n_removed, self.n_forgotten]
            .into_iter()
            .fold(0, u64::saturating_add);
        self.n_lost = self.number_last.saturating_sub(n_numbers);
        self.n_queued = census.n_queued;
        self.n_running = census.n_running;
        self.n_settled = census
            .n_executions
            .saturating_sub(census.n_queued.saturating_add(census.n_running));
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            n_commits: self.n_commits,
            number_last: self.number_last,
        }
    }
}

/// What is there, counted along indexes and at the ends of the tables: no cost for each record.
pub(super) struct Census {
    pub(super) n_executions: u64,
    pub(super) n_removed: u64,
    number_last: u64,
    n_queued: u64,
    n_running: u64,
    accepted_last: u64,
    operators_last: u64,
    /// The highest number among settled executions, and among their records.
    settled_last: u64,
    settled_record_last: u64,
}

impl Census {
    pub(super) fn take(connection: &Connection) -> rusqlite::Result<Self> {
        let one = |sql: &str| -> rusqlite::Result<u64> {
            let found: Option<Option<i64>> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
            found.flatten().map_or(Ok(0), number_of)
        };
        let unsettled = "SELECT count(*) FROM execution INDEXED BY execution_unsettled WHERE state < 2";
        Ok(Self {
            n_executions: one("SELECT count(*) FROM execution")?,
            n_removed: one("SELECT count(*) FROM removed_execution")?,
            number_last: one("SELECT max(number) FROM execution")?,
            n_queued: one(&format!("{unsettled} AND state = 0"))?,
            n_running: one(&format!("{unsettled} AND state = 1"))?,
            accepted_last: one("SELECT max(number) FROM accepted_record")?,
            operators_last: one("SELECT max(number) FROM operator_entry")?,
            settled_last: one("SELECT number FROM execution WHERE state = 2 ORDER BY number DESC LIMIT 1")?,
            settled_record_last: one("SELECT max(number) FROM settled_record")?,
        })
    }

    /// Returns the first thing that is not as the witnesses say.
    pub(super) fn gap(&self, tally: &Tally, mark: &Mark) -> Option<StoreFault> {
        let found = self.loss(tally, mark).or_else(|| self.miscount(tally));
        found.map(StoreFault::from)
    }

    /// The first thing that was acknowledged and is missing.
    fn loss(&self, tally: &Tally, mark: &Mark) -> Option<Unequal> {
        // What was removed on purpose is witnessed as well: each number is an execution, what is left of one,
        // a forgotten one or an accepted loss.
        // In a damaged file a count may be anything.
        let n_numbers = [self.n_executions, self.n_removed, tally.n_forgotten]
            .into_iter()
            .fold(0, u64::saturating_add);
        first_unequal([
            ("commits", mark.n_commits, tally.n_commits.min(mark.n_commits)),
            (
                "numbered executions",
                mark.number_last,
                tally.number_last.min(mark.number_last),
            ),
            ("ids of removed executions", tally.n_removed, self.n_removed),
            (
                "executions",
                tally.number_last,
                n_numbers.saturating_add(tally.n_lost),
            ),
            ("entries of operators", tally.operators_last, self.operators_last),
            (
                "accepted records up to the last",
                self.number_last,
                self.accepted_last.min(self.number_last),
            ),
            (
                "settled records up to the last",
                self.settled_last,
                self.settled_record_last.min(self.settled_last),
            ),
        ])
    }

    /// The first count by state that the executions do not bear out.
    fn miscount(&self, tally: &Tally) -> Option<Unequal> {
        let n_by_state = [tally.n_queued, tally.n_running, tally.n_settled]
            .into_iter()
            .fold(0, u64::saturating_add);
        first_unequal([
            ("executions by state", self.n_executions, n_by_state),
            ("queued executions", tally.n_queued, self.n_queued),
            ("running executions", tally.n_running, self.n_running),
        ])
    }
}

/// What was counted, how many there must be, and how many there are.
struct Unequal(&'static str, u64, u64);

impl From<Unequal> for StoreFault {
    fn from(Unequal(what, expected, found): Unequal) -> Self {
        StoreFault::Gap {
            what,
            expected,
            found,
        }
    }
}

fn first_unequal<const N: usize>(checks: [(&'static str, u64, u64); N]) -> Option<Unequal> {
    let mut unequal = checks
        .into_iter()
        .filter(|(_, expected, found)| expected != found);
    unequal
        .next()
        .map(|(what, expected, found)| Unequal(what, expected, found))
}

/// What the operator wants to go on with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    /// Counts by state that the executions do not bear out: they are counted anew.
    pub(super) counts: bool,
    /// Executions and commits that are missing.
    pub(super) loss: bool,
}

/// Refuses if something is missing or miscounted; if that is accepted, makes the tally true again and says so.
///
/// Numbers go on behind the highest that either witness has seen, so that none is given twice.
pub(super) fn check(
    connection: &Connection,
    mark: &Mark,
    accepted: Accepted,
    repaired: &mut Vec<String>,
) -> Result<Tally, StoreFault> {
    let mut tally = Tally::load(connection).map_err(working)?;
    let census = Census::take(connection).map_err(working)?;
    let (unequal, is_accepted) = match (census.loss(&tally, mark), census.miscount(&tally)) {
        (Some(loss), _) => (loss, accepted.loss),
        (None, Some(miscount)) => (miscount, accepted.counts),
        (None, None) => return Ok(tally),
    };
    if planted::is_on(Bug::TornTailAccepted) {
        return Ok(tally);
    }
    if !is_accepted {
        return Err(unequal.into());
    }
    let Unequal(what, expected, found) = unequal;
    repaired.push(format!("counts: {found} {what} where {expected} were counted"));
    tally.n_commits = tally.n_commits.max(mark.n_commits).saturating_add(1);
    tally.number_last = tally
        .number_last
        .max(mark.number_last)
        .max(census.number_last)
        .max(census.accepted_last);
    tally.count_anew(&census);
    // What was settled in a lost end had places, at most one for each number: none of them is given twice.
    tally.settlements_last = tally.settlements_last.saturating_add(tally.number_last);
    restore(connection, &tally, &census).map_err(working)?;
    Ok(tally)
}

/// Makes the loss part of the file: the tally as it is now, and records that read as damaged where the last
/// ones are missing.
fn restore(connection: &Connection, tally: &Tally, census: &Census) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    tally.save(&transaction)?;
    transaction.execute(
        "INSERT OR IGNORE INTO accepted_record SELECT number, -1, x'' FROM execution WHERE number = ?1",
        [column_number(census.number_last)],
    )?;
    transaction.execute(
        "INSERT OR IGNORE INTO settled_record SELECT number, -1, -1, x'', x'' FROM execution \
         WHERE number = ?1 AND state = 2",
        [column_number(census.settled_last)],
    )?;
    transaction.commit()
}
