//! Retries: which errors get one, after which delay, and how they end. The worker is told what to answer.

use crate::plans::{RequestWords, StepWords, WORK, plan, plan_with_retries, request, step};
use crate::story;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{Plan, RetryPolicy};
use escapement_wire::worker::v1::cancel::Reason;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use serde_json::json;

/// Four attempts, delays of 10, 25 and then 40 ms.
fn growing_delays(plan: Plan) -> Plan {
    let policy = RetryPolicy {
        max_attempts: Some(4),
        backoff_ms: Some(10),
        backoff_multiplier: Some(2.5),
        max_backoff_ms: Some(40),
        retryable_error_codes: vec!["BUSY".to_owned()],
    };
    Plan {
        retry_policy: Some(policy),
        ..plan
    }
}

//
#[tokio::test]
async fn a_retry_step_is_attempted_again_after_growing_and_capped_delays() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(growing_delays(plan([step(0, WORK).on_failure(OnFailure::Retry)])));
    let id = request.id();
    let call = world.executing(request);
    for attempt in 1..=3 {
        let assignment = worker.started().await;
        assert_eq!(assignment.attempt, attempt);
        assert_eq!(
            worker.fail(&assignment, "BUSY", Severity::Error).await,
            Verdict::Accepted
        );
    }
    assert_eq!(worker.complete_next(json!({ "at": "last" })).await.attempt, 4);
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 1));
    let expected = [
        "1 waits",
        "1 assigned",
        "1 started",
        "1 failed: BUSY error",
        "2 follows in 10 ms",
        "2 waits",
        "2 assigned",
        "2 started",
        "2 failed: BUSY error",
        "3 follows in 25 ms",
        "3 waits",
        "3 assigned",
        "3 started",
        "3 failed: BUSY error",
        "4 follows in 40 ms",
        "4 waits",
        "4 assigned",
        "4 started",
        "completed after 4",
    ];
    assert_eq!(story::step(&world.record_of(&id).await, 0), expected);
}

//
#[tokio::test]
async fn a_step_whose_attempts_are_used_up_is_left_behind() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let retry = OnFailure::Retry;
    let plan = growing_delays(plan([step(0, WORK).on_failure(retry), step(1, WORK)]));
    let request = request(plan);
    let id = request.id();
    let call = world.executing(request);
    for _ in 1..=4 {
        let assignment = worker.started().await;
        worker.fail(&assignment, "BUSY", Severity::Error).await;
    }
    worker.complete_next(json!({})).await;
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Partial, 1));
    assert_eq!(story::trace(&result), ["BUSY"; 4]);
    let last = story::step(&world.record_of(&id).await, 0);
    assert_eq!(
        last[last.len() - 2..],
        ["4 failed: BUSY error", "not completed after 4: retries_exhausted"]
    );
}

//
#[tokio::test]
async fn a_code_that_the_policy_does_not_list_is_not_attempted_again() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(growing_delays(plan([
        step(0, WORK).on_failure(OnFailure::Retry),
        step(1, WORK),
    ])));
    let id = request.id();
    let call = world.executing(request);
    let assignment = worker.started().await;
    worker.fail(&assignment, "OTHER", Severity::Error).await;
    worker.complete_next(json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Partial);
    let expected = [
        "1 waits",
        "1 assigned",
        "1 started",
        "1 failed: OTHER error",
        "not completed after 1: not_retryable",
    ];
    assert_eq!(story::step(&world.record_of(&id).await, 0), expected);
}

//
#[tokio::test]
async fn the_policy_means_nothing_to_a_step_that_halts_or_is_skipped() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    for on_failure in [OnFailure::Halt, OnFailure::Skip] {
        let request = request(plan_with_retries(
            [step(0, WORK).on_failure(on_failure)],
            5,
            &["*"],
        ));
        let id = request.id();
        let call = world.executing(request);
        let assignment = worker.started().await;
        worker.fail(&assignment, "BUSY", Severity::Error).await;
        assert_eq!(call.await.unwrap().unwrap().status(), Status::Failure);
        let record = world.record_of(&id).await;
        assert!(
            !story::steps(&record).iter().any(|line| line.contains("follows")),
            "{record:?}"
        );
    }
}

