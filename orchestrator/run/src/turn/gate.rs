//! Which units wait for an approval, and what an approval is bound to.

use super::Turn;
use super::contract::Rendered;
use crate::journal::UnitRef;
use crate::plan::{Plan, Step, StepKind};
use crate::spec::{Risk, Spec};
use escapement_model::encoder::Encoder;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-6.2, RUN-6.11
    /// What the unit needs before it may do exactly this.
    pub(super) fn gate(&self, unit: UnitRef, rendered: &Rendered, subject: &[u8; 32]) -> Gate {
        let (spec, risk) = (&self.state.spec, self.profile(&rendered.action).risk());
        let state = self.unit(unit);
        if risk == Risk::Destructive && planted::is_on(Bug::RunGateForgotten) {
            return Gate::Open;
        }
        if !asks(spec.autonomy_level, risk) || state.approved_digest[..] == subject[..] {
            Gate::Open
        } else if !checks_safety(spec, risk) {
            Gate::Asks
        } else if state.checked_digest[..] != subject[..] {
            Gate::Checks
        } else if state.is_cleared {
            Gate::Open
        } else {
            Gate::Asks
        }
    }

    // RUN-6.3
    /// SHA-256 of what would be done: another run, revision, unit, epoch, action, payload or environment gives another digest.
    pub(super) fn subject_digest(&self, unit: UnitRef, rendered: &Rendered) -> [u8; 32] {
        let (spec, environment) = (self.step(unit.step), self.given_environment());
        Encoder::named("escapement run subject 1", |encoder| {
            encoder.bytes(&self.state.run_id);
            encoder.bytes(&self.state.revision);
            encoder.text(&spec.key);
            encoder.number(u64::from(unit.index));
            encoder.number(u64::from(unit.epoch));
            encoder.text(&rendered.action);
            encoder.object(&rendered.payload);
            encoder.object(&environment);
        })
    }

    /// SHA-256 of a plan as a whole with what it may do: what the approval of a plan is bound to.
    pub(super) fn plan_subject_digest(&self, revision: &[u8]) -> [u8; 32] {
        let (input, environment) = (self.given_input(), self.given_environment());
        Encoder::named("escapement run plan subject 1", |encoder| {
            encoder.bytes(&self.state.run_id);
            encoder.bytes(revision);
            encoder.number(u64::from(self.state.spec.autonomy_level));
            encoder.object(&input);
            encoder.object(&environment);
            let policy = &self.state.spec.policy;
            for word in [
                policy.ambiguity,
                policy.ambiguous_timeout,
                policy.on_failure,
                policy.on_dependency_failure,
            ] {
                encoder.number(u64::from(word.unsigned_abs()));
            }
        })
    }

    // RUN-6.1
    /// True if the plan as a whole needs an approval before anything of it runs.
    pub(super) fn plan_needs_approval(&self) -> bool {
        asks_for_plan(self.state.spec.autonomy_level, self.plan)
    }
}

/// What keeps a unit back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing.
    Open,
    /// A person has to approve.
    Asks,
    /// A safety check has to say something.
    Checks,
}

// RUN-6.11
/// True if a call of this risk is put to a safety check before anybody is asked.
pub(crate) fn checks_safety(spec: &Spec, risk: Risk) -> bool {
    spec.autonomy_level == 3 && risk == Risk::Destructive && !spec.safety_action.is_empty()
}

// RUN-6.1
/// True if the plan as a whole asks at this level of autonomy.
pub(crate) fn asks_for_plan(autonomy_level: u32, plan: &Plan) -> bool {
    let works = |step: &Step| !matches!(step.kind, StepKind::Condition(_) | StepKind::UserInput(_));
    autonomy_level == 1 && plan.steps.iter().any(works)
}

// RUN-6.2
/// True if an action of this risk asks at this level of autonomy.
pub(crate) fn asks(autonomy_level: u32, risk: Risk) -> bool {
    match (autonomy_level, risk) {
        (0, _) | (1 | 2, Risk::Unusual | Risk::Destructive) | (3, Risk::Destructive) => true,
        (1 | 2, Risk::Safe) | (3, Risk::Safe | Risk::Unusual) => false,
        (_, _) => false,
    }
}
