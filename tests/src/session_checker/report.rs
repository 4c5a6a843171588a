//! What the checker found and how much it saw. Judges nothing.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::session_journal::Hex;

/// What was violated. See the table of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the table of the module says what each is")]
pub enum Invariant {
    Journal,
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule it breaks.
    pub invariant: Invariant,
    /// The line at which it shows; 0 if it shows in a record.
    pub line: usize,
    /// The session of that line, or 0.
    pub session: u64,
    /// The attempt.
    pub token: Option<Hex>,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} line {} session {}",
            self.invariant, self.line, self.session
        )?;
        if let Some(token) = self.token {
            write!(f, " token {token}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    /// Lines.
    Events,
    /// Processes of the orchestrator.
    Boots,
    /// Lines that the journal says are missing.
    DroppedLines,
    /// Sessions that were welcomed.
    Sessions,
    /// Sessions that took over from another of the same instance.
    Resumes,
    /// Attempts that a resume kept.
    KeptAttempts,
    /// Attempts that were sent to a worker.
    Assignments,
    /// Of these, the ones with the number of an earlier one.
    HandedOutAgain,
    /// Attempts whose handlers began, as far as the orchestrator was told.
    Started,
    /// Attempts that a worker rejected.
    Rejected,
    /// Outcomes that were read, on streams and from calls.
    OutcomesRead,
    /// Of these, the ones with the verdict `accepted` or `invalid`.
    OutcomesAccepted,
    /// Of these, the ones with another verdict.
    OutcomesRefused,
    /// Items of `Cancels`, with repeats.
    Cancels,
    /// Attempts that a worker said it stopped.
    Stopped,
    /// Snapshots that were asked for.
    SnapshotRequests,
    /// Snapshots that were asked for and came.
    SnapshotAnswers,
    /// Attempts that were settled as gone, started or not, other than by `rejected`.
    Losses,
    /// `DrainStarted` messages.
    Drains,
    /// Calls of `ReportOutcomes`.
    Reports,
    /// Records that were judged.
    Records,
    /// Records of executions that a restart ended: not judged.
    RestartedRecords,
    /// Waits in records that I10 was judged on.
    JudgedWaits,
}

/// What the checker found and how much it saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    counts: BTreeMap<Count, u64>,
    violations: Vec<Violation>,
    n_violations: usize,
}

impl Report {
    /// How many of these there were.
    pub fn count(&self, count: Count) -> u64 {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    /// Returns the violations in the order in which they showed, the first 1,000 of them.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Passes when nothing was violated.
    ///
    /// # Panics
    /// Something was; the text says what.
    #[track_caller]
    pub fn expect_clean(&self) -> &Self {
        assert!(self.n_violations == 0, "{self}");
        self
    }

    /// Passes when the run did enough to prove something.
    ///
    /// # Panics
    /// It did not.
    #[track_caller]
    pub fn at_least(&self, count: Count, floor: u64) -> &Self {
        let found = self.count(count);
        assert!(
            found >= floor,
            "{count:?} is {found}, and should be at least {floor}\n{self}"
        );
        self
    }

    pub(super) fn add(&mut self, count: Count, n: u64) {
        *self.counts.entry(count).or_default() += n;
    }

    pub(super) fn violate(&mut self, violation: Violation) {
        self.n_violations += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{} violations of the worker protocol\n", self.n_violations);
        for violation in self.violations.iter().take(SHOWN_MAX) {
            writeln!(text, "  {violation}")?;
        }
        if self.n_violations > SHOWN_MAX {
            writeln!(text, "  and {} more", self.n_violations - SHOWN_MAX)?;
        }
        for (count, n) in &self.counts {
            writeln!(text, "  {count:?}: {n}")?;
        }
        f.write_str(&text)
    }
}

const VIOLATIONS_MAX: usize = 1_000;
const SHOWN_MAX: usize = 30;
