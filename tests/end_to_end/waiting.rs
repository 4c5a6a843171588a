//! `SubmitPlan`, `GetExecution` and `WaitExecution`.

use crate::plans::{RequestWords, WORK, plan, request, step};
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_tests::fresh_id;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{Execution, GetExecutionRequest, WaitExecutionRequest};
use serde_json::json;
use tonic::Code;

async fn wait(world: &World, execution_id: &str, timeout_ms: i64) -> Result<Execution, tonic::Status> {
    let request = WaitExecutionRequest {
        execution_id: execution_id.to_owned(),
        timeout_ms: Some(timeout_ms),
    };
    Ok(world
        .orchestrator
        .plans()
        .wait_execution(request)
        .await?
        .into_inner()
        .execution
        .unwrap())
}

#[tokio::test]
async fn waiting_ends_at_its_limit_with_how_the_execution_stands() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK), step(1, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    worker.complete_next(json!({})).await;
    let second = worker.started().await;
    for timeout_ms in [0, 30] {
        let execution = wait(&world, &id, timeout_ms).await.unwrap();
        assert_eq!(
            (execution.state(), execution.status()),
            (State::Running, Status::Unspecified)
        );
        assert_eq!((execution.result, execution.settled_at), (None, None));
        let progress = execution.progress.unwrap();
        assert_eq!(
            (
                progress.steps_total,
                progress.steps_completed,
                progress.steps_running
            ),
            (2, 1, 1)
        );
    }
    worker.succeed(&second, json!({})).await;
}

#[tokio::test]
async fn waiting_ends_as_soon_as_the_execution_is_settled() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    world.submit(&request).await;
    let assignment = worker.started().await;
    let (execution, _) = tokio::join!(
        wait(&world, &id, 3_600_000),
        worker.succeed(&assignment, json!({}))
    );
    let execution = execution.unwrap();
    assert_eq!(execution.state(), State::Settled);
    assert_eq!(execution.result.as_ref().unwrap().status(), Status::Success);
    let progress = execution.progress.unwrap();
    assert_eq!((progress.steps_total, progress.steps_completed), (1, 1));
    assert_eq!(
        wait(&world, &id, 0).await.unwrap(),
        uncertified(&world, &id).await
    );
}

/// What `GetExecution` says, but for what it alone says.
async fn uncertified(world: &World, id: &str) -> Execution {
    Execution {
        certificate: None,
        ..world.execution(id).await
    }
}

#[tokio::test]
async fn a_queued_execution_shows_what_it_waits_with() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    worker.started().await;
    let mut queued = request(plan([step(0, WORK), step(1, WORK)]));
    queued.user_id = Some("desk-7".to_owned());
    queued.request_id = Some("request-9".to_owned());
    queued.plan.as_mut().unwrap().tags = vec!["nightly".to_owned()];
    queued.plan.as_mut().unwrap().priority = Some(-3);
    let execution = world.submit(&queued).await;
    assert_eq!((execution.state(), execution.started_at), (State::Queued, None));
    assert_eq!(
        (&execution.execution_id, &execution.plan_id),
        (&queued.id(), &queued.plan_id())
    );
    assert_eq!(
        (execution.user_id.as_deref(), execution.request_id.as_deref()),
        (Some("desk-7"), Some("request-9"))
    );
    assert_eq!(
        (execution.tags.as_slice(), execution.priority),
        (["nightly".to_owned()].as_slice(), -3)
    );
    // an hour of queue allowance on top of the plan's five minutes.
    assert_eq!(execution.deadline_ms, execution.accepted_at + 300_000 + 3_600_000);
    assert_eq!(execution.progress.unwrap().steps_pending, 2);
    assert_eq!(uncertified(&world, &queued.id()).await, execution);
}

#[tokio::test]
async fn what_was_never_accepted_is_not_found_and_no_id_is_invalid() {
    let world = World::start().await;
    let mut plans = world.orchestrator.plans();
    let get = async |execution_id: String| {
        world
            .orchestrator
            .plans()
            .get_execution(GetExecutionRequest { execution_id })
            .await
            .unwrap_err()
    };
    assert_eq!(
        reason(&get(fresh_id()).await, Code::NotFound),
        "EXECUTION_NOT_FOUND"
    );
    assert_eq!(get("nonsense".to_owned()).await.code(), Code::InvalidArgument);
    assert_eq!(
        reason(&wait(&world, &fresh_id(), 0).await.unwrap_err(), Code::NotFound),
        "EXECUTION_NOT_FOUND"
    );
    for timeout_ms in [-1, 3_600_001] {
        let request = WaitExecutionRequest {
            execution_id: fresh_id(),
            timeout_ms: Some(timeout_ms),
        };
        assert_eq!(
            plans.wait_execution(request).await.unwrap_err().code(),
            Code::InvalidArgument
        );
    }
}
