//! Random plans of all types of steps. Runs nothing.
//!
//! A document lists its steps in canonical order: each depends on earlier ones alone.

use crate::artifacts::KINDS;
use crate::dice::Dice;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, items, value_of};
use serde_json::{Value, json};

/// The saved plan that children run.
pub(crate) const CHILD_PLAN: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";
/// What models may call.
pub(crate) const TOOLS: [&str; 3] = ["mail.destructive", "mail.safe", "pure.safe"];

/// A plan with up to seven steps; a child has no children itself.
pub(crate) fn document(dice: &mut Dice, is_child: bool) -> Opaque {
    opaque(&json_document(dice, is_child))
}

/// The same as JSON.
pub(crate) fn json_document(dice: &mut Dice, is_child: bool) -> Value {
    let n_steps = if is_child {
        dice.between(1, 2)
    } else {
        dice.between(1, 7)
    };
    let steps = if !is_child && dice.percent(10) {
        race(dice)
    } else {
        let steps = (0..n_steps).map(|number| {
            let keys: Vec<String> = (0..number).map(|before| format!("s{before}")).collect();
            step(dice, &format!("s{number}"), &keys, n_steps, is_child)
        });
        steps.collect()
    };
    let mut document = json!({
        "schema": "escapement.plan/1",
        "name": if is_child { "Child" } else { "Random" },
        "parallel": dice.percent(50),
        "steps": steps,
    });
    // Half of the plans mark none.
    if document["steps"][0]["async"] != true {
        let steps = document["steps"].as_array_mut().expect("it is a list");
        steps.iter_mut().for_each(|step| step["async"] = json!(false));
    }
    if dice.percent(10) {
        document["constraints"] = match dice.percent(50) {
            true => json!({"must_produce": [dice.pick(&KINDS)]}),
            false => json!({"expected_artifact_type": dice.pick(&KINDS)}),
        };
    }
    document
}

/// A plan that does one thing, of which nobody knows whether it was done if its worker is lost.
pub(crate) fn errand() -> Opaque {
    let config = json!({"tool_name": "mail.safe", "tool_args": {}});
    let step = json!({"key": "s0", "type": "tool_call", "config": config});
    opaque(&json!({"schema": "escapement.plan/1", "name": "Errand", "steps": [step]}))
}

/// Items of which the first decides, and behind the others a step that tells what came of them.
fn race(dice: &mut Dice) -> Vec<Value> {
    let item = || json!({"tool_name": "pure.safe", "tool_args": {}});
    let items: Vec<Value> = (0..dice.between(2, 3)).map(|_| item()).collect();
    let racing = json!({"steps": items, "batch_size": 3, "wait_all": false});
    let between = json!({"tool_name": "pure.safe", "tool_args": {}});
    let told = json!({"tool_name": "world.safe", "tool_args": {"all": "${s0}"}});
    [
        json!({"key": "s0", "type": "parallel", "config": racing}),
        json!({"key": "s1", "type": "tool_call", "depends_on": ["s0"], "config": between}),
        json!({"key": "s2", "type": "tool_call", "depends_on": ["s1"], "config": told}),
    ]
    .into()
}

fn step(dice: &mut Dice, key: &str, before: &[String], n_steps: u64, is_child: bool) -> Value {
    let kinds: &[&str] = if is_child {
        &["tool_call", "tool_call", "user_input", "llm_decision"]
    } else {
        &[
            "tool_call",
            "tool_call",
            "tool_call",
            "llm_decision",
            "user_input",
            "condition",
            "parallel",
            "loop",
            "sub_plan",
        ]
    };
    let kind = *dice.pick(kinds);
    let later: Vec<String> = (before.len() as u64 + 1..n_steps)
        .map(|later| format!("s{later}"))
        .collect();
    let config = config(dice, kind, before, &later);
    let mut step = json!({"key": key, "type": kind, "config": config});
    let fields = step.as_object_mut().expect("it is an object");
    if !before.is_empty() && dice.percent(50) {
        fields.insert("depends_on".to_owned(), json!([dice.pick(before)]));
    }
    fields.insert("async".to_owned(), json!(dice.percent(50)));
    if dice.percent(30) {
        let timeout_ms = dice.between(500, 5_000);
        fields.insert("timeout_ms".to_owned(), json!(timeout_ms));
    }
    if dice.percent(40) {
        let retry = json!({"max_retries": dice.roll(4), "backoff_ms": dice.between(1, 3_000)});
        fields.insert("retry".to_owned(), retry);
    }
    match dice.roll(8) {
        0 => drop(fields.insert("on_failure".to_owned(), json!("skip"))),
        1 => drop(fields.insert("on_failure".to_owned(), json!("drain"))),
        2 if !later.is_empty() => drop(fields.insert("on_failure".to_owned(), json!(dice.pick(&later)))),
        3 => drop(fields.insert("required".to_owned(), json!(false))),
        _ => {}
    }
    if dice.percent(20) {
        let word = *dice.pick(&["skip", "null_input", "synthetic", "block"]);
        fields.insert("on_dependency_failure".to_owned(), json!(word));
    }
    step
}

