//! The three statuses with every field of the result, through two real processes.

use crate::plans::{RequestWords, StepWords, echo, fail, plan, plan_with_retries, request, step_id};
use crate::story::{chain, trace, without_times};
use crate::world::World;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use serde_json::{Value, json};

const SKIPPED: &str = "Skipped, because a step that it depends on did not complete.";

/// One error as it stands in `context.errors`.
fn traced(number: usize, code: &str, severity: &str) -> Value {
    json!({
        "error_code": code, "message": format!("{code} as told."), "step_id": step_id(number),
        "severity": severity, "recoverable": severity != "fatal", "attempt": 1.0,
    })
}

//
#[tokio::test]
async fn a_plan_whose_steps_all_complete_is_a_success() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let steps = [
        echo(0, json!({ "b": "one", "a": [1.5, null] })),
        echo(1, json!({})).after(&[0]),
    ];
    let request = request(plan(steps));
    let (id, plan_id) = (request.id(), request.plan_id());
    let result = world.execute(request).await;
    let expected = json!({
        "plan_id": plan_id, "execution_id": id, "status": "success", "steps_executed": 2, "steps_total": 2,
        "result_payload": { step_id(0): { "b": "one", "a": [1.5, null] }, step_id(1): {} },
    });
    assert_eq!(without_times(&result), expected);
    assert_eq!(result.error, None);

    let execution = world.execution(&id).await;
    assert_eq!(execution.state(), State::Settled);
    assert_eq!(execution.status(), Status::Success);
    assert_eq!(execution.settled_at, Some(result.completed_at));
    assert_eq!(
        result.completed_at - execution.started_at.unwrap(),
        result.duration_ms
    );
    assert!(execution.accepted_at <= execution.started_at.unwrap());
    assert_eq!(execution.result, Some(result));
}

//
#[tokio::test]
async fn a_plan_that_goes_on_without_some_steps_is_partial() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let steps = [
        echo(0, json!({ "kept": true })),
        fail(1, "BUSY").on_failure(OnFailure::Retry),
        fail(2, "CLOSED").on_failure(OnFailure::Skip),
        echo(3, json!({})).after(&[2]).on_failure(OnFailure::Skip),
    ];
    let request = request(plan_with_retries(steps, 3, &["OTHER"]));
    let (id, plan_id) = (request.id(), request.plan_id());
    let result = world.execute(request).await;
    let skipped = json!({
        "error_code": "STEP_SKIPPED", "message": SKIPPED,
        "step_id": step_id(3), "severity": "warn", "recoverable": true,
        "cause": { "error_code": "CLOSED", "message": "CLOSED as told." },
    });
    let expected = json!({
        "plan_id": plan_id, "execution_id": id, "status": "partial", "steps_executed": 1, "steps_total": 4,
        "result_payload": { step_id(0): { "kept": true } },
        "error": {
            "error_code": "BUSY", "message": "BUSY as told.", "step_id": step_id(1), "severity": "error",
            "recoverable": true,
            "context": { "errors": [traced(1, "BUSY", "error"), traced(2, "CLOSED", "error"), skipped] },
        },
    });
    assert_eq!(without_times(&result), expected);
}

//
#[tokio::test]
async fn a_fatal_error_is_a_failure_that_shows_it_unwrapped() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let steps = [
        echo(0, json!({ "kept": "yes" })),
        fail(1, "UNKNOWN_ERROR").on_failure(OnFailure::Skip),
        echo(2, json!({ "never": "runs" })),
    ];
    let request = request(plan(steps));
    let (id, plan_id) = (request.id(), request.plan_id());
    let result = world.execute(request).await;
    let expected = json!({
        "plan_id": plan_id, "execution_id": id, "status": "failure", "steps_executed": 1, "steps_total": 3,
        "result_payload": { step_id(0): { "kept": "yes" } },
        "error": {
            "error_code": "UNKNOWN_ERROR", "message": "UNKNOWN_ERROR as told.", "step_id": step_id(1),
            "severity": "fatal", "recoverable": false,
            "context": { "errors": [traced(1, "UNKNOWN_ERROR", "fatal")] },
        },
    });
    assert_eq!(without_times(&result), expected);
}

