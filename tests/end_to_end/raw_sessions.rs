//! Sessions that break the rules, and sessions over broken connections: what the helpers for attacks can do.

use crate::plans::{WORK, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::ScriptedWorker;
use escapement_tests::fault_proxy::{Direction, FaultProxy, Flow};
use escapement_tests::raw_session::RawSession;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::{Heartbeat, SessionRequest};
use serde_json::json;
use std::time::Duration;

fn hello() -> Message {
    Message::Hello(ScriptedWorker::hello_for(ScriptedWorker::specs(&[WORK]), 1))
}

fn heartbeat() -> Message {
    Message::Heartbeat(Heartbeat::default())
}

async fn next(session: &mut RawSession) -> Option<Answer> {
    let next = tokio::time::timeout(LIMIT, session.next()).await.unwrap();
    next.unwrap().map(|response| response.message.unwrap())
}

#[tokio::test]
async fn a_gap_in_the_numbers_ends_the_session() {
    let world = World::start().await;
    let mut session = RawSession::open(world.orchestrator.address()).await.unwrap();
    session.send(hello()).await.unwrap();
    assert!(matches!(next(&mut session).await, Some(Answer::Welcome(_))));
    session.send(heartbeat()).await.unwrap();
    assert!(matches!(next(&mut session).await, Some(Answer::HeartbeatAck(_))));
    let message = Some(heartbeat());
    session
        .send_request(&SessionRequest { seq: 9, message })
        .await
        .unwrap();
    let Some(Answer::SessionError(error)) = next(&mut session).await else {
        panic!("no error");
    };
    assert_eq!(error.code(), Code::ProtocolViolation);
    assert!(next(&mut session).await.is_none());
}

#[tokio::test]
async fn noise_ends_the_session_and_no_other() {
    let world = World::start().await;
    let mut session = RawSession::open(world.orchestrator.address()).await.unwrap();
    session.send(hello()).await.unwrap();
    assert!(matches!(next(&mut session).await, Some(Answer::Welcome(_))));
    let mut other = RawSession::open(world.orchestrator.address()).await.unwrap();
    other.send_message(&[0xff; 100]).await.unwrap();
    // With a word or without: the stream is over.
    let over = tokio::time::timeout(LIMIT, other.status()).await.unwrap();
    assert!(over.is_ok(), "{over:?}");
    assert!(session.flood(&heartbeat(), 100).await == 100);
    for _ in 0..100 {
        assert!(matches!(next(&mut session).await, Some(Answer::HeartbeatAck(_))));
    }
    session.half_close().unwrap();
    assert!(next(&mut session).await.is_none());
}

#[tokio::test]
async fn a_scripted_worker_survives_a_partition_behind_a_proxy() {
    let world = World::start().await;
    let proxy = FaultProxy::start(world.orchestrator.address()).await.unwrap();
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[WORK]), 1);
    let (mut worker, _) = ScriptedWorker::open(&proxy.url(), hello).await;
    worker.keep_alive(Duration::from_millis(50));
    let result = world.executing(request(plan([step(1, WORK)])));
    let assignment = worker.started().await;
    proxy.set(Direction::ToTarget, Flow::Hold);
    proxy.set(Direction::ToTarget, Flow::Pass);
    assert_eq!(worker.succeed(&assignment, json!({})).await, Verdict::Accepted);
    assert_eq!(result.await.unwrap().unwrap().steps_executed, 1);
    proxy.reset_all();
    let (worker, welcome) = worker.reconnect_listing(&proxy.url(), Vec::new()).await;
    assert!(welcome.verdicts.is_empty());
    worker.goodbye().await;
    assert_eq!(proxy.traffic().connections, 2);
}
