//! Credentials that end while calls are open and steps are under way.

use super::credentials::{Token, policy, world_with};
use crate::plans::{RequestWords, object, plan, request, step};
use crate::status_details::reason;
use crate::world::LIMIT;
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::plan_result::Status as PlanStatus;
use escapement_wire::v1::{GetExecutionRequest, PlanStep, SubscribeEventsRequest, WaitExecutionRequest};
use serde_json::json;
use std::time::{Duration, Instant};
use tonic::Code;

const SUBMITTER: &str = "roles = [\"submitter\"]";
const WORKER: &str = "roles = [\"worker\"]";

#[tokio::test]
async fn a_token_that_leaves_the_policy_ends_sessions_and_streams_with_the_reason() {
    let (planner, worker, keeper) = (Token::new("planner"), Token::new("worker"), Token::new("keeper"));
    let entries = [
        planner.entry("planner", SUBMITTER),
        worker.entry("worker", WORKER),
        keeper.entry("keeper", WORKER),
    ];
    let (world, file) = world_with(&entries).await;
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 4);
    let mut session = ScriptedWorker::open_showing(&world.orchestrator.url(), hello, &worker.secret)
        .await
        .0;
    let mut events = world.orchestrator.events();
    let subscribed = planner.shows(SubscribeEventsRequest::default());
    let mut subscribed = events.subscribe_events(subscribed).await.unwrap().into_inner();
    let mut plans = world.orchestrator.plans();
    let submission = request(plan([step(0, "work")])).as_submission();
    let accepted = plans.submit_plan(planner.shows(submission)).await.unwrap();
    let execution_id = accepted.into_inner().execution.unwrap().execution_id;
    session.started().await;
    let waits = WaitExecutionRequest {
        execution_id,
        timeout_ms: Some(60_000),
    };
    let waits = async { plans.wait_execution(planner.shows(waits)).await.unwrap_err() };
    let ends = async {
        std::fs::write(&file, policy(&entries[2..])).unwrap();
        let since = Instant::now();
        let told = session.reconnect().await;
        assert_eq!(
            (told.reason.as_str(), told.deadline_ms),
            ("credentials_expired", 0)
        );
        let ended = subscribed.message().await.unwrap_err();
        assert_eq!(reason(&ended, Code::Unauthenticated), "CREDENTIALS_EXPIRED");
        since.elapsed()
    };
    let (waited, took) = tokio::time::timeout(LIMIT, async { tokio::join!(waits, ends) })
        .await
        .unwrap();
    assert_eq!(reason(&waited, Code::Unauthenticated), "CREDENTIALS_EXPIRED");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn a_worker_whose_token_is_replaced_goes_on_with_the_new_one_and_loses_no_step() {
    let (planner, before, after) = (Token::new("planner"), Token::new("worker"), Token::new("worker"));
    let of_planner = planner.entry("planner", SUBMITTER);
    let (world, file) = world_with(&[of_planner.clone(), before.entry("worker", WORKER)]).await;
    let token_file = file.with_file_name("worker.token");
    std::fs::write(&token_file, &before.secret).unwrap();
    let _worker = world
        .stock_worker("stock", |settings| {
            settings.flag("--token-file", token_file.display())
        })
        .await;
    let slow = PlanStep {
        payload: Some(object(json!({ "ms": 6_000 }))),
        ..step(0, "delay")
    };
    let submission = request(plan([slow])).as_submission();
    let mut plans = world.orchestrator.plans();
    let accepted = plans.submit_plan(planner.shows(submission)).await.unwrap();
    let execution_id = accepted.into_inner().execution.unwrap().execution_id;
    let ask = GetExecutionRequest {
        execution_id: execution_id.clone(),
    };
    let has_started = async || {
        let asked = plans.clone().get_execution(planner.shows(ask.clone())).await;
        asked.unwrap().into_inner().execution.unwrap().started_at
    };
    wait_for("the start", LIMIT, has_started).await.unwrap();
    std::fs::write(&token_file, &after.secret).unwrap();
    std::fs::write(&file, policy(&[of_planner, after.entry("worker", WORKER)])).unwrap();
    let waits = WaitExecutionRequest {
        execution_id,
        timeout_ms: Some(30_000),
    };
    let settled = plans
        .wait_execution(planner.shows(waits))
        .await
        .unwrap()
        .into_inner();
    let result = settled.execution.unwrap().result.unwrap();
    assert_eq!(result.status(), PlanStatus::Success, "{result:?}");
    let said = world.orchestrator.process.stderr();
    assert_eq!(said.matches("worker session begins").count(), 2, "{said}");
}
