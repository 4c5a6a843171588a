//! What is remembered about things that are gone. Bounded: the oldest go first.

use alloc::collections::{BTreeMap, VecDeque};

/// A map that forgets what it was told first when it grows beyond its bound.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    values: BTreeMap<K, V>,
    oldest_first: VecDeque<K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            oldest_first: VecDeque::new(),
        }
    }
}

impl<K: Ord + Copy, V: Copy> Recent<K, V> {
    /// Remembers a value, in place of an earlier one of the same key.
    pub(super) fn remember(&mut self, key: K, value: V, n_max: usize) {
        if self.values.insert(key, value).is_none() {
            self.oldest_first.push_back(key);
        }
        while self.oldest_first.len() > n_max {
            let oldest = self
                .oldest_first
                .pop_front()
                .expect("it is longer than its limit");
            self.values.remove(&oldest);
        }
    }

    pub(super) fn recall(&self, key: K) -> Option<V> {
        self.values.get(&key).copied()
    }
}
