//! Random plans of all types of steps, and the limits and policies that they run under. Runs nothing.
//!
//! A document lists its steps in canonical order: each depends on earlier ones alone.

use crate::dice::Dice;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_run::plan::{Plan, StepKind};
use escapement_run::presets::Preset;
use escapement_run::spec::{
    ActionProfile, DependencyDefault, EffectClass, FailureDefault, InDoubt, Limits, Policy, ResumePolicy,
    Risk, Spec,
};
use serde_json::{Value, json};

/// The saved plan that children run.
pub(crate) const CHILD_PLAN: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";
/// Whose runs these are.
pub(crate) const USER: &str = "ada";

/// A plan with up to seven steps; a child has no children itself.
pub(crate) fn document(dice: &mut Dice, is_child: bool) -> Opaque {
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
    let document = json!({
        "schema": "escapement.plan/1",
        "name": if is_child { "Child" } else { "Random" },
        "parallel": dice.percent(50),
        "steps": steps,
    });
    opaque(&document)
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
            json!({"prompt": "Which?", "choices": choices, "context": context})
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

/// What a run is made from, but for its plan.
pub(crate) fn spec(dice: &mut Dice) -> Spec {
    let preset = *dice.pick(&Preset::ALL);
    Spec {
        input: opaque(&json!({"name": "Ada", "n": dice.roll(5)})),
        environment: opaque(&json!({"region": "eu"})),
        limits: limits(dice, preset),
        policy: policy(dice),
        autonomy_level: u32::try_from(*dice.pick(&[0_u64, 1, 2, 3, 4, 4])).expect("it is small"),
        user_id: USER.to_owned(),
        priority: u32::try_from(dice.between(1, 10)).expect("it is small"),
        llm_action: "llm.chat".to_owned(),
        llm_model: "small".to_owned(),
        preset: preset.as_str().to_owned(),
        ..Spec::default()
    }
}

/// Short enough that a run is over within an hour.
fn limits(dice: &mut Dice, preset: Preset) -> Limits {
    Limits {
        attempt_ms: dice.between(1_000, 10_000),
        queue_wait_ms: dice.between(5_000, 30_000),
        worker_wait_ms: dice.between(5_000, 30_000),
        watchdog_ms: if dice.percent(80) { 0 } else { 60_000 },
        revision_ms: 0,
        run_ms: dice.between(60_000, 900_000),
        lifetime_ms: dice.between(600_000, 1_800_000),
        pause_ms: dice.between(20_000, 300_000),
        question_ms: dice.between(10_000, 120_000),
        approval_ms: dice.between(10_000, 120_000),
        max_retries: u32::try_from(dice.roll(4)).expect("it is small"),
        max_backoff_ms: 5_000,
        max_concurrency: u32::try_from(dice.between(1, 3)).expect("it is small"),
        ..preset.limits(2)
    }
}

fn policy(dice: &mut Dice) -> Policy {
    let doubt = |dice: &mut Dice| *dice.pick(&[InDoubt::Ask, InDoubt::Fail, InDoubt::Retry]);
    let on_failure = *dice.pick(&[FailureDefault::Abort, FailureDefault::Drain, FailureDefault::Skip]);
    let word = *dice.pick(&[
        DependencyDefault::Skip,
        DependencyDefault::NullIfOptional,
        DependencyDefault::Synthetic,
        DependencyDefault::Block,
        DependencyDefault::Null,
    ]);
    let approvers = if dice.percent(30) {
        &["bob", "carol", "dora"][..]
    } else {
        &[]
    };
    let resume = if dice.percent(5) {
        ResumePolicy::Discard
    } else {
        ResumePolicy::RetryPending
    };
    Policy {
        ambiguity: doubt(dice).into(),
        ambiguous_timeout: doubt(dice).into(),
        on_failure: on_failure.into(),
        on_dependency_failure: word.into(),
        escalate: dice.percent(40),
        four_eyes: dice.percent(40),
        approvers: approvers.iter().map(|name| (*name).to_owned()).collect(),
        quorum: if dice.percent(25) { 2 } else { 1 },
        resume: resume.into(),
    }
}

/// What is known of the actions of a plan, sorted by name.
pub(crate) fn profiles(plan: &Plan) -> Vec<ActionProfile> {
    let mut names = vec!["llm.chat".to_owned()];
    for step in &plan.steps {
        match &step.kind {
            StepKind::ToolCall(call) => names.push(call.tool_name.clone()),
            StepKind::Parallel(parallel) => {
                names.extend(parallel.items.iter().map(|item| item.tool_name.clone()));
            }
            StepKind::Loop(repeated) => names.push(repeated.call.tool_name.clone()),
            StepKind::LlmDecision(_)
            | StepKind::UserInput(_)
            | StepKind::Condition(_)
            | StepKind::SubPlan(_) => {}
        }
    }
    names.sort();
    names.dedup();
    names.into_iter().map(profile).collect()
}

fn profile(action: String) -> ActionProfile {
    let (class, risk) = action.split_once('.').expect("a name has two parts");
    let effect = match class {
        "pure" => EffectClass::Pure,
        "world" => EffectClass::World,
        "llm" => EffectClass::Llm,
        "ext" => EffectClass::External,
        _ => EffectClass::SideEffect,
    };
    let risk = match risk {
        "unusual" => Risk::Unusual,
        "destructive" => Risk::Destructive,
        _ => Risk::Safe,
    };
    ActionProfile {
        idempotent: class == "idem",
        effect: effect.into(),
        risk: risk.into(),
        attempt_ms: 0,
        seen: true,
        action,
        ..ActionProfile::default()
    }
}

/// Every action that a plan may call.
pub(crate) const ACTIONS: [&str; 8] = [
    "ext.destructive",
    "idem.safe",
    "llm.chat",
    "mail.destructive",
    "mail.safe",
    "mail.unusual",
    "pure.safe",
    "world.safe",
];

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
