//! `core/1`: a goal, and numbered steps with or without a tool. A step without one is a question to a language model.

use super::super::reading::{Object, Reading};
use super::Names;
use super::foreign::{
    Converted, escaped, move_fields, move_numbers, move_texts, name_of, numbered, put, skip, viewed,
};
use escapement_model::opaque::StructBuilder;

/// Names in this format.
pub(super) const NAMES: Names = &[
    ("name", "goal"),
    ("key", "id"),
    ("config", ""),
    ("prompt", "description"),
    ("tool_name", "toolName"),
    ("tool_args", "toolArgs"),
    ("depends_on", "dependsOn"),
];

/// Converts a document.
pub(super) fn convert<'a>(reading: &mut Reading<'a>, plan: &mut Object<'a>) -> Converted {
    let mut converted = Converted::new();
    if let Some(goal) = plan.field(reading, "goal", |_, value| Some(value)) {
        put(&mut converted.document, |document| document.value("goal", goal));
        name_of(goal, &mut converted.document);
    }
    converted.take_steps(reading, plan, "steps", convert_step);
    skip(reading, plan, &["status", "currentStep"]);
    converted
}

fn convert_step<'a>(reading: &mut Reading<'a>, step: &mut Object<'a>, place: usize) -> StructBuilder {
    let (key, _) = numbered(reading, step, "id", place);
    let calls_a_tool = step.has("toolName") || step.has("toolArgs");
    let kind = if calls_a_tool { "tool_call" } else { "llm_decision" };
    let mut converted = StructBuilder::new().text("key", &key).text("type", kind);
    let mut config = StructBuilder::new();
    step.required(reading, "description", |reading, value| {
        put(&mut converted, |converted| converted.value("description", value));
        if !calls_a_tool {
            let prompt = escaped(reading, value);
            put(&mut config, |config| config.value("prompt", viewed(&prompt)));
        }
        Some(())
    });
    move_fields(reading, step, &mut config, &[("toolName", "tool_name")]);
    move_texts(reading, step, &mut config, &[("toolArgs", "tool_args")]);
    put(&mut converted, |converted| {
        converted.object("config", config.build().as_encoded())
    });
    move_numbers(reading, step, "dependsOn", &mut converted);
    skip(reading, step, &["status", "result"]);
    converted
}
