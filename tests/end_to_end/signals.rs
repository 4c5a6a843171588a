//! SIGTERM, SIGHUP and SIGKILL of real processes while they work.

use crate::plans::{RequestWords, StepWords, WORK, plan, request, step};
use crate::status_details::reason;
use crate::story;
use crate::watching::{wait_for_started, watch};
use crate::world::{LIMIT, World};
use escapement_tests::ScriptedWorker;
use escapement_tests::wait_for;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::Code;

fn delay(number: usize, ms: u64) -> escapement_wire::v1::PlanStep {
    step(number, "delay").payload(json!({ "ms": ms }))
}

/// Waits until the orchestrator refuses new plans, and gives a refusal.
///
/// What it accepts until then must find no free slot.
async fn wait_for_drain(world: &World) -> tonic::Status {
    let refusal = async || world.try_submit(&request(plan([step(0, WORK)]))).await.err();
    wait_for("a refusal", LIMIT, refusal).await.unwrap()
}

#[tokio::test]
async fn an_orchestrator_that_is_told_to_stop_finishes_what_runs_and_exits_with_0() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let running = request(plan([step(0, WORK), step(1, WORK)]));
    let id = running.id();
    let call = world.executing(running);
    let first = worker.started().await;
    let queued = request(plan([step(0, WORK)]));
    assert_eq!(world.submit(&queued).await.state(), State::Queued);
    let waits = {
        let mut plans = world.orchestrator.plans();
        let request = queued.clone();
        tokio::spawn(async move { plans.execute_plan(request).await })
    };

    world.orchestrator.process.signal(Signal::TERM).unwrap();
    wait_for_drain(&world).await;
    assert!(worker.reconnect().await.deadline_ms > 0, "there is time");
    assert_eq!(worker.succeed(&first, json!({})).await, Verdict::Accepted);
    worker.complete_next(json!({ "last": true })).await;
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 2));
    assert_eq!(worker.reconnect().await.deadline_ms, 0, "the end");
    assert_eq!(waits.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(
        world.orchestrator.process.exit(LIMIT).await.unwrap().code(),
        Some(0)
    );

    world.crash_and_restart().await;
    assert_eq!(world.execution(&id).await.result, Some(result));
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    assert_eq!(
        worker.complete_next(json!({})).await.execution_id,
        queued.id(),
        "what was queued runs later"
    );
}

#[tokio::test]
async fn an_orchestrator_that_stops_takes_no_new_plans() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let running = request(plan([step(0, WORK)]));
    world.submit(&running).await;
    let assignment = worker.started().await;
    // As a terminal does that is closed.
    world.orchestrator.process.signal(Signal::HUP).unwrap();
    let refused = wait_for_drain(&world).await;
    assert_eq!(reason(&refused, Code::Unavailable), "DRAINING");
    assert_eq!(
        world.execution(&running.id()).await.state(),
        State::Running,
        "questions are still answered"
    );
    worker.succeed(&assignment, json!({})).await;
    assert_eq!(
        world.orchestrator.process.exit(LIMIT).await.unwrap().code(),
        Some(0)
    );
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_finishes_its_step() {
    let world = World::start().await;
    let mut worker = world.stock_worker("stops", |settings| settings).await;
    let request = request(plan([delay(0, 700)]));
    let id = request.id();
    let call = world.executing(request);
    wait_for_started(&world, &id, 0).await;
    worker.process.signal(Signal::HUP).unwrap();
    let exit = worker.process.exit(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(0));
    let result = call.await.unwrap().unwrap();
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 1));
    let expected = ["1 waits", "1 assigned", "1 started", "completed after 1"];
    assert_eq!(story::step(&world.record_of(&id).await, 0), expected);
}

#[tokio::test]
async fn an_orchestrator_whose_grace_is_over_says_so_and_the_restart_settles_what_ran() {
    let mut world = World::start_with(|settings| settings.flag("--drain-grace-ms", 100)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let id = request.id();
    let call = world.executing(request);
    worker.started().await;
    // Neither may keep the process from its end.
    let _silent = TcpStream::connect(world.orchestrator.address()).await.unwrap();
    let mut watched = watch(&world, &id, 1).await.unwrap();
    assert!(watched.message().await.unwrap().is_some());
    world.orchestrator.process.signal(Signal::TERM).unwrap();
    assert_eq!(call.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(
        world.orchestrator.process.exit(LIMIT).await.unwrap().code(),
        Some(75)
    );
    world.crash_and_restart().await;
    let result = world.result_of(&id).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Failure, 0));
    let error = result.error.unwrap();
    assert_eq!(
        crate::plans::json_of(error.context.as_ref())["reason"],
        "orchestrator_restarted"
    );
}

#[tokio::test]
async fn a_second_signal_ends_an_orchestrator_at_once() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    world.submit(&request(plan([step(0, WORK)]))).await;
    worker.started().await;
    world.orchestrator.process.signal(Signal::INT).unwrap();
    wait_for_drain(&world).await;
    world.orchestrator.process.signal(Signal::TERM).unwrap();
    let exit = world
        .orchestrator
        .process
        .exit(Duration::from_secs(2))
        .await
        .unwrap();
    assert_eq!(exit.code(), Some(75));
}

#[tokio::test]
async fn an_idle_orchestrator_and_its_worker_stop_at_once() {
    let mut world = World::start().await;
    let mut worker = world.stock_worker("idle", |settings| settings).await;
    let exit = world
        .orchestrator
        .process
        .terminate(Duration::from_secs(4))
        .await
        .unwrap();
    assert_eq!(exit.code(), Some(0));
    // Its orchestrator is gone, and it has nothing to deliver.
    let exit = worker.process.terminate(Duration::from_secs(4)).await.unwrap();
    assert_eq!(exit.code(), Some(0));
}