//
#[tokio::test]
async fn a_halt_after_progress_is_a_failure_that_keeps_the_completed_outputs() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let steps = [
        echo(0, json!({ "kept": 1.5 })),
        fail(1, "BROKEN"),
        echo(2, json!({})),
    ];
    let request = request(plan(steps));
    let (id, plan_id) = (request.id(), request.plan_id());
    let result = world.execute(request).await;
    let mut expected = json!({
        "plan_id": plan_id, "execution_id": id, "status": "failure", "steps_executed": 1, "steps_total": 3,
        "result_payload": { step_id(0): { "kept": 1.5 } },
        "error": {
            "error_code": "BROKEN", "message": "BROKEN as told.", "step_id": step_id(1), "severity": "fatal",
            "recoverable": false, "context": { "errors": [traced(1, "BROKEN", "error")] },
        },
    });
    expected["error"]["cause"] = json!({
        "error_code": "BROKEN", "message": "BROKEN as told.", "step_id": step_id(1), "severity": "error",
        "recoverable": true, "context": {},
    });
    assert_eq!(without_times(&result), expected);
}

//
#[tokio::test]
async fn a_skip_runs_through_everything_that_depends_on_the_step() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let skip = OnFailure::Skip;
    let steps = [
        fail(0, "CLOSED").on_failure(skip),
        echo(1, json!({})).after(&[0]).on_failure(skip),
        echo(2, json!({})).after(&[1]).on_failure(skip),
        echo(3, json!({})),
    ];
    let request = request(plan(steps));
    let id = request.id();
    let result = world.execute(request).await;
    assert_eq!(result.status(), Status::Partial);
    assert_eq!(trace(&result), ["CLOSED", "STEP_SKIPPED", "STEP_SKIPPED"]);
    let record = world.record_of(&id).await;
    assert_eq!(crate::story::step(&record, 1), ["not completed after 0: skipped"]);
    assert_eq!(crate::story::step(&record, 2), ["not completed after 0: skipped"]);
    let errors = record
        .iter()
        .filter_map(|entry| match entry.event.as_ref().unwrap() {
            escapement_wire::v1::audit_entry::Event::StepNotCompleted(ended) => ended.error.as_ref(),
            _ => None,
        });
    let chains: Vec<_> = errors.map(chain).collect();
    assert_eq!(
        chains,
        [
            vec!["CLOSED"],
            vec!["STEP_SKIPPED", "CLOSED"],
            vec!["STEP_SKIPPED", "STEP_SKIPPED", "CLOSED"]
        ]
    );
}

//
#[tokio::test]
async fn a_halting_step_below_a_skipped_one_fails_the_plan_without_an_attempt() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    for on_failure in [OnFailure::Halt, OnFailure::Retry] {
        let steps = [
            fail(0, "CLOSED").on_failure(OnFailure::Skip),
            echo(1, json!({})).after(&[0]).on_failure(on_failure),
            echo(2, json!({})),
        ];
        let request = request(plan_with_retries(steps, 5, &["*"]));
        let id = request.id();
        let result = world.execute(request).await;
        assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
        let error = result.error.as_ref().unwrap();
        assert_eq!(chain(error), ["DEPENDENCY_UNRESOLVED", "CLOSED"]);
        assert_eq!(error.step_id, Some(step_id(1)));
        assert_eq!(error.severity(), Severity::Fatal);
        let record = world.record_of(&id).await;
        assert_eq!(
            crate::story::step(&record, 1),
            ["not completed after 0: dependency_unresolved"]
        );
    }
}

//
#[tokio::test]
async fn a_plan_of_which_nothing_completed_is_a_failure_of_its_earliest_error() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let skip = OnFailure::Skip;
    let steps = [
        fail(0, "FIRST").on_failure(skip),
        fail(1, "SECOND").on_failure(skip),
        echo(2, json!({})).after(&[0]).on_failure(skip),
    ];
    let result = world.execute(request(plan(steps))).await;
    assert_eq!(result.status(), Status::Failure);
    assert_eq!((result.steps_executed, result.steps_total), (0, 3));
    assert!(
        result
            .result_payload
            .as_ref()
            .is_none_or(escapement_model::Opaque::is_empty)
    );
    let error = result.error.as_ref().unwrap();
    assert_eq!(chain(error), ["FIRST", "FIRST"]);
    assert_eq!((error.severity(), error.recoverable), (Severity::Fatal, false));
    let cause = error.cause.as_ref().unwrap();
    assert_eq!((cause.severity(), cause.recoverable), (Severity::Error, true));
    assert_eq!(cause.step_id, Some(step_id(0)));
    assert_eq!(trace(&result), ["FIRST", "SECOND", "STEP_SKIPPED"]);
}
