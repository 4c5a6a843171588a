//! Another action in the place of one that failed for good: a revision with one step changed, without a call of the planner.

use super::Turn;
use super::artifacts::{INVALID, MISSING};
use super::revisions::Revised;
use crate::branches::stale;
use crate::fork::kept_of;
use crate::journal::{Event, Failure, ReplanTriggered, Substituted};
use crate::plan::{self, StepIndex, StepKind};
use crate::state::{ArtifactState, StepStage, UnitStage, UnitState, Verdict};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Turn<'_> {
    // RUN-12.3
    /// Puts an alternative in the place of the action that failed, if there is one. True if the run goes on with it.
    pub(super) fn substitutes(&mut self, cause: &Failure) -> bool {
        let Some((step, failed)) = self.failed_action(cause) else {
            return false;
        };
        if self.state.substitutions.len() >= self.state.spec.limits.max_substitutions as usize {
            return false;
        }
        let Some((to, revised)) = self.best_alternative(step, &failed) else {
            return false;
        };
        self.close_requests();
        let kept = self.kept_results(step);
        self.emit(Event::ReplanTriggered(ReplanTriggered {
            revision: self.state.revision_number,
            cause: String::from("substitution"),
            error: cause.clone(),
            disabled: [failed.clone()].into(),
            substituted: Some(Substituted {
                step_key: self.plan.steps[step].key.clone(),
                from: failed,
                to,
            }),
            ..ReplanTriggered::default()
        }));
        let document = self.store(revised.plan.document.as_encoded().clone());
        let steps = kept.iter().map(|(step, _)| *step).collect();
        if self.emit_revision("substitution", &revised, document, &steps) {
            kept.into_iter().for_each(|(_, event)| self.keep(event));
            self.revised = Some(revised.plan);
        }
        true
    }

    // RUN-12.3
    /// The action that failed for good, and its step: one that was called, and that another one can stand in for.
    fn failed_action(&self, cause: &Failure) -> Option<(StepIndex, String)> {
        let step = cause.step?;
        if NOT_THE_ACTION.contains(&cause.code.as_str()) {
            return None;
        }
        if [MISSING, INVALID].contains(&cause.code.as_str()) {
            return Some((step as StepIndex, self.maker(step)?));
        }
        let units = (0..).zip(&self.step_state(step).units);
        let mut failed = units.filter(|(_, unit)| unit.stage() == UnitStage::Failed);
        let (index, unit) = failed.next()?;
        let code = unit.error.as_ref().map_or("", |error| &error.code);
        if unit.attempts == 0 || NOT_THE_ACTION.contains(&code) {
            return None;
        }
        match &self.step(step).kind {
            StepKind::ToolCall(_) | StepKind::Parallel(_) | StepKind::Loop(_) => {
                Some((step as StepIndex, self.action_of(self.unit_ref(step, index))))
            }
            // The action that asks a model is the run's, and a child has a plan of its own.
            StepKind::LlmDecision(_)
            | StepKind::UserInput(_)
            | StepKind::Condition(_)
            | StepKind::SubPlan(_) => None,
        }
    }

    /// The action of a step whose artifact is wrong, or that should have made one.
    fn maker(&self, step: u32) -> Option<String> {
        let of_step = |artifact: &&ArtifactState| artifact.created.unit.is_some_and(|unit| unit.step == step);
        let mut wrong = self.state.artifacts.iter().filter(of_step);
        let wrong = wrong.find(|artifact| artifact.verdict() == Verdict::Wrong);
        let named = wrong.map(|artifact| artifact.created.action.clone());
        let named = named.filter(|action| !action.is_empty());
        let produces = |action: &String| !self.profile(action).produces.is_empty();
        named.or_else(|| self.actions_of(step).into_iter().find(produces))
    }

    // RUN-12.3
    /// The first alternative that has not failed and with which the plan keeps to its constraints.
    fn best_alternative(&self, step: StepIndex, failed: &str) -> Option<(String, Revised)> {
        let key = &self.plan.steps[step].key;
        // What the action itself stands in for has alternatives, too.
        let mut origins = [failed.to_string()].to_vec();
        for before in self.state.substitutions.iter().rev() {
            if before.step_key == *key && origins.last() == Some(&before.to) {
                origins.push(before.from.clone());
            }
        }
        let alternatives = origins
            .iter()
            .flat_map(|origin| self.profile(origin).alternatives);
        let skills = self.state.disabled_skills();
        let is_out = |action: &String| {
            let profile = self.profile(action);
            let skill = if profile.action.is_empty() {
                action
            } else {
                profile.skill()
            };
            let is_disabled = self.state.disabled_actions.binary_search(action).is_ok();
            origins.contains(action) || is_disabled || skills.contains(skill)
        };
        alternatives.filter(|action| !is_out(action)).find_map(|action| {
            let document =
                plan::edit::with_action(&self.plan.document, &self.plan.steps[step], failed, &action)?;
            let plan = plan::read(&document).ok()?;
            let profiles = self.state.profiles.clone();
            let keeps =
                plan::constraints::violations(&plan, &self.state.spec.constraints, &profiles).is_empty();
            let plan = Arc::new(plan);
            keeps.then_some((action, Revised { plan, profiles }))
        })
    }

    // RUN-12.4
    /// The results that the next revision begins with: those that the changed step has no part in.
    fn kept_results(&self, changed: StepIndex) -> Vec<(u32, Event)> {
        let changed = u32::try_from(changed).expect("a plan has at most 1024 steps");
        let stale = stale(self.plan, &self.state.steps, &[changed].into(), None);
        let steps = (0..).zip(&self.state.steps);
        let kept = steps.filter(|(step, state)| {
            !stale.contains(step) && matches!(state.stage(), StepStage::Completed | StepStage::Skipped)
        });
        kept.filter_map(|(step, state)| {
            let execution_of = |index: u32, unit: &UnitState| match unit.memo_of.is_empty() {
                true => self.execution_of(self.unit_ref(step, index), unit.attempts),
                false => unit.memo_of.clone(),
            };
            Some((step, kept_of(step, state, self.state.sequence, &execution_of)?))
        })
        .collect()
    }
}

/// Failures that another action would meet as well, or after which no other one may be called.
const NOT_THE_ACTION: [&str; 5] = [
    "APPROVAL_DENIED",
    "AMBIGUOUS_EFFECT",
    "INPUT_UNRESOLVED",
    "INPUT_TOO_LARGE",
    "INPUT_EXPIRED",
];
