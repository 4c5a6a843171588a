//! What the shell itself answers to workers.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

mod process;

use escapement_wire::worker::v1 as worker;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::session_response::Message;
use process::{Orchestrator, PATIENCE, TestDirectory, Worker};
use tokio::time::timeout;

#[tokio::test]
async fn a_session_without_hello_or_with_a_broken_one_is_ended_with_a_reason() {
    let directory = TestDirectory::new("hello");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let broken = worker::session_request::Message::Hello(worker::Hello::default());
    for first in [None, Some(broken)] {
        let (_requests, mut responses) = Worker::open(&orchestrator, first).await;
        let answer = timeout(PATIENCE, responses.message())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let Some(Message::SessionError(error)) = answer.message else {
            panic!("{answer:?}")
        };
        assert_eq!(error.code(), worker::session_error::Code::ProtocolViolation);
        assert_eq!(
            timeout(PATIENCE, responses.message()).await.unwrap().unwrap(),
            None
        );
    }
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn an_outcome_with_an_unreadable_token_is_answered_with_the_bytes_as_given() {
    let directory = TestDirectory::new("token");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let hello = worker::session_request::Message::Hello(Worker::hello("copy"));
    let (requests, mut responses) = Worker::open(&orchestrator, Some(hello)).await;
    let welcome = timeout(PATIENCE, responses.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(matches!(welcome.message, Some(Message::Welcome(_))));
    let item = worker::AttemptOutcome {
        attempt_token: "short".into(),
        run_time_ms: 1,
        outcome: Some(Outcome::Success(worker::Success::default())),
    };
    let outcomes = worker::session_request::Message::Outcomes(worker::Outcomes { items: vec![item] });
    requests
        .send(worker::SessionRequest {
            seq: 2,
            message: Some(outcomes),
        })
        .await
        .unwrap();
    let answer = timeout(PATIENCE, responses.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let Some(Message::OutcomeAcks(acks)) = answer.message else {
        panic!("{answer:?}")
    };
    assert_eq!(acks.items[0].attempt_token, "short");
    assert_eq!(acks.items[0].verdict(), worker::outcome_ack::Verdict::Unknown);
    drop(requests);
    assert_eq!(orchestrator.stop().await, Some(0));
}
