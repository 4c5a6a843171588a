//! Messages exactly at each limit, and one beyond it: the first works, the second is refused in words, nobody else notices.

use crate::arena::{Arena, LIMIT};
use crate::intruder::{
    end_of, foreign_token, forget_peak, greeted, heartbeat, hello, memory_mib, next, peak_mib, steps,
};
use escapement_model::Opaque;
use escapement_model::limits::{OUTPUT_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX};
use escapement_model::opaque::StructBuilder;
use escapement_sdk::{StepContext, Worker};
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, ScriptedWorker};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{AttemptOutcome, ReportOutcomesRequest, SessionRequest, Success};
use serde_json::{Value, json};
/// Items of one `ReportOutcomes`.
const REPORT_MAX: usize = 4_096;
/// What one message of 4 MiB may cost while it is read, beside what was there before. A worker has one such message at a time.
const MESSAGE_COST_MIB: u64 = 60;

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

fn unknown_outcome() -> AttemptOutcome {
    AttemptOutcome {
        attempt_token: foreign_token(),
        run_time_ms: 1,
        outcome: Some(Outcome::Success(Success::default())),
    }
}

/// Returns an object of exactly so many encoded bytes.
fn object_of(bytes: usize) -> Opaque {
    let of = |n| StructBuilder::new().text("fill", &"x".repeat(n)).build();
    let object = of(bytes - (of(bytes).len() - bytes));
    assert_eq!(object.len(), bytes);
    object
}

/// Returns a field with these bytes in it.
fn nested(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend(bytes);
    field
}

/// Returns a message of exactly so many bytes: an unknown field fills it.
fn padded_to(seq: u8, bytes: usize) -> Vec<u8> {
    let mut message = vec![1 << 3, seq];
    // Two bytes of number, a key of two bytes for field 100, and a length of four.
    message.extend([0xa2, 0x06]);
    prost::encode_length_delimiter(bytes - 8, &mut message).unwrap();
    message.resize(bytes, b'x');
    message
}
