//! Orchestrators that ask for too much, and workers that have a lot to say.

use super::spoken::{
    HEARTBEAT_MS, assignment, assignments, cancels, heartbeat_ack, snapshot_request, success_with,
};
use super::story::Story;
use crate::Opaque;
use crate::session::{ATTEMPTS_MAX, TaskEnd};
use bytes::Bytes;
use escapement_model::AttemptToken;
use escapement_model::limits::{OUTPUT_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX};
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{ActionSpec, Hello, SessionRequest, in_flight};
use prost::Message;

fn wide_token(number: usize) -> AttemptToken {
    AttemptToken::new((number as u128 + 1).to_be_bytes())
}

fn wide_bytes(number: usize) -> Bytes {
    Bytes::copy_from_slice(wide_token(number).as_bytes())
}

fn many(range: std::ops::Range<usize>, action: &str) -> Response {
    assignments(range.map(|number| assignment(wide_bytes(number), action, 1_000_000)))
}

/// Returns a worker with an action that waits and with free capacity; its transport has taken nothing since the welcome.
fn clogged() -> Story {
    let hello = Hello {
        actions: vec![ActionSpec {
            // As much as the builder allows.
            input_schema: "x".repeat(3 << 20),
            ..super::spoken::action("wait", 4_096, true)
        }],
        ..Hello::default()
    };
    let mut story = Story::of(hello);
    story.heard();
    story.is_clogged = true;
    story.welcome();
    story
}

/// Lets the transport take everything again.
fn unclog(story: &mut Story) {
    story.is_clogged = false;
    story.pass(0);
}

fn end(story: &mut Story, number: usize, end: TaskEnd) {
    story.worker_state.release(wide_token(number));
    story.session.handle_ended(story.now_ms, wide_token(number), end);
}

/// Returns the next message that the transport would get.
fn next(story: &mut Story) -> Option<Request> {
    let request = story.session.poll_transmit(story.now_ms, &mut story.worker_state);
    request.and_then(|request| request.message)
}

#[test]
fn a_flood_of_snapshot_requests_is_one_snapshot() {
    let mut story = clogged();
    for n in 1..=100_000 {
        story.say(snapshot_request(n));
    }
    unclog(&mut story);
    let heard = story.heard().into_iter();
    let snapshots = heard.filter_map(|request| match request {
        Request::Snapshot(snapshot) => Some(snapshot.n),
        _ => None,
    });
    assert_eq!(snapshots.collect::<Vec<_>>(), [100_000]);
}

#[test]
fn a_flood_of_cancels_or_of_assignments_without_a_handler_ends_the_stream() {
    let numbers = |round: usize| round * 1_000..(round + 1) * 1_000;
    let cancels = |round| cancels(numbers(round).map(wide_bytes), 0);
    let unknown = |round| many(numbers(round), "missing");
    let floods: [&dyn Fn(usize) -> Response; 2] = [&cancels, &unknown];
    for flood in floods {
        let mut story = clogged();
        let is_borne = |round: &usize| {
            story.say(flood(*round));
            story.disconnects.is_empty()
        };
        let n_messages = (0..1_000).take_while(is_borne).count();
        assert!(
            (2 * ATTEMPTS_MAX / 1_000..100).contains(&n_messages),
            "{n_messages}"
        );
        assert!(next(&mut story).is_none(), "nothing of it is sent any more");
        assert_eq!(story.worker_state.tasks(), 0);
    }
}

#[test]
fn the_hello_of_a_worker_with_all_the_attempts_that_it_takes_fits_into_one_message() {
    let mut story = clogged();
    story.say(many(0..ATTEMPTS_MAX + 5, "wait"));
    assert!(story.disconnects.is_empty());
    assert_eq!(story.worker_state.tasks(), ATTEMPTS_MAX);
    unclog(&mut story);
    let rejected = story.heard_acks().rejected;
    assert_eq!(rejected.len(), 5);
    assert!(rejected.iter().all(|item| item.reason() == Reason::NoCapacity));
    (0..10).for_each(|number| end(&mut story, number, TaskEnd::Aborted));
    story.disconnect();
    story.pass(200);
    let hello = story.heard_hello();
    assert_eq!(hello.in_flight.len(), ATTEMPTS_MAX);
    let finished = hello.in_flight.iter();
    let n_finished = finished.filter(|entry| entry.phase() == in_flight::Phase::Finished);
    assert_eq!(
        n_finished.count(),
        10,
        "outcomes that wait are listed as finished"
    );
    let request = SessionRequest {
        seq: 1,
        message: Some(Request::Hello(hello)),
    };
    let bytes = request.encoded_len();
    assert!(bytes <= SESSION_MESSAGE_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn a_heartbeat_never_waits_for_outcomes_and_large_outcomes_travel_alone() {
    let mut story = clogged();
    story.say(many(0..40, "wait"));
    for number in 0..40 {
        let output = Opaque::from_encoded(Bytes::from(vec![0; OUTPUT_BYTES_MAX]));
        end(&mut story, number, success_with(output));
    }
    while !matches!(next(&mut story).expect("an outcome waits"), Request::Outcomes(_)) {}
    // Each interval a heartbeat is due, and it overtakes every outcome that was not handed over.
    for round in 1..40 {
        story.now_ms = round * HEARTBEAT_MS;
        story.session.handle_timeout(story.now_ms);
        let Some(Request::Heartbeat(heartbeat)) = next(&mut story) else {
            panic!("round {round}: a heartbeat is due")
        };
        // The lease is kept by acknowledgements of what was sent.
        story.say(heartbeat_ack(heartbeat.n, &[]));
        let Some(Request::Outcomes(outcomes)) = next(&mut story) else {
            panic!("round {round}: an outcome waits")
        };
        assert_eq!(outcomes.items.len(), 1);
    }
}
