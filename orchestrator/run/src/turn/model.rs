//! The conversation with a model: what a turn says, and what its answer means for the step.

use super::Turn;
use super::contract::shorten;
use super::tools::{Answer, CALLS_MAX};
use super::values::{RenderFailure, view};
use crate::budget::Budget;
use crate::journal::{AskedCall, UnitRef};
use crate::plan::{LlmContext, LlmDecision};
use crate::state::{UnitStage, UnitState};
use crate::template::json_text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::PAYLOAD_BYTES_MAX;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-13.1, RUN-13.2
    /// Dispatches what is due of a step that asks a model: the calls of the last turn, one after another, then the next turn.
    pub(super) fn dispatch_turn(&mut self, step: u32) {
        let n_turns = u32::try_from(self.step_state(step).units.len()).expect("turns are few");
        let last = self.unit_ref(step, n_turns.saturating_sub(1));
        let state = self.unit(last);
        if state.stage() != UnitStage::Completed {
            return self.dispatch_if_ready(last);
        }
        let is_open = |call: &UnitState| !matches!(call.stage(), UnitStage::Completed | UnitStage::Failed);
        let open = (0..).zip(&state.calls).find(|(_, call)| is_open(call));
        match open.map(|(n, _)| n) {
            Some(n) => self.dispatch_if_ready(last.tool_call(n)),
            None => self.dispatch_if_ready(self.unit_ref(step, n_turns)),
        }
    }

    // RUN-4.11, RUN-13.6
    /// The conversation of a turn: what the step asks, what was answered so far, what the tools said.
    pub(super) fn model_payload(
        &self,
        unit: UnitRef,
        decision: &LlmDecision,
    ) -> Result<Opaque, RenderFailure> {
        let question = self.question(unit, decision)?;
        let role = format!("You carry out one step of a plan: {}.", self.step(unit.step).name);
        let first = [message("system", &role), message("user", &question)];
        let mut room = CONVERSATION_BYTES_MAX;
        // The newest has room first.
        let mut parts: Vec<Opaque> = Vec::new();
        for before in (0..unit.index).rev() {
            let turn = UnitRef {
                index: before,
                ..unit
            };
            parts.extend(self.said_in(turn, decision, &mut room).into_iter().rev());
        }
        let said = first.into_iter().chain(parts.into_iter().rev());
        let messages = said.fold(ListBuilder::new(), |list, one| list.object(one.as_encoded()));
        let model = decision.model.as_ref().unwrap_or(&self.state.spec.llm_model);
        let mut payload = StructBuilder::new()
            .text("model", model)
            .list("messages", messages);
        // RUN-13.8
        let budget = self.state.spec.budget.as_ref();
        if let Some(tokens) = budget.and_then(Budget::answer_tokens_max) {
            payload = payload.number("max_tokens", tokens as f64);
        }
        if !decision.tools.is_empty() {
            // RUN-13.5
            let choice = match self.has_tools(unit, decision) {
                true => "auto",
                false => "none",
            };
            payload = payload
                .list("tools", self.offered_tools(decision))
                .text("tool_choice", choice);
        }
        let payload = payload.build();
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(too_large());
        }
        Ok(payload)
    }

    fn question(&self, unit: UnitRef, decision: &LlmDecision) -> Result<String, RenderFailure> {
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
            let json = view(&output).map(json_text).unwrap_or_default();
            let json = cut_bytes(json, RESULT_BYTES_SHOWN_MAX);
            question.push_str(&format!("Result of {key}:\n{json}\n\n"));
            // No further result is read for a conversation that is too large already: there may be a thousand of a mebibyte.
            if question.len() > PAYLOAD_BYTES_MAX {
                return Err(too_large());
            }
        }
        question.push_str(&self.render_text(unit, &decision.prompt)?);
        if !decision.choices.is_empty() {
            question.push_str(&format!(
                "\n\nAnswer with exactly one of: {}",
                decision.choices.join(", ")
            ));
        }
        Ok(question)
    }

    /// What an earlier turn adds to the conversation: the model's answer, and what it was told then.
    fn said_in(&self, turn: UnitRef, decision: &LlmDecision, room: &mut usize) -> Vec<Opaque> {
        let (state, answer) = (self.unit(turn), self.answer_of(turn));
        if state.calls.is_empty() {
            let again = format!(
                "That is none of: {}. Answer with exactly one of them.",
                decision.choices.join(", ")
            );
            let content = take(room, answer.content);
            return [message("assistant", &content), message("user", &again)].into();
        }
        let mut said = Vec::new();
        if state.calls_left_out > 0 {
            let n = state.calls.len() + state.calls_left_out as usize;
            let note = format!("You asked for {n} tools at once. Only the first {CALLS_MAX} were looked at.");
            said.push(message("user", &note));
        }
        let mut asked = Vec::new();
        for (n, call) in state.calls.iter().enumerate().rev() {
            let id = call_id(turn.index, n);
            let result = take(room, self.told_of(call));
            said.push(
                StructBuilder::new()
                    .text("role", "tool")
                    .text("tool_call_id", &id)
                    .text("content", &result)
                    .build(),
            );
            asked.push(self.shown_call(&id, call.asked.as_ref(), room));
        }
        let content = take(room, answer.content);
        let asked = asked.iter().rev();
        let asked = asked.fold(ListBuilder::new(), |list, one| list.object(one.as_encoded()));
        said.push(
            StructBuilder::new()
                .text("role", "assistant")
                .text("content", &content)
                .list("tool_calls", asked)
                .build(),
        );
        said.reverse();
        said
    }

    /// A call as the model is shown that it asked for it. Its own id of the call is not used.
    fn shown_call(&self, id: &str, asked: Option<&AskedCall>, room: &mut usize) -> Opaque {
        let arguments = asked.and_then(|asked| asked.arguments.as_ref());
        let fits = arguments.filter(|stored| {
            let n_bytes = usize::try_from(stored.length).unwrap_or(usize::MAX);
            n_bytes <= RESULT_BYTES_SHOWN_MAX && n_bytes <= *room
        });
        let shown = match (fits, arguments) {
            (Some(stored), _) => {
                let bytes = self.load(stored);
                *room -= bytes.len();
                bytes
            }
            (None, Some(_)) => StructBuilder::new()
                .boolean("cut", true)
                .build()
                .as_encoded()
                .clone(),
            (None, None) => Bytes::new(),
        };
        StructBuilder::new()
            .text("id", id)
            .text(
                "name",
                &asked.map_or_else(String::new, |asked| shown_name(&asked.action)),
            )
            .object("arguments", &shown)
            .build()
    }

    // RUN-13.4
    /// What a model learns about a call that it asked for.
    fn told_of(&self, call: &UnitState) -> String {
        let json = match (&call.output, &call.error) {
            (Some(output), _) => view(&self.load(output)).map(json_text).unwrap_or_default(),
            (None, error) => {
                let (code, message) = match error {
                    Some(error) => (error.code.as_str(), error.message.as_str()),
                    None => ("", ""),
                };
                let error = StructBuilder::new()
                    .text("code", code)
                    .text("message", message)
                    .build();
                let told = StructBuilder::new().object("error", error.as_encoded()).build();
                json_text(escapement_model::opaque::ValueView::Struct(told.as_encoded()))
            }
        };
        cut_bytes(json, RESULT_BYTES_SHOWN_MAX)
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

    /// What the model answered in a turn; nothing if it did not.
    pub(super) fn answer_of(&self, turn: UnitRef) -> Answer {
        let output = self.unit(turn).output.as_ref();
        let output = output.map(|output| self.load(output));
        output.map_or_else(Answer::default, |output| Answer::of(&output))
    }

    /// Turns that the step has at most.
    pub(super) fn turns_max(&self, decision: &LlmDecision) -> u32 {
        decision
            .max_iterations
            .unwrap_or(self.state.spec.limits.max_turns)
            .max(1)
            .saturating_add(u32::from(planted::is_on(Bug::RunTurnTooMany)))
    }

    // RUN-13.5
    /// True if the model may ask for tools in this turn: never in the last one.
    pub(super) fn has_tools(&self, turn: UnitRef, decision: &LlmDecision) -> bool {
        !decision.tools.is_empty() && turn.index + 1 < self.turns_max(decision)
    }

    // RUN-4.11, RUN-13.1
    /// A turn of the model ended: it asks for tools, its answer counts, or it is asked once more.
    pub(super) fn turn_ended(&mut self, unit: UnitRef, decision: &LlmDecision) {
        let answer = self.answer_of(unit);
        if answer.n_calls > 0 && self.has_tools(unit, decision) {
            return self.ask_tools(unit, decision, answer);
        }
        let trimmed = answer.content.trim();
        // RUN-13.5
        if trimmed.is_empty() && answer.n_calls > 0 && !decision.tools.is_empty() {
            let message = "the model asks for tools in its last turn, and answers nothing";
            return self.unit_fails(unit, "ITERATIONS_EXCEEDED", message);
        }
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
                let is_last = unit.index + 1 >= self.turns_max(decision);
                if is_last || self.was_asked_again(unit) {
                    let message = format!(
                        "the model's answer {:?} is none of the choices",
                        shorten(answer.content)
                    );
                    self.unit_fails(unit, "DECISION_INVALID", &message);
                }
                return;
            }
        };
        let output = StructBuilder::new()
            .text("decision", decided)
            .list("tool_calls", self.calls_made(unit))
            .build();
        let output = self.store(crate::outcome::value_of_object(&output));
        self.complete_step(unit.step, Some(output), "");
    }

    /// True if an answer before this turn was none of the choices.
    fn was_asked_again(&self, unit: UnitRef) -> bool {
        let turns = &self.step_state(unit.step).units;
        turns
            .iter()
            .take(unit.index as usize)
            .any(|turn| turn.calls.is_empty())
    }

    /// The calls of tools that the step made, in their order: for each its name and `completed`, or the code of its failure.
    fn calls_made(&self, last: UnitRef) -> ListBuilder {
        let turns = self.step_state(last.step).units.iter();
        let calls = turns.flat_map(|turn| &turn.calls);
        calls.fold(ListBuilder::new(), |list, call| {
            let name = call.asked.as_ref().map_or("", |asked| asked.action.as_str());
            let status = match (&call.output, &call.error) {
                (None, Some(error)) => error.code.as_str(),
                _ => "completed",
            };
            let made = StructBuilder::new()
                .text("name", name)
                .text("status", status)
                .build();
            list.object(made.as_encoded())
        })
    }
}

