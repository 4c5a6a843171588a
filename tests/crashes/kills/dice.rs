//! Random numbers of a seed: SplitMix64. Asks no operating system for more.

use std::time::Duration;

/// A seed is the shape of a whole round; what the machine makes of it is its own.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.any() % sides
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.roll(100) < chance
    }

    /// Both ends included.
    pub(crate) fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(1_000 * least + self.roll(1_000 * (most - least) + 1))
    }

    /// An index of what has so many elements; newer ones more often.
    pub(crate) fn recent(&mut self, len: usize) -> usize {
        let is_recent = self.percent(80);
        let sides = if is_recent { len.min(RECENT) } else { len };
        len - 1 - self.index(sides)
    }

    /// Below `sides`.
    pub(crate) fn index(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides as u64)).expect("it is below an index")
    }
}

const RECENT: usize = 40;
