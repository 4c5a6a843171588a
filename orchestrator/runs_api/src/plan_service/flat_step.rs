//! Steps in flat fields, as tools for agents give them, as steps of a plan document. Knows no plan.

use crate::fields::Fields;
use escapement_model::Opaque;
use escapement_model::limits::NAME_CHARS_MAX;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_wire::runs::v1::FlatStep;

/// The step of a document. What is required and absent, or does not belong to the type, is wrong.
pub(crate) fn step_of(flat: &FlatStep, key: &str, fields: &mut Fields) -> Opaque {
    if flat.order.is_none() {
        fields.wrong("flat.order", "is required");
    }
    fields.text("flat.name", &flat.name, 1..=NAME_CHARS_MAX);
    fields.text("flat.type", &flat.r#type, 1..=NAME_CHARS_MAX);
    foreign(flat, fields);
    let mut step = StructBuilder::new()
        .text("key", key)
        .number("order", flat.order.unwrap_or_default().into())
        .text("type", &flat.r#type)
        .text("name", &flat.name);
    step = text(step, "description", &flat.description);
    step = step.object("config", config(flat).as_encoded());
    step = texts(step, "depends_on", &flat.dependencies);
    if let Some(max_retries) = flat.max_retries {
        let retry = StructBuilder::new().number("max_retries", max_retries.into());
        step = step.object("retry", retry.build().as_encoded());
    }
    text(step, "on_failure", &flat.on_failure).build()
}

/// The flat field of a path in the step of a document.
pub(crate) fn flat_path(path: &str) -> String {
    let names = [
        ("depends_on", "dependencies"),
        ("retry.max_retries", "max_retries"),
        ("config.steps", "parallel_steps"),
        ("config.plan_id", "sub_plan_id"),
    ];
    let found = names
        .iter()
        .find_map(|(here, there)| Some(format!("flat.{there}{}", path.strip_prefix(here)?)));
    found.unwrap_or_else(|| format!("flat.{}", path.strip_prefix("config.").unwrap_or(path)))
}

fn config(flat: &FlatStep) -> Opaque {
    let mut config = StructBuilder::new();
    for (name, value) in [
        ("tool_name", &flat.tool_name),
        ("prompt", &flat.prompt),
        ("question", &flat.question),
        ("input_type", &flat.input_type),
        ("condition", &flat.condition),
        ("true_step", &flat.true_step),
        ("false_step", &flat.false_step),
        ("plan_id", &flat.sub_plan_id),
    ] {
        config = text(config, name, value);
    }
    for (name, list) in [("choices", &flat.choices), ("options", &flat.options)] {
        config = texts(config, name, list);
    }
    if let Some(tool_args) = &flat.tool_args {
        config = config.object("tool_args", tool_args.as_encoded());
    }
    if flat.r#type == "parallel" {
        let steps = flat
            .parallel_steps
            .iter()
            .fold(ListBuilder::new(), |list, step| list.object(step.as_encoded()));
        config = config.list("steps", steps);
    }
    if let Some(max_iterations) = flat.max_iterations {
        config = config.number("max_iterations", max_iterations.into());
    }
    config.build()
}

/// Notes the fields that do not belong to the type.
fn foreign(flat: &FlatStep, fields: &mut Fields) {
    let of: [(&str, bool, &[&str]); 13] = [
        ("tool_name", !flat.tool_name.is_empty(), &["tool_call", "loop"]),
        ("tool_args", flat.tool_args.is_some(), &["tool_call", "loop"]),
        ("prompt", !flat.prompt.is_empty(), &["llm_decision"]),
        ("choices", !flat.choices.is_empty(), &["llm_decision"]),
        ("question", !flat.question.is_empty(), &["user_input"]),
        ("input_type", !flat.input_type.is_empty(), &["user_input"]),
        ("options", !flat.options.is_empty(), &["user_input"]),
        ("condition", !flat.condition.is_empty(), &["condition"]),
        ("true_step", !flat.true_step.is_empty(), &["condition"]),
        ("false_step", !flat.false_step.is_empty(), &["condition"]),
        ("parallel_steps", !flat.parallel_steps.is_empty(), &["parallel"]),
        (
            "max_iterations",
            flat.max_iterations.is_some(),
            &["loop", "llm_decision"],
        ),
        ("sub_plan_id", !flat.sub_plan_id.is_empty(), &["sub_plan"]),
    ];
    let is_known = of
        .iter()
        .any(|(_, _, types)| types.contains(&flat.r#type.as_str()));
    // The document says which types there are.
    for (name, is_given, types) in of {
        if is_known && is_given && !types.contains(&flat.r#type.as_str()) {
            let types = types.join(" or ");
            fields.wrong(
                format!("flat.{name}"),
                format!("belongs to a step of the type {types}"),
            );
        }
    }
}

fn text(object: StructBuilder, name: &str, text: &str) -> StructBuilder {
    match text {
        "" => object,
        text => object.text(name, text),
    }
}

fn texts(object: StructBuilder, name: &str, texts: &[String]) -> StructBuilder {
    if texts.is_empty() {
        return object;
    }
    let list = texts
        .iter()
        .fold(ListBuilder::new(), |list, text| list.text(text));
    object.list(name, list)
}
