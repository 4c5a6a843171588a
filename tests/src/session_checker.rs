//! Judges what an orchestrator and its workers did, from the session journal and the records of the executions alone.
//! Knows the protocol, and nothing of the engine that it judges.
//!
#![doc = include_str!("session_checker/invariants.md")]
//!
//! An attempt is *live* from its assignment until one of these lines: `rejected`; `accepted` or `invalid`; `already_ended`;
//! `cancels`; `stopped`; a resume, or the asked-for snapshot, that omits it; `stop` in `Welcome`; `goodbye`;
//! the operator's word; `lease_expired`; or, where its stream is over, when its lease and margin are over or its time limit is,
//! since then nothing is said to anybody.
//!
//! An instance is *deaf* when its `Hello` does not name the session that it was welcomed to last: it has not read that `Welcome`.
//! It is so since that session was last heard, by its `Hello` or a heartbeat, or since that session was deaf itself;
//! a heartbeat on the new session ends it.
//! Deaf for a lease and its margin at its `Hello`, it has certainly expired, and yet its session is never silent.
//! So `stop` for what such a `Hello` lists as `received` or `finished` is proof as `lease_expired` is; of what is `running` it is not,
//! and neither is it from any other `Hello`.
//!
//! What the lines of one instant settle is settled, in whatever order they stand.
//!
//! One pass, each line in the logarithm of what is open, besides the actions of the session concerned.
//! Of an attempt that is over some 200 bytes are kept, for late verdicts and for its record.
//! Executions that a restart ended are not held against their records: they have none of their attempts.

mod attempt;
mod books;
mod from_worker;
mod idle;
mod records;
mod report;
mod resume;
mod session;
mod to_worker;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use escapement_model::limits::{LEASE_MARGIN_MS, LEASE_MS};
use escapement_wire::v1::AuditEntry;

pub use report::{Count, Invariant, Report, Violation};

use crate::Fault;
use crate::session_journal::{Event, Journal};
use books::Books;

/// The record of each execution that is to be judged as well, by its id.
pub type Records = BTreeMap<String, Vec<AuditEntry>>;

/// What the orchestrator was told, and how patient the checker is.
#[derive(Clone, Debug)]
pub struct CheckerSettings {
    /// The lease of a session.
    pub lease_ms: u64,
    /// What the orchestrator waits beyond it.
    pub lease_margin_ms: u64,
    /// How long an unanswered snapshot request stands before the next one.
    pub snapshot_repeat_ms: u64,
    /// The allowance of messages at the beginning of a session.
    pub session_messages_burst: u64,
    /// How fast it grows.
    pub session_messages_per_second: u64,
    /// How long a step may wait beside a free slot.
    pub free_slot_ms: u64,
    /// How long an outcome may stay without an answer on an open stream.
    pub answer_ms_max: u64,
    /// Labels of workers that forget outcomes on purpose: I7 is not held against them.
    pub careless_workers: BTreeSet<String>,
}

impl Default for CheckerSettings {
    fn default() -> Self {
        Self {
            lease_ms: LEASE_MS,
            lease_margin_ms: LEASE_MARGIN_MS,
            snapshot_repeat_ms: 4_000,
            session_messages_burst: 2_000,
            session_messages_per_second: 200,
            free_slot_ms: 1_000,
            answer_ms_max: 10_000,
            careless_workers: BTreeSet::new(),
        }
    }
}

/// Takes the lines one by one.
#[derive(Debug)]
pub struct Checker {
    books: Books,
}

impl Checker {
    /// Before the first line.
    pub fn new(settings: CheckerSettings) -> Self {
        Self {
            books: Books::new(settings),
        }
    }

    /// The next line.
    pub fn event(&mut self, event: &Event) {
        self.books.handle(event);
    }

    /// After the last line: judges the records and says what was found.
    pub fn finish(mut self, records: &Records) -> Report {
        self.books.end_boot();
        records::judge(&mut self.books, records);
        self.books.report
    }
}

/// Judges a journal.
///
/// # Errors
/// A line that cannot be read.
pub fn check<Lines>(journal: Lines, records: &Records, settings: CheckerSettings) -> Result<Report, Fault>
where
    Lines: IntoIterator<Item = Result<Event, Fault>>,
{
    let mut checker = Checker::new(settings);
    for event in journal {
        checker.event(&event?);
    }
    Ok(checker.finish(records))
}

/// Judges a journal file with the default settings.
///
/// # Errors
/// The file or a line of it cannot be read.
pub fn check_file(journal: &Path, records: &Records) -> Result<Report, Fault> {
    check(Journal::open(journal)?, records, CheckerSettings::default())
}

#[cfg(test)]
mod tests;
