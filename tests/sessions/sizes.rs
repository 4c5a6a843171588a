//! Messages exactly at each limit, and one beyond it: the first works, the second is refused in words, nobody else notices.

use crate::arena::{Arena, LIMIT};
use crate::intruder::{
    end_of, expect_alive, expect_end, foreign_token, forget_peak, greeted, heartbeat, hello, memory_mib,
    next, peak_mib, steps,
};
use escapement_model::Opaque;
use escapement_model::limits::{
    INPUT_SCHEMA_BYTES_MAX, LABEL_CHARS_MAX, OUTPUT_BYTES_MAX, SESSION_ACTIONS_MAX,
    SESSION_MESSAGE_BYTES_MAX, WORKER_LABELS_MAX,
};
use escapement_model::opaque::StructBuilder;
use escapement_sdk::{StepContext, Worker};
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, ScriptedWorker};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    ActionSpec, AttemptAcks, AttemptOutcome, Hello, InFlight, Outcomes, RegisterActions,
    ReportOutcomesRequest, SessionRequest, Snapshot, Success,
};
use serde_json::{Value, json};

/// Makes a hello as large as it may be, or one larger.
type Change = fn(&mut Hello, usize);

/// Entries of one list of a worker's message.
const LIST_MAX: usize = 16_384;
/// Items of one `ReportOutcomes`.
const REPORT_MAX: usize = 4_096;
/// What one message of 4 MiB may cost while it is read, beside what was there before. A worker has one such message at a time.
const MESSAGE_COST_MIB: u64 = 60;

#[tokio::test]
async fn a_hello_at_its_limits_is_welcomed_and_one_beyond_them_is_refused() {
    let arena = Arena::start().await;
    let cases: [(&str, Change); 5] = [
        ("labels", |hello, over| {
            let label = |n: usize| (format!("{n:0>255}"), "é".repeat(LABEL_CHARS_MAX));
            hello.labels = (0..WORKER_LABELS_MAX + over).map(label).collect();
        }),
        ("actions", |hello, over| {
            hello.actions = (0..SESSION_ACTIONS_MAX + over)
                .map(|n| action(&format!("act-{n}")))
                .collect();
        }),
        ("worker_id", |hello, over| {
            hello.worker_id = "é".repeat(LABEL_CHARS_MAX + over)
        }),
        ("an empty worker_id", |hello, over| {
            hello.worker_id = "w".repeat(1 - over);
        }),
        ("in_flight", |hello, over| {
            hello.in_flight = (0..LIST_MAX + over).map(|_| held(Phase::Running)).collect();
        }),
    ];
    for (what, change) in cases {
        for over in [0, 1] {
            let mut said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["sized"]), 1);
            change(&mut said, over);
            let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
            session.send(Message::Hello(said.clone())).await.unwrap();
            if over == 1 {
                expect_end(&mut session, Code::LimitExceeded, what).await;
                continue;
            }
            let Some(Answer::Welcome(welcome)) = next(&mut session).await else {
                panic!("{what} at the limit is not welcomed");
            };
            assert_eq!(welcome.verdicts.len(), said.in_flight.len(), "{what}");
            assert!(welcome.refused_actions.is_empty(), "{what}");
            expect_alive(&mut session, 1).await;
        }
    }
    arena.finish().await.at_least(Count::Sessions, 5);
}

