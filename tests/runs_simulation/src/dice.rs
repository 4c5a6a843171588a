//! Random numbers of a seed, which is a whole simulation: SplitMix64. Asks no operating system for more.

/// Numbers that follow from a seed alone.
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

    /// Both ends included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.roll(most - least + 1)
    }

    /// True as often in a hundred.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.roll(100) < chance
    }

    /// One of these; there is one at least.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.roll(from.len() as u64);
        &from[usize::try_from(at).expect("an index fits")]
    }

    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        let (high, low) = (u128::from(self.any()), u128::from(self.any()));
        (high << 64 | low).to_be_bytes()
    }
}
