//! Numbers, heartbeats, leases, reconnects.

use super::spoken::heartbeat_ack;
use super::story::{HEARTBEAT_MS, LEASE_MS, MARGIN_MS, Story, is_released, token, token_bytes};
use crate::WorkerError;
use crate::session::TaskEnd;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{Reconnect, SessionError, SessionResponse, Welcome, session_error};

#[test]
fn a_gap_or_a_repeat_in_the_numbers_ends_the_stream() {
    for wrong in [0, 1, 3] {
        let mut story = Story::welcomed();
        // The heartbeat that follows Welcome has been acknowledged with number 2; 3 would be right.
        let seq = if wrong == 3 { 4 } else { wrong };
        story.say_raw(SessionResponse { seq, message: None });
        assert_eq!(story.disconnects.len(), 1, "number {seq}");
        assert!(
            story.disconnects[0].contains("in place of 3"),
            "{:?}",
            story.disconnects
        );
    }
}

#[test]
fn an_unknown_message_is_ignored_and_counted() {
    let mut story = Story::welcomed();
    let seq = story.next_seq();
    story.say_raw(SessionResponse { seq, message: None });
    assert!(story.disconnects.is_empty());
    assert_eq!(story.session.ignored_messages(), 1);
}

#[test]
fn work_before_welcome_a_second_welcome_and_a_foreign_acknowledgement_end_the_stream() {
    let mut early = Story::begin();
    early.assign(1, "work", 5_000);
    assert!(early.started.is_empty() && early.disconnects.len() == 1);

    let mut twice = Story::welcomed();
    twice.welcome();
    assert_eq!(twice.disconnects.len(), 1);

    let mut foreign = Story::welcomed();
    foreign.say(heartbeat_ack(99, &[]));
    assert_eq!(foreign.disconnects.len(), 1);
}

#[test]
fn heartbeats_go_out_every_interval_with_count_and_hash() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.assign(3, "work", 500_000);
    story.heard();
    story.pass(4 * HEARTBEAT_MS);
    let heartbeats = story.heard();
    assert_eq!(heartbeats.len(), 4);
    for (index, request) in heartbeats.iter().enumerate() {
        let Request::Heartbeat(heartbeat) = request else {
            panic!("{request:?}")
        };
        assert_eq!(heartbeat.n, index as u64 + 2);
        assert_eq!(
            (heartbeat.in_flight, &heartbeat.in_flight_hash[..]),
            (2, &[1 ^ 3; 16][..])
        );
    }
}

#[test]
fn the_lease_counts_from_the_sending_of_the_acknowledged_heartbeat() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.acknowledges_heartbeats = false;
    story.pass(HEARTBEAT_MS);
    // Heartbeat 2 was sent at 3 s; its acknowledgement takes 5 s.
    story.pass(5_000);
    story.say(heartbeat_ack(2, &[]));
    story.pass(HEARTBEAT_MS + LEASE_MS - story.now_ms - 1);
    assert!(story.cancelled.is_empty());
    story.pass(1);
    assert_eq!(story.cancelled, [token(1)]);
}

#[test]
fn an_expired_lease_stops_everything_before_the_orchestrator_gives_up() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.assign(2, "wait", 500_000);
    story.acknowledges_heartbeats = false;
    // The orchestrator received the last acknowledged heartbeat at 0, at the earliest.
    story.pass(LEASE_MS + MARGIN_MS - 1);
    assert_eq!(story.cancelled, [token(1), token(2)]);
    let aborted: Vec<_> = story.aborted.iter().map(|(token, _)| *token).collect();
    assert_eq!(aborted, [token(1), token(2)]);
    assert_eq!(story.disconnects.len(), 1);
}

