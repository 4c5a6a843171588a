//! The life of an attempt: handed out, started, given back, ended. Each transition names the states that it
//! comes from.

use super::{Ending, Evidence, Execution, StepState};
use crate::audit::{AuditKind, NotCompleted};
use crate::error::ExecutionError;
use crate::outcome::{self, Outcome, Verdict};
use crate::plan::StepIndex;
use crate::time::Moment;
use crate::trace::without_context;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::limits::RESULT_PAYLOAD_BYTES_MAX;
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity, codes};

impl Execution {
    pub(super) fn assigned(&mut self, now: Moment, step: StepIndex, attempt: u32, worker: Arc<str>) -> bool {
        if self.state_of(Some(step)) != Some(StepState::Waiting { attempt }) {
            return false;
        }
        let (steps, plan) = self.running();
        steps.record(step).state = StepState::Assigned { attempt };
        steps.record(step).account.returned = None;
        // per attempt, from the hand-out.
        let due_ms = plan
            .step(step)
            .timeout_ms()
            .map(|timeout_ms| now.monotonic_ms.saturating_add(timeout_ms));
        steps.set_timer(plan, step, due_ms);
        let step_id = plan.step(step).id();
        self.record(
            now,
            AuditKind::AttemptAssigned {
                step_id,
                attempt,
                worker,
            },
        );
        true
    }

    pub(super) fn attempt_started(&mut self, now: Moment, step: StepIndex, attempt: u32) -> bool {
        if self.state_of(Some(step)) != Some(StepState::Assigned { attempt }) {
            return false;
        }
        let (steps, plan) = self.running();
        steps.record(step).state = StepState::Started { attempt };
        let step_id = plan.step(step).id();
        self.record(now, AuditKind::AttemptStarted { step_id, attempt });
        true
    }

    pub(super) fn attempt_returned(
        &mut self,
        now: Moment,
        step: StepIndex,
        attempt: u32,
        evidence: Evidence,
    ) -> bool {
        // what a worker said it started may have had effects, unless that worker says that it had none.
        let state = self.state_of(Some(step));
        let is_refused = evidence == Evidence::Refused && state == Some(StepState::Started { attempt });
        if !(state == Some(StepState::Assigned { attempt }) || is_refused) {
            return false;
        }
        let (steps, plan) = self.running();
        steps.set_timer(plan, step, None);
        steps.record(step).account.returned = Some(evidence);
        let step_id = plan.step(step).id();
        self.record(
            now,
            AuditKind::AttemptReturned {
                step_id,
                attempt,
                evidence,
            },
        );
        self.dispatch(now, step, attempt);
        true
    }

    pub(super) fn attempt_ended(
        &mut self,
        now: Moment,
        step: StepIndex,
        attempt: u32,
        outcome: Outcome,
    ) -> bool {
        // the first settlement of an attempt wins, every later one is refused.
        let state = self.state_of(Some(step));
        let started = state == Some(StepState::Started { attempt });
        let assigned = state == Some(StepState::Assigned { attempt });
        // an attempt that never started is returned; only one that did can be lost.
        if !(started || assigned && outcome != Outcome::Lost) {
            return false;
        }
        let step_id = self.plan().step(step).id();
        let policy = self.plan().retry_policy();
        let error = match outcome {
            Outcome::Completed { output, warnings } => {
                let payload_bytes = self.steps.as_ref().map_or(0, |steps| steps.payload_bytes);
                let payload_left = RESULT_PAYLOAD_BYTES_MAX - payload_bytes;
                match outcome::refuse_output(&output, payload_left, step_id) {
                    None => {
                        let mut warnings = outcome::classify_warnings(warnings, step_id, policy);
                        // the record of an execution has a bound, whatever its workers say.
                        warnings.retain(|warning| self.trace.admits_warning(warning));
                        self.step_completed(now, step, attempt, output, warnings);
                        self.take_turns(now);
                        return true;
                    }
                    Some(error) => error,
                }
            }
            Outcome::Failed(reported) => outcome::classify(reported, step_id, policy),
            Outcome::Undecodable { detail } => outcome::undecodable(&detail, step_id),
            Outcome::Lost => outcome::lost(step_id),
        };
        self.attempt_failed(now, now.monotonic_ms, step, attempt, error);
        self.take_turns(now);
        true
    }

