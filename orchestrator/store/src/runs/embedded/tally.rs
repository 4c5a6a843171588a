//! What must be there, and the check at opening that it is. Reads no entry.
//!
//! Two witnesses, as for the executions: the tally, one row that changes with every batch, and the mark beside the
//! database, which shows a lost end of the write-ahead log.

use rusqlite::{Connection, params_from_iter};

use crate::StoreFault;
use crate::database::EmbeddedOptions;
use crate::database::connection::working;
use crate::database::mark::Mark;
use crate::database::values::{column_number, number_of};
use crate::database::work;
use crate::runs::stored::RunCounts;

/// The row of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// Commits that changed something.
    pub(super) n_commits: u64,
    /// The highest number that was given to a run.
    pub(super) number_last: u64,
    /// Numbers whose loss was accepted.
    pub(super) n_lost: u64,
    pub(super) n_live: u64,
    pub(super) n_ended: u64,
    /// Removed runs whose ids are kept.
    pub(super) n_removed: u64,
    /// Removed runs whose ids are forgotten.
    pub(super) n_forgotten: u64,
    /// The highest number that was given to an input request.
    pub(super) input_request_last: u64,
    pub(super) n_definitions: u64,
    /// The highest number that was given to a notice.
    pub(super) notice_last: u64,
    /// The highest place in the order of ending that was given.
    pub(super) endings_last: u64,
    /// The highest place whose run was removed for its age or its number.
    pub(super) endings_removed: u64,
}

impl Tally {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT n_commits, number_last, n_lost, n_live, n_ended, n_removed, n_forgotten, \
                   input_request_last, n_definitions, notice_last, endings_last, endings_removed FROM tally";
        connection.prepare_cached(sql)?.query_row([], |row| {
            let column = |index| row.get(index).and_then(number_of);
            Ok(Self {
                n_commits: column(0)?,
                number_last: column(1)?,
                n_lost: column(2)?,
                n_live: column(3)?,
                n_ended: column(4)?,
                n_removed: column(5)?,
                n_forgotten: column(6)?,
                input_request_last: column(7)?,
                n_definitions: column(8)?,
                notice_last: column(9)?,
                endings_last: column(10)?,
                endings_removed: column(11)?,
            })
        })
    }

    fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE tally SET n_commits = ?1, number_last = ?2, n_lost = ?3, n_live = ?4, n_ended = ?5, \
                   n_removed = ?6, n_forgotten = ?7, input_request_last = ?8, n_definitions = ?9, \
                   notice_last = ?10, endings_last = ?11, endings_removed = ?12";
        let columns = [
            self.n_commits,
            self.number_last,
            self.n_lost,
            self.n_live,
            self.n_ended,
            self.n_removed,
            self.n_forgotten,
            self.input_request_last,
            self.n_definitions,
            self.notice_last,
            self.endings_last,
            self.endings_removed,
        ];
        connection
            .prepare_cached(sql)?
            .execute(params_from_iter(columns.map(column_number)))?;
        Ok(())
    }

    /// Counts one more commit and makes it durable.
    pub(super) fn commit(&mut self, connection: &Connection) -> Result<(), StoreFault> {
        self.n_commits += 1;
        self.save(connection).map_err(working)?;
        work::commit(connection)
    }

    pub(super) fn counts(&self) -> RunCounts {
        RunCounts {
            live: self.n_live,
            ended: self.n_ended,
            removed: self.n_removed.saturating_add(self.n_forgotten),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            n_commits: self.n_commits,
            number_last: self.number_last,
        }
    }

    /// Counts what is there; what has no row is lost.
    pub(super) fn count_anew(&mut self, census: &Census) {
        self.n_removed = census.n_removed;
        let n_numbers = [census.n_runs, self.n_removed, self.n_forgotten];
        let n_numbers = n_numbers.into_iter().fold(0, u64::saturating_add);
        self.n_lost = self.number_last.saturating_sub(n_numbers);
        self.n_live = census.n_live;
        self.n_ended = census.n_runs.saturating_sub(census.n_live);
        self.n_definitions = census.n_definitions;
    }
}

