//! `decomposition/1`: a goal, and narrow questions to a language model, each with the tools that it may use.

use super::super::reading::{Object, Reading};
use super::Names;
use super::foreign::{Converted, escaped, move_fields, name_of, put, viewed};
use escapement_model::opaque::StructBuilder;

/// Names in this format.
pub(super) const NAMES: Names = &[
    ("name", "goal"),
    ("key", "id"),
    ("config", ""),
    ("prompt", "description"),
];

/// Converts a document.
pub(super) fn convert<'a>(reading: &mut Reading<'a>, plan: &mut Object<'a>) -> Converted {
    let mut converted = Converted::new();
    converted.take_id(reading, plan, "plan_id");
    if let Some(goal) = plan.field(reading, "goal", |_, value| Some(value)) {
        put(&mut converted.document, |document| document.value("goal", goal));
        name_of(goal, &mut converted.document);
    }
    converted.take_steps(reading, plan, "steps", |reading, step, _| {
        convert_step(reading, step)
    });
    converted
}

fn convert_step<'a>(reading: &mut Reading<'a>, step: &mut Object<'a>) -> StructBuilder {
    let mut converted = StructBuilder::new().text("type", "llm_decision");
    move_fields(reading, step, &mut converted, &[("id", "key")]);
    // A question is narrow: the model is shown what the step depends on, and nothing else.
    let mut config = StructBuilder::new().text("context", "dependencies");
    step.field(reading, "description", |reading, value| {
        put(&mut converted, |converted| converted.value("description", value));
        let prompt = escaped(reading, value);
        put(&mut config, |config| config.value("prompt", viewed(&prompt)));
        Some(())
    });
    move_fields(reading, step, &mut config, &[("tools", "tools")]);
    put(&mut converted, |converted| {
        converted.object("config", config.build().as_encoded())
    });
    move_fields(reading, step, &mut converted, &[("depends_on", "depends_on")]);
    converted
}
