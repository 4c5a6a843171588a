//! The way of a worker to its end, as a row of limits. Knows no stream and no attempt.

use crate::session::STOP_GRACE_MS;

/// A worker that was asked to stop.
#[derive(Debug)]
pub(super) struct Stop {
    grace_ends_ms: u64,
    next: Option<Step>,
}

/// What the limits demand, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The drain grace is over: handler tasks are told to end.
    StopTasks,
    /// Handler tasks that are still there are left behind.
    AbandonTasks,
    /// Outcomes that are not acknowledged are left behind.
    GiveUp,
}

impl Stop {
    pub(super) fn new(now_ms: u64, drain_grace_ms: u64) -> Self {
        Self {
            grace_ends_ms: now_ms.saturating_add(drain_grace_ms),
            next: Some(Step::StopTasks),
        }
    }

    /// It ends no later than the other.
    pub(super) fn is_within(&self, other: &Stop) -> bool {
        self.grace_ends_ms <= other.grace_ends_ms
    }

    /// The next demand that has come.
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

    /// Milliseconds until the worker means to be gone.
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

/// What the last outcomes may take to be acknowledged.
const DELIVERY_MS: u64 = 5_000;
