//! No worker is there for a while, over the grace after the start and over a restart: what is queued waits.
//! `ESCAPEMENT_LONG=1` is for 3,000 plans and a minute, and prints how long one worker takes for them.

use crate::plans::{RequestWords, StepWords, plan, request, step};
use crate::world::World;
use escapement_tests::let_pass;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{
    Action, ExplainExecutionRequest, ForgetActionRequest, ListActionsRequest, PlanStep,
};
use serde_json::json;
use std::time::{Duration, Instant};

fn delay() -> PlanStep {
    step(0, "delay").payload(json!({ "ms": 1 }))
}

async fn action(world: &World, name: &str) -> Option<Action> {
    let answer = world
        .orchestrator
        .fleet()
        .list_actions(ListActionsRequest {})
        .await;
    let actions = answer.unwrap().into_inner().actions;
    actions.into_iter().find(|action| action.name == name)
}

/// Ends at once when the grace after the start is over, and not before.
async fn the_grace_is_over(world: &World) {
    let result = world.execute(request(plan([step(0, "never.offered")]))).await;
    let error = result.error.unwrap();
    assert_eq!(error.error_code, "ACTION_NOT_FOUND");
}

//
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absence_of_workers_fails_nothing_that_is_queued() {
    let is_long = std::env::var_os("ESCAPEMENT_LONG").is_some();
    let (n_plans, absence) = if is_long { (3_000, 60) } else { (60, 0) };
    let mut world = World::start_with(|settings| {
        settings
            .flag("--registration-grace-ms", 200)
            .flag("--max-running-executions", 4)
            .flag("--max-queued-in-memory", 8)
    })
    .await;
    let mut worker = world.stock_worker("first", |settings| settings).await;
    let before = world.execute(request(plan([delay()]))).await;
    assert_eq!(before.status(), Status::Success);
    worker.process.kill().unwrap();
    the_grace_is_over(&world).await;
    let mut ids = Vec::new();
    for _ in 0..n_plans {
        let request = request(plan([delay()]));
        assert_eq!(world.submit(&request).await.state(), State::Queued);
        ids.push(request.id());
    }
    let left = action(&world, "delay").await.unwrap();
    assert!((3_000_000..=3_600_000).contains(&left.registered_for_ms.unwrap()));
    let asked = ExplainExecutionRequest {
        execution_id: ids[20].clone(),
        ..ExplainExecutionRequest::default()
    };
    let explained = world.orchestrator.plans().explain_execution(asked).await.unwrap();
    let execution = explained.into_inner().execution.unwrap();
    assert_eq!(execution.held_back_for_action.as_deref(), Some("delay"));
    assert_eq!(
        (execution.queue_position, execution.rules[0].as_str()),
        (Some(20), "R-2.17")
    );

    let_pass(Duration::from_secs(absence)).await;
    world.crash_and_restart().await;
    the_grace_is_over(&world).await;
    assert!(action(&world, "delay").await.unwrap().registered_for_ms.is_some());
    for id in &ids {
        assert_eq!(world.execution(id).await.state(), State::Queued);
    }
    let began = Instant::now();
    let _worker = world.stock_worker("second", |settings| settings).await;
    for id in &ids {
        assert_eq!(world.result_of(id).await.status(), Status::Success);
    }
    println!(
        "{n_plans} plans after an absence: {:.1} s",
        began.elapsed().as_secs_f32()
    );
}

//
#[tokio::test]
async fn an_operator_declares_actions_and_forgets_them() {
    let mut world = World::start_with(|settings| {
        settings
            .flag("--registration-grace-ms", 0)
            .flag("--declare-action", "declared.*,lasting")
    })
    .await;
    assert!(action(&world, "lasting").await.unwrap().declared);
    let waits = request(plan([step(0, "declared.one")]));
    assert_eq!(world.submit(&waits).await.state(), State::Queued);
    let forget = async |world: &World, name: &str| {
        let name = name.to_owned();
        let answer = world
            .orchestrator
            .fleet()
            .forget_action(ForgetActionRequest { name })
            .await;
        answer.map(|answer| answer.into_inner())
    };
    let refused = forget(&world, "lasting").await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert_eq!(
        forget(&world, "").await.unwrap_err().code(),
        tonic::Code::InvalidArgument
    );

    let mut worker = world.stock_worker("first", |settings| settings).await;
    world.execute(request(plan([delay()]))).await;
    worker.process.kill().unwrap();
    let queued = request(plan([delay()]));
    let is_gone = async || {
        let delay = action(&world, "delay").await?;
        (delay.workers == 0).then_some(())
    };
    escapement_tests::wait_for("the worker to be gone", crate::world::LIMIT, is_gone)
        .await
        .unwrap();
    assert_eq!(world.submit(&queued).await.state(), State::Queued);
    let forgotten = forget(&world, "delay").await.unwrap();
    assert_eq!((forgotten.known, forgotten.queued_executions), (true, 1));
    let error = world.result_of(&queued.id()).await.error.unwrap();
    assert_eq!(error.error_code, "ACTION_NOT_FOUND");
    world.crash_and_restart().await;
    assert_eq!(action(&world, "delay").await, None);
    assert!(!forget(&world, "delay").await.unwrap().known);
}
