//! A timer structure for everything. Knows neither clocks nor what a timer means.

use alloc::collections::{BTreeMap, BTreeSet};

/// A set of timers, at most one for each key. Times are monotonic milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K> {
    by_due: BTreeSet<(u64, K)>,
    due_of: BTreeMap<K, u64>,
}

impl<K: Ord + Copy> Timers<K> {
    pub(crate) fn new() -> Self {
        Self {
            by_due: BTreeSet::new(),
            due_of: BTreeMap::new(),
        }
    }

    /// Arms, moves or (with `None`) disarms the timer of a key.
    pub(crate) fn set(&mut self, key: K, due_ms: Option<u64>) {
        let before = match due_ms {
            Some(due_ms) => self.due_of.insert(key, due_ms),
            None => self.due_of.remove(&key),
        };
        if before == due_ms {
            return;
        }
        if let Some(before) = before {
            self.by_due.remove(&(before, key));
        }
        if let Some(due_ms) = due_ms {
            self.by_due.insert((due_ms, key));
        }
    }

    /// Returns the time at which the timer of a key is due.
    pub(crate) fn due_ms(&self, key: K) -> Option<u64> {
        self.due_of.get(&key).copied()
    }

    /// Returns the earliest due time.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.by_due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Takes the earliest timer that is due by `now_ms`; ties in the order of the keys.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<K> {
        let (due_ms, key) = *self.by_due.first()?;
        if due_ms > now_ms {
            return None;
        }
        self.by_due.pop_first();
        self.due_of.remove(&key);
        Some(key)
    }
}
