//! How many messages a session may send. Work entitles to its answers, time to a little more. Ends nothing.

use crate::limits::SESSION_ALLOWANCE_MAX;

/// What is left of a session's messages, in thousandths, so that each millisecond counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left_milli: u64,
    burst_milli: u64,
    /// Messages per second are thousandths of a message per millisecond.
    milli_per_ms: u64,
    counted_at_ms: u64,
}

impl Allowance {
    pub(crate) fn new(burst: u32, per_second: u32, now_ms: u64) -> Self {
        let burst_milli = u64::from(burst) * MILLI;
        Self {
            left_milli: burst_milli,
            burst_milli,
            milli_per_ms: u64::from(per_second),
            counted_at_ms: now_ms,
        }
    }

    /// Takes one message; false where none is left.
    pub(crate) fn take(&mut self, now_ms: u64) -> bool {
        let grown = (now_ms - self.counted_at_ms).saturating_mul(self.milli_per_ms);
        self.counted_at_ms = now_ms;
        // Time fills it up to the burst and no further; what work entitles to stays.
        let filled = self.left_milli.saturating_add(grown).min(self.burst_milli);
        self.left_milli = self.left_milli.max(filled);
        match self.left_milli.checked_sub(MILLI) {
            Some(left_milli) => {
                self.left_milli = left_milli;
                true
            }
            None => false,
        }
    }

    /// Adds messages that the session's work explains.
    pub(crate) fn entitle(&mut self, n_messages: u64) {
        let max_milli = self.burst_milli.max(SESSION_ALLOWANCE_MAX * MILLI);
        self.left_milli = (self.left_milli + n_messages * MILLI).min(max_milli);
    }
}

const MILLI: u64 = 1_000;
