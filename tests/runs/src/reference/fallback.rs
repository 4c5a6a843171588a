//! What is left once a revision failed and no other plan can be made: the fallback.

use super::misreading::Misreading;
use super::plan::{Action, Fallback, Kind, Plan, Step as Spec};
use super::run::Run;
use super::words::{Code, End, RequestKind, UnitId, Value};

impl Run {
    /// RUN-11.9, RUN-11.11: the end of a run whose revision failed. Returns whether the run goes on instead.
    pub(super) fn fall_back(&mut self, code: Code) -> bool {
        if let Some(first) = self.first_failure {
            let is_misread = self.reads(Misreading::FallbackIsTheCause);
            self.end_with(End::Failed(if is_misread { code } else { first }));
            return false;
        }
        match self.limits.fallback {
            Some(Fallback::Output) => {
                let output = Value::Text("instead".to_owned());
                self.end_with(End::FellBack { code, output });
                false
            }
            Some(Fallback::Call(action)) if !self.does_without(action) => {
                self.call_fallback(action, code);
                true
            }
            Some(Fallback::Call(_)) | None => {
                self.end_with(End::Failed(code));
                false
            }
        }
    }

    /// RUN-11.11: the fallback has completed, and the run fails all the same.
    pub(super) fn fell_back(&mut self, code: Code, output: Option<Value>) {
        let output = output.unwrap_or(Value::Null);
        self.end_with(match self.reads(Misreading::FallbackCompletes) {
            true => End::Completed {
                is_partial: false,
                output: Some(output),
            },
            false => End::FellBack { code, output },
        });
    }

    /// RUN-14.6: an attempt of it failed a unit for good.
    fn does_without(&self, action: Action) -> bool {
        self.given_up.contains(&action) && !self.reads(Misreading::FallbackCallsWhatFailed)
    }

    /// RUN-12.1, RUN-12.6: one more revision, of one step, in a later epoch, with what the one before came to.
    fn call_fallback(&mut self, action: Action, code: Code) {
        self.first_failure = Some(code);
        self.planning.made = None;
        self.begin_revision(Plan {
            parallel: false,
            steps: vec![Spec::new(Kind::Call(action))],
        });
        // RUN-6.1, RUN-12.2: nobody has approved this plan.
        if self.limits.autonomy == 1 {
            self.is_approved = false;
            self.ask(RequestKind::PlanApproval, None);
        }
    }

    /// RUN-12.6: a result of an earlier revision takes the place of a first call.
    pub(super) fn takes_result(&mut self, id: UnitId) -> bool {
        let Kind::Call(action) = self.plan.steps[id.0].kind else {
            return false;
        };
        let Some(known) = self.results.iter().position(|(of, _)| *of == action) else {
            return false;
        };
        let was_set_back = self.steps[id.0].epoch > self.first_epoch;
        if self.unit(id).n_attempts > 0 || was_set_back || self.reads(Misreading::FallbackCallsAgain) {
            return false;
        }
        let (_, output) = self.results.remove(known);
        self.complete_unit(id, output);
        true
    }
}
