#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::of_run;
use crate::request::request_draft;
use escapement_contract::{Request, validate_request};
use escapement_wire::json::to_opaque;
use escapement_wire::v1;
use serde_json::{Value, json};

const RUN: &str = "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10";

fn request(metadata: &Value, environment: &Value, n_steps: u8) -> Request {
    let opaque = |object: &Value| to_opaque(object.as_object().unwrap());
    let step = |n: u8| v1::PlanStep {
        id: format!("00000000-0000-4000-8000-0000000000{n:02}"),
        action: "pay".to_owned(),
        payload: Some(escapement_model::Opaque::default()),
        ..v1::PlanStep::default()
    };
    let wire = v1::SubmitPlanRequest {
        plan: Some(v1::Plan {
            id: "10000000-0000-4000-8000-000000000001".to_owned(),
            version: 1,
            created_at: 1,
            steps: (1..=n_steps).map(step).collect(),
            name: "n".to_owned(),
            context_requirements: vec!["key".to_owned()],
            metadata: Some(opaque(metadata)),
            ..v1::Plan::default()
        }),
        environment: Some(opaque(environment)),
        ..v1::SubmitPlanRequest::default()
    };
    validate_request(request_draft(wire), 16).unwrap()
}

/// Returns the metadata of plan and environment for the third attempt of a run's step.
fn of_attempt() -> (Value, Value) {
    let plan = json!({ "run_id": RUN, "revision": "sha256:00", "step": "pay", "index": 0, "epoch": 0, "attempt": 3 });
    let own = json!({ "run_id": RUN, "step": "pay", "index": 0, "attempt": 3, "idempotency_key": format!("{RUN}/pay"), "user_id": "ada" });
    (plan, json!({ "region": "eu", "escapement_run": own }))
}

#[test]
fn an_attempt_of_a_run_has_the_key_and_the_number_of_the_run() {
    let (plan, environment) = of_attempt();
    let key = format!("{RUN}/pay");
    assert_eq!(of_run(&request(&plan, &environment, 1)), Some((key.as_str(), 3)));
}

#[test]
fn what_an_attempt_executes_has_keys_of_its_own_though_it_inherits_the_environment() {
    let (_, environment) = of_attempt();
    let own = json!({ "author": "ada" });
    assert_eq!(of_run(&request(&own, &environment, 1)), None);
    let (plan, _) = of_attempt();
    assert_eq!(
        of_run(&request(&plan, &environment, 2)),
        None,
        "a run has one step in each"
    );
    let mut another = plan;
    another["step"] = json!("tip");
    assert_eq!(of_run(&request(&another, &environment, 1)), None);
}

#[test]
fn what_is_no_key_and_no_number_counts_for_nothing() {
    let cases = [
        ("idempotency_key", json!("")),
        ("idempotency_key", json!("x".repeat(513))),
        ("idempotency_key", json!(7)),
        ("attempt", json!(0)),
        ("attempt", json!(1.5)),
        ("attempt", json!("3")),
        ("attempt", json!(5e9)),
    ];
    for (name, value) in cases {
        let (mut plan, mut environment) = of_attempt();
        environment["escapement_run"][name] = value.clone();
        if name == "attempt" {
            plan[name] = value.clone();
        }
        assert_eq!(of_run(&request(&plan, &environment, 1)), None, "{name}: {value}");
    }
}
