//! What the shell itself answers to workers.

use crate::process::{Orchestrator, PATIENCE, Session, TestDirectory, Worker, request, short_plan, success};
use escapement_model::Opaque;
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_wire::v1;
use escapement_wire::v1::worker::State;
use escapement_wire::worker::v1 as worker;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_response::Message;
use std::process::Stdio;
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_types::StatusExt;

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

/// A worker may end its side of the stream right behind a message and read on.
#[tokio::test]
async fn what_a_worker_said_before_it_ended_its_side_is_answered() {
    let directory = TestDirectory::new("last-word");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    for _ in 0..50 {
        let hello = worker::session_request::Message::Hello(Worker::hello("copy"));
        let (requests, mut responses) = Worker::open(&orchestrator, Some(hello)).await;
        drop(requests);
        let answer = timeout(PATIENCE, responses.message()).await.unwrap().unwrap();
        let welcome = answer.map(|answer| answer.message.unwrap());
        assert!(matches!(welcome, Some(Message::Welcome(_))), "{welcome:?}");
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

#[tokio::test]
async fn a_welcome_names_the_peers_that_the_operator_gave() {
    let directory = TestDirectory::new("peers");
    let peers = ["http://10.0.0.2:7400", "http://other.example:443"];
    let flags = ["--peer", peers[0], "--peer", peers[1]];
    let orchestrator = Orchestrator::start(&directory, &flags).await;
    let (_session, welcome) = Session::open(&orchestrator, "copy").await;
    assert_eq!(welcome.peers, peers);
    assert_eq!(orchestrator.stop().await, Some(0));
}

/// Returns the field that a refusal names.
fn field_of(status: &Status) -> String {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "INVALID_ARGUMENT");
    details.bad_request().unwrap().field_violations[0].field.clone()
}

#[tokio::test]
async fn an_outcome_without_a_session_settles_its_attempt_and_every_item_is_answered_in_its_place() {
    let directory = TestDirectory::new("reports");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    let mut plans = orchestrator.plans().await;
    let submitted = plans.submit_plan(request(short_plan(1, "copy"))).await.unwrap();
    let token = session.assignment().await.attempt_token;
    session.start(&token).await;
    let items = ["short".into(), token.clone(), vec![9; 16].into(), token.clone()];
    let items: Vec<_> = items
        .into_iter()
        .map(|token| success(token, Opaque::default()))
        .collect();
    let reported = worker::ReportOutcomesRequest { items: items.clone() };
    let mut reports = orchestrator.reports().await;
    let answer = reports.report_outcomes(reported).await.unwrap().into_inner();
    let tokens = |items: &[worker::AttemptOutcome]| -> Vec<_> {
        items.iter().map(|item| item.attempt_token.clone()).collect()
    };
    let answered: Vec<_> = answer.items.iter().map(|ack| ack.attempt_token.clone()).collect();
    assert_eq!(answered, tokens(&items));
    let verdicts: Vec<Verdict> = answer.items.iter().map(worker::OutcomeAck::verdict).collect();
    let wanted = [
        Verdict::Unknown,
        Verdict::Accepted,
        Verdict::Unknown,
        Verdict::Duplicate,
    ];
    assert_eq!(verdicts, wanted);

    let waited = v1::WaitExecutionRequest {
        execution_id: submitted.into_inner().execution.unwrap().execution_id,
        timeout_ms: Some(20_000),
    };
    let settled = plans.wait_execution(waited).await.unwrap().into_inner();
    let result = settled.execution.unwrap().result.unwrap();
    assert_eq!(result.status, v1::plan_result::Status::Success as i32);
    let next = session.next().await;
    let Some(Message::Cancels(cancels)) = next else {
        panic!("{next:?}")
    };
    assert_eq!(cancels.items[0].attempt_token, token);
    assert_eq!(cancels.items[0].reason(), worker::cancel::Reason::Superseded);
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn too_few_and_too_many_outcomes_without_a_session_are_refused_as_a_whole() {
    let directory = TestDirectory::new("too-many-reports");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut reports = orchestrator.reports().await;
    let mut report = async |items| {
        let asked = worker::ReportOutcomesRequest { items };
        reports
            .report_outcomes(asked)
            .await
            .map(tonic::Response::into_inner)
    };
    let items = |n| vec![worker::AttemptOutcome::default(); n];
    assert_eq!(field_of(&report(items(0)).await.unwrap_err()), "items");
    assert_eq!(field_of(&report(items(4_097)).await.unwrap_err()), "items");
    let answer = report(items(4_096)).await.unwrap();
    assert_eq!(answer.items.len(), 4_096);
    let large = vec![worker::AttemptOutcome {
        attempt_token: vec![1; SESSION_MESSAGE_BYTES_MAX].into(),
        ..worker::AttemptOutcome::default()
    }];
    assert_eq!(report(large).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn an_operator_drains_a_worker_by_label_or_by_process() {
    let directory = TestDirectory::new("drain-worker");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut fleet = orchestrator.fleet().await;
    let selections = [("", "worker"), ("07070707070707070707070707070707", "")];
    for (instance_id, worker_id) in selections {
        let (mut session, _) = Session::open(&orchestrator, "copy").await;
        let asked = v1::DrainWorkerRequest {
            instance_id: instance_id.to_owned(),
            worker_id: worker_id.to_owned(),
        };
        let drained = fleet.drain_worker(asked).await.unwrap().into_inner().workers;
        assert_eq!(drained.len(), 1);
        assert_eq!(drained[0].state(), State::Draining);
        assert_eq!(drained[0].instance_id, selections[1].0);
        let next = session.next().await;
        assert!(matches!(next, Some(Message::DrainStarted(_))), "{next:?}");
    }
    assert_eq!(orchestrator.stop().await, Some(0));
}

#[tokio::test]
async fn an_operator_must_name_one_worker_that_is_there() {
    let directory = TestDirectory::new("no-worker");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let mut fleet = orchestrator.fleet().await;
    let hex = "07070707070707070707070707070707";
    let table = [
        ("", "", Some("worker_id")),
        ("short", "", Some("instance_id")),
        (hex, "worker", Some("worker_id")),
        (hex, "", None),
        ("", "worker", None),
    ];
    for (instance_id, worker_id, field) in table {
        let asked = v1::DrainWorkerRequest {
            instance_id: instance_id.to_owned(),
            worker_id: worker_id.to_owned(),
        };
        let status = fleet.drain_worker(asked).await.unwrap_err();
        assert_refused(&status, field);
    }
    for (instance_id, field) in [
        ("", Some("instance_id")),
        ("worker", Some("instance_id")),
        (hex, None),
    ] {
        let instance_id = instance_id.to_owned();
        let asked = v1::DeclareWorkerDeadRequest {
            instance_id,
            force: false,
        };
        let status = fleet.declare_worker_dead(asked).await.unwrap_err();
        assert_refused(&status, field);
    }
    assert_eq!(orchestrator.stop().await, Some(0));
}

/// Refused for a field, or because there is no such worker.
fn assert_refused(status: &Status, field: Option<&str>) {
    if let Some(field) = field {
        return assert_eq!(field_of(status), field);
    }
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "NO_SUCH_WORKER");
}

#[tokio::test]
async fn a_worker_that_is_declared_dead_loses_its_session_and_what_it_had_started() {
    let directory = TestDirectory::new("dead-worker");
    let log = std::fs::File::create(directory.join("log")).unwrap();
    let orchestrator = Orchestrator::start_logging(&directory, "info", Stdio::from(log), &[]).await;
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    let mut plans = orchestrator.plans().await;
    for number in 1..=2 {
        let asked = request(short_plan(number, "copy"));
        plans.submit_plan(asked).await.unwrap();
        let token = session.assignment().await.attempt_token;
        if number == 1 {
            session.start(&token).await;
            // Answered after what was said before it.
            let heartbeat = worker::Heartbeat::default();
            session
                .say(worker::session_request::Message::Heartbeat(heartbeat))
                .await;
            assert!(matches!(session.next().await, Some(Message::HeartbeatAck(_))));
        }
    }
    let mut asked = v1::DeclareWorkerDeadRequest {
        instance_id: "07070707070707070707070707070707".to_owned(),
        force: false,
    };
    let mut fleet = orchestrator.fleet().await;
    let refused = fleet.declare_worker_dead(asked.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    asked.force = true;
    let answer = fleet.declare_worker_dead(asked).await.unwrap().into_inner();
    assert_eq!((answer.attempts_lost, answer.attempts_returned), (1, 1));
    let next = session.next().await;
    let Some(Message::SessionError(error)) = next else {
        panic!("{next:?}")
    };
    assert_eq!(error.code(), worker::session_error::Code::DeclaredDead);
    assert_eq!(session.next().await, None);
    // What was returned has no worker any more; the grace ends before it does.
    assert_eq!(orchestrator.stop().await, Some(75));
    let log = std::fs::read_to_string(directory.join("log")).unwrap();
    let ends: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("session ended"))
        .collect();
    assert_eq!(ends.len(), 1, "{log}");
    for told in [
        "worker_id=\"worker\"",
        "instance_id=\"07070707070707070707070707070707\"",
        "reason=\"declared_dead\"",
    ] {
        assert!(ends[0].contains(told), "{}", ends[0]);
    }
}

#[tokio::test]
async fn a_flood_of_one_worker_is_ended_and_holds_no_other_up() {
    let directory = TestDirectory::new("flood");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let (flooding, mut told) = Worker::open(&orchestrator, Some(flood_hello())).await;
    let flood = tokio::spawn(async move {
        // An arm that nobody knows is ignored, and counted.
        for seq in 2.. {
            let request = worker::SessionRequest { seq, message: None };
            if flooding.send(request).await.is_err() {
                return seq;
            }
        }
        unreachable!("the numbers do not end")
    });
    let (mut session, _) = Session::open(&orchestrator, "copy").await;
    for n in 1..=50 {
        let heartbeat = worker::Heartbeat {
            n,
            ..worker::Heartbeat::default()
        };
        session
            .say(worker::session_request::Message::Heartbeat(heartbeat))
            .await;
        let next = session.next().await;
        assert!(matches!(next, Some(Message::HeartbeatAck(_))), "{next:?}");
    }
    let mut last = None;
    while let Some(response) = timeout(PATIENCE, told.message()).await.unwrap().unwrap() {
        last = response.message;
    }
    let Some(Message::SessionError(error)) = last else {
        panic!("{last:?}")
    };
    assert_eq!(error.code(), worker::session_error::Code::LimitExceeded);
    drop(told);
    let n_sent = timeout(PATIENCE, flood).await.unwrap().unwrap();
    assert!(n_sent > 2_000, "{n_sent} messages are no flood");
    assert_eq!(orchestrator.stop().await, Some(0));
}

fn flood_hello() -> worker::session_request::Message {
    worker::session_request::Message::Hello(worker::Hello {
        worker_id: "flood".to_owned(),
        instance_id: vec![8; 16].into(),
        ..Worker::hello("copy")
    })
}

#[tokio::test]
async fn a_worker_that_does_not_read_loses_its_connection_and_the_process_still_stops() {
    let directory = TestDirectory::new("deaf");
    let orchestrator = Orchestrator::start(&directory, &[]).await;
    let hello = worker::session_request::Message::Hello(Worker::hello("copy"));
    let (requests, unread) = Worker::open(&orchestrator, Some(hello)).await;
    // Each is answered, and the answers are more than a client's window takes.
    let item = |n: u32| worker::AttemptOutcome {
        attempt_token: [n.to_be_bytes(); 4].concat().into(),
        ..worker::AttemptOutcome::default()
    };
    let outcomes = worker::Outcomes {
        items: (0..50_000).map(item).collect(),
    };
    let outcomes = worker::session_request::Message::Outcomes(outcomes);
    let goodbye = worker::session_request::Message::Goodbye(worker::Goodbye::default());
    let messages = std::iter::repeat_n(outcomes, 12).chain([goodbye]);
    for (seq, message) in (2..).zip(messages) {
        let message = Some(message);
        requests
            .send(worker::SessionRequest { seq, message })
            .await
            .unwrap();
    }
    // The session is over, and only the unread answers keep its stream.
    timeout(PATIENCE, requests.closed()).await.unwrap();
    drop(unread);
    assert_eq!(orchestrator.stop().await, Some(0));
}
