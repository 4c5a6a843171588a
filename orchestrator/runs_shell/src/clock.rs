//! The clock of runs. The only file that reads one for them.

use std::time::{Duration, Instant};

use escapement_model::planted::{self, Bug};
use escapement_process::unix_ms;

// RUN-7.8
/// The clock of runs: the wall clock at the start of the process, from there on the monotonic clock.
/// Everything that belongs to a run is measured by it. The wall clock is for times of day that are shown to
/// people and sent to others.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_ms: i64,
}

impl Clock {
    /// Creates a clock that begins with the wall clock.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            start_ms: unix_ms(),
        }
    }

    /// Returns Unix milliseconds that never go back and never jump.
    pub fn now(&self) -> i64 {
        if planted::is_on(Bug::RunWallClock) {
            return unix_ms();
        }
        let elapsed_ms = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.start_ms.saturating_add(elapsed_ms)
    }

    /// How long it is until then.
    pub fn until(&self, unix_ms: i64) -> Duration {
        let left_ms = unix_ms.saturating_sub(self.now());
        Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
    }

    /// Returns the lead of the wall clock over this one now in milliseconds, negative if it is slower. A few
    /// milliseconds count as zero, as two clocks always differ a little.
    pub fn wall_ahead_ms(&self) -> i64 {
        let ahead_ms = unix_ms().saturating_sub(self.now());
        ahead_ms.saturating_add(NONE_MS / 2).div_euclid(NONE_MS) * NONE_MS
    }
}

/// A difference of the clocks is taken as a multiple of this.
const NONE_MS: i64 = 100;
