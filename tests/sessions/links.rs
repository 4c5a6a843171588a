//! Connections that break in every way that TCP knows, and links that are slow, narrow or restless.

use crate::arena::{Arena, LIMIT, scale};
use crate::record::{failures, n_assigned};
use crate::recorder::{HOLD, Recorder, WORK};
use crate::traffic::{Load, retried_when_lost, side_by_side};
use escapement_tests::fault_proxy::{FaultProxy, Flow, Side};
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, ScriptedWorker, let_pass, wait_for};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::worker::State;
use escapement_wire::worker::v1::attempt_verdict::Verdict as KeepOrStop;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{AttemptAcks, InFlight};
use serde_json::json;
use std::time::{Duration, Instant};

/// A connection breaks while handlers run, and the worker notices.
async fn breaks(attack: impl FnOnce(&FaultProxy, u64)) {
    let arena = Arena::start_with(|settings| settings.lease(4_000, 1_000)).await;
    let proxy = arena.proxy().await;
    let worker = Recorder::connect(&proxy.url(), "broken", 4).await;
    let id = arena.submit(side_by_side(HOLD, &json!({}), 3)).await;
    arena.wait_for_starts(&id, 3).await;
    let broken = proxy.connections();
    assert_eq!(broken.len(), 1);
    let begin = Instant::now();
    attack(&proxy, broken[0].id);
    worker.wait_for_sessions(2).await;
    eprintln!("back after {:?}", begin.elapsed());
    worker.release();
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    assert_eq!(n_assigned(&arena.record_of(&id).await), 3);
    assert_eq!(worker.seen().len(), 3, "every handler ran once");
    worker.stop().await;
    let judgement = arena.finish().await;
    judgement.exactly(Count::Assignments, 3).exactly(Count::Losses, 0);
    judgement
        .at_least(Count::Resumes, 1)
        .exactly(Count::KeptAttempts, 3);
}

#[tokio::test]
async fn a_reset_connection_costs_nothing() {
    breaks(|proxy, connection| proxy.reset(connection)).await;
}

#[tokio::test]
async fn a_connection_that_only_the_worker_sees_closed_costs_nothing() {
    breaks(|proxy, connection| proxy.close_one_side(connection, Side::Client)).await;
}

#[tokio::test]
async fn a_half_close_towards_the_orchestrator_costs_nothing() {
    breaks(|proxy, connection| proxy.half_close(connection, Side::Target)).await;
}

#[tokio::test]
async fn a_half_close_towards_the_worker_costs_nothing() {
    breaks(|proxy, connection| proxy.half_close(connection, Side::Client)).await;
}

// The worker's own lease tells it; nothing else can.
#[tokio::test]
async fn a_worker_whose_connection_only_the_orchestrator_sees_closed_gives_up_at_its_lease_and_comes_back() {
    let arena = Arena::start_with(|settings| settings.lease(1_500, 500)).await;
    let proxy = arena.proxy().await;
    let worker = Recorder::connect(&proxy.url(), "deaf", 4).await;
    let id = arena.submit(retried_when_lost(HOLD, json!({}))).await;
    arena.wait_for_starts(&id, 1).await;
    proxy.close_one_side(proxy.connections()[0].id, Side::Target);
    let suspect = |workers: &[escapement_wire::v1::Worker]| {
        workers
            .iter()
            .any(|worker| worker.state() == State::Suspect)
            .then_some(())
    };
    arena.wait_for_workers("a suspect worker", "deaf", suspect).await;
    worker.wait_for_sessions(2).await;
    worker.release();
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    let record = arena.record_of(&id).await;
    let failures = failures(&record);
    assert!(matches!(failures[..], [(1, "WORKER_LOST", _)]), "{failures:?}");
    let seen = worker.seen();
    assert_eq!(seen.len(), 2);
    assert!(
        seen[0].cancelled_unix_ms.is_some() && seen[1].completed_unix_ms.is_some(),
        "{seen:?}"
    );
    worker.stop().await;
    // Lost by its own word, or by the lease where it comes back later than that.
    arena
        .finish()
        .await
        .exactly(Count::Assignments, 2)
        .exactly(Count::HandedOutAgain, 0);
}

