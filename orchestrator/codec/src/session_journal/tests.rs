#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use bytes::Bytes;
use escapement_contract::{PlanDraft, Reported, RequestDraft, StepDraft, validate_request};
use escapement_engine::{
    AckVerdict, ActionRefusal, Assignment, CallerId, Cancel, CancelReason, DurableAccept, ReleaseReason,
    SessionErrorCode, SessionKey, WriteOutcome,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, InstanceId, SessionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stands in everything that must not be told.
const SECRET: &str = "swordfish";

const S: SessionKey = SessionKey(3);

/// Sixteen bytes and how they are written.
fn token(byte: u8) -> AttemptToken {
    AttemptToken::new([byte; 16])
}

fn check(event: Event<'_>, expected: &str) {
    let line = line(5, event).unwrap();
    assert!(!line.contains(SECRET) && !line.contains('\n'), "{line}");
    serde_json::from_str::<serde_json::Value>(&line).unwrap();
    let tokens = [1, 2, 3, 4].map(|byte| (format!("T{byte}"), token(byte).to_hex()));
    let expected = tokens
        .into_iter()
        .fold(expected.to_owned(), |text, (name, hex)| text.replace(&name, &hex));
    assert_eq!(line, expected);
}

fn from_worker(message: FromWorker, expected: &str) {
    let input = Input::SessionMessage {
        session: S,
        seq: 2,
        message,
    };
    check(
        Event::Input(&input),
        &format!(r#"{{"t":5,"s":3,"dir":"in","m":{expected}}}"#),
    );
}

fn to_worker(message: ToWorker, expected: &str) {
    let effect = Effect::Send {
        session: S,
        seq: 4,
        message,
    };
    check(
        Event::Effect(&effect),
        &format!(r#"{{"t":5,"s":3,"dir":"out","m":{expected}}}"#),
    );
}

fn secret() -> escapement_model::Opaque {
    StructBuilder::new().text("key", SECRET).build()
}

fn failed() -> Outcome {
    Outcome::Failed(Reported {
        code: SECRET.to_owned(),
        message: SECRET.to_owned(),
        severity: None,
        context: secret(),
    })
}

fn reports() -> Vec<(AttemptToken, AttemptReport)> {
    let completed = Outcome::Completed {
        output: secret(),
        warnings: Vec::new(),
    };
    let undecodable = Outcome::Undecodable {
        detail: SECRET.to_owned(),
    };
    vec![
        (token(1), AttemptReport::Outcome(completed)),
        (token(2), AttemptReport::Outcome(failed())),
        (token(3), AttemptReport::Released(ReleaseReason::Drain)),
        (token(4), AttemptReport::Outcome(undecodable)),
    ]
}

#[test]
fn a_session_begins_and_ends() {
    let boot = Event::Boot(BootId::new([1; 16]), 7);
    check(
        boot,
        r#"{"t":5,"s":0,"dir":"shell","m":"boot","boot":"T1","unix_ms":7}"#,
    );
    let session_id = SessionId::new([2; 16]);
    let opened = Input::SessionOpened {
        session: S,
        session_id,
    };
    check(
        Event::Input(&opened),
        r#"{"t":5,"s":3,"dir":"shell","m":"opened"}"#,
    );
    let closed = Input::SessionClosed(S);
    check(
        Event::Input(&closed),
        r#"{"t":5,"s":3,"dir":"shell","m":"closed"}"#,
    );
    let close = Effect::CloseSession(S);
    check(Event::Effect(&close), r#"{"t":5,"s":3,"dir":"out","m":"close"}"#);
}

#[test]
fn a_hello_is_told_without_labels_and_texts() {
    let action = ActionSpec {
        name: "wo\"rk\n".to_owned(),
        max_in_flight: 2,
        description: SECRET.to_owned(),
        input_schema: SECRET.to_owned(),
        waits: true,
        traits: bytes::Bytes::new(),
    };
    let phases = [
        InFlightPhase::Received,
        InFlightPhase::Running,
        InFlightPhase::Finished,
    ];
    let in_flight = (2..).zip(phases).map(|(byte, phase)| InFlight {
        token: token(byte),
        phase,
    });
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        worker_id: "w".into(),
        instance_id: InstanceId::new([1; 16]),
        actions: vec![action],
        max_in_flight: 4,
        in_flight: in_flight.collect(),
        labels: BTreeMap::from([("label".to_owned(), SECRET.to_owned())]),
        build: SECRET.to_owned(),
        hello_number: 7,
        previous_session_id: None,
        owner: "".into(),
    };
    let after = Hello {
        previous_session_id: Some(SessionId::new([4; 16])),
        ..hello.clone()
    };
    from_worker(
        FromWorker::Hello(hello),
        concat!(
            r#""hello","seq":2,"worker":"w","instance":"T1","hello_number":7,"previous":null,"max_in_flight":4,"#,
            r#""actions":{"wo\"rk\n":{"max":2,"waits":true}},"#,
            r#""in_flight":{"T2":"received","T3":"running","T4":"finished"}"#
        ),
    );
    from_worker(
        FromWorker::Hello(after),
        concat!(
            r#""hello","seq":2,"worker":"w","instance":"T1","hello_number":7,"previous":"T4","max_in_flight":4,"#,
            r#""actions":{"wo\"rk\n":{"max":2,"waits":true}},"#,
            r#""in_flight":{"T2":"received","T3":"running","T4":"finished"}"#
        ),
    );
}

#[test]
fn what_workers_say_is_told() {
    from_worker(
        FromWorker::RegisterActions {
            revision: 9,
            actions: Vec::new(),
        },
        r#""register_actions","seq":2,"revision":9,"actions":{}"#,
    );
    from_worker(
        FromWorker::Capacity {
            revision: 9,
            max_in_flight: 8,
            per_action: BTreeMap::from([("work".to_owned(), 2)]),
        },
        r#""capacity","seq":2,"revision":9,"max_in_flight":8,"per_action":{"work":2}"#,
    );
    from_worker(
        FromWorker::Heartbeat {
            n: 6,
            in_flight_hash: Some([1; 16]),
        },
        r#""heartbeat","seq":2,"n":6,"hash":"T1""#,
    );
    from_worker(
        FromWorker::Heartbeat {
            n: 6,
            in_flight_hash: None,
        },
        r#""heartbeat","seq":2,"n":6,"hash":null"#,
    );
    from_worker(
        FromWorker::AttemptAcks {
            started: vec![token(1), token(2)],
            rejected: vec![(token(3), RejectReason::NoCapacity)],
            stopped: vec![token(4)],
        },
        r#""attempt_acks","seq":2,"started":["T1","T2"],"rejected":[["T3","no_capacity"]],"stopped":["T4"]"#,
    );
    from_worker(
        FromWorker::Outcomes {
            items: reports(),
            unreadable: vec![Bytes::from_static(SECRET.as_bytes())],
        },
        r#""outcomes","seq":2,"items":[["T1","success"],["T2","failure"],["T3","released"],["T4","invalid"]],"unreadable":1"#,
    );
    let running = InFlight {
        token: token(1),
        phase: InFlightPhase::Running,
    };
    from_worker(
        FromWorker::Snapshot {
            n: 1,
            last_assignment_seq: 8,
            in_flight: vec![running],
        },
        r#""snapshot","seq":2,"n":1,"last_assignment_seq":8,"in_flight":{"T1":"running"}"#,
    );
    from_worker(FromWorker::Drain, r#""drain","seq":2"#);
    from_worker(FromWorker::Goodbye, r#""goodbye","seq":2"#);
    from_worker(FromWorker::Unknown, r#""unknown","seq":2"#);
}

#[test]
fn assignments_are_told_without_payload_environment_and_headers() {
    let step = StepDraft {
        id: "00000000-0000-4000-8000-000000000001".to_owned(),
        action: "work".to_owned(),
        payload: Some(secret()),
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: "00000000-0000-4000-8000-000000000000".to_owned(),
        version: 1,
        created_at: 1,
        steps: vec![step],
        name: SECRET.to_owned(),
        context_requirements: vec!["key".to_owned()],
        metadata: Some(secret()),
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        environment: Some(secret()),
        correlation_context: BTreeMap::from([("header".to_owned(), SECRET.to_owned())]),
        ..RequestDraft::default()
    };
    let request = Arc::new(validate_request(draft, 1).unwrap());
    let assignment = Assignment {
        accept: DurableAccept::of(WriteOutcome::Durable).unwrap(),
        token: token(1),
        execution_id: ExecutionId::from_random([9; 16]),
        step: request.plan().canonical_order()[0],
        request,
        attempt: 2,
        timeout_ms: 1_000,
    };
    to_worker(
        ToWorker::Assignments(vec![assignment]),
        concat!(
            r#""assignments","seq":4,"items":[{"token":"T1","execution":"09090909-0909-4909-8909-090909090909","#,
            r#""step":"00000000-0000-4000-8000-000000000001","attempt":2,"action":"work","timeout_ms":1000}]"#
        ),
    );
}

#[test]
fn what_workers_are_told_is_told() {
    let refusal = ActionRefusal {
        name: "w\"".to_owned(),
        reason: SECRET,
    };
    to_worker(
        ToWorker::Welcome(Welcome {
            session_id: SessionId::new([1; 16]),
            refused_actions: vec![refusal],
            verdicts: vec![(token(2), KeepOrStop::Keep), (token(3), KeepOrStop::Stop)],
        }),
        r#""welcome","seq":4,"session":"T1","refused":["w\""],"verdicts":{"T2":"keep","T3":"stop"}"#,
    );
    to_worker(
        ToWorker::HeartbeatAck { n: 6 },
        r#""heartbeat_ack","seq":4,"n":6"#,
    );
    to_worker(
        ToWorker::OutcomeAcks(vec![
            (token(1), AckVerdict::Accepted),
            (token(2), AckVerdict::AlreadyEnded),
        ]),
        r#""outcome_acks","seq":4,"items":[["T1","accepted"],["T2","already_ended"]]"#,
    );
    to_worker(
        ToWorker::UnknownOutcomes(vec![Bytes::from_static(SECRET.as_bytes())]),
        r#""unknown_outcomes","seq":4,"count":1"#,
    );
    let cancel = |byte, reason| Cancel {
        token: token(byte),
        reason,
        grace_ms: 1_000,
    };
    to_worker(
        ToWorker::Cancels(vec![
            cancel(1, CancelReason::StepTimeout),
            cancel(2, CancelReason::ExecutionEnded),
            cancel(3, CancelReason::Superseded),
        ]),
        r#""cancels","seq":4,"items":[["T1","step_timeout"],["T2","execution_ended"],["T3","superseded"]]"#,
    );
    to_worker(
        ToWorker::SnapshotRequest { n: 1 },
        r#""snapshot_request","seq":4,"n":1"#,
    );
    to_worker(
        ToWorker::DrainStarted {
            last_assignment_seq: 3,
        },
        r#""drain_started","seq":4,"last_assignment_seq":3"#,
    );
    to_worker(
        ToWorker::Reconnect {
            jitter_ms: 1_000,
            deadline_ms: 30,
        },
        r#""reconnect","seq":4,"jitter_ms":1000,"deadline_ms":30"#,
    );
    to_worker(
        ToWorker::SessionError {
            code: SessionErrorCode::DeclaredDead,
            detail: SECRET.to_owned(),
            retry_after_ms: 0,
        },
        r#""session_error","seq":4,"code":"declared_dead""#,
    );
}

#[test]
fn what_operators_and_reporters_ask_is_told_with_its_answer() {
    let caller = CallerId(8);
    let reported = Input::ReportOutcomes {
        caller: caller.into(),
        items: reports(),
    };
    check(
        Event::Input(&reported),
        concat!(
            r#"{"t":5,"s":0,"dir":"call","m":"report_outcomes","call":8,"items":"#,
            r#"[["T1","success"],["T2","failure"],["T3","released"],["T4","invalid"]]}"#
        ),
    );
    let reply = Effect::Reply {
        caller,
        reply: Reply::OutcomeAcks(vec![(token(1), AckVerdict::Stale)]),
    };
    check(
        Event::Effect(&reply),
        r#"{"t":5,"s":0,"dir":"reply","m":"report_outcomes","call":8,"verdicts":["stale"]}"#,
    );
    let drain = |worker| Input::DrainWorker {
        caller: caller.into(),
        worker,
    };
    let instance_id = InstanceId::new([1; 16]);
    check(
        Event::Input(&drain(WorkerSelector::Instance(instance_id))),
        r#"{"t":5,"s":0,"dir":"call","m":"drain_worker","call":8,"instance":"T1","worker":null}"#,
    );
    check(
        Event::Input(&drain(WorkerSelector::WorkerId("w".into()))),
        r#"{"t":5,"s":0,"dir":"call","m":"drain_worker","call":8,"instance":null,"worker":"w"}"#,
    );
    let dead = Input::DeclareWorkerDead {
        caller: caller.into(),
        instance_id,
    };
    check(
        Event::Input(&dead),
        r#"{"t":5,"s":0,"dir":"call","m":"declare_worker_dead","call":8,"instance":"T1"}"#,
    );
}

#[test]
fn what_is_not_about_a_session_has_no_line() {
    assert!(line(5, Event::Input(&Input::Tick)).is_none());
    assert!(line(5, Event::Input(&Input::ListWorkers(CallerId(1).into()))).is_none());
    assert!(line(5, Event::Effect(&Effect::Drained { n_unfinished: 0 })).is_none());
    let reply = Effect::Reply {
        caller: CallerId(1),
        reply: Reply::Workers(Vec::new()),
    };
    assert!(line(5, Event::Effect(&reply)).is_none());
    assert_eq!(dropped(7), r#"{"dropped":7}"#);
}
