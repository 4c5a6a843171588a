//! The wall clock of one execution. Is read once, and runs on with the monotonic clock; so nothing that is set later
//! moves its deadline, its duration or the order of its entries.

use escapement_contract::Moment;

/// What the wall clock would read if it had not been set since the execution was accepted, or recovered after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallClock {
    /// Unix milliseconds when the monotonic clock read 0.
    unix_ms_at_zero: i64,
}

impl WallClock {
    /// Creates a clock that is right now.
    pub(crate) fn set(now: Moment) -> Self {
        Self {
            unix_ms_at_zero: now.unix_ms.saturating_sub_unsigned(now.monotonic_ms),
        }
    }

    /// Returns the instant at which the monotonic clock reads this.
    //
    pub(crate) fn at(self, monotonic_ms: u64) -> Moment {
        Moment {
            monotonic_ms,
            unix_ms: self.unix_ms_at_zero.saturating_add_unsigned(monotonic_ms),
        }
    }
}
