//! Orchestrators that ask for too much, and workers that have a lot to say.

use super::story::Story;
use crate::Opaque;
use crate::session::worker_state::WorkerState;
use crate::session::{ATTEMPTS_MAX, Session, TaskEnd};
use bytes::Bytes;
use escapement_model::AttemptToken;
use escapement_model::limits::{OUTPUT_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX};
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{
    ActionSpec, Assignment, Assignments, Cancel, Cancels, Hello, SessionRequest, SessionResponse,
    SnapshotRequest, in_flight,
};
use prost::Message;

fn wide_token(number: usize) -> AttemptToken {
    AttemptToken::new((number as u128 + 1).to_be_bytes())
}

fn wide_bytes(number: usize) -> Bytes {
    Bytes::copy_from_slice(wide_token(number).as_bytes())
}

fn assignments(range: std::ops::Range<usize>, action: &str) -> Response {
    let item = |number| Assignment {
        attempt_token: wide_bytes(number),
        action: action.to_owned(),
        timeout_ms: 1_000_000,
        ..Assignment::default()
    };
    Response::Assignments(Assignments {
        items: range.map(item).collect(),
    })
}

/// A worker whose transport takes nothing: what it wants to say piles up.
struct Clogged {
    session: Session,
    worker_state: WorkerState,
    seq: u64,
}

impl Clogged {
    /// Welcomed, with an action that waits and has room for everything.
    fn welcomed(welcome: Response) -> Self {
        let hello = Hello {
            actions: vec![ActionSpec {
                name: "wait".to_owned(),
                max_in_flight: 4_096,
                waits: true,
                // As much as the builder allows.
                input_schema: "x".repeat(3 << 20),
                ..ActionSpec::default()
            }],
            ..Hello::default()
        };
        let mut clogged = Self {
            session: Session::new(0, "http://clogged".to_owned(), 1_000),
            worker_state: WorkerState::new(hello),
            seq: 0,
        };
        clogged.session.handle_timeout(0);
        clogged
            .session
            .poll_transmit(0, &mut clogged.worker_state)
            .unwrap();
        clogged.say(welcome);
        clogged
    }

    fn say(&mut self, message: Response) {
        self.seq += 1;
        let response = SessionResponse {
            seq: self.seq,
            message: Some(message),
        };
        self.session.handle_message(0, response, &mut self.worker_state);
    }

    fn is_open(&self) -> bool {
        !matches!(self.session.stream, crate::session::StreamState::Closing)
    }

    fn hear(&mut self) -> Vec<SessionRequest> {
        std::iter::from_fn(|| self.session.poll_transmit(0, &mut self.worker_state)).collect()
    }
}

fn clogged() -> Clogged {
    Clogged::welcomed(Response::Welcome(Story::begin().welcome_message()))
}

#[test]
fn a_flood_of_snapshot_requests_is_one_snapshot() {
    let mut clogged = clogged();
    for n in 1..=100_000 {
        clogged.say(Response::SnapshotRequest(SnapshotRequest { n }));
    }
    let heard = clogged.hear();
    let snapshots: Vec<u64> = heard
        .iter()
        .filter_map(|request| match &request.message {
            Some(Request::Snapshot(snapshot)) => Some(snapshot.n),
            _ => None,
        })
        .collect();
    assert_eq!(snapshots, [100_000]);
}

#[test]
fn a_flood_of_cancels_or_of_assignments_without_a_handler_ends_the_stream() {
    let cancels = |round: usize| {
        let item = |number| Cancel {
            attempt_token: wide_bytes(round * 1_000 + number),
            ..Cancel::default()
        };
        Response::Cancels(Cancels {
            items: (0..1_000).map(item).collect(),
        })
    };
    let unknown = |round: usize| assignments(round * 1_000..(round + 1) * 1_000, "missing");
    let floods: [&dyn Fn(usize) -> Response; 2] = [&cancels, &unknown];
    for flood in floods {
        let mut clogged = clogged();
        let n_messages = (0..1_000)
            .take_while(|round| {
                clogged.say(flood(*round));
                clogged.is_open()
            })
            .count();
        assert!(
            (2 * ATTEMPTS_MAX / 1_000..100).contains(&n_messages),
            "{n_messages}"
        );
        assert!(clogged.hear().is_empty(), "nothing of it is sent any more");
        assert_eq!(clogged.worker_state.tasks(), 0);
    }
}

