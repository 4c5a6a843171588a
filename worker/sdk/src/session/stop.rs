//! Stop of a worker, as a sequence of limits.

use crate::session::STOP_GRACE_MS;

/// A worker that was asked to stop.
#[derive(Debug)]
pub(super) struct Stop {
    grace_ends_ms: u64,
    next: Option<Step>,
}

/// Steps of a stop, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The drain grace is over: handler tasks are cancelled.
    StopTasks,
    /// Handler tasks that still run are abandoned.
    AbandonTasks,
    /// Outcomes that are not acknowledged are abandoned.
    GiveUp,
}

impl Stop {
    pub(super) fn new(now_ms: u64, drain_grace_ms: u64) -> Self {
        Self {
            grace_ends_ms: now_ms.saturating_add(drain_grace_ms),
            next: Some(Step::StopTasks),
        }
    }

    /// Returns true if it ends no later than the other.
    pub(super) fn is_within(&self, other: &Stop) -> bool {
        self.grace_ends_ms <= other.grace_ends_ms
    }

    /// Returns the next demand that has come.
    pub(super) fn poll(&mut self, now_ms: u64) -> Option<Step> {
        let step = self.next.filter(|step| self.at_ms(*step) <= now_ms)?;
        self.next = match step {
            Step::StopTasks => Some(Step::AbandonTasks),
            Step::AbandonTasks => Some(Step::GiveUp),
            Step::GiveUp => None,
        };
        Some(step)
    }

    pub(super) fn next_wake_ms(&self) -> Option<u64> {
        self.next.map(|step| self.at_ms(step))
    }

    /// Returns the milliseconds until the worker's planned end.
    pub(super) fn deadline_ms(&self, now_ms: u64) -> i64 {
        i64::try_from(self.at_ms(Step::GiveUp).saturating_sub(now_ms)).unwrap_or(i64::MAX)
    }

    fn at_ms(&self, step: Step) -> u64 {
        let after_ms = match step {
            Step::StopTasks => 0,
            // They are aborted after one stop grace; a second one is for the abortion to take effect.
            Step::AbandonTasks => 2 * STOP_GRACE_MS,
            Step::GiveUp => 2 * STOP_GRACE_MS + DELIVERY_MS,
        };
        self.grace_ends_ms.saturating_add(after_ms)
    }
}

/// Milliseconds for the acknowledgements of the last outcomes.
const DELIVERY_MS: u64 = 5_000;
