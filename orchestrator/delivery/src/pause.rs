//! How long a sink is left alone after it did not take an event.

/// The limits of one sink.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The longest pause between two tries, in milliseconds; a sink that asks for a longer one gets it.
    pub pause_max_ms: u64,
    /// An event that the sink refuses for so many milliseconds, and has no other answer for in between, is given up.
    pub give_up_after_ms: u64,
}

/// What time it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Now {
    /// Milliseconds of a clock that never jumps.
    pub monotonic_ms: u64,
    /// Unix milliseconds.
    pub unix_ms: i64,
}

/// Milliseconds to the next try after so many tries in vain, a fifth more or less. `chance` says which: 0 the least, `u32::MAX` the most.
/// `asked_ms`: what the sink asked for.
pub(crate) fn pause_ms(limits: Limits, n_in_vain: u32, asked_ms: Option<u64>, chance: u32) -> u64 {
    let step = usize::try_from(n_in_vain).map_or(LAST, |n_in_vain| n_in_vain.saturating_sub(1).min(LAST));
    let own_ms = PAUSES_MS[step].min(limits.pause_max_ms);
    if let Some(asked_ms) = asked_ms {
        // A sink that asks for no pause at all is not asked without one.
        return asked_ms
            .min(ASKED_MS_MAX)
            .max(PAUSES_MS[0].min(limits.pause_max_ms));
    }
    let spread_ms = own_ms / 5 * 2;
    own_ms - own_ms / 5 + spread_ms * u64::from(chance) / u64::from(u32::MAX)
}

/// 5 s, 1 min, 5 min, 30 min, 2 h, and then every 4 h.
const PAUSES_MS: [u64; 6] = [5_000, 60_000, 300_000, 1_800_000, 7_200_000, 14_400_000];
const LAST: usize = PAUSES_MS.len() - 1;
/// An hour.
const ASKED_MS_MAX: u64 = 3_600_000;
