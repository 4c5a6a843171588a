//! What the checker found, and how much it saw. Judges nothing.

use std::collections::BTreeMap;
use std::fmt;

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An answer never shows less than one that had come before its question left.
    Regress,
    /// What was accepted is never absent.
    Lost,
    /// A settled result is one and the same on every surface, for ever.
    OneResult,
    /// An execution starts once.
    OneStart,
    /// A request for each execution id: the same one attaches, any other is refused.
    OneRequest,
    /// An execution for each plan id.
    OnePlan,
    /// Nothing exists that nobody asked for, or that had been seen to be absent after everybody who asked was done.
    FromNothing,
    /// An entry of a record never changes.
    Entry,
    /// A record is numbered from 1 without gaps, never shrinks, and ends with `settled`.
    Record,
    /// An attempt has one token, one outcome and one number.
    Outcome,
    /// Nothing is handed out after its end, again after its outcome, or in a later life.
    HandOut,
    /// Higher priority first, then first come first served.
    Order,
    /// Every accepted execution gets its result, and who waits for it gets nothing else.
    EndsOnce,
    /// Too little was seen to prove anything.
    Floor,
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it breaks.
    pub rule: Rule,
    /// What was seen, with both observations.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// The judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which they were seen, at most [`VIOLATIONS_MAX`].
    pub violations: Vec<Violation>,
    /// Violations beyond those.
    pub n_more: u64,
    counts: BTreeMap<String, u64>,
}

/// Number of violations that are kept.
pub const VIOLATIONS_MAX: usize = 100;

impl Report {
    /// Returns true if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// How often it was seen: `submissions`, `looks`, `answers`, `pieces`, `lost answers`, `refusals`, `lives`, `kills`, `power cuts`,
    /// `drains`, `hand-outs`, `accepted outcomes`, `events`, `entries`, `executions`, or what the caller counted.
    pub fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(what, n)| (what.as_str(), *n))
    }

    pub(super) fn count(&mut self, what: &str, n: u64) {
        match self.counts.get_mut(what) {
            Some(count) => *count += n,
            None => {
                self.counts.insert(what.into(), n);
            }
        }
    }

    pub(super) fn accuse(&mut self, rule: Rule, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { rule, text });
        } else {
            self.n_more += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        if self.n_more > 0 {
            writeln!(f, "and {} more", self.n_more)?;
        }
        for (what, n) in self.counts() {
            writeln!(f, "{n} {what}")?;
        }
        Ok(())
    }
}
