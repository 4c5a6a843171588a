//! Ids are single-use: what attaches, what is refused, and that a restart forgets neither.

use crate::plans::{RequestWords, WORK, object, plan, request, step, unix_ms};
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_tests::fresh_id;
use escapement_wire::v1::{ExecutePlanRequest, ExecutionOptions, Plan};
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt;

//
#[tokio::test]
async fn the_same_request_gets_its_result_while_new_work_is_refused() {
    let world = World::start_with(|settings| settings.flag("--max-queued-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let settled = request(plan([step(0, WORK)]));
    let call = world.executing(settled.clone());
    worker.complete_next(json!({ "ran": "once" })).await;
    let result = call.await.unwrap().unwrap();

    let filling = world.executing(request(plan([step(0, WORK)])));
    let assignment = worker.started().await;
    let full = world
        .try_execute(request(plan([step(0, WORK)])))
        .await
        .unwrap_err();
    assert_eq!(reason(&full, Code::ResourceExhausted), "QUEUE_FULL");
    assert_eq!(world.execute(settled.clone()).await, result);
    assert_eq!(world.submit(&settled).await.result.as_ref(), Some(&result));
    let mut another = settled;
    another.user_id = Some("somebody else".to_owned());
    let used = world.try_execute(another).await.unwrap_err();
    assert_eq!(reason(&used, Code::AlreadyExists), "EXECUTION_ID_IN_USE");
    worker.succeed(&assignment, json!({})).await;
    filling.await.unwrap().unwrap();
}

//
#[tokio::test]
async fn the_same_request_gets_the_same_result_after_settling_and_after_a_restart() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let request = request(plan([step(0, WORK)]));
    let call = world.executing(request.clone());
    worker.complete_next(json!({ "ran": "once" })).await;
    let result = call.await.unwrap().unwrap();

    // Said in other words: explicit defaults and capital letters are the same request.
    let mut same = ExecutePlanRequest {
        execution_id: Some(request.id().to_uppercase()),
        ..request.clone()
    };
    same.plan.as_mut().unwrap().id.make_ascii_uppercase();
    same.plan.as_mut().unwrap().timeout_ms = Some(300_000);
    same.options = Some(ExecutionOptions {
        max_concurrent_steps: Some(1),
    });

    assert_eq!(world.execute(request.clone()).await, result);
    assert_eq!(world.execute(same.clone()).await, result);
    assert_eq!(world.submit(&request).await.result.as_ref(), Some(&result));
    assert_eq!(worker.n_assignments_sent().await, 0, "it ran once");

    world.crash_and_restart().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    assert_eq!(world.execute(request.clone()).await, result);
    assert_eq!(world.execute(same).await, result);
    assert_eq!(world.submit(&request).await.result, Some(result));
    assert_eq!(worker.n_assignments_sent().await, 0, "it ran once");
}

/// Every way in which a request may differ from `request` while it keeps the execution id.
fn changed(request: &ExecutePlanRequest) -> Vec<(&'static str, ExecutePlanRequest)> {
    let with_plan = |change: fn(&mut Plan)| {
        let mut changed = request.clone();
        change(changed.plan.as_mut().unwrap());
        changed
    };
    vec![
        ("plan id", with_plan(|plan| plan.id = fresh_id())),
        ("plan name", with_plan(|plan| plan.name.push('!'))),
        ("priority", with_plan(|plan| plan.priority = Some(1))),
        (
            "payload",
            with_plan(|plan| plan.steps[0].payload = Some(object(json!({ "n": 1 })))),
        ),
        (
            "environment",
            ExecutePlanRequest {
                environment: Some(object(json!({ "region": "us" }))),
                ..request.clone()
            },
        ),
        (
            "deadline",
            ExecutePlanRequest {
                deadline_ms: Some(unix_ms() + 3_600_000),
                ..request.clone()
            },
        ),
        (
            "user id",
            ExecutePlanRequest {
                user_id: Some("somebody".to_owned()),
                ..request.clone()
            },
        ),
        ("options", request.clone().concurrent(2)),
    ]
}

//
#[tokio::test]
async fn an_execution_id_with_another_request_is_refused_at_every_stage() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let request = request(plan([step(0, WORK)]));
    let call = world.executing(request.clone());
    let assignment = worker.started().await;
    refuse_changed(&world, &request, "running").await;
    worker.succeed(&assignment, json!({})).await;
    let result = call.await.unwrap().unwrap();
    refuse_changed(&world, &request, "settled").await;
    world.crash_and_restart().await;
    refuse_changed(&world, &request, "settled before a restart").await;
    assert_eq!(world.result_of(&request.id()).await, result);
}

