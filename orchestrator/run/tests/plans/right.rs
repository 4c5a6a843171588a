//! Documents that are right, and what they become.

use escapement_run::plan::{
    self, Expression, InputType, LlmContext, OnDependencyFailure, OnFailure, Plan, RetrySpec, StepKind,
};
use serde_json::{Value, json};

use crate::documents::{decoded, full, read, read_steps};

fn keys(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.key.as_str()).collect()
}

fn kind(step: Value) -> StepKind {
    let plan =
        read_steps(&json!([{"key": "first", "type": "tool_call", "config": {"tool_name": "f"}}, step]));
    plan.unwrap().steps.remove(1).kind
}

#[test]
fn every_field_is_kept() {
    let plan = read(&full()).unwrap();
    assert_eq!(
        (plan.name.as_str(), plan.goal.as_str()),
        ("All", "Have all fields")
    );
    assert_eq!(plan.description, "Has all fields");
    assert!(plan.parallel);
    assert_eq!(plan.narrative.as_deref(), Some("Nothing happens."));
    assert_eq!(plan.constraints.must_produce, ["image"]);
    assert_eq!(plan.constraints.expected_artifact_type.as_deref(), Some("image"));
    assert_eq!(
        keys(&plan),
        ["call", "decide", "ask", "branch", "all", "again", "child"]
    );

    let call = &plan.steps[0];
    assert_eq!((call.order, call.place), (1, 0));
    assert_eq!((call.name.as_str(), call.description.as_str()), ("Call", "Calls"));
    assert_eq!(
        (call.required, call.is_async, call.timeout_ms),
        (Some(true), true, Some(30_000))
    );
    let retry = RetrySpec {
        max_retries: Some(3),
        backoff_ms: Some(1000),
        multiplier: Some(2.0),
        max_backoff_ms: Some(30_000),
        escalate: Some(false),
    };
    assert_eq!(call.retry, retry);
    assert_eq!(
        (call.on_success, call.on_failure),
        (Some(2), Some(OnFailure::Abort))
    );
    assert_eq!(call.on_dependency_failure, Some(OnDependencyFailure::Skip));
    assert_eq!(call.verify.as_ref().unwrap().tool_name, "check");
    assert_eq!(decoded(&call.metadata), json!({"any": ["thing"]}));

    let StepKind::LlmDecision(decision) = &plan.steps[1].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(decision.context, LlmContext::Steps(vec![0]));
    assert_eq!(
        (decision.model.as_deref(), decision.max_iterations),
        (Some("small"), Some(5))
    );
    let StepKind::UserInput(input) = &plan.steps[2].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (input.input_type, input.timeout_ms),
        (InputType::Choice, Some(86_400_000))
    );
    assert_eq!(plan.steps[2].on_failure, Some(OnFailure::Jump(4)));
    let StepKind::Condition(condition) = &plan.steps[3].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(condition.condition, Expression::ResultOf(2));
    assert_eq!((condition.true_step, condition.false_step), (Some(4), Some(5)));
    let StepKind::Parallel(parallel) = &plan.steps[4].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (parallel.items.len(), parallel.batch_size, parallel.wait_all),
        (2, Some(5), false)
    );
    assert_eq!(parallel.items[0].tool_name, "list");
    let StepKind::Loop(repeated) = &plan.steps[5].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(repeated.max_iterations, Some(10));
    assert_eq!(
        repeated.loop_condition,
        Some(Expression::Text("steps.again < 3".to_owned()))
    );
    let StepKind::SubPlan(child) = &plan.steps[6].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(
        child.plan_id.as_deref(),
        Some("6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10")
    );
}

// RUN-1.5
#[test]
fn references_are_dependencies_and_results_that_are_asked_for_are_not() {
    let plan = read(&full()).unwrap();
    let all: Vec<&[usize]> = plan.steps.iter().map(|step| step.depends_on.as_slice()).collect();
    // `branch` asks for the result of `ask`; `again` refers to `all`, `child` to `again`.
    assert_eq!(all, [&[][..], &[0], &[1], &[], &[], &[4], &[5]]);
}

