//! `protocol/1`: an objective, and numbered tools, some of which make the artifact that the plan must have.

use super::super::reading::{Object, Reading};
use super::super::violations::Code;
use super::Names;
use super::foreign::{Converted, move_fields, move_numbers, move_texts, name_of, numbered, put};
use escapement_model::opaque::{ListBuilder, StructBuilder};

/// Names in this format.
pub(super) const NAMES: Names = &[
    ("name", "objective"),
    ("goal", "objective"),
    ("constraints", ""),
    ("must_produce", "expectedArtifactType"),
    ("expected_artifact_type", "expectedArtifactType"),
    ("key", "stepIndex"),
    ("order", "stepIndex"),
    ("config", ""),
    ("tool_name", "toolName"),
    ("tool_args", "input"),
    ("depends_on", "dependencies"),
];

/// Converts a document.
pub(super) fn convert<'a>(reading: &mut Reading<'a>, plan: &mut Object<'a>) -> Converted {
    let mut converted = Converted::new();
    if let Some(objective) = plan.field(reading, "objective", |_, value| Some(value)) {
        put(&mut converted.document, |document| {
            document.value("goal", objective)
        });
        name_of(objective, &mut converted.document);
    }
    let mut has_generator = false;
    converted.take_steps(reading, plan, "steps", |reading, step, place| {
        let (step, is_generator) = convert_step(reading, step, place);
        has_generator |= is_generator;
        step
    });
    let requires_artifact = plan.boolean(reading, "requiresArtifact").unwrap_or(false);
    let expected = plan.text(reading, "expectedArtifactType", 1..=usize::MAX);
    if requires_artifact && !has_generator {
        let message = "A plan that requires an artifact has at least one step that is a generator.";
        plan.violation(reading, "steps", Code::ConstraintViolated, message);
    }
    let mut constraints = StructBuilder::new();
    match (&expected, requires_artifact) {
        (Some(expected), true) => {
            let types = ListBuilder::new().text(expected);
            put(&mut constraints, |constraints| {
                constraints.list("must_produce", types)
            });
        }
        (None, true) => {
            let message = "A plan that requires an artifact says of which type.";
            plan.violation(reading, "expectedArtifactType", Code::ConstraintViolated, message);
        }
        (_, false) => {}
    }
    if let Some(expected) = &expected {
        put(&mut constraints, |constraints| {
            constraints.text("expected_artifact_type", expected)
        });
    }
    put(&mut converted.document, |document| {
        document.object("constraints", constraints.build().as_encoded())
    });
    converted
}

/// Converts a step, and says if it makes an artifact.
fn convert_step<'a>(reading: &mut Reading<'a>, step: &mut Object<'a>, place: usize) -> (StructBuilder, bool) {
    let (key, number) = numbered(reading, step, "stepIndex", place);
    let mut converted = StructBuilder::new()
        .text("key", &key)
        .number("order", number.min(ORDER_MAX) as f64)
        .text("type", "tool_call");
    let mut config = StructBuilder::new();
    move_fields(reading, step, &mut config, &[("toolName", "tool_name")]);
    move_fields(reading, step, &mut converted, &[("description", "description")]);
    move_texts(reading, step, &mut config, &[("input", "tool_args")]);
    put(&mut converted, |converted| {
        converted.object("config", config.build().as_encoded())
    });
    let is_generator = step.boolean(reading, "isGenerator").unwrap_or(false);
    if is_generator {
        let metadata = StructBuilder::new().boolean("is_generator", true).build();
        put(&mut converted, |converted| {
            converted.object("metadata", metadata.as_encoded())
        });
    }
    move_numbers(reading, step, "dependencies", &mut converted);
    (converted, is_generator)
}

/// The largest order number.
const ORDER_MAX: u64 = 1_000_000;
