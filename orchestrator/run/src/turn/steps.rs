//! What the end of a unit means for its step, and what the end of a step means for the plan.

use super::Turn;
use crate::journal::{
    Event, Failure, InputRequest, RevisionFailing, SkipReason, StepCompleted, StepFailed, StepSkipped,
    Stored, UnitRef,
};
use crate::outcome::encoded;
use crate::plan::{Condition, OnFailure, StepIndex, StepKind};
use crate::state::{StepStage, UnitStage};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::opaque::ValueView;

impl Turn<'_> {
    /// Looks whether the step ends with what its units are now.
    pub(super) fn unit_ended(&mut self, unit: UnitRef) {
        let step = unit.step;
        if self.step_state(step).stage() != StepStage::Running {
            return;
        }
        let state = self.unit(unit);
        match &self.step(step).kind {
            StepKind::ToolCall(_) | StepKind::UserInput(_) | StepKind::SubPlan(_) => {
                self.only_unit_ended(unit)
            }
            StepKind::Condition(condition) => match state.goes_on {
                Some(value) => {
                    let output = self.store(encoded(ValueView::Bool(value)));
                    self.complete_step(step, Some(output), "");
                    self.take_side(step, condition, value);
                }
                None => self.only_unit_ended(unit),
            },
            StepKind::Parallel(parallel) => self.item_ended(unit, parallel.items.len(), parallel.wait_all),
            StepKind::Loop(_) => match state.stage() {
                UnitStage::Failed => self.fail_step(step, failure_of(state.error.as_ref())),
                UnitStage::Completed => self.iteration_ended(unit),
                _ => {}
            },
            // RUN-13.4: the model is told, and goes on.
            StepKind::LlmDecision(_) if unit.as_tool_call().is_some() => {}
            StepKind::LlmDecision(decision) => match state.stage() {
                UnitStage::Failed => self.fail_step(step, failure_of(state.error.as_ref())),
                UnitStage::Completed => self.turn_ended(unit, decision),
                _ => {}
            },
        }
    }

    fn only_unit_ended(&mut self, unit: UnitRef) {
        let state = self.unit(unit);
        match state.stage() {
            UnitStage::Completed => self.complete_step(unit.step, None, ""),
            UnitStage::Failed => self.fail_step(unit.step, failure_of(state.error.as_ref())),
            UnitStage::Ready
            | UnitStage::Live
            | UnitStage::BackingOff
            | UnitStage::Waiting
            | UnitStage::Judged => {}
        }
    }

    // RUN-4.8
    fn item_ended(&mut self, unit: UnitRef, n_items: usize, wait_all: bool) {
        let units = &self.step_state(unit.step).units;
        let n_in = |stage| units.iter().filter(|unit| unit.stage() == stage).count();
        let (n_completed, n_failed) = (n_in(UnitStage::Completed), n_in(UnitStage::Failed));
        let settled = n_completed + n_failed == n_items;
        if n_completed == n_items || (!wait_all && n_completed > 0) {
            self.complete_step(unit.step, None, "");
        } else if settled {
            self.fail_step(
                unit.step,
                Failure {
                    code: String::from("PARALLEL_FAILED"),
                    message: String::from("Some parallel steps failed"),
                    step: Some(unit.step),
                },
            );
        }
    }

    /// Ends the step well and goes on where it says.
    pub(super) fn complete_step(&mut self, step: u32, output: Option<Stored>, reason: &str) {
        // RUN-14.3
        let patched = match reason {
            "" => self.patched(step),
            // An operator's word replaces the results of the units, and their patches.
            _ => Ok(None),
        };
        let patched = match patched {
            Ok(patched) => patched,
            Err(why) => return self.fail_step(step, Failure::of_step(step, "OUTPUT_INVALID", &why)),
        };
        self.let_go_of_units(step);
        if let Some(patched) = patched {
            self.patch_session(step, patched);
        }
        let pause = self.step_state(step).all_units().any(|(_, unit)| unit.pause);
        self.emit(Event::StepCompleted(StepCompleted {
            step,
            output,
            reason: reason.to_string(),
        }));
        // RUN-4.7
        if pause && !self.state.pause_wanted {
            self.emit(Event::PauseRequested(crate::journal::Reason {
                reason: String::from("handler"),
            }));
        }
        if let Some(target) = self.step(step).on_success {
            self.branch(step, Some(target), None);
        }
    }

    // RUN-5.5
    /// Ends the step badly and does what it says about that.
    pub(super) fn fail_step(&mut self, step: u32, error: Failure) {
        self.let_go_of_units(step);
        let error = Failure {
            step: Some(step),
            ..error
        };
        self.emit(Event::StepFailed(StepFailed {
            step,
            error: error.clone(),
        }));
        match self.on_failure(self.step(step)) {
            OnFailure::Abort => self.revision_fails(error, false),
            OnFailure::Drain => self.revision_fails(error, true),
            OnFailure::Skip => {}
            OnFailure::Jump(target) => self.branch(step, Some(target), None),
        }
    }

    // RUN-5.6
    /// The first cause counts; a later one that stops everything still does.
    pub(super) fn revision_fails(&mut self, error: Failure, drains: bool) {
        if self.state.cause.is_none() || (self.state.drains && !drains) {
            self.emit(Event::RevisionFailing(RevisionFailing { error, drains }));
            if !drains {
                // Children are runs of their own and can be stopped; attempts cannot.
                (0..self.n_steps()).for_each(|step| self.cancel_children(step));
            }
        }
    }

    /// Closes the requests of the step and stops waiting for its children.
    pub(super) fn let_go_of_units(&mut self, step: u32) {
        let open: Vec<_> = self
            .state
            .open_requests()
            .filter(|request| request.unit.is_some_and(|unit| unit.step == step))
            .map(InputRequest::reference)
            .collect();
        for request in open {
            self.emit(Event::InputClosed(request));
        }
        self.cancel_children(step);
    }

    // RUN-4.10
    /// A condition goes where its value leads.
    pub(super) fn take_side(&mut self, step: u32, condition: &Condition, value: bool) {
        let (taken, other) = condition.sides(value);
        self.branch(step, taken, other);
    }

    // RUN-3.8
    /// Skips the pending steps between this one and the target, and the other target.
    fn branch(&mut self, from: u32, target: Option<StepIndex>, other: Option<StepIndex>) {
        let index = |step: StepIndex| u32::try_from(step).expect("a plan has at most 1024 steps");
        let target = target.map(index);
        let between = target.map_or(from + 1..from + 1, |target| from + 1..target);
        let other = other.map(index).filter(|other| Some(*other) != target);
        let skipped: Vec<u32> = between.chain(other).collect();
        for step in skipped {
            if self.step_state(step).stage() == StepStage::Pending {
                let reason = SkipReason::Branch.into();
                self.emit(Event::StepSkipped(StepSkipped {
                    step,
                    reason,
                    comment: String::new(),
                }));
            }
        }
    }
}

/// The failure of a unit that failed.
fn failure_of(error: Option<&Failure>) -> Failure {
    error.cloned().expect("a unit that failed says why")
}
