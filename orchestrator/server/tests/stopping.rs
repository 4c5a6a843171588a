//! What a stop, a kill and a restart leave behind.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod process;

use escapement_model::Opaque;
use escapement_wire::v1;
use escapement_wire::worker::v1 as worker;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message;
use process::{Orchestrator, PATIENCE, Session, TestDirectory, Worker, plan, request, success};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

#[tokio::test]
async fn a_request_is_answered_alike_when_it_is_repeated_even_after_a_restart() {
    let directory = TestDirectory::new("repeat");
    let mut asked = request(plan(1, "copy"));
    asked.execution_id = Some(process::uuid(900));
    let first = {
        let orchestrator = Orchestrator::start(&directory, &[]).await;
        let worker = Worker::start(&orchestrator, "copy").await;
        let mut plans = orchestrator.plans().await;
        let first = plans
            .execute_plan(process::execute(asked.clone()))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            plans
                .execute_plan(process::execute(asked.clone()))
                .await
                .unwrap()
                .into_inner(),
            first
        );
        worker.stop().await;
        assert_eq!(orchestrator.stop().await, Some(0));
        first
    };
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut plans = orchestrator.plans().await;
    assert_eq!(
        plans
            .execute_plan(process::execute(asked.clone()))
            .await
            .unwrap()
            .into_inner(),
        first
    );

    let mut other = asked.clone();
    other.user_id = Some("somebody else".to_owned());
    let status = plans.execute_plan(process::execute(other)).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);

    asked.execution_id = None;
    let status = plans.submit_plan(asked).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(
        (info.reason.as_str(), &info.metadata["execution_id"]),
        ("PLAN_ID_USED", &process::uuid(900))
    );
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn what_ran_when_the_process_was_killed_is_settled_by_the_next_start() {
    let directory = TestDirectory::new("killed");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let (_silent, _) = Session::open(&orchestrator, "copy").await;
    let submitted = orchestrator
        .plans()
        .await
        .submit_plan(request(plan(1, "copy")))
        .await
        .unwrap();
    let execution_id = submitted.into_inner().execution.unwrap().execution_id;
    orchestrator.kill().await;

    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let waited = v1::WaitExecutionRequest {
        execution_id,
        timeout_ms: Some(20_000),
    };
    let settled = orchestrator.plans().await.wait_execution(waited).await.unwrap();
    let result = settled.into_inner().execution.unwrap().result.unwrap();
    assert_eq!(result.status, v1::plan_result::Status::Failure as i32);
    assert_eq!(result.error.unwrap().error_code, "UNKNOWN_ERROR");
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn a_silent_connection_and_an_open_watch_do_not_keep_the_process_from_ending() {
    let directory = TestDirectory::new("silent");
    let orchestrator = Orchestrator::start(&directory, &["--drain-grace-ms", "100"]).await;
    let mut plans = orchestrator.plans().await;
    let _silent = TcpStream::connect(orchestrator.address()).await.unwrap();
    let (_worker, _) = Session::open(&orchestrator, "copy").await;
    let mut health = HealthClient::new(orchestrator.channel().await);
    let mut health = health
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    let submitted = plans
        .submit_plan(request(plan(1, "copy")))
        .await
        .unwrap()
        .into_inner()
        .execution
        .unwrap();
    let watched = v1::WatchExecutionRequest {
        execution_id: submitted.execution_id,
        from_sequence: 0,
        ..v1::WatchExecutionRequest::default()
    };
    let mut watch = plans.watch_execution(watched).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    assert_eq!(health.message().await.unwrap().unwrap().status, 1);
    orchestrator.signal();
    assert_eq!(health.message().await.unwrap().unwrap().status, 2);
    // Its worker says nothing of what runs; the grace ends before it does.
    assert_eq!(orchestrator.ended().await, Some(75));
}

#[tokio::test]
async fn an_idle_worker_does_not_hold_a_drain_up_and_is_told_of_its_end() {
    let directory = TestDirectory::new("idle");
    let orchestrator = Orchestrator::start(&directory, &["--drain-grace-ms", "3600000"]).await;
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    orchestrator.signal();
    let mut deadlines = Vec::new();
    while let Some(message) = session.next().await {
        let Message::Reconnect(reconnect) = message else {
            panic!("{message:?}")
        };
        deadlines.push(reconnect.deadline_ms);
    }
    assert_eq!(deadlines, [3_600_000, 0]);
    // It ends although this worker keeps its side of the stream open.
    assert_eq!(timeout(PATIENCE, orchestrator.ended()).await.unwrap(), Some(0));
}

#[tokio::test]
async fn what_runs_is_finished_within_the_grace_and_then_the_sessions_end() {
    let directory = TestDirectory::new("finish");
    let orchestrator = Orchestrator::start(&directory, &["--drain-grace-ms", "3600000"]).await;
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    let mut plans = orchestrator.plans().await;
    plans.submit_plan(request(plan(1, "copy"))).await.unwrap();
    let first = session.assignment().await;
    orchestrator.signal();
    let Some(Message::Reconnect(reconnect)) = session.next().await else {
        panic!("a drain is told at its start")
    };
    assert!(reconnect.deadline_ms > 3_000_000);
    let outcome = |token| {
        let items = vec![success(token, Opaque::default())];
        Request::Outcomes(worker::Outcomes { items })
    };
    session.start(&first.attempt_token).await;
    session.say(outcome(first.attempt_token)).await;
    // The second step is handed out although the orchestrator drains.
    let second = loop {
        match session.next().await.unwrap() {
            Message::Assignments(mut assignments) => break assignments.items.remove(0),
            Message::OutcomeAcks(_) => {}
            message => panic!("{message:?}"),
        }
    };
    session.start(&second.attempt_token).await;
    session.say(outcome(second.attempt_token)).await;
    let mut last = None;
    while let Some(message) = session.next().await {
        last = Some(message);
    }
    let Some(Message::Reconnect(reconnect)) = last else {
        panic!("{last:?}")
    };
    assert_eq!(reconnect.deadline_ms, 0);
    assert_eq!(timeout(PATIENCE, orchestrator.ended()).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let directory = TestDirectory::new("twice");
    let orchestrator = Orchestrator::start(&directory, &["--drain-grace-ms", "3600000"]).await;
    let mut health = HealthClient::new(orchestrator.channel().await);
    let mut health = health
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(health.message().await.unwrap().unwrap().status, 1);
    // Its worker says nothing, so it runs until its plan's limit.
    let (_silent, _) = Session::open(&orchestrator, "copy").await;
    orchestrator
        .plans()
        .await
        .submit_plan(request(plan(1, "copy")))
        .await
        .unwrap();
    orchestrator.signal();
    assert_eq!(health.message().await.unwrap().unwrap().status, 2);
    let status = orchestrator
        .plans()
        .await
        .submit_plan(request(plan(2, "copy")))
        .await
        .unwrap_err();
    assert_eq!(
        status.get_error_details().error_info().unwrap().reason,
        "DRAINING"
    );
    orchestrator.signal();
    assert_eq!(timeout(PATIENCE, orchestrator.ended()).await.unwrap(), Some(75));
}

#[tokio::test]
async fn a_store_has_one_orchestrator() {
    let directory = TestDirectory::new("locked");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let second = Orchestrator::refused(&directory).await;
    assert_eq!(second.status.code(), Some(73));
    assert!(
        String::from_utf8(second.stderr)
            .unwrap()
            .contains("another orchestrator")
    );
    assert_eq!(orchestrator.stop().await, Some(0));
}