#[tokio::test]
async fn a_schema_or_a_name_that_is_too_large_costs_its_action_alone() {
    let arena = Arena::start().await;
    let schema = |bytes: usize| {
        let around = r#"{"title":""}"#.len();
        format!(r#"{{"title":"{}"}}"#, "x".repeat(bytes - around))
    };
    let with_schema = |name: &str, bytes| ActionSpec {
        input_schema: schema(bytes),
        ..action(name)
    };
    let actions = vec![
        with_schema("at the limit", INPUT_SCHEMA_BYTES_MAX),
        with_schema("beyond", INPUT_SCHEMA_BYTES_MAX + 1),
        action(&"é".repeat(100)),
        action(&"é".repeat(101)),
    ];
    let said = ScriptedWorker::hello_for(actions.clone(), 1);
    let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
    session.send(Message::Hello(said)).await.unwrap();
    let Some(Answer::Welcome(welcome)) = next(&mut session).await else {
        panic!("it is not welcomed");
    };
    let refused: Vec<_> = welcome
        .refused_actions
        .into_iter()
        .map(|refusal| refusal.name)
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(refused[0], "beyond");
    // The same by `RegisterActions`, which refuses in silence, and one action too many, which does not.
    let register = |revision, actions| Message::RegisterActions(RegisterActions { revision, actions });
    session.send(register(1, actions)).await.unwrap();
    expect_alive(&mut session, 1).await;
    let many = |count| (0..count).map(|n| action(&format!("act-{n}"))).collect();
    session
        .send(register(2, many(SESSION_ACTIONS_MAX)))
        .await
        .unwrap();
    expect_alive(&mut session, 2).await;
    session
        .send(register(3, many(SESSION_ACTIONS_MAX + 1)))
        .await
        .unwrap();
    expect_end(&mut session, Code::LimitExceeded, "actions").await;
    drop(session);
    arena.finish().await.at_least(Count::Sessions, 1);
}

#[tokio::test]
async fn lists_at_their_limits_are_answered_and_longer_ones_end_the_session() {
    let arena = Arena::start().await;
    let tokens = |count| (0..count).map(|_| foreign_token()).collect::<Vec<_>>();
    let acks = |started, stopped| {
        Message::AttemptAcks(AttemptAcks {
            started: tokens(started),
            stopped: tokens(stopped),
            ..AttemptAcks::default()
        })
    };
    let snapshot = |count| {
        Message::Snapshot(Snapshot {
            n: 1,
            last_assignment_seq: 0,
            in_flight: (0..count).map(|_| held(Phase::Received)).collect(),
        })
    };
    let outcomes = |count| {
        Message::Outcomes(Outcomes {
            items: (0..count).map(|_| unknown_outcome()).collect(),
        })
    };
    for (what, at, over) in [
        ("started", acks(LIST_MAX, 0), acks(LIST_MAX + 1, 0)),
        ("stopped", acks(0, LIST_MAX), acks(0, LIST_MAX + 1)),
        ("snapshot", snapshot(LIST_MAX), snapshot(LIST_MAX + 1)),
        ("outcomes", outcomes(LIST_MAX), outcomes(LIST_MAX + 1)),
    ] {
        let mut session = greeted(&arena.orchestrator, hello(&["sized"], 1)).await;
        session.send(at).await.unwrap();
        if what == "outcomes" {
            let mut n_answered = 0;
            while n_answered < LIST_MAX {
                match next(&mut session).await {
                    Some(Answer::OutcomeAcks(acks)) => {
                        assert!(acks.items.iter().all(|ack| ack.verdict() == Verdict::Unknown));
                        n_answered += acks.items.len();
                    }
                    other => panic!("no answer but {other:?}"),
                }
            }
        }
        expect_alive(&mut session, 1).await;
        session.send(over).await.unwrap();
        expect_end(&mut session, Code::LimitExceeded, what).await;
    }
    arena
        .finish()
        .await
        .at_least(Count::OutcomesRefused, LIST_MAX as u64);
}

#[tokio::test]
async fn a_message_of_four_mebibytes_is_read_and_one_byte_more_ends_the_stream() {
    let arena = Arena::start().await;
    for over in [0, 1] {
        let mut session = greeted(&arena.orchestrator, hello(&["sized"], 1)).await;
        let message = padded_to(2, SESSION_MESSAGE_BYTES_MAX + over);
        let sent = session.send_message(&message).await;
        if over == 0 {
            sent.unwrap();
            let request = SessionRequest {
                seq: 3,
                message: Some(heartbeat(1)),
            };
            session.send_request(&request).await.unwrap();
            assert!(matches!(next(&mut session).await, Some(Answer::HeartbeatAck(_))));
            continue;
        }
        let (code, text) = tokio::time::timeout(LIMIT, session.status())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(code, tonic::Code::OutOfRange as i32, "{text}");
    }
    // So does a hello.
    let mut session = RawSession::open(arena.orchestrator.address()).await.unwrap();
    let _cut_short = session
        .send_message(&padded_to(1, SESSION_MESSAGE_BYTES_MAX + 1))
        .await;
    assert!(end_of(&mut session).await.is_none());
    drop(session);
    arena.finish().await.at_least(Count::Sessions, 2);
}

#[tokio::test]
async fn a_report_without_a_session_takes_4096_items_and_no_more() {
    let arena = Arena::start().await;
    let mut client = WorkerServiceClient::new(arena.orchestrator.channel());
    for (count, is_taken) in [(0, false), (1, true), (REPORT_MAX, true), (REPORT_MAX + 1, false)] {
        let request = ReportOutcomesRequest {
            items: (0..count).map(|_| unknown_outcome()).collect(),
        };
        match client.report_outcomes(request).await {
            Ok(answer) => {
                assert!(is_taken, "{count} items were taken");
                let items = answer.into_inner().items;
                assert_eq!(items.len(), count);
                assert!(items.iter().all(|ack| ack.verdict() == Verdict::Unknown));
            }
            Err(refused) => {
                assert!(!is_taken, "{count} items were refused: {refused}");
                assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            }
        }
    }
    arena.finish().await.at_least(Count::Reports, 2);
}

#[tokio::test]
async fn an_output_at_its_limit_is_kept_and_one_byte_more_fails_its_step() {
    let arena = Arena::start().await;
    let plan = steps("sized", 2, &json!({}));
    let id = arena.submit(plan).await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["sized"], 2).await;
    for over in [0, 1] {
        let assignment = worker.started().await;
        let verdict = worker
            .succeed_encoded(&assignment, object_of(OUTPUT_BYTES_MAX + over))
            .await;
        assert_eq!(verdict, Verdict::Accepted);
    }
    let result = arena.result_of(&id).await;
    assert_eq!(result.status(), Status::Failure, "{:?}", result.error);
    worker.goodbye().await;
    arena.finish().await.at_least(Count::OutcomesAccepted, 2);
}

