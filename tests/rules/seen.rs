//! Which states were seen, and where they lead. Shared by threads.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;

/// Keys are spread by one multiplication: they are numbers already.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = spread(key);
    }
}

fn spread(key: u128) -> u64 {
    let folded = (key as u64) ^ ((key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (folded ^ (folded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

type Shard<T> = Mutex<T>;
const N_SHARDS: usize = 64;

/// States that were seen.
#[derive(Default)]
pub(crate) struct Seen {
    shards: Shards<HashSet<u128, BuildHasherDefault<Spread>>>,
}

impl Seen {
    /// Returns true for a key that was not seen before.
    pub(crate) fn insert(&self, key: u128) -> bool {
        self.shards.of(key).lock().expect("no holder panics").insert(key)
    }
}

/// What each key leads to.
#[derive(Default)]
pub(crate) struct Signatures {
    shards: Shards<HashMap<u128, u64, BuildHasherDefault<Spread>>>,
}

impl Signatures {
    /// Two states with the same key lead to the same.
    pub(crate) fn check(&self, key: u128, signature: u64) {
        let mut known = self.shards.of(key).lock().expect("no holder panics");
        let first = *known.entry(key).or_insert(signature);
        drop(known);
        assert_eq!(
            first, signature,
            "states that count as one lead to different ones"
        );
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        let lengths = self
            .shards
            .0
            .iter()
            .map(|shard| shard.lock().expect("no holder panics").len());
        lengths.sum()
    }
}

struct Shards<T>(Vec<Shard<T>>);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self((0..N_SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl<T> Shards<T> {
    fn of(&self, key: u128) -> &Shard<T> {
        &self.0[spread(key) as usize >> 7 & (N_SHARDS - 1)]
    }
}
