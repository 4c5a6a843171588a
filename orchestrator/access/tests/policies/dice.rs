//! Random choices that a number repeats.

/// A throw of the dice is decided by the seed and by how many came before it.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Less than `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// None, one or several of them, in their order.
    pub(crate) fn some_of(&mut self, all: &[&str]) -> Vec<String> {
        let chosen = all.iter().filter(|_| self.once_in(3));
        chosen.map(|one| (*one).to_owned()).collect()
    }
}