#[test]
fn the_hello_of_a_worker_with_all_the_attempts_that_it_takes_fits_into_one_message() {
    let mut clogged = clogged();
    clogged.say(assignments(0..ATTEMPTS_MAX + 5, "wait"));
    assert!(clogged.is_open());
    assert_eq!(clogged.worker_state.tasks(), ATTEMPTS_MAX);
    let rejected: Vec<_> = clogged
        .hear()
        .into_iter()
        .filter_map(|request| match request.message {
            Some(Request::AttemptAcks(acks)) => Some(acks.rejected),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(rejected.len(), 5);
    assert!(rejected.iter().all(|item| item.reason() == Reason::NoCapacity));
    for number in 0..10 {
        clogged.worker_state.release(wide_token(number));
        clogged
            .session
            .handle_ended(0, wide_token(number), TaskEnd::Aborted);
    }
    clogged.session.handle_disconnected(0, 0, "broken".to_owned());
    clogged.session.handle_timeout(200);
    let request = clogged
        .session
        .poll_transmit(200, &mut clogged.worker_state)
        .unwrap();
    assert!(
        request.encoded_len() <= SESSION_MESSAGE_BYTES_MAX,
        "{} bytes",
        request.encoded_len()
    );
    let Some(Request::Hello(hello)) = request.message else {
        panic!("Hello is first")
    };
    assert_eq!(hello.in_flight.len(), ATTEMPTS_MAX);
    let n_finished = hello
        .in_flight
        .iter()
        .filter(|entry| entry.phase() == in_flight::Phase::Finished)
        .count();
    assert_eq!(n_finished, 10, "outcomes that wait are listed as finished");
}

#[test]
fn a_heartbeat_never_waits_for_outcomes_and_large_outcomes_travel_alone() {
    let mut clogged = clogged();
    clogged.say(assignments(0..40, "wait"));
    for number in 0..40 {
        let output = Opaque::from_encoded(Bytes::from(vec![0; OUTPUT_BYTES_MAX]));
        clogged.worker_state.release(wide_token(number));
        let end = TaskEnd::Success {
            output,
            warnings: Vec::new(),
        };
        clogged.session.handle_ended(0, wide_token(number), end);
    }
    clogged.hear_until_outcomes();
    let mut n_outcomes = 1;
    // Each interval a heartbeat is due, and it overtakes every outcome that was not handed over.
    for round in 1..40 {
        let now_ms = round * super::story::HEARTBEAT_MS;
        // The lease is kept by acknowledgements of what was sent.
        clogged.session.handle_timeout(now_ms);
        let next = clogged.session.poll_transmit(now_ms, &mut clogged.worker_state);
        let Some(Request::Heartbeat(heartbeat)) = next.and_then(|request| request.message) else {
            panic!("round {round}: a heartbeat is due")
        };
        clogged.seq += 1;
        let ack = escapement_wire::worker::v1::HeartbeatAck {
            n: heartbeat.n,
            peers: Vec::new(),
        };
        let response = SessionResponse {
            seq: clogged.seq,
            message: Some(Response::HeartbeatAck(ack)),
        };
        clogged
            .session
            .handle_message(now_ms, response, &mut clogged.worker_state);
        let next = clogged
            .session
            .poll_transmit(now_ms, &mut clogged.worker_state)
            .unwrap();
        let Some(Request::Outcomes(outcomes)) = next.message else {
            panic!("round {round}: an outcome waits")
        };
        assert_eq!(outcomes.items.len(), 1);
        n_outcomes += 1;
    }
    assert_eq!(n_outcomes, 40);
}

impl Clogged {
    /// Hears all that comes before the first outcome, and that.
    fn hear_until_outcomes(&mut self) {
        while let Some(request) = self.session.poll_transmit(0, &mut self.worker_state) {
            if matches!(request.message, Some(Request::Outcomes(_))) {
                return;
            }
        }
        panic!("an outcome waits");
    }
}
