//! Limits of plans and deadlines, and what becomes of an outcome that comes too late.

use crate::plans::{RequestWords, StepWords, WORK, json_of, plan, request, step, step_id, unix_ms};
use crate::story;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{ExecutePlanRequest, Plan};
use escapement_wire::worker::v1::cancel::Reason;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use prost::Message;
use serde_json::json;

fn plan_within(timeout_ms: i64, steps: impl IntoIterator<Item = escapement_wire::v1::PlanStep>) -> Plan {
    Plan {
        timeout_ms: Some(timeout_ms),
        ..plan(steps)
    }
}

//
#[tokio::test]
async fn a_plan_that_takes_too_long_ends_with_plan_timeout_at_once() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let steps = [
        step(0, WORK),
        step(1, WORK).on_failure(OnFailure::Skip),
        step(2, WORK),
    ];
    let call = world.executing(request(plan_within(150, steps)));
    worker.complete_next(json!({ "kept": true })).await;
    let assignment = worker.started().await;
    assert!(assignment.timeout_ms <= 150, "{assignment:?}");
    assert_eq!(
        worker.cancel_of(&assignment).await.reason(),
        Reason::ExecutionEnded
    );
    let result = call.await.unwrap().unwrap();
    assert_eq!(
        (result.status(), result.steps_executed, result.steps_total),
        (Status::Failure, 1, 3)
    );
    // Limits go by the monotonic clock, timestamps by the wall clock, each cut to milliseconds.
    assert!(result.duration_ms >= 149, "{result:?}");
    let error = result.error.as_ref().unwrap();
    assert_eq!(
        (error.error_code.as_str(), error.step_id.as_ref()),
        ("PLAN_TIMEOUT", None)
    );
    let context = json_of(error.context.as_ref());
    assert_eq!(context["limit_ms"], 150);
    assert_eq!(context["steps_in_flight"], json!([step_id(1)]));
    assert_eq!(
        worker.n_assignments_sent().await,
        0,
        "no step starts after the end"
    );
}

//
#[tokio::test]
async fn a_window_shorter_than_the_plan_is_a_failure_of_the_deadline() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = ExecutePlanRequest {
        deadline_ms: Some(unix_ms() + 30_000),
        ..request(plan_within(60_000, [step(0, WORK)]))
    };
    let id = request.id();
    let result = world.execute(request).await;
    assert_eq!(
        (result.status(), result.steps_executed, result.steps_total),
        (Status::Failure, 0, 1)
    );
    assert_eq!(result.error.as_ref().unwrap().error_code, "DEADLINE_EXCEEDED");
    assert_eq!(world.execution(&id).await.result, Some(result));
    assert_eq!(worker.n_assignments_sent().await, 0);
}

//
#[tokio::test]
async fn a_deadline_in_the_past_is_a_failure_that_is_persisted() {
    let mut world = World::start().await;
    let request = ExecutePlanRequest {
        deadline_ms: Some(1_000),
        ..request(plan([step(0, WORK)]))
    };
    let id = request.id();
    let result = world.execute(request).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    assert_eq!(result.error.as_ref().unwrap().error_code, "DEADLINE_EXCEEDED");
    world.crash_and_restart().await;
    assert_eq!(world.execution(&id).await.result, Some(result));
}

//
#[tokio::test]
async fn a_deadline_that_passes_in_the_queue_ends_the_execution_there() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 2).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    let holds_the_slot = worker.started().await;
    let queued = ExecutePlanRequest {
        deadline_ms: Some(unix_ms() + 200),
        ..request(plan_within(100, [step(0, WORK)]))
    };
    let result = world.execute(queued.clone()).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    assert_eq!(result.error.unwrap().error_code, "DEADLINE_EXCEEDED");
    assert_eq!(world.execution(&queued.id()).await.state(), State::Settled);
    assert_eq!(worker.n_assignments_sent().await, 0);
    assert_eq!(
        worker.succeed(&holds_the_slot, json!({})).await,
        Verdict::Accepted
    );
}

//
#[tokio::test]
async fn a_deadline_in_the_past_ends_the_execution_though_every_slot_is_taken() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 2).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    worker.started().await;
    for deadline_ms in [1, unix_ms() - 1] {
        let late = ExecutePlanRequest {
            deadline_ms: Some(deadline_ms),
            ..request(plan([step(0, WORK)]))
        };
        let result = world.execute(late).await;
        assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
        assert_eq!(result.error.unwrap().error_code, "DEADLINE_EXCEEDED");
    }
    assert_eq!(worker.n_assignments_sent().await, 0);
}

//
#[tokio::test]
async fn a_late_outcome_is_refused() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK).timeout_ms(20)]));
    let id = request.id();
    let call = world.executing(request);
    let assignment = worker.started().await;
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    let before = world.execution(&id).await.encode_to_vec();
    let record = world.record_of(&id).await;
    assert_eq!(
        worker.succeed(&assignment, json!({ "too": "late" })).await,
        Verdict::AlreadyEnded
    );
    assert_eq!(world.execution(&id).await.encode_to_vec(), before);
    assert_eq!(world.record_of(&id).await, record);
}

//
#[tokio::test]
async fn an_outcome_of_a_timed_out_attempt_does_not_count_for_the_next_one() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 2).await;
    let step = step(0, WORK).on_failure(OnFailure::Retry).timeout_ms(100);
    let request = request(crate::plans::plan_with_retries([step], 2, &["STEP_TIMEOUT"]));
    let id = request.id();
    let call = world.executing(request);
    let first = worker.started().await;
    let second = worker.started().await;
    assert_eq!(
        worker.succeed(&first, json!({ "from": "first" })).await,
        Verdict::AlreadyEnded
    );
    assert_eq!(
        worker.succeed(&second, json!({ "from": "second" })).await,
        Verdict::Accepted
    );
    let result = call.await.unwrap().unwrap();
    assert_eq!(
        json_of(result.result_payload.as_ref()),
        json!({ step_id(0): { "from": "second" } })
    );
    let record = story::step(&world.record_of(&id).await, 0);
    assert_eq!(record.last().unwrap(), "completed after 2");
}

//
#[tokio::test]
async fn an_outcome_that_is_sent_twice_counts_once() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let call = world.executing(request(plan([step(0, WORK), step(1, WORK)])));
    let first = worker.started().await;
    assert_eq!(
        worker.succeed(&first, json!({ "n": "first" })).await,
        Verdict::Accepted
    );
    assert_eq!(
        worker.succeed(&first, json!({ "n": "again" })).await,
        Verdict::Duplicate
    );
    worker.complete_next(json!({})).await;
    let result = call.await.unwrap().unwrap();
    assert_eq!(result.steps_executed, 2);
    assert_eq!(
        json_of(result.result_payload.as_ref())[step_id(0)],
        json!({ "n": "first" })
    );
}