fn too_large() -> RenderFailure {
    let message = format!("the conversation with the model has more than {PAYLOAD_BYTES_MAX} bytes");
    ("INPUT_TOO_LARGE", message)
}

fn message(role: &str, content: &str) -> Opaque {
    StructBuilder::new()
        .text("role", role)
        .text("content", content)
        .build()
}

/// The id of a call in the conversation: nine letters and digits, which every endpoint takes.
fn call_id(turn: u32, n: usize) -> String {
    format!("call{turn:03}{n:02}")
}

/// The name of a tool as an endpoint takes it back, whatever the model called it.
fn shown_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

/// The text, if the conversation has room for it.
fn take(room: &mut usize, text: String) -> String {
    let text = cut_bytes(text, RESULT_BYTES_SHOWN_MAX);
    match room.checked_sub(text.len()) {
        Some(left) => {
            *room = left;
            text
        }
        None => CUT.trim_start().to_string(),
    }
}

/// A text as a model is shown it, with a mark if it was cut.
fn cut_bytes(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max + CUT.len() {
        let at = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(at.unwrap_or(0));
        text.push_str(CUT);
    }
    text
}

const CUT: &str = " … (cut)";
/// Bytes of one result that a model is shown.
const RESULT_BYTES_SHOWN_MAX: usize = 32 << 10;
/// Bytes of the turns before that a model is shown, the newest first.
const CONVERSATION_BYTES_MAX: usize = 512 << 10;
