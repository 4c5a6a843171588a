//! Removal of ended runs that the operator does not keep, in small steps on the thread of runs. Keeps everything if
//! nothing is said.
//!
//! Behind each step stands a pause in proportion to the time that it took, so that removal takes a bounded share of the
//! thread however much there is to remove.

use std::time::{Duration, Instant};

use escapement_store::runs::{RunRemoval, RunStore};
use escapement_store::{FeedMark, StoreFault};
use tracing::{debug, warn};

use crate::limits::{REMOVAL_AHEAD_MAX_MS, REMOVAL_INTERVAL, REMOVAL_SHARE, REMOVAL_STEP_MIN};

/// Time at which the next step is due, and what it removes.
#[derive(Debug)]
pub(crate) struct Retention {
    policy: RunRemoval,
    /// What readers of the endings have had.
    feed: FeedMark,
    /// The two clocks at the start: the wall clock, and one that cannot jump.
    start_ms: i64,
    start: Instant,
    due_at: Instant,
    is_refused: bool,
}

impl Retention {
    /// Its first step is due at once. `newest_ms` is the latest time that the store knows: a machine that begins in a wrong
    /// year must not remove everything, so all but a day of the time since then is no age.
    pub(crate) fn new(
        mut policy: RunRemoval,
        feed: FeedMark,
        newest_ms: Option<i64>,
        now_unix_ms: i64,
    ) -> Self {
        let start = Instant::now();
        let ahead_ms = newest_ms.map_or(0, |newest_ms| now_unix_ms.saturating_sub(newest_ms));
        let longer_ms = u64::try_from(ahead_ms)
            .unwrap_or(0)
            .saturating_sub(REMOVAL_AHEAD_MAX_MS);
        for keep_ms in [&mut policy.keep_ended_ms, &mut policy.keep_ids_ms]
            .into_iter()
            .flatten()
        {
            *keep_ms = keep_ms.saturating_add(longer_ms);
        }
        if longer_ms > 0 && policy.keep_ended_ms.or(policy.keep_ids_ms).is_some() {
            warn!(
                ahead_ms,
                longer_ms,
                "clock far ahead of the store of runs; until the next start its age is not counted in full"
            );
        }
        Self {
            policy,
            feed,
            start_ms: now_unix_ms,
            start,
            due_at: start,
            is_refused: false,
        }
    }

