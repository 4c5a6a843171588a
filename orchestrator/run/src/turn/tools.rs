//! The tools of a model: what it is offered, what it asks for, and whether that is called.

use super::Turn;
use super::schemas::SCHEMA_WORK_MAX;
use super::values::view;
use crate::fields::{field, first_items};
use crate::journal::{AskedCall, Event, Failure, ToolsAsked, UnitRef};
use crate::json::{arguments_of_json, value_of_json};
use crate::outcome::cut;
use crate::plan::LlmDecision;
use crate::schema;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::ACTION_CHARS_MAX;
use escapement_model::opaque::{ListBuilder, PaidObject, PaidView, StructBuilder, ValueView, WalkBudget};
use escapement_model::planted::{self, Bug};

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// Its text; empty if it has none.
    pub(super) content: String,
    /// The calls that it asks for, at most 16 of them.
    calls: Vec<Wanted>,
    /// How many it asks for.
    pub(super) n_calls: u32,
}

/// A call as a model asks for it.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    name: String,
    /// An encoded object, or what is wrong with it.
    arguments: Result<Opaque, String>,
}

impl Answer {
    /// Reads `content` and `tool_calls` of an output, an encoded `google.protobuf.Value`. Whatever else it holds is not looked at.
    pub(super) fn of(output: &Bytes) -> Self {
        let Some(ValueView::Struct(object)) = view(output) else {
            return Self::default();
        };
        let content = match field(object, "content") {
            Some(ValueView::Text(text)) => text.to_string(),
            _ => String::new(),
        };
        let Some(ValueView::List(list)) = field(object, "tool_calls") else {
            return Self {
                content,
                ..Self::default()
            };
        };
        let (asked, n_calls) = first_items(list, CALLS_MAX);
        Self {
            content,
            calls: asked.into_iter().map(Wanted::of).collect(),
            n_calls: u32::try_from(n_calls).unwrap_or(u32::MAX),
        }
    }
}

impl Wanted {
    fn of(call: ValueView<'_>) -> Self {
        let said = |name| match call {
            ValueView::Struct(object) => field(object, name),
            _ => None,
        };
        let name = match said("name") {
            Some(ValueView::Text(name)) => cut(name, ACTION_CHARS_MAX),
            _ => String::new(),
        };
        Self {
            name,
            arguments: arguments_of(said("arguments")),
        }
    }
}

// RUN-13.3
/// The arguments of a call: an object, or a text that is one as JSON.
fn arguments_of(arguments: Option<ValueView<'_>>) -> Result<Opaque, String> {
    let too_large = || Err(format!("arguments: have more than {ARGUMENTS_BYTES_MAX} bytes"));
    let read = match arguments {
        None => return Ok(Opaque::default()),
        Some(ValueView::Text(text)) if text.len() > ARGUMENTS_BYTES_MAX => return too_large(),
        Some(ValueView::Text(text)) if text.trim().is_empty() => return Ok(Opaque::default()),
        Some(ValueView::Text(text)) => {
            arguments_of_json(text).map_err(|why| format!("arguments: are no JSON, {why}"))?
        }
        Some(other) => crate::outcome::encoded(other),
    };
    let Some(ValueView::Struct(object)) = view(&read) else {
        return Err("arguments: are no object".to_string());
    };
    if object.len() > ARGUMENTS_BYTES_MAX {
        return too_large();
    }
    let object = Opaque::from_encoded(Bytes::copy_from_slice(object));
    object.check().map_err(|why| format!("arguments: {why}"))?;
    Ok(object)
}