/// What is there, counted along indexes and at the ends of the tables.
pub(super) struct Census {
    n_runs: u64,
    n_live: u64,
    n_removed: u64,
    number_last: u64,
    input_request_last: u64,
    n_definitions: u64,
    notice_last: u64,
}

impl Census {
    pub(super) fn take(connection: &Connection) -> rusqlite::Result<Self> {
        let one = |sql: &str| -> rusqlite::Result<u64> {
            let found: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
            found.map_or(Ok(0), number_of)
        };
        Ok(Self {
            n_runs: one("SELECT count(*) FROM run")?,
            n_live: one("SELECT count(*) FROM run INDEXED BY run_live WHERE ended_at IS NULL")?,
            n_removed: one("SELECT count(*) FROM removed_run")?,
            number_last: one("SELECT max(number) FROM run")?,
            input_request_last: one("SELECT max(place) FROM input_request")?,
            n_definitions: one("SELECT count(*) FROM definition")?,
            notice_last: one("SELECT max(place) FROM notice")?,
        })
    }

    /// Returns the first thing that is not as the witnesses say: what was counted, how many there must be, how many there are,
    /// and whether something is missing.
    fn unequal(&self, tally: &Tally, mark: &Mark) -> Option<(&'static str, u64, u64, bool)> {
        // In a damaged file a count may be anything.
        let add = |counts: &[u64]| counts.iter().copied().fold(0, u64::saturating_add);
        let n_numbers = add(&[self.n_runs, self.n_removed, tally.n_forgotten, tally.n_lost]);
        let checks = [
            (
                "commits",
                mark.n_commits,
                tally.n_commits.min(mark.n_commits),
                true,
            ),
            (
                "numbered runs",
                mark.number_last,
                tally.number_last.min(mark.number_last),
                true,
            ),
            ("ids of removed runs", tally.n_removed, self.n_removed, true),
            ("runs", tally.number_last, n_numbers, true),
            (
                "saved plans and action profiles",
                tally.n_definitions,
                self.n_definitions,
                true,
            ),
            ("live runs", tally.n_live, self.n_live, false),
            (
                "runs by state",
                self.n_runs,
                add(&[tally.n_live, tally.n_ended]),
                false,
            ),
        ];
        checks
            .into_iter()
            .find(|(_, expected, found, _)| expected != found)
    }

    pub(super) fn gap(&self, tally: &Tally, mark: &Mark) -> Option<StoreFault> {
        let (what, expected, found, _) = self.unequal(tally, mark)?;
        Some(StoreFault::Gap {
            what,
            expected,
            found,
        })
    }
}

/// Refuses if something is missing or miscounted; if that is accepted, makes the tally true again and says so.
///
/// Numbers go on behind the highest that either witness has seen, so that none is given twice.
pub(super) fn check(
    connection: &Connection,
    mark: &Mark,
    options: &EmbeddedOptions,
    repaired: &mut Vec<String>,
) -> Result<Tally, StoreFault> {
    let mut tally = Tally::load(connection).map_err(working)?;
    let census = Census::take(connection).map_err(working)?;
    let Some((what, expected, found, is_loss)) = census.unequal(&tally, mark) else {
        return Ok(tally);
    };
    if !(options.accept_loss || options.repair && !is_loss) {
        return Err(StoreFault::Gap {
            what,
            expected,
            found,
        });
    }
    repaired.push(format!("counts: {found} {what} where {expected} were counted"));
    tally.n_commits = tally.n_commits.max(mark.n_commits).saturating_add(1);
    tally.number_last = tally.number_last.max(mark.number_last).max(census.number_last);
    tally.input_request_last = tally.input_request_last.max(census.input_request_last);
    tally.notice_last = tally.notice_last.max(census.notice_last);
    // What ended in a lost end had places, at most one for each number: none of them is given twice.
    tally.endings_last = tally.endings_last.saturating_add(tally.number_last);
    tally.count_anew(&census);
    tally.save(connection).map_err(working)?;
    Ok(tally)
}
