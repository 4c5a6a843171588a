//! Counters of executions.

use rusqlite::Connection;

use crate::Counts;
use crate::database::values::column_number;
use crate::tally_part::{Unequal, first_unequal, one, tally_part};

tally_part! {
    /// Counters of executions.
    pub(crate) struct ExecutionTally {
        /// The highest number that was given.
        number_last = "execution_last",
        /// Numbers whose loss was accepted.
        n_lost = "executions_lost",
        n_queued = "executions_queued",
        n_running = "executions_running",
        n_settled = "executions_settled",
        /// Removed executions whose ids are kept.
        n_removed = "executions_removed",
        /// Removed executions whose ids are forgotten.
        n_forgotten = "executions_forgotten",
        /// The highest number of an entry of operators.
        operators_last = "operators_last",
        /// The highest place in the order of settling that was given.
        settlements_last = "settlements_last",
        /// The highest one whose execution was removed.
        settlements_removed = "settlements_removed",
    }
}

impl ExecutionTally {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            queued: self.n_queued,
            running: self.n_running,
            settled: self.n_settled,
            removed: self.n_removed.saturating_add(self.n_forgotten),
        }
    }

    /// Counts what is there; what has no row is lost.
    pub(crate) fn count_anew(&mut self, census: &ExecutionCensus) {
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

    /// Goes on behind every number that was seen anywhere. `number_last` is what the mark says.
    pub(crate) fn go_on_behind(&mut self, census: &ExecutionCensus, number_last: u64) {
        self.number_last = self
            .number_last
            .max(number_last)
            .max(census.number_last)
            .max(census.accepted_last);
        self.count_anew(census);
        // What was settled in a lost end had places, at most one for each number: none of them is given twice.
        self.settlements_last = self.settlements_last.saturating_add(self.number_last);
    }
}

/// Numbers of rows of executions, counted along indexes and at the ends of the tables.
pub(crate) struct ExecutionCensus {
    n_executions: u64,
    n_removed: u64,
    number_last: u64,
    n_queued: u64,
    n_running: u64,
    accepted_last: u64,
    operators_last: u64,
    /// The highest number among settled executions, and among their records.
    settled_last: u64,
    settled_record_last: u64,
}

impl ExecutionCensus {
    pub(crate) fn take(connection: &Connection) -> rusqlite::Result<Self> {
        let one = |sql: &str| one(connection, sql);
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

    /// Returns the first thing that was acknowledged and is missing. `number_last` is what the mark says.
    pub(crate) fn loss(&self, tally: &ExecutionTally, number_last: u64) -> Option<Unequal> {
        // What was removed on purpose is witnessed as well: each number is an execution, what is left of one,
        // a forgotten one or an accepted loss.
        // In a damaged file a count may be anything.
        let n_numbers = [self.n_executions, self.n_removed, tally.n_forgotten]
            .into_iter()
            .fold(0, u64::saturating_add);
        first_unequal([
            (
                "numbered executions",
                number_last,
                tally.number_last.min(number_last),
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

    /// Returns the first count by state that the executions do not bear out.
    pub(crate) fn miscount(&self, tally: &ExecutionTally) -> Option<Unequal> {
        let n_by_state = [tally.n_queued, tally.n_running, tally.n_settled]
            .into_iter()
            .fold(0, u64::saturating_add);
        first_unequal([
            ("executions by state", self.n_executions, n_by_state),
            ("queued executions", tally.n_queued, self.n_queued),
            ("running executions", tally.n_running, self.n_running),
        ])
    }

    /// Writes records that read as damaged where the last ones are missing.
    pub(crate) fn fill_last(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute(
            "INSERT OR IGNORE INTO accepted_record SELECT number, -1, x'' FROM execution WHERE number = ?1",
            [column_number(self.number_last)],
        )?;
        connection.execute(
            "INSERT OR IGNORE INTO settled_record SELECT number, -1, -1, x'', x'' FROM execution \
             WHERE number = ?1 AND state = 2",
            [column_number(self.settled_last)],
        )?;
        Ok(())
    }
}
