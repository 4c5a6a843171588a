//! `narrative/1`: a request id and tools with dependencies. Each tool is a call of the action that its path names.

use super::super::reading::{Object, Reading, cut, list, object, text};
use super::super::violations::Code;
use super::Names;
use super::foreign::{Converted, move_fields, move_texts, put};
use alloc::format;
use alloc::vec::Vec;
use escapement_model::opaque::{StructBuilder, ValueView};

/// Names in this format.
pub(super) const NAMES: Names = &[
    ("name", "requestId"),
    ("steps", "tools"),
    ("key", "toolId"),
    ("config", ""),
    ("tool_name", "toolPath"),
    ("tool_args", "input"),
    ("depends_on", "dependencies"),
    ("retry", "retryPolicy"),
    ("max_retries", "maxRetries"),
    ("backoff_ms", "backoffMs"),
];

/// Converts a document.
pub(super) fn convert<'a>(reading: &mut Reading<'a>, plan: &mut Object<'a>) -> Converted {
    let mut converted = Converted::new();
    let id = plan.field(reading, "requestId", |_, value| Some(value));
    if let Some(id) = id {
        put(&mut converted.document, |document| document.value("name", id));
    }
    if let Some(ValueView::Text(id)) = id {
        converted.external_id = Some(id.into());
    }
    move_fields(
        reading,
        plan,
        &mut converted.document,
        &[("narrative", "narrative"), ("parallel", "parallel")],
    );
    let disabled = plan.field(reading, "disabledSkills", |reading, value| {
        put(&mut converted.attributes, |attributes| {
            attributes.value("disabled_skills", value)
        });
        list(reading, value, 0..=usize::MAX, |reading, value| {
            text(reading, value, 1..=usize::MAX)
        })
    });
    let disabled = disabled.unwrap_or_default();
    metadata(reading, plan, &mut converted.attributes);
    converted.take_steps(reading, plan, "tools", |reading, tool, _| {
        convert_tool(reading, tool, &disabled)
    });
    converted
}

/// The lineage of the document.
fn metadata<'a>(reading: &mut Reading<'a>, plan: &mut Object<'a>, attributes: &mut StructBuilder) {
    plan.field(reading, "metadata", |reading, value| {
        let mut metadata = Object::new(object(reading, value)?);
        if let Some(attempt) = metadata.whole(reading, "generationAttempt", 1..=u64::from(u32::MAX)) {
            put(attributes, |attributes| {
                attributes.number("generation_attempt", attempt as f64)
            });
        }
        let parent = metadata.field(reading, "parentPlanId", |reading, value| {
            text(reading, value, 1..=usize::MAX)
        });
        if let Some(parent) = parent {
            put(attributes, |attributes| attributes.text("parent_plan_id", parent));
        }
        metadata.finish(reading);
        Some(())
    });
}

fn convert_tool<'a>(reading: &mut Reading<'a>, tool: &mut Object<'a>, disabled: &[&str]) -> StructBuilder {
    let mut step = StructBuilder::new().text("type", "tool_call");
    move_fields(reading, tool, &mut step, &[("toolId", "key")]);
    let path = tool.field(reading, "toolPath", |reading, value| {
        if let ValueView::Text(path) = value {
            refuse_disabled(reading, path, disabled);
        }
        Some(value)
    });
    let mut config = StructBuilder::new();
    if let Some(path) = path {
        put(&mut config, |config| config.value("tool_name", path));
    }
    move_texts(reading, tool, &mut config, &[("input", "tool_args")]);
    put(&mut step, |step| {
        step.object("config", config.build().as_encoded())
    });
    move_fields(
        reading,
        tool,
        &mut step,
        &[("dependencies", "depends_on"), ("async", "async")],
    );
    // Defaults of the format hold under every preset.
    let required = tool.field(reading, "required", |_, value| Some(value));
    let required = required.unwrap_or(ValueView::Bool(true));
    put(&mut step, |step| step.value("required", required));
    let mut retry = StructBuilder::new()
        .number("max_retries", 3.0)
        .number("backoff_ms", 100.0)
        .number("multiplier", 2.0);
    tool.field(reading, "retryPolicy", |reading, value| {
        let mut policy = Object::new(object(reading, value)?);
        if let Some(max_retries) = policy.whole(reading, "maxRetries", 0..=RETRIES_MAX) {
            put(&mut retry, |retry| {
                retry.number("max_retries", max_retries as f64)
            });
        }
        move_fields(reading, &mut policy, &mut retry, &[("backoffMs", "backoff_ms")]);
        policy.finish(reading);
        Some(())
    });
    step.object("retry", retry.build().as_encoded())
}

/// A skill is disabled by the path of its tool, or by one part of that path.
fn refuse_disabled(reading: &mut Reading<'_>, path: &str, disabled: &[&str]) {
    let parts: Vec<&str> = path.split('/').collect();
    if let Some(skill) = disabled
        .iter()
        .find(|skill| **skill == path || parts.contains(skill))
    {
        reading.violation(Code::ConstraintViolated, || {
            format!("The skill {:?} is disabled.", cut(skill))
        });
    }
}

const RETRIES_MAX: u64 = 10;