fn config(dice: &mut Dice, kind: &str, before: &[String], later: &[String]) -> Value {
    match kind {
        "tool_call" => json!({"tool_name": action(dice), "tool_args": arguments(dice, before, None)}),
        "llm_decision" => {
            let choices = if dice.percent(50) {
                json!(["yes", "no"])
            } else {
                json!([])
            };
            let context = if dice.percent(50) { "none" } else { "dependencies" };
            let mut config = json!({"prompt": "Which?", "choices": choices, "context": context});
            if dice.percent(40) {
                config["tools"] = json!(TOOLS);
                config["max_iterations"] = json!(dice.between(1, 3));
            }
            config
        }
        "user_input" => {
            let mut config = json!({"question": "Go on?", "timeout_ms": dice.between(5_000, 60_000)});
            if dice.percent(40) {
                config["default_answer"] = json!("by default");
            }
            config
        }
        "condition" => {
            let mut config = json!({"condition": expression(dice, before)});
            for side in ["true_step", "false_step"] {
                if !later.is_empty() && dice.percent(50) {
                    config[side] = json!(dice.pick(later));
                }
            }
            config
        }
        "parallel" => {
            let items = (0..dice.roll(4)).map(
                |_| json!({"tool_name": action(dice), "tool_args": arguments(dice, before, Some("item"))}),
            );
            let items: Vec<Value> = items.collect();
            json!({"steps": items, "batch_size": dice.between(1, 3), "wait_all": dice.percent(70)})
        }
        "loop" => {
            let mut config = json!({
                "tool_name": action(dice),
                "tool_args": arguments(dice, before, Some("iteration")),
                "max_iterations": dice.roll(4),
            });
            if dice.percent(40) {
                config["loop_condition"] = json!(expression(dice, before));
            }
            config
        }
        _ => json!({"plan_id": CHILD_PLAN, "input": {"from": "parent"}}),
    }
}

fn expression(dice: &mut Dice, before: &[String]) -> String {
    match dice.roll(4) {
        0 => "true".to_owned(),
        1 if !before.is_empty() => format!("result:{}", dice.pick(before)),
        _ => "input.n > 2".to_owned(),
    }
}

/// Its name says what repeating it would mean, and what running it unasked would.
fn action(dice: &mut Dice) -> &'static str {
    let names: &[&'static str] = &[
        "pure.safe",
        "world.safe",
        "mail.safe",
        "mail.unusual",
        "mail.destructive",
        "idem.safe",
        "ext.destructive",
    ];
    dice.pick::<&'static str>(names)
}

/// What a call is given: constants and references to input and earlier steps.
fn arguments(dice: &mut Dice, before: &[String], number: Option<&str>) -> Value {
    let mut arguments = json!({"const": dice.roll(10), "who": "${input:/name}"});
    if !before.is_empty() && dice.percent(60) {
        let key = dice.pick(before);
        arguments["ref"] = match dice.roll(3) {
            0 => json!(format!("${{{key}}}")),
            1 => json!({"$from": key, "path": "/content", "default": "nothing"}),
            _ => json!({"deep": [{"$from": key, "path": "/n", "default": 7}]}),
        };
    }
    match number {
        Some("iteration") if dice.percent(50) => arguments["at"] = json!("${iteration}"),
        Some("item") if dice.percent(50) => arguments["at"] = json!("number ${item} of them"),
        _ => {}
    }
    arguments
}

/// A document with another step under a key that it has, and with one step more.
pub(crate) fn edited(document: &Opaque, changed: Option<(String, Opaque)>, more: &Opaque) -> Opaque {
    let other = |step: &[u8]| {
        let (key, other) = changed.as_ref()?;
        (value_of(step, "key") == Some(ValueView::Text(key))).then_some(other)
    };
    let fields = document.entries().map(|field| field.expect("it was read before"));
    let all = fields.fold(StructBuilder::new(), |builder, (name, field)| match field {
        ValueView::List(steps) if name == "steps" => {
            let steps = items(steps).map(|step| step.expect("it was read before"));
            let steps = steps.fold(ListBuilder::new(), |list, step| match step {
                ValueView::Struct(step) => list.object(other(step).map_or(step, |other| other.as_encoded())),
                step => list.value(step),
            });
            builder.list("steps", steps.object(more.as_encoded()))
        }
        field => builder.value(name, field),
    });
    all.build()
}

/// A JSON object as an encoded one.
pub(crate) fn opaque(value: &Value) -> Opaque {
    let object = value.as_object().expect("an object");
    let entries = object.iter();
    entries
        .fold(StructBuilder::new(), |builder, (key, value)| match value {
            Value::Null => builder.null(key),
            Value::Bool(flag) => builder.boolean(key, *flag),
            Value::Number(number) => builder.number(key, number.as_f64().expect("a double")),
            Value::String(text) => builder.text(key, text),
            Value::Array(items) => builder.list(key, list(items)),
            Value::Object(_) => builder.object(key, opaque(value).as_encoded()),
        })
        .build()
}

fn list(items: &[Value]) -> ListBuilder {
    items.iter().fold(ListBuilder::new(), |builder, item| match item {
        Value::Null => builder.null(),
        Value::Bool(flag) => builder.boolean(*flag),
        Value::Number(number) => builder.number(number.as_f64().expect("a double")),
        Value::String(text) => builder.text(text),
        Value::Array(items) => builder.list(list(items)),
        Value::Object(_) => builder.object(opaque(item).as_encoded()),
    })
}