#[test]
fn an_expired_lease_is_reported_as_released_after_the_reconnect() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.disconnect();
    story.acknowledges_heartbeats = false;
    story.pass(LEASE_MS);
    assert_eq!(story.cancelled, [token(1)]);
    // It returns a result nevertheless, which is worth nothing now.
    story.body_succeeds(1);
    story.heard();
    story.disconnect();
    story.pass(10_000);
    story.acknowledges_heartbeats = true;
    story.welcome();
    let outcomes = story.heard_outcomes();
    assert!(
        outcomes.len() == 1 && is_released(&outcomes[0], 1),
        "{outcomes:?}"
    );
}

#[test]
fn a_reconnect_within_the_lease_keeps_everything() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.disconnect();
    story.pass(4_000);
    story.welcome();
    story.pass(60_000);
    assert!(story.cancelled.is_empty() && story.aborted.is_empty());
    story.heard();
    story.body_succeeds(1);
    assert_eq!(story.heard_outcomes().len(), 1);
}

#[test]
fn after_a_pause_nothing_is_done_in_expired_time() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.heard();
    // The process was stopped for 30 s; its timers come late, a message and the end of the handler task come first.
    story.now_ms += 30_000;
    story.assign(2, "work", 500_000);
    assert_eq!(story.started.len(), 1);
    story.body_succeeds(1);
    story.pass(100);
    story.welcome();
    let outcomes = story.heard_outcomes();
    assert!(
        outcomes.len() == 1 && is_released(&outcomes[0], 1),
        "{outcomes:?}"
    );
}

#[test]
fn a_new_boot_stops_everything_from_before() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.assign(2, "work", 500_000);
    story.body_succeeds(2);
    story.disconnect();
    story.pass(200);
    story.boot = 2;
    story.heard();
    story.welcome();
    assert_eq!(story.cancelled, [token(1)]);
    let outcomes = story.heard_outcomes();
    assert_eq!(
        outcomes.len(),
        1,
        "a recorded outcome is forgotten on an answer only: {outcomes:?}"
    );
    story.body_ends(1, TaskEnd::Aborted);
    assert_eq!(story.heard_acks().stopped, [token_bytes(1)]);
}

#[test]
fn a_greeting_without_an_answer_is_given_up_and_tried_again() {
    let mut story = Story::begin();
    story.pass(60_000);
    assert!(story.connects >= 6, "{}", story.connects);
    assert!(
        story
            .disconnects
            .iter()
            .all(|reason| reason.contains("did not answer Hello"))
    );
}

#[test]
fn a_welcome_for_another_revision_ends_the_stream() {
    let mut story = Story::begin();
    let welcome = Welcome {
        protocol: 2,
        ..story.welcome_message()
    };
    story.say(Response::Welcome(welcome));
    assert_eq!(story.disconnects.len(), 1);
}

#[test]
fn superseded_ends_the_worker_and_unavailable_only_the_stream() {
    let error = |code: session_error::Code| {
        Response::SessionError(SessionError {
            code: code.into(),
            detail: "told".to_owned(),
            retry_after_ms: 3_000,
            ..SessionError::default()
        })
    };
    let mut story = Story::welcomed();
    story.say(error(session_error::Code::Unavailable));
    assert!(story.end.is_none() && story.disconnects.len() == 1);
    story.pass(2_999);
    assert_eq!(story.connects, 1, "not before retry_after");
    story.pass(200);
    assert_eq!(story.connects, 2);
    story.say(error(session_error::Code::Superseded));
    assert!(matches!(story.end, Some(Err(WorkerError::Superseded))));
}

#[test]
fn an_asked_reconnect_finishes_first_and_then_leaves_with_goodbye() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    let reconnect = Reconnect {
        reason: "deploy".to_owned(),
        jitter_ms: 0,
        deadline_ms: 2_000,
    };
    story.say(Response::Reconnect(reconnect));
    story.pass(3_000);
    story.body_succeeds(1);
    story.heard();
    story.acknowledge(1);
    assert!(matches!(story.heard_work()[..], [Request::Goodbye(_)]));
    story.disconnect();
    story.pass(0);
    assert_eq!(story.connects, 2);
    assert!(story.end.is_none());
}

