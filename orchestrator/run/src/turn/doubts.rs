//! Effects of which nobody knows whether they happened, and what makes one of them again.

use super::Turn;
use super::contract::Rendered;
use crate::journal::sizes::newest_doubts;
use crate::journal::{Doubt, Event, Failure, InputRequest, OutcomeClass, RequestKind, ToolCalled, UnitRef};
use crate::plan::StepKind;
use crate::spec::InDoubt;
use crate::state::{UnitStage, UnitState};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-12.14
    /// What is in doubt of the plan at hand, but for some of its steps.
    pub(crate) fn open_doubts(&self, but: &BTreeSet<u32>) -> Vec<Doubt> {
        let steps = (0..self.n_steps()).filter(|step| !but.contains(step));
        newest_doubts(steps.flat_map(|step| self.doubts_of(step)).collect())
    }

    /// What is in doubt of a step.
    pub(super) fn doubts_of(&self, step: u32) -> Vec<Doubt> {
        let units = self.step_state(step).all_units();
        let doubts = units.flat_map(|(index, unit)| {
            let own = self.doubt_of(self.unit_ref(step, index), unit);
            own.into_iter().chain(unit.child_doubts.iter().cloned())
        });
        doubts.collect()
    }

    // RUN-12.14
    /// Everything that is in doubt: of this plan, and of what was before it.
    pub(crate) fn all_doubts(&self) -> Vec<Doubt> {
        let mut doubts = self.state.doubts.clone();
        doubts.extend(self.open_doubts(&BTreeSet::new()));
        newest_doubts(doubts)
    }

    // RUN-12.14
    /// What the child run of a unit settles before it does it again.
    pub(super) fn doubts_for_child(&self, unit: UnitRef) -> Vec<Doubt> {
        if planted::is_on(Bug::RunDoubtForgotten) {
            return Vec::new();
        }
        let mut doubts = self.state.doubts.clone();
        doubts.extend(self.unit(unit).child_doubts.iter().cloned());
        newest_doubts(doubts)
    }

    // RUN-12.14
    /// What the entry of the end of a child run says that is in doubt, and which children it leaves.
    pub(super) fn doubts_with(&self, event: &Event) -> (Vec<Doubt>, Vec<Bytes>) {
        if !event.is_end() || self.state.spec.parent_run_id.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let children = self.state.children();
        let children = children.map(|child| Bytes::copy_from_slice(child.as_bytes()));
        (self.all_doubts(), children.collect())
    }

    fn doubt_of(&self, unit: UnitRef, state: &UnitState) -> Option<Doubt> {
        let (attempt, timed_out) = match state.live.as_ref().filter(|live| !live.unit.is_safety_check()) {
            Some(live) if !self.is_repeatable(live) => (live.attempt, false),
            None if self.is_unsettled(unit, state) => {
                (state.attempts, state.class() == OutcomeClass::TimedOut)
            }
            Some(_) | None => return None,
        };
        let execution_id = match attempt {
            0 => state.memo_of.clone(),
            attempt => self.execution_of(unit, attempt),
        };
        Some(Doubt {
            key: state.result_key.clone(),
            execution_id,
            timed_out,
        })
    }

    /// True if the last attempt of the unit may have had an effect that nobody has told of yet.
    fn is_unsettled(&self, unit: UnitRef, state: &UnitState) -> bool {
        let is_unknown = matches!(state.class(), OutcomeClass::TimedOut | OutcomeClass::Unknown);
        if !is_unknown || state.result_key.is_empty() || !self.may_not_repeat(&self.action_of(unit)) {
            return false;
        }
        match state.stage() {
            UnitStage::Judged => true,
            UnitStage::Failed => {
                let error = state.error.as_ref();
                error.is_some_and(|error| error.code == AMBIGUOUS_EFFECT)
            }
            UnitStage::Waiting => {
                let mut requests = self.state.requests.iter();
                let asked = requests.find(|request| request.id == state.request);
                asked.is_none_or(|request| request.kind() == RequestKind::AmbiguousEffect)
            }
            UnitStage::Ready | UnitStage::Live | UnitStage::BackingOff | UnitStage::Completed => false,
        }
    }

    fn is_repeatable(&self, live: &ToolCalled) -> bool {
        !live.effect().is_effect() || self.profile(&live.action).idempotent
    }

    /// True if a repetition of the action may be noticed.
    pub(super) fn may_not_repeat(&self, action: &str) -> bool {
        self.effect_of(action).is_effect() && !self.profile(action).idempotent
    }

    // RUN-12.14
    /// The doubt that a call would make again, unless the run's policy is to repeat what is in such a doubt.
    pub(super) fn doubt_about(&self, rendered: &Rendered) -> Option<Doubt> {
        if self.state.doubts.is_empty()
            || planted::is_on(Bug::RunDoubtForgotten)
            || !self.may_not_repeat(&rendered.action)
        {
            return None;
        }
        let key = self.result_key(rendered);
        let mut doubts = self.state.doubts.iter();
        let doubt = doubts.find(|doubt| doubt.key[..] == key[..])?;
        (self.policy_of(doubt) != InDoubt::Retry).then(|| doubt.clone())
    }

    fn policy_of(&self, doubt: &Doubt) -> InDoubt {
        let policy = &self.state.spec.policy;
        match doubt.timed_out {
            true => policy.ambiguous_timeout(),
            false => policy.ambiguity(),
        }
    }

    // RUN-12.14
    /// The unit is not called: what its call would make again is settled first.
    pub(super) fn meets_doubt(&mut self, unit: UnitRef, rendered: &Rendered, doubt: &Doubt) {
        if self.policy_of(doubt) == InDoubt::Fail {
            return self.unit_fails(unit, AMBIGUOUS_EFFECT, IN_DOUBT);
        }
        let error = Failure::of_step(unit.step, AMBIGUOUS_EFFECT, IN_DOUBT);
        let request = InputRequest {
            earlier_execution: doubt.execution_id.clone(),
            ..self.question_about_effect(unit, rendered, &doubt.execution_id, error)
        };
        self.emit(Event::InputRequested(request));
    }

    /// True if the step has done something, or may have, that repeating it would do again.
    pub(super) fn had_effect(&self, step: u32) -> bool {
        let state = self.step_state(step);
        let mut units = state.all_units();
        let completed = |unit: &UnitState| unit.stage() == UnitStage::Completed;
        match &self.step(step).kind {
            StepKind::Condition(_) | StepKind::UserInput(_) => false,
            // What the child did cannot be seen from here, but for what it tells with its end.
            StepKind::SubPlan(_) => units.any(|(_, unit)| {
                let is_told = !unit.child_doubts.is_empty();
                completed(unit) || !unit.child.is_empty() || is_told
            }),
            // The calls of tools of a step that another run carried out are not known here.
            StepKind::LlmDecision(decision) if state.units.iter().any(is_of_other_run) => {
                decision.tools.iter().any(|tool| self.effect_of(tool).is_effect())
            }
            StepKind::ToolCall(_) | StepKind::LlmDecision(_) | StepKind::Parallel(_) | StepKind::Loop(_) => {
                units.any(|(index, unit)| {
                    let unit_ref = self.unit_ref(step, index);
                    let is_done = completed(unit) && self.effect_of(&self.action_of(unit_ref)).is_effect();
                    is_done || self.doubt_of(unit_ref, unit).is_some()
                })
            }
        }
    }

    /// The keys of those of the steps whose effects would be repeated if they began anew.
    pub(crate) fn would_repeat(&self, mut steps: impl Iterator<Item = u32>) -> Option<String> {
        let repeated: Vec<&str> = steps
            .by_ref()
            .filter(|step| self.had_effect(*step))
            .map(|step| self.step(step).key.as_str())
            .collect();
        (!repeated.is_empty()).then(|| repeated.join(", "))
    }
}

/// True if the unit completed in the run that this one is a fork of.
fn is_of_other_run(unit: &UnitState) -> bool {
    unit.stage() == UnitStage::Completed && unit.attempts == 0 && unit.memo_of.is_empty()
}

/// An effect of which nobody says whether it happened.
pub(super) const AMBIGUOUS_EFFECT: &str = "AMBIGUOUS_EFFECT";
const IN_DOUBT: &str =
    "the same call was made before by another plan or run, and nobody knows whether it had its effect";
