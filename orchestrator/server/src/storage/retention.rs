//! Removal of what the operator does not keep, in small steps on the writer's thread. Keeps everything if nothing
//! is said, and never comes before a write that waits, unless writes have been waiting for too long to be asked.
//!
//! A step takes the time of a commit or two. Behind each one stands a pause in proportion to it, so that removal takes a
//! bounded share of the writer however much there is to remove.

use crate::clock::Clock;
use crate::limits::{
    REMOVAL_AHEAD_MAX_MS, REMOVAL_BUSY_SHARE, REMOVAL_IDLE_SHARE, REMOVAL_INTERVAL, REMOVAL_PATIENCE,
    REMOVAL_STEP_MIN,
};
use escapement_contract::Moment;
use escapement_runs_shell::CaughtUp;
use escapement_store::{FeedMark, Held, Removal, Removed, Store, StoreFault};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Time at which the next step is due, and what it removes.
#[derive(Debug)]
pub(crate) struct Maintenance {
    policy: Removal,
    /// What sinks have had.
    feed: FeedMark,
    /// Set once runs have read the results of before the start.
    caught_up: CaughtUp,
    clock: Clock,
    start: Moment,
    /// When a step is due if no write waits.
    idle_at: Instant,
    /// When a step is due although writes wait.
    busy_at: Instant,
    /// Milliseconds since the last use of the store that count as no age.
    longer_ms: u64,
    is_refused: bool,
}

impl Maintenance {
    /// Its first step is due at once. `newest_ms` is what [`Embedded::newest_ms`](escapement_store::Embedded::newest_ms)
    /// says: a machine that begins in a wrong year, or that was in one, must not remove everything, so all but a day of
    /// the time since then is no age.
    pub(crate) fn new(mut policy: Removal, clock: Clock, newest_ms: Option<i64>, feed: FeedMark) -> Self {
        let now = Instant::now();
        let start = clock.now();
        let ahead_ms = newest_ms.map_or(0, |newest_ms| start.unix_ms.saturating_sub(newest_ms));
        let longer_ms = u64::try_from(ahead_ms)
            .unwrap_or(0)
            .saturating_sub(REMOVAL_AHEAD_MAX_MS);
        for keep_ms in [&mut policy.keep_settled_ms, &mut policy.keep_ids_ms]
            .into_iter()
            .flatten()
        {
            *keep_ms = keep_ms.saturating_add(longer_ms);
        }
        if policy.spare_younger_ms > 0 {
            policy.spare_younger_ms = policy.spare_younger_ms.saturating_add(longer_ms);
        }
        if longer_ms > 0 && policy.keep_settled_ms.or(policy.keep_ids_ms).is_some() {
            warn!(
                ahead_ms,
                longer_ms,
                "clock far ahead of the store; until the next start its age is not counted in full"
            );
        }
        Self {
            policy,
            feed,
            caught_up: CaughtUp::already(),
            clock,
            start,
            idle_at: now,
            busy_at: now + REMOVAL_PATIENCE,
            longer_ms,
            is_refused: false,
        }
    }

    /// Delays every step until runs have read the results from before the start.
    pub(crate) fn once(self, caught_up: CaughtUp) -> Self {
        Self { caught_up, ..self }
    }

    /// Returns the time, and the time by which things are old, which a clock in a wrong year does not move: Unix milliseconds.
    pub(crate) fn times(&self) -> (i64, i64) {
        let aged = self
            .unix_ms()
            .saturating_sub(i64::try_from(self.longer_ms).unwrap_or(i64::MAX));
        (self.clock.now().unix_ms, aged)
    }

    /// How long the writer may wait for writes; `None` for ever.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        (!self.policy.keeps_everything()).then(|| self.idle_at.saturating_duration_since(now))
    }

    /// Returns true if a step should be taken now.
    pub(crate) fn is_due(&self, now: Instant, writes_wait: bool) -> bool {
        let at = if writes_wait { self.busy_at } else { self.idle_at };
        !self.policy.keeps_everything() && now >= at
    }

    /// Takes one step. What cannot be removed now is tried again later.
    ///
    /// # Errors
    /// If the store cannot be trusted any more.
    pub(crate) fn step(&mut self, store: &mut impl Store) -> Result<(), StoreFault> {
        let begun = Instant::now();
        if !self.caught_up.is_set() {
            self.schedule(begun, Duration::ZERO, None);
            return Ok(());
        }
        self.policy.held = self.feed.held().map(|held| Held {
            for_ms: held.for_ms.saturating_add(self.longer_ms),
            ..held
        });
        let stepped = store.remove_settled(&self.policy, self.unix_ms());
        let now = Instant::now();
        self.schedule(now, now - begun, stepped.as_ref().ok());
        match stepped {
            Ok(removed) => {
                self.is_refused = false;
                if removed.n_executions + removed.n_ids > 0 {
                    let Removed {
                        n_executions, n_ids, ..
                    } = removed;
                    debug!(n_executions, n_ids, "settled executions removed");
                }
                Ok(())
            }
            Err(fault @ (StoreFault::Full(_) | StoreFault::Busy(_))) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    warn!(
                        error = &fault as &dyn std::error::Error,
                        "nothing can be removed now"
                    );
                }
                Ok(())
            }
            Err(fault @ StoreFault::Corrupt { .. }) => {
                warn!(
                    error = &fault as &dyn std::error::Error,
                    "damaged execution is not removed"
                );
                self.idle_at = now + REMOVAL_STEP_MIN;
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    fn schedule(&mut self, now: Instant, took: Duration, removed: Option<&Removed>) {
        if removed.is_some_and(|removed| removed.has_more) {
            let took = took.max(REMOVAL_STEP_MIN);
            self.idle_at = now + took * REMOVAL_IDLE_SHARE;
            self.busy_at = now + took * REMOVAL_BUSY_SHARE;
        } else {
            self.idle_at = now + REMOVAL_INTERVAL;
            self.busy_at = self.idle_at + REMOVAL_PATIENCE;
        }
    }

    /// Returns the wall clock, but never further from the start than the clock that cannot jump: a wall clock that is set to a
    /// wrong year must not remove everything.
    fn unix_ms(&self) -> i64 {
        let now = self.clock.now();
        let elapsed_ms = now.monotonic_ms.saturating_sub(self.start.monotonic_ms);
        let steady = i64::try_from(elapsed_ms).unwrap_or(i64::MAX);
        now.unix_ms.min(self.start.unix_ms.saturating_add(steady))
    }
}

#[cfg(test)]
mod tests;
