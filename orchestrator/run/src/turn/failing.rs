//! What a planner learns about a plan that failed.

use super::Turn;
use super::doubts::AMBIGUOUS_EFFECT;
use crate::journal::{CompletedStep, Event, FailedStep, Failure, ReplanTriggered, UnitRef};
use crate::outcome::cut;
use crate::plan::StepKind;
use crate::state::{StepStage, StepState, UnitStage};
use crate::template::json_text;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

impl Turn<'_> {
    // RUN-11.8
    /// Wants another plan. What is open of this one is closed, and what is in flight of it is fenced by the next revision.
    pub(super) fn replan(&mut self, error: Option<Failure>, comment: &str) {
        let (failed, completed) = (self.failed_steps(), self.completed_steps());
        let disabled = self.failed_actions().into_iter().collect();
        self.end_steps();
        let cause = if error.is_some() { "planner" } else { "revise" };
        self.emit(Event::ReplanTriggered(ReplanTriggered {
            revision: self.state.revision_number,
            cause: String::from(cause),
            error: error.unwrap_or_else(|| Failure {
                code: String::from("PLAN_REVISED"),
                message: String::from("another plan is wanted"),
                step: None,
            }),
            disabled,
            substituted: None,
            generation: self.planning().accepted,
            failed,
            completed,
            comment: cut(comment, COMMENT_CHARS_MAX),
        }));
    }

    fn failed_steps(&self) -> Vec<FailedStep> {
        let failed = (0..).zip(&self.state.steps);
        // RUN-12.14: what is in doubt did not do what it should, as far as anybody knows.
        let is_told = |step: u32, state: &StepState| {
            state.stage() == StepStage::Failed
                || (state.stage() == StepStage::Running && !self.doubts_of(step).is_empty())
        };
        let failed = failed.filter(|(step, state)| is_told(*step, state));
        let failed = failed.take(STEPS_TOLD_MAX).map(|(step, state)| {
            let error = state.error.clone().unwrap_or_else(|| {
                let message = "the plan ended before anybody knew whether it had its effect";
                Failure::of_step(step, AMBIGUOUS_EFFECT, message)
            });
            FailedStep {
                key: self.step(step).key.clone(),
                action: match self.step(step).kind {
                    StepKind::Parallel(_) => String::new(),
                    _ => self.action_of(UnitRef {
                        step,
                        index: 0,
                        epoch: 0,
                    }),
                },
                code: error.code,
                message: cut(&error.message, MESSAGE_CHARS_TOLD),
            }
        });
        failed.collect()
    }

    fn completed_steps(&self) -> Vec<CompletedStep> {
        let mut n_left = OUTPUTS_BYTES_TOLD;
        let done = self.state.steps.iter().enumerate();
        let done = done.filter(|(_, step)| step.stage() == StepStage::Completed);
        let done = done.take(STEPS_TOLD_MAX).map(|(step, _)| {
            let json = match n_left {
                0 => String::new(),
                _ => self
                    .output_of(step)
                    .and_then(|output| super::values::view(&output).map(json_text))
                    .unwrap_or_default(),
            };
            let output = short(json, OUTPUT_BYTES_TOLD.min(n_left));
            n_left = n_left.saturating_sub(output.len());
            CompletedStep {
                key: self.plan.steps[step].key.clone(),
                output,
            }
        });
        done.collect()
    }

    // RUN-11.8
    /// The actions whose attempts failed the steps that failed. What the plan itself got wrong is not the action's fault.
    pub(super) fn failed_actions(&self) -> BTreeSet<String> {
        let mut actions = BTreeSet::new();
        for step in 0..self.n_steps() {
            let (spec, state) = (self.step(step), self.step_state(step));
            let calls = matches!(
                spec.kind,
                StepKind::ToolCall(_) | StepKind::Parallel(_) | StepKind::Loop(_)
            );
            if state.stage() != StepStage::Failed || !calls {
                continue;
            }
            for (index, unit) in (0..).zip(&state.units) {
                if unit.stage() == UnitStage::Failed && unit.attempts > 0 {
                    actions.insert(self.action_of(self.unit_ref(step, index)));
                }
            }
        }
        actions
    }
}

/// A text of at most so many bytes, with a mark if it was cut.
fn short(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let at = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(at.unwrap_or(0));
        text.push_str(" … (cut)");
    }
    text
}

/// Steps of one plan that a question to a planner names.
const STEPS_TOLD_MAX: usize = 32;
/// Code points of a failure that it is told.
const MESSAGE_CHARS_TOLD: usize = 300;
/// Bytes of one output that it is told.
const OUTPUT_BYTES_TOLD: usize = 1 << 10;
/// Bytes of all outputs of one plan together.
const OUTPUTS_BYTES_TOLD: usize = 8 << 10;
const COMMENT_CHARS_MAX: usize = escapement_model::limits::MESSAGE_CHARS_MAX;
