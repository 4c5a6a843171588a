//! What a unit would send: its action and its payload, and the request that carries them.

use super::Turn;
use super::values::RenderFailure;
use crate::contract_request::AttemptRequest;
use crate::journal::{RequestKind, RequestState, UnitRef};
use crate::plan::{Call, LlmContext, LlmDecision, StepKind};
use crate::state::{StepStage, UnitStage};
use crate::template::json_text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, entries};
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
            StepKind::LlmDecision(_) => self.state.spec.llm_action.clone(),
            StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => String::new(),
        }
    }

    // RUN-4.1
    /// What the unit would do now.
    pub(super) fn render_call(&self, unit: UnitRef) -> Result<Rendered, RenderFailure> {
        let action = self.action_of(unit);
        if let Some(edited) = self.unit(unit).edited {
            return Ok(Rendered {
                action,
                payload: Opaque::from_encoded(self.load(&edited)),
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
            approval: self.approval_text(unit),
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
    /// The id of the approval that the handler asked for.
    fn approval_text(&self, unit: UnitRef) -> Option<String> {
        let approval = self.unit(unit).approval;
        let request = self
            .state
            .requests
            .iter()
            .find(|request| request.id == approval)?;
        let for_handler = request.error.is_some()
            && request.kind() == RequestKind::Approval
            && request.state() == RequestState::Answered;
        let id: [u8; 16] = approval[..].try_into().ok()?;
        for_handler
            .then(|| crate::ids::InputRequestId::from_bytes(id).map(|id| id.to_string()))
            .flatten()
    }

    // RUN-4.11
    /// The conversation of a turn: what the step asks, what was answered so far.
    fn model_payload(&self, unit: UnitRef, decision: &LlmDecision) -> Result<Opaque, RenderFailure> {
        let step = self.step(unit.step);
        let mut question = String::new();
        if !self.plan.goal.is_empty() {
            question.push_str(&format!("Goal: {}\n\n", self.plan.goal));
        }
        if !step.description.is_empty() {
            question.push_str(&format!("Step: {}\n\n", step.description));
        }
        for (shown, output) in self.shown_results(unit, &decision.context) {
            let key = &self.plan.steps[shown].key;
            let json = super::values::view(&output).map(json_text).unwrap_or_default();
            question.push_str(&format!("Result of {key}:\n{}\n\n", cut_bytes(json)));
        }
        question.push_str(&self.render_text(unit, &decision.prompt)?);
        if !decision.choices.is_empty() {
            question.push_str(&format!(
                "\n\nAnswer with exactly one of: {}",
                decision.choices.join(", ")
            ));
        }
        let message = |role: &str, content: &str| {
            StructBuilder::new()
                .text("role", role)
                .text("content", content)
                .build()
        };
        let mut messages = ListBuilder::new();
        let role = format!("You carry out one step of a plan: {}.", step.name);
        for message in [message("system", &role), message("user", &question)] {
            messages = messages.object(message.as_encoded());
        }
        for before in 0..unit.index {
            let answer = self.answer_of(UnitRef {
                index: before,
                ..unit
            });
            let again = format!(
                "That is none of: {}. Answer with exactly one of them.",
                decision.choices.join(", ")
            );
            messages = messages.object(message("assistant", &answer).as_encoded());
            messages = messages.object(message("user", &again).as_encoded());
        }
        let model = decision.model.as_ref().unwrap_or(&self.state.spec.llm_model);
        Ok(StructBuilder::new()
            .text("model", model)
            .list("messages", messages)
            .build())
    }

    fn shown_results(&self, unit: UnitRef, context: &LlmContext) -> impl Iterator<Item = (usize, Bytes)> {
        let depends_on = &self.step(unit.step).depends_on;
        self.completed_outputs(move |step| match context {
            LlmContext::All => step < unit.step as usize,
            LlmContext::Dependencies => depends_on.contains(&step),
            LlmContext::Steps(steps) => steps.contains(&step),
            LlmContext::None => false,
        })
    }

    /// The text that the model answered with; empty if it did not.
    fn answer_of(&self, unit: UnitRef) -> String {
        let output = self.unit(unit).output.map(|output| self.load(&output));
        let Some(ValueView::Struct(object)) = output.as_ref().and_then(|output| super::values::view(output))
        else {
            return String::new();
        };
        let mut answer = String::new();
        for (key, value) in entries(object).filter_map(Result::ok) {
            if let ("content", ValueView::Text(text)) = (key, value) {
                answer = text.to_string();
            }
        }
        answer
    }

    // RUN-4.11
    /// A turn of the model ended: its answer counts, or it is asked once more.
    pub(super) fn turn_ended(&mut self, unit: UnitRef, decision: &LlmDecision) {
        let answer = self.answer_of(unit);
        let trimmed = answer.trim();
        let exact = decision.choices.iter().find(|choice| choice.as_str() == trimmed);
        let lower = trimmed.to_lowercase();
        let chosen = exact.or_else(|| {
            decision
                .choices
                .iter()
                .find(|choice| choice.to_lowercase() == lower)
        });
        let decided = match chosen {
            Some(choice) => choice.as_str(),
            None if decision.choices.is_empty() => trimmed,
            None => {
                let n_turns = decision
                    .max_iterations
                    .unwrap_or(self.state.spec.limits.max_turns);
                if unit.index > 0 || n_turns < 2 {
                    let message = format!("the model's answer {:?} is none of the choices", shorten(answer));
                    self.unit_fails(unit, "DECISION_INVALID", &message);
                }
                return;
            }
        };
        let output = StructBuilder::new()
            .text("decision", decided)
            .list("tool_calls", ListBuilder::new())
            .build();
        let output = self.store(crate::outcome::value_of_object(&output));
        self.complete_step(unit.step, Some(output), "");
    }

    /// The turn that is due: a further one if the last one did not end the step.
    pub(super) fn turn_at_hand(&self, step: u32) -> u32 {
        let units = &self.step_state(step).units;
        let n_units = u32::try_from(units.len()).expect("turns are few");
        let ended = units
            .last()
            .is_some_and(|unit| unit.stage() == UnitStage::Completed);
        if ended { n_units } else { n_units.saturating_sub(1) }
    }
}

/// A name that the contract takes.
fn shorten(text: String) -> String {
    crate::outcome::cut(&text, NAME_CHARS_MAX)
}

/// A result as a model is shown it, with a mark if it was cut.
fn cut_bytes(mut json: String) -> String {
    if json.len() > RESULT_BYTES_SHOWN_MAX {
        let at = (0..=RESULT_BYTES_SHOWN_MAX)
            .rev()
            .find(|at| json.is_char_boundary(*at));
        json.truncate(at.unwrap_or(0));
        json.push_str(" … (cut)");
    }
    json
}

/// Bytes of one result that a model is shown.
const RESULT_BYTES_SHOWN_MAX: usize = 32 << 10;