#[test]
fn every_hello_has_a_number_of_its_own() {
    let mut story = Story::begin();
    for number in 1..=4 {
        assert_eq!(story.heard_hello().hello_number, number);
        story.disconnect();
        story.pass(5_000);
    }
}

fn reconnect(deadline_ms: i64) -> Response {
    Response::Reconnect(Reconnect {
        reason: "deploy".to_owned(),
        jitter_ms: 1_000,
        deadline_ms,
    })
}

#[test]
fn work_is_taken_until_the_deadline_of_a_reconnect_and_rejected_as_draining_from_then_on() {
    let mut story = Story::welcomed();
    story.say(reconnect(2_000));
    story.pass(1_999);
    story.assign(1, "work", 500_000);
    assert_eq!(story.heard_acks().started, [token_bytes(1)]);
    story.pass(1);
    story.assign(2, "work", 500_000);
    assert_eq!(story.heard_acks().rejected[0].reason(), Reason::Draining);
    story.body_succeeds(1);
    assert_eq!(story.heard_outcomes().len(), 1, "what it has is finished");
    story.acknowledge(1);
    assert!(matches!(story.heard_work()[..], [Request::Goodbye(_)]));
    story.disconnect();
    story.pass(1_000);
    assert_eq!(story.connects, 2, "within the jitter");
    story.welcome();
    story.assign(3, "work", 500_000);
    assert_eq!(story.heard_acks().started, [token_bytes(3)]);
}

#[test]
fn an_assignment_that_crosses_a_goodbye_is_answered_before_it() {
    let mut story = Story::welcomed();
    story.heard();
    story.say(reconnect(0));
    assert!(matches!(story.heard_work()[..], [Request::Goodbye(_)]));
    story.assign(1, "work", 500_000);
    assert!(story.started.is_empty() && story.heard().is_empty());
}

#[test]
fn a_later_reconnect_counts_only_where_it_is_sooner() {
    for (first_ms, second_ms, expected_ms) in [(2_000, 9_000, 2_000), (9_000, 2_000, 2_000)] {
        let mut story = Story::welcomed();
        story.say(reconnect(first_ms));
        story.say(reconnect(second_ms));
        story.pass(expected_ms - 1);
        assert!(!story.requests_ended);
        story.pass(1);
        assert!(story.requests_ended, "{first_ms} then {second_ms}");
    }
}

#[test]
fn limits_that_make_no_sense_do_no_harm() {
    use escapement_wire::worker::v1::SessionLimits;
    for absurd in [i64::MIN, -1, 0, 1, i64::MAX] {
        let mut story = Story::begin();
        let limits = SessionLimits {
            message_bytes_max: absurd,
            output_bytes_max: absurd,
            in_flight_max: u32::MAX,
            actions_max: u32::MAX,
        };
        let welcome = Welcome {
            heartbeat_interval_ms: absurd,
            limits: Some(limits),
            ..story.welcome_message()
        };
        story.say(Response::Welcome(welcome));
        story.say(reconnect(absurd.max(1)));
        story.assign(1, "work", absurd);
        story.pass(LEASE_MS);
        assert!(
            story.disconnects.is_empty(),
            "{absurd}: the lease is kept: {:?}",
            story.disconnects
        );
        story.heard();
        story.cancel(1, absurd);
        story.pass(100);
        story.body_ends(1, TaskEnd::Aborted);
        assert_eq!(story.heard_acks().stopped, [token_bytes(1)], "{absurd}");
    }
}

#[test]
fn a_lease_without_end_and_one_of_nothing_do_no_harm() {
    for lease_ms in [1, i64::MAX] {
        let mut story = Story::begin();
        let welcome = Welcome {
            lease_ms,
            ..story.welcome_message()
        };
        story.say(Response::Welcome(welcome));
        story.pass(60_000);
        assert!(story.connects < 200, "{} connects", story.connects);
    }
}
