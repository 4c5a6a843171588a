//! Counters of all rows, and the check of them at opening.
//!
//! There are two witnesses. The counters are one row that changes with every commit, and show what is missing inside the database.
//! The mark is a small file next to the database, written after every durable commit. It shows a lost end of the write-ahead log,
//! of which the database itself knows nothing.

use std::sync::LazyLock;

use escapement_model::planted::{self, Bug};
use rusqlite::{Connection, params_from_iter};

use crate::StoreFault;
use crate::database::connection::working;
use crate::database::mark::Mark;
use crate::database::values::{column_number, number_of};
use crate::executions::tally::{ExecutionCensus, ExecutionTally};
use crate::runs::tables::tally::{RunCensus, RunTally};
use crate::tally_part::{Part as _, Unequal, first_unequal};

/// The row of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Commits that changed something.
    pub(crate) n_commits: u64,
    pub(crate) executions: ExecutionTally,
    pub(crate) runs: RunTally,
}

/// Statements that write the counters: of the executions, of the runs, of both.
static UPDATES: LazyLock<[String; 3]> = LazyLock::new(|| {
    let update = |parts: &[&[&str]]| {
        let columns = ["n_commits"].into_iter().chain(parts.concat());
        let set: Vec<String> = (1..)
            .zip(columns)
            .map(|(place, column)| format!("{column} = ?{place}"))
            .collect();
        format!("UPDATE tally SET {}", set.join(", "))
    };
    let (executions, runs) = (ExecutionTally::COLUMNS, RunTally::COLUMNS);
    [
        update(&[executions]),
        update(&[runs]),
        update(&[executions, runs]),
    ]
});

impl Tally {
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let n_commits = "SELECT n_commits FROM tally";
        let mut select = connection.prepare_cached(n_commits)?;
        Ok(Self {
            n_commits: select.query_row([], |row| row.get(0).and_then(number_of))?,
            executions: ExecutionTally::load(connection)?,
            runs: RunTally::load(connection)?,
        })
    }

    /// Writes it over the one before, as far as they differ.
    pub(crate) fn save(&self, before: &Self, connection: &Connection) -> rusqlite::Result<()> {
        let (executions, runs) = (self.executions.values(), self.runs.values());
        let (sql, parts) = match (self.executions == before.executions, self.runs == before.runs) {
            (_, true) => (&UPDATES[0], vec![executions]),
            (true, false) => (&UPDATES[1], vec![runs]),
            (false, false) => (&UPDATES[2], vec![executions, runs]),
        };
        let values = [self.n_commits].into_iter().chain(parts.concat());
        connection
            .prepare_cached(sql)?
            .execute(params_from_iter(values.map(column_number)))?;
        Ok(())
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            n_commits: self.n_commits,
            execution_last: self.executions.number_last,
            run_last: self.runs.number_last,
        }
    }
}

/// Numbers of rows, counted along indexes and at the ends of the tables, which costs nothing for each record.
pub(crate) struct Census {
    executions: ExecutionCensus,
    runs: RunCensus,
}

impl Census {
    pub(crate) fn take(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            executions: ExecutionCensus::take(connection)?,
            runs: RunCensus::take(connection)?,
        })
    }

    /// Returns the first thing that is not as the witnesses say.
    pub(crate) fn gap(&self, tally: &Tally, mark: &Mark) -> Option<StoreFault> {
        let found = self.loss(tally, mark).or_else(|| self.miscount(tally));
        found.map(StoreFault::from)
    }

    /// Returns the first thing that was acknowledged and is missing.
    fn loss(&self, tally: &Tally, mark: &Mark) -> Option<Unequal> {
        let commits = ("commits", mark.n_commits, tally.n_commits.min(mark.n_commits));
        first_unequal([commits])
            .or_else(|| self.executions.loss(&tally.executions, mark.execution_last))
            .or_else(|| self.runs.loss(&tally.runs, mark.run_last))
    }

    /// Returns the first count by state that the rows do not bear out.
    fn miscount(&self, tally: &Tally) -> Option<Unequal> {
        let of_executions = self.executions.miscount(&tally.executions);
        of_executions.or_else(|| self.runs.miscount(&tally.runs))
    }
}

/// Defects that the operator accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// Counts by state that the rows do not bear out: they are counted anew.
    pub(crate) counts: bool,
    /// Executions, runs and commits that are missing.
    pub(crate) loss: bool,
}

/// Refuses if something is missing or miscounted; if that is accepted, corrects the counters and says so.
///
/// Numbers continue after the highest that either witness has seen, so that none is given twice.
pub(crate) fn check(
    connection: &Connection,
    mark: &Mark,
    accepted: Accepted,
    repaired: &mut Vec<String>,
) -> Result<Tally, StoreFault> {
    let before = Tally::load(connection).map_err(working)?;
    let census = Census::take(connection).map_err(working)?;
    let (unequal, is_accepted) = match (census.loss(&before, mark), census.miscount(&before)) {
        (Some(loss), _) => (loss, accepted.loss),
        (None, Some(miscount)) => (miscount, accepted.counts),
        (None, None) => return Ok(before),
    };
    if planted::is_on(Bug::TornTailAccepted) {
        return Ok(before);
    }
    if !is_accepted {
        return Err(unequal.into());
    }
    let Unequal {
        what,
        expected,
        found,
    } = unequal;
    repaired.push(format!("counts: {found} {what} where {expected} were counted"));
    let mut tally = before;
    tally.n_commits = tally.n_commits.max(mark.n_commits).saturating_add(1);
    tally
        .executions
        .go_on_behind(&census.executions, mark.execution_last);
    tally.runs.go_on_behind(&census.runs, mark.run_last);
    restore(connection, &before, &tally, &census).map_err(working)?;
    Ok(tally)
}

/// Writes the counters as they are now. Writes records that read as damaged where the last ones are missing.
fn restore(connection: &Connection, before: &Tally, tally: &Tally, census: &Census) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    tally.save(before, &transaction)?;
    census.executions.fill_last(&transaction)?;
    transaction.commit()
}
