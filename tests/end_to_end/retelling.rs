//! Records of real executions, told again by the second interpreter: it comes to the same results.

use crate::plans::{RequestWords, StepWords, WORK, echo, fail, plan, request, step, step_id, unix_ms};
use crate::world::World;
use escapement_tests::reference::{Facts, retell};
use escapement_tests::{ScriptedWorker, WorkerSettings};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{AuditEntry, ExecutePlanRequest, Plan, PlanResult, RetryPolicy};
use serde_json::json;

fn facts(request: &ExecutePlanRequest) -> Facts {
    Facts {
        environment: request.environment.clone(),
        max_concurrent_steps: request.options.and_then(|options| options.max_concurrent_steps),
        slack_ms: Some(3),
    }
}

async fn is_retold(world: &World, request: &ExecutePlanRequest) -> (Vec<AuditEntry>, PlanResult) {
    let id = request.id();
    let result = world.result_of(&id).await;
    let record = world.record_of(&id).await;
    let plan = request.plan.as_ref().unwrap();
    if let Err(difference) = retell(plan, &facts(request), &record, &result) {
        panic!("{difference}\nof {result:#?}\n{record:#?}");
    }
    (record, result)
}

fn impatient(plan: Plan) -> Plan {
    let policy = RetryPolicy {
        max_attempts: Some(3),
        backoff_ms: Some(5),
        backoff_multiplier: Some(2.0),
        max_backoff_ms: Some(8),
        retryable_error_codes: vec![
            "STEP_TIMEOUT".to_owned(),
            "BUSY".to_owned(),
            "WORKER_LOST".to_owned(),
        ],
    };
    Plan {
        retry_policy: Some(policy),
        ..plan
    }
}

//
#[tokio::test]
async fn what_the_stock_worker_does_is_told_again() {
    let world = World::start().await;
    let worker = world
        .stock_worker("stock", |settings: WorkerSettings| settings)
        .await;
    let [skip, retry] = [OnFailure::Skip, OnFailure::Retry];
    let plans = [
        plan([echo(0, json!({ "a": 1 })), echo(1, json!({})).after(&[0])]),
        plan([
            echo(0, json!({})),
            fail(1, "BROKEN").on_failure(skip),
            echo(2, json!({})).after(&[1]).on_failure(skip),
        ]),
        plan([echo(0, json!({})), fail(1, "BROKEN"), echo(2, json!({}))]),
        plan([fail(0, "BROKEN").on_failure(skip), echo(1, json!({})).after(&[0])]),
        plan([fail(0, "BROKEN").on_failure(skip)]),
        plan([fail(0, "RESOURCE_EXHAUSTED").on_failure(skip), echo(1, json!({}))]),
        impatient(plan([
            fail(0, "BUSY").on_failure(retry),
            echo(1, json!({})),
            fail(2, "OTHER").on_failure(retry),
        ])),
        impatient(plan([
            step(0, "delay")
                .payload(json!({ "ms": 60_000 }))
                .timeout_ms(30)
                .on_failure(retry),
            echo(1, json!({})),
        ])),
        plan([step(0, "no_such_action").on_failure(skip)]),
        Plan {
            timeout_ms: Some(120),
            ..plan([
                echo(0, json!({})),
                step(1, "delay").payload(json!({ "ms": 60_000 })),
            ])
        },
    ];
    let mut statuses = Vec::new();
    for (n, plan) in plans.into_iter().enumerate() {
        for concurrent in [1, 3] {
            let plan = Plan {
                id: escapement_tests::fresh_id(),
                ..plan.clone()
            };
            let request = request(plan).concurrent(concurrent);
            world.execute(request.clone()).await;
            let (_, result) = is_retold(&world, &request).await;
            statuses.push((n, result.status()));
        }
    }
    let lacks_context = ExecutePlanRequest {
        environment: None,
        ..request(plan([echo(0, json!({}))]))
    };
    world.execute(lacks_context.clone()).await;
    is_retold(&world, &lacks_context).await;
    for status in [Status::Success, Status::Partial, Status::Failure] {
        assert!(statuses.iter().any(|(_, seen)| *seen == status), "{statuses:?}");
    }
    worker.stop().await.unwrap();
}

//
#[tokio::test]
async fn what_workers_return_lose_and_warn_of_is_told_again() {
    let world = World::start().await;
    let steps = [
        step(0, WORK).on_failure(OnFailure::Retry),
        step(1, WORK),
        step(2, WORK).after(&[1]).on_failure(OnFailure::Skip),
    ];
    let request = request(impatient(plan(steps)));
    let call = world.executing(request.clone());
    let mut first = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let rejected = first.assignment().await;
    let mut second = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    first.reject(&rejected).await;
    assert_eq!(second.started().await.attempt, 1);
    let mut third = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    first.goodbye().await;
    second.goodbye().await;
    assert_eq!(third.complete_next(json!({ "from": "third" })).await.attempt, 2);
    let warned = third.started().await;
    third.fail(&warned, "SHAKY", Severity::Warn).await;
    call.await.unwrap().unwrap();
    let (record, result) = is_retold(&world, &request).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Partial, 1));
    assert!(
        record
            .iter()
            .any(|entry| matches!(entry.event, Some(Event::AttemptReturned(_))))
    );
}

//
#[tokio::test]
async fn what_a_restart_and_a_deadline_ended_is_told_again() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let running = request(plan([step(0, WORK), step(1, WORK)]));
    let queued = request(plan([step(0, WORK)]));
    let short = Plan {
        timeout_ms: Some(1),
        ..plan([step(0, WORK)])
    };
    let late = ExecutePlanRequest {
        deadline_ms: Some(unix_ms() + 50),
        ..request(short)
    };
    world.submit(&running).await;
    worker.complete_next(json!({ "a": 1 })).await;
    worker.started().await;
    for request in [&queued, &late] {
        world.submit(request).await;
    }
    let (_, result) = is_retold(&world, &late).await;
    assert_eq!(result.error.unwrap().error_code, "DEADLINE_EXCEEDED");
    world.crash_and_restart().await;
    let (_, result) = is_retold(&world, &running).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    worker.complete_next(json!({ "a": 1 })).await;
    let (record, mut result) = is_retold(&world, &queued).await;
    // And it can fail.
    result.steps_executed += 1;
    let difference = retell(queued.plan.as_ref().unwrap(), &facts(&queued), &record, &result).unwrap_err();
    assert_eq!((difference.entry, difference.part), (None, "steps_executed"));
    assert_eq!(queued.plan.unwrap().steps[0].id, step_id(0));
}
