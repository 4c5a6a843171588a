//! What the mandatory actions compute: the error on top, the payload, the lists. Sets no order, see `settle`.

use super::settle::{Draft, Ending};
use super::{Effect, Execution, StepState, WithdrawReason};
use crate::audit::AuditKind;
use crate::error::ExecutionError;
use crate::input_log::InputLog;
use crate::plan::StepIndex;
use crate::result::{PlanResult, Settlement, Status};
use crate::time::Moment;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, StepId};

impl Execution {
    pub(super) fn n_completed(&self) -> usize {
        self.steps.as_ref().map_or(0, |steps| steps.n_completed as usize)
    }

    /// Returns the errors of the steps that ended without completing, in canonical order.
    pub(super) fn step_errors(&self) -> impl Iterator<Item = &Arc<ExecutionError>> {
        let records = self.steps.as_ref().map_or(&[][..], |steps| &steps.records);
        let canonical = self.plan().canonical_order().iter();
        canonical.filter_map(|step| records.get(step.as_usize())?.error.as_ref())
    }

    /// Returns the error that a partial result shows: the highest severity, then the earliest in canonical order.
    pub(super) fn primary_error(&self) -> ExecutionError {
        // a skipped consequence warns and comes after its root, so the root wins.
        let primary = self.step_errors().min_by_key(|error| Reverse(error.severity));
        ExecutionError::clone(primary.expect("a step that did not complete has an error"))
    }

    /// Returns the fatal error that a failure shows.
    pub(super) fn failure_cause(&self, ending: &Ending) -> ExecutionError {
        match ending {
            //
            Ending::Halted(error) => ExecutionError::promoted(error),
            //
            Ending::Fatal(error) => ExecutionError::clone(error),
            //
            Ending::AllStepsEnded => {
                let earliest = self.step_errors().next();
                ExecutionError::promoted(earliest.expect("a step that did not complete has an error"))
            }
        }
    }

    pub(super) fn with_trace(&self, error: ExecutionError) -> ExecutionError {
        //
        let context = self.trace.aggregate(&error.context);
        error.with_context(context)
    }

    /// From step id to output, completed steps only, in canonical order.
    pub(super) fn compose_payload(&self) -> Opaque {
        //
        let Some(steps) = &self.steps else {
            return Opaque::default();
        };
        let mut payload = StructBuilder::new();
        for step in self.plan().canonical_order() {
            if let Some(output) = &steps.records[step.as_usize()].output {
                payload = payload.object(&self.plan().step(*step).id().to_string(), output.as_encoded());
            }
        }
        let payload = payload.build();
        assert_eq!(
            payload.len(),
            steps.payload_bytes,
            "the limit was checked against what is written"
        );
        payload
    }

    /// Ends every attempt that is under way and every step that has not ended.
    pub(super) fn withdraw_all(&mut self) {
        // the attempts are stopped, not failed.
        let Some(steps) = self.steps.as_mut() else {
            return;
        };
        for step in self.request.plan().canonical_order() {
            let record = steps.record(*step);
            if let Some(attempt) = record.state.open_attempt() {
                let reason = WithdrawReason::ExecutionEnded;
                let withdrawal = Effect::Withdraw {
                    step: *step,
                    attempt,
                    reason,
                };
                self.inputs.decided(&withdrawal);
                self.effects.push_back(withdrawal);
            }
            if !matches!(record.state, StepState::Completed | StepState::NotCompleted) {
                record.state = StepState::Stopped;
            }
        }
    }

    pub(super) fn mark_incomplete(&mut self, now: Moment) {
        //
        let completed = |step: StepIndex| {
            self.steps
                .as_ref()
                .is_some_and(|steps| steps.records[step.as_usize()].state == StepState::Completed)
        };
        let canonical = self.plan().canonical_order().iter();
        let incomplete = canonical.filter(|step| !completed(**step));
        let step_ids: Vec<StepId> = incomplete.map(|step| self.plan().step(*step).id()).collect();
        self.record(now, AuditKind::StepsIncomplete { step_ids });
    }

    pub(super) fn settlement_of(&mut self, now: Moment, draft: Draft) -> Settlement {
        let completed_at = draft.completed_at.expect("every rule set captures the time");
        //
        let started_at_unix_ms = self.started_at().unwrap_or(self.timestamp(now));
        let n_steps = self.plan().steps().len();
        let result = PlanResult {
            plan_id: self.plan().id(),
            execution_id: self.execution_id,
            status: draft.status.expect("every rule set sets a status"),
            completed_at,
            duration_ms: completed_at.saturating_sub(started_at_unix_ms),
            //
            steps_executed: u32::try_from(self.n_completed()).expect("a plan has at most 1024 steps"),
            steps_total: u32::try_from(n_steps).expect("a plan has at most 1024 steps"),
            result_payload: draft.payload,
            error: draft.error,
        };
        //
        assert_eq!(
            result.error.is_none(),
            result.status == Status::Success,
            "success alone has no error"
        );
        assert!(result.duration_ms >= 0, "completed_at is never before the start");
        let audit = self.audit.take_entries();
        let empty = InputLog::new(now);
        let inputs = core::mem::replace(&mut self.inputs, empty);
        Settlement {
            result,
            started_at_unix_ms,
            audit,
            inputs,
            provenance: self.request.provenance().into(),
        }
    }
}