//
#[tokio::test]
async fn a_step_timeout_that_is_not_listed_is_fatal_in_spite_of_skip() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let steps = [
        step(0, WORK),
        step(1, WORK).on_failure(OnFailure::Skip).timeout_ms(20),
        step(2, WORK),
    ];
    let call = world.executing(request(plan(steps)));
    worker.complete_next(json!({ "kept": true })).await;
    let assignment = worker.started().await;
    assert!(assignment.timeout_ms <= 20, "{assignment:?}");
    worker.cancel_of(&assignment).await;
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 1));
    let error = result.error.unwrap();
    assert_eq!(
        (error.error_code.as_str(), error.severity()),
        ("STEP_TIMEOUT", Severity::Fatal)
    );
    assert_eq!(error.step_id, Some(crate::plans::step_id(1)));
}

//
#[tokio::test]
async fn a_step_timeout_that_is_listed_is_attempted_again() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 2).await;
    let retried = step(0, WORK).on_failure(OnFailure::Retry).timeout_ms(100);
    let request = request(plan_with_retries([retried], 2, &["STEP_TIMEOUT"]));
    let id = request.id();
    let call = world.executing(request);
    let first = worker.started().await;
    worker.cancel_of(&first).await;
    let second = worker.started().await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_ne!(first.attempt_token, second.attempt_token);
    assert_eq!(
        worker.succeed(&second, json!({ "attempt": "second" })).await,
        Verdict::Accepted
    );
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 1));
    let record = story::step(&world.record_of(&id).await, 0);
    assert!(
        record.contains(&"1 failed: STEP_TIMEOUT error".to_owned()),
        "{record:?}"
    );
}

//
#[tokio::test]
async fn a_sleep_between_attempts_is_cut_short_by_the_plans_limit() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let policy = RetryPolicy {
        max_attempts: Some(2),
        backoff_ms: Some(60_000),
        retryable_error_codes: vec!["*".to_owned()],
        ..RetryPolicy::default()
    };
    let plan = Plan {
        retry_policy: Some(policy),
        timeout_ms: Some(150),
        ..plan([step(0, WORK).on_failure(OnFailure::Retry)])
    };
    let request = request(plan);
    let id = request.id();
    let call = world.executing(request);
    let assignment = worker.started().await;
    worker.fail(&assignment, "BUSY", Severity::Error).await;
    assert_eq!(world.execution(&id).await.progress.unwrap().steps_backing_off, 1);
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    assert_eq!(result.error.as_ref().unwrap().error_code, "PLAN_TIMEOUT");
    assert_eq!(story::trace(&result), ["BUSY", "PLAN_TIMEOUT"]);
}

//
#[tokio::test]
async fn a_halt_withdraws_what_is_in_flight_without_an_error_of_its_own() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let request = request(plan((0..4).map(|number| step(number, WORK)))).concurrent(3);
    let id = request.id();
    let call = world.executing(request);
    let first = worker.started().await;
    let second = worker.started().await;
    let third = worker.started().await;
    worker.succeed(&second, json!({ "kept": true })).await;
    let fourth = worker.started().await;
    worker.fail(&first, "BROKEN", Severity::Error).await;
    for withdrawn in [&third, &fourth] {
        assert_eq!(worker.cancel_of(withdrawn).await.reason(), Reason::ExecutionEnded);
        assert_eq!(worker.succeed(withdrawn, json!({})).await, Verdict::AlreadyEnded);
    }
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 1));
    assert_eq!(story::trace(&result), ["BROKEN"]);
    assert_eq!(world.result_of(&id).await, result);
}
