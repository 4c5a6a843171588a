//! Random numbers of a seed: SplitMix64. Asks no operating system for more.

/// Numbers that follow from a seed alone, on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.any() % sides
    }

    /// Both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.roll(most - least + 1)
    }

    /// True as often in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.roll(100) < chance
    }

    /// One of these; there is one at least.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// Below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.roll(len as u64)).expect("an index fits")
    }

    /// As many as an id has.
    pub fn bytes(&mut self) -> [u8; 16] {
        let (high, low) = (u128::from(self.any()), u128::from(self.any()));
        (high << 64 | low).to_be_bytes()
    }
}