#[test]
fn what_is_absent_has_its_default() {
    let plan = read_steps(&json!([{"key": "a", "type": "tool_call", "config": {"tool_name": "f"}}])).unwrap();
    assert_eq!(
        (plan.goal.as_str(), plan.description.as_str(), plan.parallel),
        ("", "", false)
    );
    assert!(plan.narrative.is_none() && plan.output.is_none());
    assert!(plan.constraints.must_produce.is_empty());
    let step = &plan.steps[0];
    assert_eq!(
        (step.order, step.name.as_str(), step.description.as_str()),
        (1, "a", "")
    );
    assert_eq!(
        (step.required, step.is_async, step.timeout_ms),
        (None, false, None)
    );
    assert_eq!(step.retry, RetrySpec::default());
    assert_eq!(
        (step.on_success, step.on_failure, step.on_dependency_failure),
        (None, None, None)
    );
    assert!(step.verify.is_none() && step.metadata.is_empty());
    let StepKind::LlmDecision(decision) = kind(json!({
        "key": "b", "type": "llm_decision", "config": {"prompt": "Why?"}
    })) else {
        panic!("it is a decision");
    };
    assert_eq!(
        (decision.context, decision.max_iterations),
        (LlmContext::All, None)
    );
    let StepKind::UserInput(input) = kind(json!({
        "key": "b", "type": "user_input", "config": {"question": "Why?"}
    })) else {
        panic!("it is a question");
    };
    assert_eq!((input.input_type, input.timeout_ms), (InputType::Text, None));
    let StepKind::Parallel(parallel) = kind(json!({
        "key": "b", "type": "parallel", "config": {"steps": []}
    })) else {
        panic!("it is parallel");
    };
    assert!(parallel.wait_all && parallel.batch_size.is_none());
}

#[test]
fn a_plan_may_have_no_steps_and_1024_but_no_more() {
    assert!(read_steps(&json!([])).unwrap().steps.is_empty());
    let steps = |n: usize| {
        let step = |at| json!({"key": format!("s{at}"), "type": "tool_call", "config": {"tool_name": "f"}});
        (0..n).map(step).collect::<Value>()
    };
    assert_eq!(read_steps(&steps(1024)).unwrap().steps.len(), 1024);
    assert_eq!(read_steps(&steps(1025)).unwrap_err().first().path, "steps");
}

#[test]
fn a_loop_that_names_a_step_repeats_its_call_and_has_its_dependencies() {
    let plan = read_steps(&json!([
        {"key": "again", "type": "loop", "config": {"loop_step": "poll", "max_iterations": 3}},
        {"key": "begin", "type": "tool_call", "config": {"tool_name": "begin"}},
        {"key": "poll", "type": "tool_call", "config": {"tool_name": "poll", "tool_args": {"id": "${begin:/id}"}}},
    ]));
    let plan = plan.unwrap();
    assert_eq!(keys(&plan), ["begin", "again", "poll"]);
    assert_eq!(plan.steps[1].depends_on, [0]);
    let StepKind::Loop(repeated) = &plan.steps[1].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(repeated.call.tool_name, "poll");
    assert_eq!(decoded(&repeated.call.tool_args), json!({"id": "${begin:/id}"}));
}

#[test]
fn the_narrowest_and_the_widest_values_are_taken() {
    let with = |pointer: &str, value: Value| {
        let mut document = full();
        *document.pointer_mut(pointer).unwrap() = value;
        document
    };
    let long = |n| json!("ü".repeat(n));
    let digest = format!("sha256:{}", "0a".repeat(32));
    let rows = [
        ("/name", long(1)),
        ("/name", long(255)),
        ("/goal", long(5000)),
        ("/description", long(0)),
        ("/steps/0/order", json!(0)),
        ("/steps/0/name", long(255)),
        ("/steps/0/timeout_ms", json!(1)),
        ("/steps/0/timeout_ms", json!(86_400_000)),
        ("/steps/0/retry/max_retries", json!(0)),
        ("/steps/0/retry/max_retries", json!(100)),
        ("/steps/0/retry/backoff_ms", json!(0)),
        ("/steps/0/retry/multiplier", json!(1)),
        ("/steps/0/retry/multiplier", json!(9.75)),
        ("/steps/0/retry/max_backoff_ms", json!(86_400_000)),
        ("/steps/0/config/tool_name", long(100)),
        ("/steps/1/config/max_iterations", json!(100)),
        ("/steps/1/config/context", json!("dependencies")),
        ("/steps/1/config/choices", json!([])),
        ("/steps/2/config/timeout_ms", json!(31_536_000_000_u64)),
        ("/steps/3/config/condition", json!("true")),
        ("/steps/3/config/condition", json!("x".repeat(4096))),
        ("/steps/4/config/steps", json!(vec!["f"; 256])),
        ("/steps/4/config/batch_size", json!(256)),
        ("/steps/5/config/max_iterations", json!(0)),
        ("/steps/5/config/max_iterations", json!(1000)),
        ("/steps/6/config", json!({"revision_digest": digest})),
    ];
    for (pointer, value) in rows {
        if let Err(violations) = read(&with(pointer, value)) {
            panic!("{pointer}: {violations}");
        }
    }
}