#[tokio::test]
async fn a_stream_that_ends_without_goodbye_leaves_its_attempt_to_whoever_comes_back() {
    let arena = Arena::start_with(|settings| settings.lease(4_000, 1_000)).await;
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[WORK]), 1);
    let mut raw = RawSession::open(arena.orchestrator.address()).await.unwrap();
    raw.send(ToOrchestrator::Hello(hello.clone())).await.unwrap();
    let welcome = raw.next().await.unwrap().unwrap().message.unwrap();
    let FromOrchestrator::Welcome(welcome) = welcome else {
        panic!("{welcome:?}")
    };
    let id = arena
        .submit(PlanDocument::new("kept").step(WORK, json!({}), &[]))
        .await;
    let assignment = loop {
        if let FromOrchestrator::Assignments(sent) = raw.next().await.unwrap().unwrap().message.unwrap() {
            break sent.items[0].clone();
        }
    };
    let started = vec![assignment.attempt_token.clone()];
    let acks = AttemptAcks {
        started,
        ..AttemptAcks::default()
    };
    raw.send(ToOrchestrator::AttemptAcks(acks)).await.unwrap();
    raw.half_close().unwrap();
    assert_eq!(
        raw.status().await.unwrap().0,
        0,
        "the orchestrator ends its side as well"
    );

    let mut again = hello;
    again.previous_session_id = welcome.session_id;
    again.hello_number += 1;
    again.in_flight = vec![InFlight {
        attempt_token: assignment.attempt_token.clone(),
        phase: Phase::Running.into(),
    }];
    let (mut worker, welcome) = ScriptedWorker::open(&arena.orchestrator.url(), again).await;
    assert_eq!(welcome.verdicts[0].verdict(), KeepOrStop::Keep);
    assert_eq!(worker.succeed(&assignment, json!({})).await, Verdict::Accepted);
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    worker.goodbye().await;
    drop(raw);
    arena
        .finish()
        .await
        .exactly(Count::KeptAttempts, 1)
        .exactly(Count::Losses, 0);
}

/// Plans through a link that is bad all the time, on one session with the default lease.
async fn bad_link(flow: Flow, slots: u32, bytes: usize, n_steps: usize) {
    let arena = Arena::start().await;
    let proxy = arena.proxy().await;
    proxy.set_both(flow);
    let worker = Recorder::connect(&proxy.url(), "far", slots).await;
    let begin = Instant::now();
    let payload = json!({ "fill": "x".repeat(bytes) });
    let plan = (1..n_steps).fold(side_by_side(WORK, &payload, 1), |plan, step| {
        // Half of them side by side, half one after the other.
        let after: &[usize] = if step % 2 == 0 { &[step - 1] } else { &[] };
        plan.step(WORK, payload.clone(), after)
    });
    let id = arena.submit(plan).await;
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    eprintln!(
        "{flow:?}: {n_steps} steps of {bytes} bytes in {:?}",
        begin.elapsed()
    );
    assert_eq!(worker.seen().len(), n_steps, "every handler ran once");
    assert_eq!(worker.n_sessions(), 1, "nobody had a reason to connect again");
    proxy.set_both(Flow::Pass);
    worker.stop().await;
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Assignments, n_steps as u64)
        .exactly(Count::Losses, 0);
}

#[tokio::test]
async fn a_link_that_carries_every_byte_alone_disturbs_nothing() {
    bad_link(Flow::Pieces(1), 16, 100, scale(40, 400)).await;
}

#[tokio::test]
async fn a_link_with_a_delay_of_200_ms_disturbs_nothing() {
    bad_link(Flow::Delay(Duration::from_millis(200)), 16, 1_000, scale(20, 100)).await;
}

#[tokio::test]
async fn a_link_of_a_few_kib_a_second_disturbs_nothing() {
    // Each payload keeps the link busy for more than a second, and acknowledged heartbeats wait behind all that is sent:
    // the payloads of all slots have to pass within the lease.
    bad_link(Flow::Rate(6 << 10), 4, 8 << 10, scale(6, 15)).await;
}

// Every break is far shorter than the lease, so none of them may cost anything.
#[tokio::test]
async fn a_link_that_breaks_three_times_a_second_fails_and_loses_nothing() {
    let arena = Arena::start_with(|settings| settings.lease(4_000, 1_000)).await;
    let proxy = arena.proxy().await;
    let workers = [
        Recorder::connect(&proxy.url(), "restless-1", 8).await,
        Recorder::connect(&proxy.url(), "restless-2", 8).await,
    ];
    let load = Load::start(&arena, 6, || side_by_side(WORK, &json!({ "ms": 40 }), 4));
    let end = Instant::now() + Duration::from_secs(scale(5, 60));
    while Instant::now() < end {
        let_pass(Duration::from_millis(300)).await;
        proxy.reset_all();
    }
    let n_plans = load.stop().await;
    let n_connections = proxy.traffic().connections;
    eprintln!("{n_plans} plans over {n_connections} connections");
    let [one, two] = workers;
    let calm = async || (proxy.connections().len() == 2).then_some(());
    wait_for("two connections that stay", LIMIT, calm).await.unwrap();
    one.stop().await;
    two.stop().await;
    let judgement = arena.finish().await;
    // What was on its way when the link broke never started, and was handed out again; nothing that had started was lost.
    judgement
        .exactly(Count::Losses, judgement.count(Count::HandedOutAgain))
        .at_least(Count::Resumes, scale(8, 100))
        .at_least(Count::KeptAttempts, scale(8, 100))
        .at_least(Count::Records, n_plans);
}
