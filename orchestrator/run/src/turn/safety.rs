//! The safety check of a destructive call: what is asked of an action, and its verdict.

use super::Turn;
use super::contract::Rendered;
use crate::fields::field;
use crate::input::Effect;
use crate::journal::{Event, Failure, OutcomeClass, ToolCalled, ToolOutput, UnitRef};
use crate::outcome::AttemptOutcome;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::opaque::{StructBuilder, ValueView};
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-6.11
    /// What the safety action is asked: whether the unit may do exactly this.
    pub(super) fn safety_check_of(&self, unit: UnitRef, rendered: &Rendered) -> Rendered {
        let payload = StructBuilder::new()
            .text("action", &rendered.action)
            .object("payload", rendered.payload.as_encoded())
            .text("plan", &self.plan.name)
            .text("goal", &self.plan.goal)
            .text("step", &self.step(unit.step).name)
            .build();
        let action = self.state.spec.safety_action.clone();
        Rendered { action, payload }
    }

    // RUN-6.11
    /// Asks it.
    pub(super) fn send_safety_check(&mut self, unit: UnitRef, rendered: Rendered, subject: &[u8; 32]) {
        let (check, attempt) = (unit.safety_check(), self.unit(unit).checks + 1);
        let action = rendered.action.clone();
        let profile = self.profile(&action);
        let of_profile = (profile.attempt_ms > 0).then_some(profile.attempt_ms);
        let limit_ms = of_profile.unwrap_or(self.state.spec.limits.attempt_ms);
        let attempt_ms = self.cut_ms(limit_ms);
        let request = self.contract_request(check, attempt, &rendered, subject, attempt_ms);
        let stored = self.store(request.clone());
        let (reserved, model) = (self.reserved(&rendered), self.model_asked(&rendered));
        self.emit(Event::ToolCalled(ToolCalled {
            unit: check,
            attempt,
            action: rendered.action,
            request: stored,
            subject_digest: Bytes::copy_from_slice(subject),
            effect: profile.effect,
            attempt_ms,
            approval: Bytes::new(),
            reserved,
            model,
            result_key: Bytes::new(),
        }));
        self.effect(Effect::Submit {
            execution_id: self.attempt_name(check, attempt).execution_id(),
            request,
            attempt_ms,
            seen: profile.seen,
        });
    }

    // RUN-6.11
    /// A safety check ended: only a clear yes is one. What follows is decided when the unit has its turn.
    pub(super) fn checked(&mut self, live: &ToolCalled, outcome: AttemptOutcome) {
        let outcome = super::judge::bounded(outcome, live);
        let failed = outcome.class != OutcomeClass::Completed;
        let usage = self.used_by(live, &outcome);
        let is_safe = !failed && outcome.output.as_ref().is_some_and(says_safe);
        let output = outcome.output.map(|output| self.store(output));
        self.emit(Event::ToolOutput(ToolOutput {
            retry_after_ms: 0,
            unit: live.unit,
            attempt: live.attempt,
            class: outcome.class.into(),
            output,
            error: failed.then(|| Failure::of_step(live.unit.step, &outcome.code, &outcome.message)),
            pause: false,
            is_safe,
            patches: false,
            fits_schema: None,
            usage,
            mistakes: Vec::new(),
        }));
        self.warn_of_budget();
    }
}

/// True for an object with `safe: true`.
fn says_safe(output: &Bytes) -> bool {
    match super::values::view(output) {
        _ if planted::is_on(Bug::RunSafetyUnheard) => true,
        Some(ValueView::Struct(object)) => field(object, "safe") == Some(ValueView::Bool(true)),
        _ => false,
    }
}