    pub(super) fn action_not_found(&mut self, now: Moment, step: StepIndex, attempt: u32) -> bool {
        if self.state_of(Some(step)) != Some(StepState::Waiting { attempt }) {
            return false;
        }
        //
        let step_id = self.plan().step(step).id();
        let action = self.plan().step(step).action();
        let context = StructBuilder::new().text("action", action).build();
        let message = format!("No worker offers the action {action}.");
        let error = ExecutionError::new(codes::ACTION_NOT_FOUND, Severity::Fatal, &message)
            .at_step(step_id)
            .with_context(context);
        self.running().0.record(step).account.was_not_offered = true;
        self.attempt_failed(now, now.monotonic_ms, step, attempt, error);
        true
    }

    /// Applies the table of outcomes to a classified error. `over_ms` is the instant at which the attempt was
    /// over.
    pub(super) fn attempt_failed(
        &mut self,
        now: Moment,
        over_ms: u64,
        step: StepIndex,
        attempt: u32,
        error: ExecutionError,
    ) {
        let plan = self.request.plan();
        let step_id = plan.step(step).id();
        let verdict = outcome::judge(&error, plan.step(step).on_failure(), plan.retry_policy(), attempt);
        // errors of attempts that are repeated may be many.
        let keeps_context = verdict != Verdict::Retry || self.trace.keeps_context_of(&error);
        let error = Arc::new(if keeps_context {
            error
        } else {
            let error = without_context(error);
            self.inputs.drop_last_context(&error.context);
            error
        });
        self.trace
            .note(Arc::clone(&error), Some(attempt), self.timestamp(now));
        self.record(
            now,
            AuditKind::AttemptFailed {
                step_id,
                attempt,
                error: Arc::clone(&error),
            },
        );
        match verdict {
            Verdict::Retry => {
                self.running().0.record(step).account.repeated = Some(error);
                self.back_off(now, over_ms, step, attempt);
            }
            Verdict::GoOn(reason) => self.step_not_completed(now, step, attempt, reason, &error),
            Verdict::StopByHalt => {
                self.step_not_completed(now, step, attempt, NotCompleted::Failed, &error);
                self.settle(now, Ending::Halted(error));
            }
            Verdict::StopByFatal => {
                self.step_not_completed(now, step, attempt, NotCompleted::Failed, &error);
                self.settle(now, Ending::Fatal(error));
            }
        }
    }

    fn step_completed(
        &mut self,
        now: Moment,
        step: StepIndex,
        attempts: u32,
        output: Opaque,
        warnings: Vec<ExecutionError>,
    ) {
        let (steps, plan) = self.running();
        steps.payload_bytes += outcome::payload_entry_bytes(output.len());
        let record = steps.record(step);
        record.output = Some(output);
        record.account.attempts = attempts;
        record.account.n_warnings = u8::try_from(warnings.len()).unwrap_or(u8::MAX);
        steps.end(plan, step, StepState::Completed);
        let step_id = plan.step(step).id();
        self.record(
            now,
            AuditKind::StepCompleted {
                step_id,
                attempts,
                warnings,
            },
        );
    }

    pub(super) fn step_not_completed(
        &mut self,
        now: Moment,
        step: StepIndex,
        attempts: u32,
        reason: NotCompleted,
        error: &Arc<ExecutionError>,
    ) {
        let (steps, plan) = self.running();
        let record = steps.record(step);
        record.error = Some(Arc::clone(error));
        (record.account.attempts, record.account.reason) = (attempts, Some(reason));
        steps.end(plan, step, StepState::NotCompleted);
        let step_id = plan.step(step).id();
        self.record(
            now,
            AuditKind::StepNotCompleted {
                step_id,
                attempts,
                reason,
                error: Arc::clone(error),
            },
        );
    }
}