impl Turn<'_> {
    // RUN-13.6
    /// The tools of the step as the model learns them, as they were when the revision was made.
    pub(super) fn offered_tools(&self, decision: &LlmDecision) -> ListBuilder {
        let mut room = TOOLS_BYTES_MAX;
        let offered = decision.tools.iter().filter(|action| !self.is_disabled(action));
        offered.fold(ListBuilder::new(), |list, action| {
            let profile = self.profile(action);
            let schema = value_of_json(&profile.input_schema).ok();
            let fits = schema.filter(|schema| schema.len() <= room);
            let parameters = match fits.as_ref().and_then(|schema| view(schema)) {
                Some(ValueView::Struct(schema)) => {
                    room -= schema.len();
                    Bytes::copy_from_slice(schema)
                }
                _ => StructBuilder::new()
                    .text("type", "object")
                    .build()
                    .as_encoded()
                    .clone(),
            };
            let tool = StructBuilder::new()
                .text("name", action)
                .text("description", &cut(&profile.description, DESCRIPTION_CHARS_MAX))
                .object("parameters", &parameters)
                .build();
            list.object(tool.as_encoded())
        })
    }

    // RUN-13.3
    /// Judges the calls that a turn asks for, and writes them down.
    pub(super) fn ask_tools(&mut self, unit: UnitRef, decision: &LlmDecision, answer: Answer) {
        let n_looked_at = u32::try_from(answer.calls.len()).expect("they are at most 16");
        let calls = answer.calls.into_iter().map(|wanted| {
            let judged = self.judged(decision, &wanted);
            let arguments = wanted.arguments.ok();
            let refusal = judged.err();
            AskedCall {
                action: wanted.name,
                arguments: arguments.map(|arguments| self.store(arguments.as_encoded().clone())),
                refusal: refusal.map(|(code, message)| Failure::of_step(unit.step, code, &message)),
            }
        });
        let calls = calls.collect();
        self.emit(Event::ToolsAsked(ToolsAsked {
            unit,
            calls,
            n_left_out: answer.n_calls - n_looked_at,
        }));
    }

    // RUN-13.3
    /// True if the run does without the action, or its skill is out for the session. What failed for good in this run alone a model
    /// may call again, with other arguments: it was told why.
    fn is_disabled(&self, action: &str) -> bool {
        let profile = self.profile(action);
        let skill = match profile.action.is_empty() {
            true => action,
            false => profile.skill(),
        };
        let is_out = || self.state.skills_that_are_out().any(|out| out == skill);
        self.state
            .disabled_actions
            .iter()
            .any(|disabled| disabled == action)
            || is_out()
    }

    fn judged(&self, decision: &LlmDecision, wanted: &Wanted) -> Result<(), (&'static str, String)> {
        if !decision.tools.contains(&wanted.name) && !planted::is_on(Bug::RunToolUnchecked) {
            let message = format!("the step has no tool {:?}", wanted.name);
            return Err(("TOOL_NOT_ALLOWED", message));
        }
        if self.is_disabled(&wanted.name) {
            let message = format!(
                "{} failed for good before, and is not called any more",
                wanted.name
            );
            return Err(("TOOL_NOT_ALLOWED", message));
        }
        let invalid = |message: String| ("INVALID_PAYLOAD", message);
        let arguments = wanted.arguments.as_ref().map_err(|why| invalid(why.clone()))?;
        let Ok(schema) = value_of_json(&self.profile(&wanted.name).input_schema) else {
            return Ok(());
        };
        let Some(schema) = view(&schema) else {
            return Ok(());
        };
        let given = PaidView::Object(PaidObject::of(arguments.as_encoded()));
        let mut budget = WalkBudget::new(SCHEMA_WORK_MAX);
        match schema::violation(PaidView::of(schema), given, &mut budget) {
            Ok(Some(why)) => Err(invalid(format!("arguments{why}"))),
            Ok(None) => Ok(()),
            Err(spent) => Err(invalid(format!(
                "arguments: to hold them against the schema of the tool {spent}"
            ))),
        }
    }

    /// What a call of a tool that a model asks for is called with.
    pub(super) fn asked_arguments(&self, unit: UnitRef) -> Opaque {
        let asked = self.unit(unit).asked.as_ref();
        let arguments = asked.and_then(|asked| asked.arguments.as_ref());
        arguments.map_or_else(Opaque::default, |stored| Opaque::from_encoded(self.load(stored)))
    }
}

/// Calls of one turn that are looked at.
pub(crate) const CALLS_MAX: usize = 16;
/// Bytes of the arguments of a call.
const ARGUMENTS_BYTES_MAX: usize = 128 << 10;
/// Bytes of the schemas of all tools that a model is told.
const TOOLS_BYTES_MAX: usize = 256 << 10;
const DESCRIPTION_CHARS_MAX: usize = 1_000;