#[test]
fn dots_and_hyphens_are_part_of_keys() {
    let key = format!("a.b-c_{}", "d".repeat(58));
    let plan = read_steps(&json!([
        {"key": key, "type": "tool_call", "config": {"tool_name": "f"}},
        {"key": "x", "type": "tool_call", "config": {"tool_name": "f", "tool_args": {"of": format!("${{{key}:/a~1b/0}}")}}},
    ]));
    assert_eq!(plan.unwrap().steps[1].depends_on, [0]);
}

#[test]
fn a_default_answer_may_be_what_an_option_becomes() {
    let plan = read_steps(&json!([{
        "key": "ask", "type": "user_input",
        "config": {"question": "?", "input_type": "choice", "options": ["a", "${input}"], "default_answer": "c"}
    }]));
    assert!(plan.is_ok());
}

/// The fields of a plan that a planner is not told of: the run says what it must produce, notes are for people, and no run calls
/// what verifies a step.
const NOT_FOR_PLANNERS: [&str; 3] = ["constraints", "metadata", "verify"];

// RUN-11.4
#[test]
fn a_planner_is_told_of_every_field_that_its_plan_may_have() {
    let schema: Value = serde_json::from_str(include_str!("../../src/planner/schema.json")).unwrap();
    let step = &schema["properties"]["steps"]["items"]["properties"];
    let mut untold = Vec::new();
    let is_untold = |known: &Value, name: &String| {
        known.get(name).is_none() && !NOT_FOR_PLANNERS.contains(&name.as_str())
    };
    let compare = |known: &Value, document: &Value, names: &mut Vec<String>| {
        let of_document = document.as_object().unwrap().keys();
        names.extend(of_document.filter(|name| is_untold(known, name)).cloned());
    };
    let full = full();
    compare(&schema["properties"], &full, &mut untold);
    for of_step in full["steps"].as_array().unwrap() {
        compare(step, of_step, &mut untold);
        if let Some(retry) = of_step.get("retry") {
            compare(&step["retry"]["properties"], retry, &mut untold);
        }
        let kind = of_step["type"].as_str().unwrap();
        // A plan of a planner runs no other plan.
        if kind == "sub_plan" {
            continue;
        }
        let told = step["config"]["description"].as_str().unwrap();
        let (_, told) = told.split_once(&format!("{kind}: {{")).unwrap();
        let (told, _) = told.split_once("}. ").unwrap();
        let words: Vec<&str> = told
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .collect();
        for name in of_step["config"].as_object().unwrap().keys() {
            if !words.contains(&name.as_str()) {
                untold.push(format!("{kind}.{name}"));
            }
        }
    }
    assert!(untold.is_empty(), "{untold:?}");
}

// RUN-1.8
#[test]
fn what_no_run_carries_out_is_refused_by_its_name() {
    let violations = plan::carried_out(read(&full()).unwrap()).unwrap_err();
    let told: Vec<&str> = violations
        .iter()
        .map(|violation| violation.path.as_str())
        .collect();
    assert_eq!(told, ["steps[0].verify"]);
    let mut document = full();
    document["steps"][0].as_object_mut().unwrap().remove("verify");
    assert!(plan::carried_out(read(&document).unwrap()).is_ok());
}
