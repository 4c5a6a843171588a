//! Counters of runs.

use rusqlite::Connection;

use crate::runs::stored::RunCounts;
use crate::tally_part::{Unequal, first_unequal, one, tally_part};

tally_part! {
    /// Counters of runs.
    pub(crate) struct RunTally {
        /// The highest number that was given to a run.
        number_last = "run_last",
        /// Numbers whose loss was accepted.
        n_lost = "runs_lost",
        n_live = "runs_live",
        n_ended = "runs_ended",
        /// Removed runs whose ids are kept.
        n_removed = "runs_removed",
        /// Removed runs whose ids are forgotten.
        n_forgotten = "runs_forgotten",
        /// The highest number that was given to an input request.
        input_request_last = "input_request_last",
        n_definitions = "n_definitions",
        /// The highest number that was given to a notice.
        notice_last = "notice_last",
        /// The highest place in the order of ending that was given.
        endings_last = "endings_last",
        /// The highest place whose run was removed for its age or its number.
        endings_removed = "endings_removed",
    }
}

impl RunTally {
    pub(crate) fn counts(&self) -> RunCounts {
        RunCounts {
            live: self.n_live,
            ended: self.n_ended,
            removed: self.n_removed.saturating_add(self.n_forgotten),
        }
    }

    /// Counts what is there; what has no row is lost.
    pub(crate) fn count_anew(&mut self, census: &RunCensus) {
        self.n_removed = census.n_removed;
        let n_numbers = [census.n_runs, self.n_removed, self.n_forgotten];
        let n_numbers = n_numbers.into_iter().fold(0, u64::saturating_add);
        self.n_lost = self.number_last.saturating_sub(n_numbers);
        self.n_live = census.n_live;
        self.n_ended = census.n_runs.saturating_sub(census.n_live);
        self.n_definitions = census.n_definitions;
    }

    /// Goes on behind every number that was seen anywhere. `number_last` is what the mark says.
    pub(crate) fn go_on_behind(&mut self, census: &RunCensus, number_last: u64) {
        self.number_last = self.number_last.max(number_last).max(census.number_last);
        self.input_request_last = self.input_request_last.max(census.input_request_last);
        self.notice_last = self.notice_last.max(census.notice_last);
        // What ended in a lost end had places, at most one for each number: none of them is given twice.
        self.endings_last = self.endings_last.saturating_add(self.number_last);
        self.count_anew(census);
    }
}

/// Numbers of rows of runs, counted along indexes and at the ends of the tables.
pub(crate) struct RunCensus {
    n_runs: u64,
    n_live: u64,
    n_removed: u64,
    number_last: u64,
    input_request_last: u64,
    n_definitions: u64,
    notice_last: u64,
}

impl RunCensus {
    pub(crate) fn take(connection: &Connection) -> rusqlite::Result<Self> {
        let one = |sql: &str| one(connection, sql);
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

    /// Returns the first thing that was acknowledged and is missing. `number_last` is what the mark says.
    pub(crate) fn loss(&self, tally: &RunTally, number_last: u64) -> Option<Unequal> {
        // In a damaged file a count may be anything.
        let n_numbers = [self.n_runs, self.n_removed, tally.n_forgotten, tally.n_lost];
        let n_numbers = n_numbers.into_iter().fold(0, u64::saturating_add);
        first_unequal([
            ("numbered runs", number_last, tally.number_last.min(number_last)),
            ("ids of removed runs", tally.n_removed, self.n_removed),
            ("runs", tally.number_last, n_numbers),
            (
                "saved plans and action profiles",
                tally.n_definitions,
                self.n_definitions,
            ),
        ])
    }

    /// Returns the first count by state that the runs do not bear out.
    pub(crate) fn miscount(&self, tally: &RunTally) -> Option<Unequal> {
        let n_by_state = tally.n_live.saturating_add(tally.n_ended);
        first_unequal([
            ("live runs", tally.n_live, self.n_live),
            ("runs by state", self.n_runs, n_by_state),
        ])
    }
}
