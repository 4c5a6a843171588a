//! Dice made of a seed. The same seed gives the same numbers on every machine.

/// Seeds that lie side by side give numbers that have nothing in common.
#[derive(Clone, Debug)]
pub(crate) struct Dice(escapement_tests::Dice);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(escapement_tests::Dice::new(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// Returns a number below the bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.roll(bound.max(1))
    }

    /// Returns true once in so many throws.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Returns true if the long run is asked for.
pub(crate) fn long() -> bool {
    std::env::var("ESCAPEMENT_LONG").is_ok_and(|value| value == "1")
}

/// Returns the number of seeds that a random test takes.
pub(crate) fn seeds(default: u64) -> u64 {
    number("ESCAPEMENT_SEEDS").unwrap_or(default)
}

/// Returns the first of them.
pub(crate) fn seeds_from() -> u64 {
    number("ESCAPEMENT_SEEDS_FROM").unwrap_or(0)
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {value:?}")),
    )
}