    /// How long the thread may wait for something else; `None` for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        (!self.policy.keeps_everything()).then(|| self.due_at.saturating_duration_since(Instant::now()))
    }

    /// Takes one step if it is due. What cannot be removed now is tried again later.
    ///
    /// # Errors
    /// If the store cannot be trusted any more.
    pub(crate) fn turn(&mut self, store: &mut impl RunStore, now_unix_ms: i64) -> Result<(), StoreFault> {
        if self.patience() != Some(Duration::ZERO) {
            return Ok(());
        }
        let begun = Instant::now();
        let policy = RunRemoval {
            held: self.feed.held(),
            ..self.policy
        };
        let stepped = store.remove_ended(&policy, self.steady_ms(now_unix_ms));
        let now = Instant::now();
        self.due_at = now + REMOVAL_INTERVAL;
        match stepped {
            Ok(removed) => {
                self.is_refused = false;
                if removed.has_more {
                    self.due_at = now + (now - begun).max(REMOVAL_STEP_MIN) * REMOVAL_SHARE;
                }
                if removed.n_runs + removed.n_ids > 0 {
                    debug!(runs = removed.n_runs, ids = removed.n_ids, "ended runs removed");
                }
                Ok(())
            }
            Err(fault @ (StoreFault::Full(_) | StoreFault::Busy(_))) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    warn!(
                        error = &fault as &dyn std::error::Error,
                        "ended runs cannot be removed now"
                    );
                }
                Ok(())
            }
            Err(fault @ StoreFault::CorruptRun { .. }) => {
                warn!(
                    error = &fault as &dyn std::error::Error,
                    "damaged run is not removed"
                );
                self.due_at = now + REMOVAL_STEP_MIN;
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// Returns the wall clock, but never further from the start than the clock that cannot jump: a wall clock that is set to a
    /// wrong year must not remove everything.
    fn steady_ms(&self, now_unix_ms: i64) -> i64 {
        let elapsed_ms = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        now_unix_ms.min(self.start_ms.saturating_add(elapsed_ms))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use escapement_store::runs::RunBatch;
    use escapement_store_kit::runs::MemoryRuns;
    use escapement_store_kit::runs::conformance::RunSample;

    fn store_of(n_runs: u64) -> MemoryRuns {
        let mut store = MemoryRuns::new();
        for seed in 1..=n_runs {
            let mut write = RunSample::new(seed).create();
            write.progress.ended_at = Some(1);
            let mut batch = RunBatch::new();
            batch.add(write);
            store.commit(&batch).unwrap();
        }
        store
    }

    fn n_ended(store: &MemoryRuns) -> u64 {
        store.reader().unwrap().counts().unwrap().ended
    }

    #[test]
    fn if_everything_is_kept_the_thread_is_never_disturbed() {
        let mut store = store_of(2);
        let mut retention = Retention::new(RunRemoval::default(), FeedMark::default(), None, 0);
        assert_eq!(retention.patience(), None);
        retention.turn(&mut store, i64::MAX).unwrap();
        assert_eq!(n_ended(&store), 2);
    }

    #[test]
    fn a_step_is_bounded_and_the_next_one_is_due_soon_while_there_is_more() {
        let policy = RunRemoval {
            keep_ended_count: Some(1),
            ..RunRemoval::default()
        };
        let mut store = store_of(40);
        let mut retention = Retention::new(policy, FeedMark::default(), None, 0);
        retention.turn(&mut store, 0).unwrap();
        assert_eq!(n_ended(&store), 8);
        assert!(retention.patience().unwrap() < REMOVAL_INTERVAL / 2);
        retention.turn(&mut store, 0).unwrap();
        retention.due_at = Instant::now();
        retention.turn(&mut store, 0).unwrap();
        assert_eq!(n_ended(&store), 1);
        assert!(retention.patience().unwrap() > REMOVAL_INTERVAL / 2);
        retention.turn(&mut store, 0).unwrap();
        assert_eq!(n_ended(&store), 1, "not before it is due");
    }

    #[test]
    fn what_a_reader_of_the_endings_lacks_stays() {
        let policy = RunRemoval {
            keep_ended_count: Some(0),
            ..RunRemoval::default()
        };
        let mut store = store_of(3);
        let feed = FeedMark::new(60_000);
        feed.set(Some(1));
        let mut retention = Retention::new(policy, feed.clone(), None, 10);
        retention.turn(&mut store, 10).unwrap();
        assert_eq!(n_ended(&store), 2);
        feed.set(None);
        retention.due_at = Instant::now();
        retention.turn(&mut store, 10).unwrap();
        assert_eq!(n_ended(&store), 0);
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_removes_nothing() {
        let policy = RunRemoval {
            keep_ended_ms: Some(60_000),
            ..RunRemoval::default()
        };
        let mut store = store_of(2);
        let mut retention = Retention::new(policy, FeedMark::default(), None, 10);
        retention.turn(&mut store, 10_000_000_000).unwrap();
        assert_eq!(n_ended(&store), 2);
    }

    #[test]
    fn a_start_in_a_wrong_year_removes_nothing() {
        let policy = RunRemoval {
            keep_ended_ms: Some(2 * DAY_MS as u64),
            ..RunRemoval::default()
        };
        let century_ms = 100 * 365 * DAY_MS;
        let mut store = store_of(2);
        let mut retention = Retention::new(policy, FeedMark::default(), Some(1), century_ms);
        retention.turn(&mut store, century_ms).unwrap();
        assert_eq!(n_ended(&store), 2);
        let mut retention = Retention::new(policy, FeedMark::default(), Some(century_ms - 1), century_ms);
        retention.turn(&mut store, century_ms).unwrap();
        assert_eq!(n_ended(&store), 0, "nothing is wrong with the year");
    }

    const DAY_MS: i64 = 86_400_000;
}
