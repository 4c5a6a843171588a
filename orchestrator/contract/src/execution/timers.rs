//! Timers: the execution's limit and one timer per step. Reads no clock; time fires them.

use super::{Effect, Execution, Phase, StepState, WithdrawReason};
use crate::audit::AuditKind;
use crate::error::ExecutionError;
use crate::outcome::severity_of;
use crate::plan::StepIndex;
use crate::time::Moment;
use alloc::collections::BTreeSet;
use alloc::format;
use escapement_model::codes;
use escapement_model::opaque::StructBuilder;

/// The timers of all steps, by due time, then canonical position.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, u16)>,
}

impl Timers {
    /// Returns the one that fires next.
    pub(super) fn first(&self) -> Option<(u64, u16)> {
        self.due.first().copied()
    }

    #[cfg(feature = "explore")]
    /// Returns all of them, in the order in which they fire.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u16)> {
        self.due.iter().copied()
    }

    /// Takes the timer at `before` away and arms one at `after`.
    pub(super) fn replace(&mut self, position: u16, before: Option<u64>, after: Option<u64>) {
        if let Some(due_ms) = before {
            self.due.remove(&(due_ms, position));
        }
        if let Some(due_ms) = after {
            self.due.insert((due_ms, position));
        }
    }
}

impl Execution {
    /// Returns the instant on the monotonic clock at which `Tick` is wanted at the latest; `None` if nothing is
    /// armed.
    pub fn next_due_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Queued | Phase::Starting => Some(self.limit_due_ms),
            Phase::Running => {
                let first = self.steps.as_ref().and_then(|steps| steps.timers.first());
                Some(first.map_or(self.limit_due_ms, |(due_ms, _)| due_ms.min(self.limit_due_ms)))
            }
            Phase::Settling | Phase::Settled => None,
        }
    }

    /// Fires what is due by `now`, one by one in order; what fires may arm what is due as well.
    pub(super) fn fire_due_timers(&mut self, now: Moment) {
        // ends because each turn uses up a timer and time stands still; a retry without delay waits
        // for an outcome.
        while let Some(due_ms) = self.next_due_ms().filter(|due_ms| *due_ms <= now.monotonic_ms) {
            // at the same instant the limit of the whole precedes that of a step.
            if self.limit_due_ms <= due_ms {
                self.settle_at_limit(now);
                return;
            }
            let (steps, plan) = self.running();
            let (_, position) = steps
                .timers
                .first()
                .expect("what is due and not the limit is a step's");
            let step = plan.at(position);
            steps.set_timer(plan, step, None);
            self.step_timer_fired(now, due_ms, step);
        }
    }

    fn step_timer_fired(&mut self, now: Moment, due_ms: u64, step: StepIndex) {
        match self.step_state(step) {
            StepState::Assigned { attempt } | StepState::Started { attempt } => {
                //
                self.want(Effect::Withdraw {
                    step,
                    attempt,
                    reason: WithdrawReason::StepTimeout,
                });
                let error = self.step_timeout_error(step);
                self.attempt_failed(now, due_ms, step, attempt, error);
                self.take_turns(now);
            }
            StepState::BackingOff { next_attempt } => self.dispatch(now, step, next_attempt),
            StepState::Pending
            | StepState::Waiting { .. }
            | StepState::Completed
            | StepState::NotCompleted
            | StepState::Stopped => {
                unreachable!("a step has a timer only while it is with a worker or asleep")
            }
        }
    }

    fn step_timeout_error(&self, step: StepIndex) -> ExecutionError {
        let step = self.plan().step(step);
        let limit_ms = step.timeout_ms().expect("only a step with a limit has a timer");
        let severity = severity_of(codes::STEP_TIMEOUT, None, self.plan().retry_policy());
        let context = StructBuilder::new().number("limit_ms", limit_ms as f64).build();
        ExecutionError::new(
            codes::STEP_TIMEOUT,
            severity,
            &format!("The attempt exceeded its limit of {limit_ms} ms."),
        )
        .at_step(step.id())
        .with_context(context)
    }

    /// Puts a step to sleep until its next attempt. The sleep counts from the instant at which the attempt
    /// was over.
    pub(super) fn back_off(&mut self, now: Moment, over_ms: u64, step: StepIndex, attempt: u32) {
        // the plan's limit stays armed during the sleep.
        let delay_ms = self.plan().retry_policy().delay_ms(attempt);
        let next_attempt = attempt + 1;
        let (steps, plan) = self.running();
        steps.record(step).state = StepState::BackingOff { next_attempt };
        steps.set_timer(plan, step, Some(over_ms.saturating_add(delay_ms)));
        let step_id = self.plan().step(step).id();
        self.record(
            now,
            AuditKind::RetryScheduled {
                step_id,
                next_attempt,
                delay_ms,
            },
        );
    }
}