/// The worker of the SDK must neither send what cannot pass nor try again for ever.
#[tokio::test]
async fn an_sdk_worker_with_an_output_that_fits_no_message_fails_once_and_goes_on() {
    let arena = Arena::start().await;
    let worker = Worker::builder(arena.orchestrator.url())
        .worker_id("large")
        .handler("sized", |input: Value, _: StepContext| async move {
            let bytes = usize::try_from(input["bytes"].as_u64().unwrap_or(1)).unwrap();
            Ok(json!({ "fill": "x".repeat(bytes) }))
        })
        .build()
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    for (bytes, status) in [(5 << 20, Status::Failure), (1, Status::Success)] {
        let plan = PlanDocument::new("large").step("sized", json!({ "bytes": bytes }), &[]);
        let id = arena.submit(plan).await;
        let result = arena.result_of(&id).await;
        assert_eq!(result.status(), status, "{:?}", result.error);
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Sessions, 1)
        .exactly(Count::Assignments, 2)
        .exactly(Count::OutcomesAccepted, 2);
}

/// What decodes to many times its size must not be decoded: a few such messages would take all the memory there is.
#[tokio::test]
async fn a_message_of_millions_of_empty_items_costs_no_more_than_a_full_one() {
    let arena = Arena::start().await;
    // Everything that memory is taken for once, is.
    greeted(&arena.orchestrator, hello(&["sized"], 1)).await;
    let empty = |tag: u8| [tag << 3 | 2, 0].repeat(SESSION_MESSAGE_BYTES_MAX / 2 - 16);
    let with_warnings = {
        let success = nested(3, &empty(2)[64..]);
        nested(1, &success)
    };
    let cases = [
        ("Outcomes.items", 7, empty(1)),
        ("Outcomes.items.warnings", 7, with_warnings),
        ("AttemptAcks.started", 6, empty(1)),
        ("AttemptAcks.rejected", 6, empty(2)),
        ("AttemptAcks.stopped", 6, empty(3)),
        ("Snapshot.in_flight", 8, empty(3)),
        ("RegisterActions.actions", 3, empty(2)),
        ("Capacity.per_action", 4, empty(3)),
        ("Hello.actions", 2, empty(7)),
        ("Hello.in_flight", 2, empty(9)),
        ("Hello.labels", 2, empty(10)),
    ];
    let mut dearest = ("", 0);
    for (what, arm, body) in cases {
        let before = memory_mib(&arena.orchestrator);
        forget_peak(&arena.orchestrator);
        let mut session = if arm == 2 {
            RawSession::open(arena.orchestrator.address()).await.unwrap()
        } else {
            greeted(&arena.orchestrator, hello(&["sized"], 1)).await
        };
        let seq = if arm == 2 { 1 } else { 2 };
        let mut request = vec![1 << 3, seq];
        request.extend(nested(arm, &body));
        assert!(
            request.len() <= SESSION_MESSAGE_BYTES_MAX,
            "{what}: {}",
            request.len()
        );
        session.send_message(&request).await.unwrap();
        let error = end_of(&mut session).await;
        let cost = peak_mib(&arena.orchestrator).saturating_sub(before);
        eprintln!(
            "{what}: {cost} MiB, {:?}",
            error.map(|error| error.code().as_str_name())
        );
        if cost > dearest.1 {
            dearest = (what, cost);
        }
    }
    assert!(dearest.1 <= MESSAGE_COST_MIB, "{dearest:?}");
    arena.finish().await.at_least(Count::Sessions, 8);
}

fn action(name: &str) -> ActionSpec {
    ActionSpec {
        name: name.to_owned(),
        ..ActionSpec::default()
    }
}

fn held(phase: Phase) -> InFlight {
    InFlight {
        attempt_token: foreign_token(),
        phase: phase.into(),
    }
}

fn unknown_outcome() -> AttemptOutcome {
    AttemptOutcome {
        attempt_token: foreign_token(),
        run_time_ms: 1,
        outcome: Some(Outcome::Success(Success::default())),
    }
}

/// An object of exactly so many encoded bytes.
fn object_of(bytes: usize) -> Opaque {
    let of = |n| StructBuilder::new().text("fill", &"x".repeat(n)).build();
    let object = of(bytes - (of(bytes).len() - bytes));
    assert_eq!(object.len(), bytes);
    object
}

/// A field with these bytes in it.
fn nested(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend(bytes);
    field
}

/// A message of exactly so many bytes: an unknown field fills it.
fn padded_to(seq: u8, bytes: usize) -> Vec<u8> {
    let mut message = vec![1 << 3, seq];
    // Two bytes of number, a key of two bytes for field 100, and a length of four.
    message.extend([0xa2, 0x06]);
    prost::encode_length_delimiter(bytes - 8, &mut message).unwrap();
    message.resize(bytes, b'x');
    message
}
