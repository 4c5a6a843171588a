//! The two clocks of the shell. The only way to them for the engine and for new ids.

use escapement_contract::Moment;
pub(crate) use escapement_process::unix_ms;
use std::time::Instant;

/// Milliseconds since the start of the process on a clock that never goes back, and the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    boot: Instant,
}

impl Clock {
    /// Creates a clock that begins now.
    pub(crate) fn start() -> Self {
        Self { boot: Instant::now() }
    }

    /// This instant on both clocks.
    pub(crate) fn now(&self) -> Moment {
        let monotonic_ms = u64::try_from(self.boot.elapsed().as_millis()).unwrap_or(u64::MAX);
        Moment {
            monotonic_ms,
            unix_ms: unix_ms(),
        }
    }

    /// Returns the time at which the monotonic clock will read this.
    pub(crate) fn instant(&self, monotonic_ms: u64) -> Instant {
        // A timer beyond a century is as good as none, and the addition must not overflow.
        self.boot + std::time::Duration::from_millis(monotonic_ms.min(CENTURY_MS))
    }
}

const CENTURY_MS: u64 = 100 * 365 * 24 * 3_600_000;
