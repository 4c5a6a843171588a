//! What a unit would send: its action and its payload, and the request that carries them.

use super::Turn;
use super::values::RenderFailure;
use crate::contract_request::AttemptRequest;
use crate::journal::UnitRef;
use crate::plan::{Call, StepKind};
use crate::state::StepStage;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::opaque::StructBuilder;
use escapement_model::planted::{self, Bug};
use escapement_model::{Opaque, limits::NAME_CHARS_MAX};

/// What a unit would do.
pub(super) struct Rendered {
    pub(super) action: String,
    pub(super) payload: Opaque,
}

impl Turn<'_> {
    /// The action that a unit calls.
    pub(super) fn action_of(&self, unit: UnitRef) -> String {
        match &self.step(unit.step).kind {
            StepKind::ToolCall(call) => call.tool_name.clone(),
            StepKind::Parallel(parallel) => parallel.items[unit.index as usize].tool_name.clone(),
            StepKind::Loop(spec) => spec.call.tool_name.clone(),
            // RUN-13.2
            StepKind::LlmDecision(_) if unit.as_tool_call().is_some() => self
                .unit(unit)
                .asked
                .as_ref()
                .map_or_else(String::new, |asked| asked.action.clone()),
            StepKind::LlmDecision(_) => self.state.spec.llm_action.clone(),
            StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => String::new(),
        }
    }

    // RUN-4.1
    /// What the unit would do now.
    pub(super) fn render_call(&self, unit: UnitRef) -> Result<Rendered, RenderFailure> {
        let action = self.action_of(unit);
        if let Some(edited) = &self.unit(unit).edited {
            return Ok(Rendered {
                action,
                payload: Opaque::from_encoded(self.load(edited)),
            });
        }
        let render = |call: &Call| self.render_object(unit, &call.tool_args);
        let payload = match &self.step(unit.step).kind {
            StepKind::ToolCall(call) if planted::is_on(Bug::RunPayloadLeaks) => {
                StructBuilder::from_opaque(&render(call)?)
                    .text("of", &self.step(unit.step).key)
                    .build()
            }
            StepKind::ToolCall(call) => render(call)?,
            StepKind::Parallel(parallel) => render(&parallel.items[unit.index as usize])?,
            StepKind::Loop(spec) if spec.pass_iteration => StructBuilder::from_opaque(&render(&spec.call)?)
                .number("iteration", f64::from(unit.index))
                .build(),
            StepKind::Loop(spec) => render(&spec.call)?,
            StepKind::LlmDecision(_) if unit.as_tool_call().is_some() => self.asked_arguments(unit),
            StepKind::LlmDecision(decision) => self.model_payload(unit, decision)?,
            StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => {
                unreachable!("the step calls no action")
            }
        };
        Ok(Rendered { action, payload })
    }

    /// The request of an attempt, byte for byte.
    pub(super) fn contract_request(
        &self,
        unit: UnitRef,
        attempt: u32,
        rendered: &Rendered,
        subject: &[u8; 32],
        attempt_ms: u64,
    ) -> Bytes {
        let (spec, step) = (&self.state.spec, self.step(unit.step));
        // RUN-7.4
        let remaining = self.remaining_ms();
        let plan_ms = spec
            .limits
            .worker_wait_ms
            .saturating_add(attempt_ms)
            .min(remaining - self.queue_share_ms(attempt_ms));
        let whole = spec.limits.queue_wait_ms.saturating_add(plan_ms).min(remaining);
        let plan_name = format!("{} · {} · {attempt}", self.plan.name, step.key);
        AttemptRequest {
            name: self.attempt_name(unit, attempt),
            action: &rendered.action,
            payload: rendered.payload.clone(),
            environment: &match planted::is_on(Bug::RunEnvironmentLeaks) {
                true => StructBuilder::from_opaque(&self.given_environment())
                    .object("input", self.given_input().as_encoded())
                    .build(),
                false => self.given_environment(),
            },
            failed_dependencies: self.failed_dependencies(unit),
            plan_name: shorten(plan_name),
            priority: spec.priority,
            user_id: &spec.user_id,
            request_id: &spec.request_id,
            parent_execution_id: &spec.parent_execution_id,
            revision: &self.state.revision,
            subject,
            approval: self.approval_text(unit, subject),
            now: self.now,
            attempt_ms,
            plan_ms,
            deadline: self.now.saturating_add(i64::try_from(whole).unwrap_or(i64::MAX)),
        }
        .encode()
    }

    fn failed_dependencies(&self, unit: UnitRef) -> Vec<(&str, &str)> {
        let dependencies = self.step(unit.step).depends_on.iter();
        let failed = dependencies.filter(|on| self.state.steps[**on].stage() == StepStage::Failed);
        failed
            .map(|on| {
                let error = self.state.steps[*on].error.as_ref();
                (
                    self.plan.steps[*on].key.as_str(),
                    error.map_or("", |error| error.code.as_str()),
                )
            })
            .collect()
    }

    // RUN-6.7
    /// The approval of exactly this; empty if there is none, or if the payload has become another one since.
    pub(super) fn approval_of(&self, unit: UnitRef, subject: &[u8; 32]) -> Bytes {
        let state = self.unit(unit);
        match state.approved_digest[..] == subject[..] {
            true => state.approval.clone(),
            false => Bytes::new(),
        }
    }

    // RUN-6.7
    /// The id of the approval of exactly this, whether the gate has asked for it or the handler.
    fn approval_text(&self, unit: UnitRef, subject: &[u8; 32]) -> Option<String> {
        let id: [u8; 16] = self.approval_of(unit, subject)[..].try_into().ok()?;
        crate::ids::InputRequestId::from_bytes(id).map(|id| id.to_string())
    }
}

/// A name that the contract takes.
pub(super) fn shorten(text: String) -> String {
    crate::outcome::cut(&text, NAME_CHARS_MAX)
}
