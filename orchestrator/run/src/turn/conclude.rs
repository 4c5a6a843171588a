//! Whether the run pauses, waits, is stuck or ends. Starts nothing.

use super::Turn;
use crate::journal::{
    Empty, Event, Failure, InputRequest, Reason, RunCompleted, RunFailed, SkipReason, StepRef, StepSkipped,
};
use crate::state::{Stage, StepStage};
use alloc::string::String;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-10.1
    pub(super) fn conclude(&mut self) {
        match self.state.stage() {
            Stage::Planning | Stage::Executing => {}
            Stage::Queued | Stage::Completed | Stage::Failed | Stage::TimedOut | Stage::Cancelled => return,
        }
        // RUN-8.1
        if self.state.pause_wanted {
            if self.state.paused_at == 0 && !self.state.is_in_flight() {
                self.emit(Event::RunPaused(Empty {}));
            }
            return;
        }
        if self.waits_for_plan_approval() || self.state.stage() == Stage::Planning {
            return;
        }
        let runs = self
            .state
            .steps
            .iter()
            .any(|step| step.stage() == StepStage::Running);
        if let Some(cause) = self.state.cause.clone() {
            let goes_on = if self.state.drains {
                runs
            } else {
                self.state.is_in_flight()
            };
            if !goes_on {
                if self.state.drains {
                    self.block_pending();
                }
                self.revision_failed(cause);
            }
            return;
        }
        if runs {
            return;
        }
        // RUN-3.9
        if self
            .state
            .steps
            .iter()
            .any(|step| step.stage() == StepStage::Pending)
        {
            return self.deadlock();
        }
        // RUN-12.8
        match self.verify() {
            None => {}
            Some(Ok(())) => self.complete(),
            Some(Err(cause)) => self.revision_failed(cause),
        }
    }

    /// What is pending once nothing runs and nothing can start will never run.
    fn block_pending(&mut self) {
        for step in 0..self.n_steps() {
            if self.step_state(step).stage() == StepStage::Pending {
                self.emit(Event::StepBlocked(StepRef { step }));
            }
        }
    }

    // RUN-3.9
    fn deadlock(&mut self) {
        self.block_pending();
        self.revision_failed(Failure {
            code: String::from("DEADLOCK"),
            message: String::from("Dependency deadlock: all pending steps have unmet dependencies"),
            step: None,
        });
    }

    // RUN-10.2
    fn complete(&mut self) {
        let partial = self
            .state
            .steps
            .iter()
            .any(|step| step.stage() == StepStage::Failed);
        match (self.run_output(), self.state.fallback_of.clone()) {
            (Ok(output), Some(error)) if !planted::is_on(Bug::RunFallbackCompletes) => {
                self.fell_back(error, output);
            }
            (Ok(output), _) => {
                let output = output.map(|output: Bytes| self.store(output));
                self.emit(Event::RunCompleted(RunCompleted { partial, output }));
            }
            (Err((code, message)), _) => {
                self.revision_failed(Failure {
                    code: String::from(code),
                    message,
                    step: None,
                });
            }
        }
    }

    /// Ends the run as failed; what did not end is skipped.
    pub(super) fn fail(&mut self, error: Failure) {
        self.end_steps();
        self.emit(Event::RunFailed(RunFailed {
            error,
            ..RunFailed::default()
        }));
    }

    // RUN-8.3
    /// Ends the run at once, whatever is in flight.
    pub(super) fn cancel(&mut self, reason: String) {
        self.end_steps();
        self.emit(Event::RunCancelled(Reason { reason }));
    }

    // RUN-10.3
    /// Closes what is open and skips what has not ended. Attempts in flight are fenced by the end.
    pub(super) fn end_steps(&mut self) {
        self.close_requests();
        for step in 0..self.n_steps() {
            if !self.step_state(step).stage().is_settled() {
                self.cancel_children(step);
                let reason = SkipReason::RunEnded.into();
                self.emit(Event::StepSkipped(StepSkipped {
                    step,
                    reason,
                    comment: String::new(),
                }));
            }
        }
    }

    /// Closes what is open.
    pub(super) fn close_requests(&mut self) {
        let open: alloc::vec::Vec<_> = self.state.open_requests().map(InputRequest::reference).collect();
        for request in open {
            self.emit(Event::InputClosed(request));
        }
    }
}
