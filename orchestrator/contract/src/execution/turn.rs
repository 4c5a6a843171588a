//! Whose turn it is: steps are taken up in canonical order while slots are free. Does not know workers.

use super::{Effect, Ending, Execution, Phase, StepState};
use crate::audit::{AuditKind, NotCompleted};
use crate::error::ExecutionError;
use crate::plan::{OnFailure, StepIndex};
use crate::time::Moment;
use alloc::sync::Arc;
use escapement_model::{Severity, codes};

impl Execution {
    /// Takes up every step whose turn has come, and ends the execution if no step is left.
    pub(super) fn take_turns(&mut self, now: Moment) {
        while self.phase == Phase::Running {
            let (steps, plan) = self.running();
            // the lowest position among the ready ones, while a slot is free.
            let next = if steps.n_slots_free > 0 {
                steps.ready.pop_first()
            } else {
                None
            };
            let Some(position) = next else {
                break;
            };
            let step = plan.at(position);
            match steps.record(step).failed_dependency {
                None => {
                    steps.n_slots_free -= 1;
                    self.dispatch(now, step, 1);
                }
                Some(failed) => self.cannot_run(now, step, failed),
            }
        }
        // A step that is taken up may be the last one to end, so this is asked only after the loop.
        if self.phase == Phase::Running && self.running().0.n_ended as usize == self.plan().steps().len() {
            self.settle(now, Ending::AllStepsEnded);
        }
        // a step that holds a slot waits for a worker, for an answer or for the end of a sleep.
        let n_slots = self.request.max_concurrent_steps();
        assert!(
            self.phase != Phase::Running || self.running().0.n_slots_free < n_slots,
            "an execution that runs has a step under way"
        );
    }

    /// Asks for a worker.
    pub(super) fn dispatch(&mut self, now: Moment, step: StepIndex, attempt: u32) {
        let (steps, plan) = self.running();
        steps.record(step).state = StepState::Waiting { attempt };
        let step_id = plan.step(step).id();
        self.record(now, AuditKind::StepWaiting { step_id, attempt });
        self.want(Effect::Dispatch { step, attempt });
    }

    /// Ends a step one of whose dependencies did not complete: no attempt, no retry, no sleep.
    fn cannot_run(&mut self, now: Moment, step: StepIndex, failed: u16) {
        //
        let (steps, plan) = self.running();
        let upstream = plan.at(failed);
        let cause = steps
            .record(upstream)
            .error
            .clone()
            .expect("a step that did not complete has an error");
        let step_id = plan.step(step).id();
        let on_failure = plan.step(step).on_failure();
        let (code, severity, message) = match on_failure {
            OnFailure::Skip => (
                codes::STEP_SKIPPED,
                Severity::Warn,
                "Skipped, because a step that it depends on did not complete.",
            ),
            OnFailure::Halt | OnFailure::Retry => (
                codes::DEPENDENCY_UNRESOLVED,
                Severity::Fatal,
                "Cannot run, because a step that it depends on did not complete.",
            ),
        };
        let error = Arc::new(
            ExecutionError::new(code, severity, message)
                .at_step(step_id)
                .caused_by(cause),
        );
        self.trace.note(Arc::clone(&error), None, self.timestamp(now));
        match on_failure {
            OnFailure::Skip => self.step_not_completed(now, step, 0, NotCompleted::Skipped, &error),
            OnFailure::Halt | OnFailure::Retry => {
                self.step_not_completed(now, step, 0, NotCompleted::DependencyUnresolved, &error);
                self.settle(now, Ending::Fatal(error));
            }
        }
    }
}
