//! Those who wait for the same, in the order in which they came. One of them leaves at a cost that does not grow with the others as
//! a list's would. Answers nobody.

use crate::keys::CallerId;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::IntoValues;

/// What is kept of each caller, the first one that came in front.
#[derive(Debug)]
pub(crate) struct Arrivals<T> {
    by_turn: BTreeMap<u64, T>,
    turns: BTreeMap<CallerId, u64>,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self {
            by_turn: BTreeMap::new(),
            turns: BTreeMap::new(),
        }
    }
}

impl<T> Arrivals<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_turn.is_empty()
    }

    /// A caller comes behind all others. It is not there yet: the shell uses each number once.
    pub(crate) fn push(&mut self, caller: CallerId, waiting: T) {
        let turn = self.by_turn.last_key_value().map_or(0, |(last, _)| last + 1);
        self.by_turn.insert(turn, waiting);
        let before = self.turns.insert(caller, turn);
        assert!(before.is_none(), "a caller waits once");
    }

    /// A caller leaves, if it is there.
    pub(crate) fn remove(&mut self, caller: CallerId) {
        if let Some(turn) = self.turns.remove(&caller) {
            self.by_turn.remove(&turn);
        }
    }
}

impl<T> IntoIterator for Arrivals<T> {
    type Item = T;
    type IntoIter = IntoValues<u64, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_turn.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;
    use crate::keys::CallerId;
    use alloc::vec::Vec;

    #[test]
    fn those_who_stay_keep_their_order() {
        let mut arrivals = Arrivals::default();
        for (n, caller) in [9, 2, 7, 4].into_iter().enumerate() {
            arrivals.push(CallerId(caller), n);
        }
        arrivals.remove(CallerId(2));
        arrivals.remove(CallerId(4));
        arrivals.remove(CallerId(1));
        arrivals.push(CallerId(1), 4);
        assert_eq!(arrivals.into_iter().collect::<Vec<_>>(), [0, 2, 4]);
        let mut arrivals = Arrivals::default();
        arrivals.push(CallerId(3), ());
        arrivals.remove(CallerId(3));
        assert!(arrivals.is_empty());
    }
}
