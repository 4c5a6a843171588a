//! The clock of runs. The only file that reads one for them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Unix milliseconds that never go back: the wall clock, and time since the start if the wall clock is set back.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_ms: i64,
    last_ms: i64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let start_ms = wall_ms();
        Self {
            start: Instant::now(),
            start_ms,
            last_ms: start_ms,
        }
    }

    pub(crate) fn now(&mut self) -> i64 {
        let elapsed_ms = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        let steady_ms = self.start_ms.saturating_add(elapsed_ms);
        self.last_ms = self.last_ms.max(wall_ms()).max(steady_ms);
        self.last_ms
    }

    /// How long it is until then.
    pub(crate) fn until(&mut self, unix_ms: i64) -> Duration {
        let left_ms = unix_ms.saturating_sub(self.now());
        Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
    }
}

/// A wall clock before 1970 counts as 1970.
pub(crate) fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