async fn refuse_changed(world: &World, request: &ExecutePlanRequest, stage: &str) {
    for (what, changed) in changed(request) {
        let refused = world.try_submit(&changed).await.expect_err(what);
        assert_eq!(
            refused.code(),
            Code::AlreadyExists,
            "{stage}, other {what}: {refused:?}"
        );
        assert_eq!(reason(&refused, Code::AlreadyExists), "EXECUTION_ID_IN_USE");
        let details = refused.get_error_details();
        let differs = &details.error_info().unwrap().metadata["differs"];
        let last = differs.rsplit('.').next().unwrap().replace('_', " ");
        let expected = what.rsplit(' ').next().unwrap();
        assert!(last.contains(expected), "{stage}, other {what}: {differs}");
        assert!(refused.message().contains(&**differs), "{refused:?}");
    }
}

//
#[tokio::test]
async fn a_plan_id_is_refused_under_another_execution_id_at_every_stage() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let request = request(plan([step(0, WORK)]));
    let again = ExecutePlanRequest {
        execution_id: Some(fresh_id()),
        ..request.clone()
    };
    let call = world.executing(request.clone());
    let assignment = worker.started().await;
    refuse_plan(&world, &again, &request.id()).await;
    worker.succeed(&assignment, json!({})).await;
    call.await.unwrap().unwrap();
    refuse_plan(&world, &again, &request.id()).await;
    world.crash_and_restart().await;
    refuse_plan(&world, &again, &request.id()).await;
    let unnamed = ExecutePlanRequest {
        execution_id: None,
        ..request.clone()
    };
    refuse_plan(&world, &unnamed, &request.id()).await;
}

async fn refuse_plan(world: &World, request: &ExecutePlanRequest, used_by: &str) {
    let refused = world.try_submit(request).await.unwrap_err();
    assert_eq!(reason(&refused, Code::FailedPrecondition), "PLAN_ID_USED");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["execution_id"], used_by);
    if let Some(execution_id) = request.execution_id.clone() {
        let asked = escapement_wire::v1::GetExecutionRequest { execution_id };
        let unknown = world.orchestrator.plans().get_execution(asked).await.unwrap_err();
        assert_eq!(reason(&unknown, Code::NotFound), "EXECUTION_NOT_FOUND");
    }
}

//
#[tokio::test]
async fn ids_are_written_in_lower_case_and_made_where_there_is_none() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let mut request = request(plan([step(0, WORK)]));
    request.plan.as_mut().unwrap().id.make_ascii_uppercase();
    let plan_id = request.plan_id().to_lowercase();
    request.execution_id = None;
    let call = world.executing(request);
    let assignment = worker.complete_next(json!({})).await;
    let result = call.await.unwrap().unwrap();
    assert_eq!((&result.plan_id, &assignment.plan_id), (&plan_id, &plan_id));
    assert_eq!(result.execution_id, assignment.execution_id);
    assert_eq!(
        result.execution_id.as_bytes()[14],
        b'4',
        "{}",
        result.execution_id
    );
    assert_eq!(result.execution_id, result.execution_id.to_lowercase());
}

//
#[tokio::test]
async fn of_many_callers_with_one_request_all_get_the_result_of_one_execution() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 16).await;
    let request = request(plan([step(0, WORK)]));
    let calls: Vec<_> = (0..16).map(|_| world.executing(request.clone())).collect();
    worker.complete_next(json!({ "ran": "once" })).await;
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await.unwrap().unwrap());
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    assert_eq!(worker.n_assignments_sent().await, 0, "it ran once");
}
