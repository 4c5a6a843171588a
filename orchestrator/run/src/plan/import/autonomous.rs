//! `autonomous/1`: a stored plan with steps of seven types. Its fields are ours, under other names.

use super::super::reading::{Object, Reading, object};
use super::Names;
use super::foreign::{Converted, move_fields, move_texts, put, skip};
use alloc::format;
use alloc::vec::Vec;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, encode_value, items};

/// Names in this format.
pub(super) const NAMES: Names = &[
    ("key", "id"),
    ("order", "orderNum"),
    ("tool_name", "toolName"),
    ("tool_args", "toolArgs"),
    ("input_type", "inputType"),
    ("config.timeout_ms", "timeout"),
    ("timeout_ms", "timeoutMs"),
    ("true_step", "trueStep"),
    ("false_step", "falseStep"),
    ("wait_all", "waitAll"),
    ("max_iterations", "maxIterations"),
    ("loop_condition", "loopCondition"),
    ("loop_step", "loopStep"),
    ("plan_id", "subPlanId"),
    ("depends_on", "dependencies"),
    ("retry", ""),
    ("max_retries", "maxRetries"),
    ("on_success", "onSuccess"),
    ("on_failure", "onFailure"),
];

/// Converts a document.
pub(super) fn convert<'a>(reading: &mut Reading<'a>, plan: &mut Object<'a>) -> Converted {
    let mut converted = Converted::new();
    converted.take_id(reading, plan, "id");
    let names = [("name", "name"), ("description", "description")];
    move_fields(reading, plan, &mut converted.document, &names);
    // The goal is required there.
    if let Some(goal) = plan.required(reading, "goal", |_, value| Some(value)) {
        put(&mut converted.document, |document| document.value("goal", goal));
    }
    move_fields(reading, plan, &mut converted.attributes, &ATTRIBUTES);
    skip(reading, plan, &RECORDS_OF_PLANS);
    converted.take_steps(reading, plan, "steps", convert_step);
    converted
}

fn convert_step<'a>(reading: &mut Reading<'a>, step: &mut Object<'a>, place: usize) -> StructBuilder {
    let mut converted = StructBuilder::new();
    if !step.has("id") {
        put(&mut converted, |converted| {
            converted.text("key", &format!("step_{}", place + 1))
        });
    }
    let names = [
        ("id", "key"),
        ("type", "type"),
        ("description", "description"),
        ("dependencies", "depends_on"),
        ("timeoutMs", "timeout_ms"),
        ("onSuccess", "on_success"),
        ("onFailure", "on_failure"),
        ("metadata", "metadata"),
    ];
    move_fields(reading, step, &mut converted, &names);
    // Both are required there.
    for (there, here) in [("orderNum", "order"), ("name", "name")] {
        if let Some(value) = step.required(reading, there, |_, value| Some(value)) {
            put(&mut converted, |converted| converted.value(here, value));
        }
    }
    let mut retry = StructBuilder::new();
    move_fields(reading, step, &mut retry, &[("maxRetries", "max_retries")]);
    put(&mut converted, |converted| {
        converted.object("retry", retry.build().as_encoded())
    });
    step.field(reading, "config", |reading, value| {
        let mut config = Object::new(object(reading, value)?);
        let config_here = convert_config(reading, &mut config);
        config.finish(reading);
        put(&mut converted, |converted| {
            converted.object("config", config_here.build().as_encoded())
        });
        Some(())
    });
    skip(reading, step, &RECORDS_OF_STEPS);
    converted
}

fn convert_config<'a>(reading: &mut Reading<'a>, config: &mut Object<'a>) -> StructBuilder {
    let mut converted = StructBuilder::new();
    convert_call(reading, config, &mut converted);
    let texts = [
        ("prompt", "prompt"),
        ("question", "question"),
        ("options", "options"),
    ];
    move_texts(reading, config, &mut converted, &texts);
    let names = [
        ("choices", "choices"),
        ("inputType", "input_type"),
        ("timeout", "timeout_ms"),
        ("condition", "condition"),
        ("trueStep", "true_step"),
        ("falseStep", "false_step"),
        ("waitAll", "wait_all"),
        ("maxIterations", "max_iterations"),
        ("loopCondition", "loop_condition"),
        ("loopStep", "loop_step"),
        ("subPlanId", "plan_id"),
    ];
    move_fields(reading, config, &mut converted, &names);
    let steps = config.field(reading, "steps", |reading, value| {
        Some(convert_items(reading, value))
    });
    if let Some(steps) = steps {
        put(&mut converted, |converted| {
            converted.value("steps", super::foreign::viewed(&steps))
        });
    }
    converted
}

fn convert_call<'a>(reading: &mut Reading<'a>, from: &mut Object<'a>, to: &mut StructBuilder) {
    move_fields(reading, from, to, &[("toolName", "tool_name")]);
    move_texts(reading, from, to, &[("toolArgs", "tool_args")]);
}

/// The calls of a parallel step: names of tools, or calls.
fn convert_items<'a>(reading: &mut Reading<'a>, value: ValueView<'a>) -> Vec<u8> {
    let mut encoded = Vec::new();
    let ValueView::List(list) = value else {
        encode_value(value, &mut encoded);
        return encoded;
    };
    let calls = reading.each(items(list).filter_map(Result::ok), |reading, item| match item {
        ValueView::Struct(call) => {
            let mut call = Object::new(call);
            let mut converted = StructBuilder::new();
            convert_call(reading, &mut call, &mut converted);
            call.finish(reading);
            ListBuilder::new().object(converted.build().as_encoded())
        }
        other => ListBuilder::new().value(other),
    });
    let calls: Vec<u8> = calls.into_iter().flat_map(ListBuilder::into_encoded).collect();
    encode_value(ValueView::List(&calls), &mut encoded);
    encoded
}

/// What a stored plan says beside its steps.
const ATTRIBUTES: [(&str, &str); 9] = [
    ("priority", "priority"),
    ("source", "source"),
    ("sourceId", "source_id"),
    ("triggerId", "trigger_id"),
    ("goalId", "goal_id"),
    ("autonomyLevel", "autonomy_level"),
    ("maxRetries", "max_retries"),
    ("timeoutMs", "timeout_ms"),
    ("metadata", "metadata"),
];

/// What became of a stored plan.
const RECORDS_OF_PLANS: [&str; 12] = [
    "userId",
    "status",
    "currentStep",
    "totalSteps",
    "progress",
    "retryCount",
    "checkpoint",
    "error",
    "createdAt",
    "updatedAt",
    "startedAt",
    "completedAt",
];

/// What became of a step.
const RECORDS_OF_STEPS: [&str; 8] = [
    "planId",
    "status",
    "result",
    "error",
    "retryCount",
    "startedAt",
    "completedAt",
    "durationMs",
];
