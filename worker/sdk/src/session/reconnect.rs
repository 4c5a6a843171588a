//! Times of reconnects. The shell supplies random numbers.

/// Exponential backoff with jitter, and what the orchestrator asked for.
#[derive(Debug, Default)]
pub(super) struct Reconnect {
    failures: u32,
    retry_after_ms: u64,
    spread_ms: Option<u64>,
}

impl Reconnect {
    /// Records that the orchestrator works with this worker: the next failure is the first.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Applies `SessionError.retry_after_ms`.
    pub(super) fn retry_after(&mut self, retry_after_ms: i64) {
        self.retry_after_ms = bounded(retry_after_ms);
    }

    /// Applies `Reconnect.jitter_ms`.
    pub(super) fn spread_over(&mut self, jitter_ms: i64) {
        self.spread_ms = Some(bounded(jitter_ms));
    }

    /// Returns the milliseconds until the next try. `random` is any number, uniformly drawn.
    pub(super) fn delay_ms(&mut self, random: u64) -> u64 {
        if let Some(spread_ms) = self.spread_ms.take() {
            return random % (spread_ms + 1);
        }
        let backoff_ms = (DELAY_MS_MIN << self.failures.min(16)).min(DELAY_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        // Between half and the whole of it, so that many workers do not come at once.
        let jittered_ms = backoff_ms / 2 + random % (backoff_ms / 2 + 1);
        std::mem::take(&mut self.retry_after_ms).saturating_add(jittered_ms)
    }
}

fn bounded(asked_ms: i64) -> u64 {
    u64::try_from(asked_ms).unwrap_or(0).min(ASKED_MS_MAX)
}

/// The first delay.
const DELAY_MS_MIN: u64 = 100;
/// The longest delay without one from the orchestrator.
const DELAY_MS_MAX: u64 = 5_000;
/// The longest delay that an orchestrator may ask for.
const ASKED_MS_MAX: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_from_100_ms_to_5_s_and_start_over_after_a_success() {
        let mut reconnect = Reconnect::default();
        let longest: Vec<u64> = (0..8).map(|_| reconnect.delay_ms(50_000_000_000)).collect();
        assert!(
            longest
                .iter()
                .zip([100, 200, 400, 800, 1600, 3200, 5000, 5000])
                .all(|(is, most)| *is <= most)
        );
        assert!(longest[7] >= 2_500, "{longest:?}");
        reconnect.succeeded();
        assert!(reconnect.delay_ms(u64::MAX) <= 100);
    }

    #[test]
    fn an_asked_delay_is_kept_and_bounded() {
        let mut reconnect = Reconnect::default();
        reconnect.retry_after(3_000);
        assert!(reconnect.delay_ms(0) >= 3_000);
        reconnect.spread_over(i64::MAX);
        assert!(reconnect.delay_ms(u64::MAX) <= ASKED_MS_MAX);
    }
}
