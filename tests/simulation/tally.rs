//! Counts what a run was made of, so that runs in which nothing happens prove nothing.

use std::collections::BTreeMap;
use std::fmt;

/// How often each thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub(crate) fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &str, n: u64) {
        if n > 0 {
            *self.0.entry(what.to_owned()).or_default() += n;
        }
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            self.add(what, *n);
        }
    }

    /// Returns all whose names begin so.
    pub(crate) fn of_all(&self, prefix: &str) -> u64 {
        let all = self.0.iter().filter(|(what, _)| what.starts_with(prefix));
        all.map(|(_, n)| n).sum()
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, n) in &self.0 {
            writeln!(f, "{n:>10} {what}")?;
        }
        Ok(())
    }
}
