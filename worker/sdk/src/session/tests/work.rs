//! Assignments, outcomes and cancels.

use super::spoken::{snapshot_request, success_with};
use super::story::{Story, token, token_bytes};
use crate::session::TaskEnd;
use crate::{Opaque, StepError};
use bytes::Bytes;
use escapement_model::limits::OUTPUT_BYTES_MAX;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{AttemptVerdict, SessionLimits, attempt_verdict};
use serde_json::json;

#[test]
fn hello_goes_first_and_registers_without_anything_in_flight() {
    let mut story = Story::begin();
    let hello = story.heard_hello();
    assert_eq!(
        (hello.protocol_min, hello.protocol_max, hello.max_in_flight),
        (1, 1, 2)
    );
    assert!(hello.in_flight.is_empty() && hello.previous_session_id.is_empty());
}

#[test]
fn an_assignment_is_started_ends_is_acknowledged_and_forgotten() {
    let mut story = Story::welcomed();
    story.heard();
    story.assign(1, "work", 5_000);
    assert_eq!(story.heard_acks().started, [token_bytes(1)]);
    assert_eq!(story.started.len(), 1);
    story.pass(40);
    story.body_succeeds(1);
    let outcomes = story.heard_outcomes();
    assert!(
        matches!(outcomes[0].outcome, Some(Outcome::Success(_))),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[0].run_time_ms, 40);
    assert_eq!(story.session.attempts.len(), 1, "kept until it is acknowledged");
    story.acknowledge(1);
    assert_eq!(story.session.attempts.len(), 0);
    assert_eq!(story.session.attempts.hash(), [0; 16]);
}

#[test]
fn an_outcome_is_sent_again_unchanged_after_a_reconnect_until_it_is_acknowledged() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.pass(7);
    story.body_fails(1, StepError::new("BUSY", "later").context(json!({"queue": 3})));
    let first = story.heard_outcomes();
    for _ in 0..3 {
        story.disconnect();
        story.pass(200);
        let hello = story.heard_hello();
        assert_eq!(hello.in_flight[0].phase(), Phase::Finished);
        assert_eq!(hello.boot_id_seen, Bytes::from(vec![1; 16]));
        story.welcome();
        assert_eq!(story.heard_outcomes(), first);
    }
    story.acknowledge(1);
    story.disconnect();
    story.pass(200);
    assert!(story.heard_hello().in_flight.is_empty());
}

#[test]
fn an_outcome_that_arises_between_hello_and_welcome_is_sent_after_welcome() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.disconnect();
    story.pass(200);
    assert_eq!(story.heard_hello().in_flight[0].phase(), Phase::Running);
    story.body_succeeds(1);
    assert!(story.heard().is_empty(), "nothing is sent before Welcome");
    story.welcome();
    assert_eq!(story.heard_outcomes().len(), 1);
}

#[test]
fn what_has_no_room_is_rejected_and_what_waits_has_room_of_its_own() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.assign(2, "single", 5_000);
    story.heard();
    story.assign(3, "work", 5_000);
    story.assign(4, "wait", 5_000);
    story.assign(5, "missing", 5_000);
    let acks = story.heard_acks();
    let reasons: Vec<_> = acks
        .rejected
        .iter()
        .map(|item| (item.attempt_token[0], item.reason()))
        .collect();
    assert_eq!(reasons, [(3, Reason::NoCapacity), (5, Reason::UnknownAction)]);
    assert_eq!(acks.started, [token_bytes(4)]);
    story.body_succeeds(1);
    story.assign(6, "single", 5_000);
    assert_eq!(
        story.heard_acks().rejected[0].reason(),
        Reason::NoCapacity,
        "one of `single` at a time"
    );
    story.assign(7, "work", 5_000);
    assert_eq!(story.heard_acks().started, [token_bytes(7)]);
}

#[test]
fn a_step_that_this_worker_may_not_do_is_said_to_be_for_another() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.body_fails(1, StepError::new("NOT_ALLOWED", "not here").not_here());
    story.assign(2, "work", 5_000);
    story.body_fails(2, StepError::new("BUSY", "later"));
    let outcomes = story.heard_outcomes();
    let not_here = outcomes.iter().map(|item| match &item.outcome {
        Some(Outcome::Failure(failure)) => (failure.code.as_str(), failure.not_here),
        other => panic!("it fails, not {other:?}"),
    });
    assert_eq!(
        not_here.collect::<Vec<_>>(),
        [("NOT_ALLOWED", true), ("BUSY", false)]
    );
}

#[test]
fn the_same_assignment_twice_starts_one_body() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.assign(1, "work", 5_000);
    assert_eq!(story.started.len(), 1);
}

#[test]
fn a_cancelled_attempt_is_answered_stopped_when_its_body_has_ended_and_not_before() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.heard();
    story.cancel(1, 300);
    assert_eq!(story.cancelled, [token(1)]);
    story.pass(299);
    assert!(story.aborted.is_empty() && story.heard_acks().stopped.is_empty());
    story.pass(1);
    assert_eq!(story.aborted, [(token(1), 300)]);
    story.body_ends(1, TaskEnd::Aborted);
    assert_eq!(story.heard_acks().stopped, [token_bytes(1)]);
    assert_eq!(story.session.attempts.len(), 0);
}

#[test]
fn a_success_after_the_cancel_is_not_reported() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.cancel(1, 300);
    story.heard();
    story.body_succeeds(1);
    let heard = story.heard_work();
    assert!(
        matches!(&heard[..], [Request::AttemptAcks(acks)] if acks.stopped.len() == 1),
        "{heard:?}"
    );
}

#[test]
fn a_cancel_after_the_outcome_changes_nothing_and_one_of_an_unknown_attempt_is_answered() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.body_succeeds(1);
    story.heard();
    story.cancel(1, 300);
    assert!(story.heard_work().is_empty(), "the outcome is the answer");
    assert_eq!(story.session.attempts.len(), 1);
    story.cancel(9, 300);
    assert_eq!(story.heard_acks().stopped, [token_bytes(9)]);
}

#[test]
fn nothing_is_reported_as_success_at_or_after_the_deadline() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 1_000);
    story.heard();
    story.now_ms = 1_000;
    // The handler task and the timer are due in the same instant: the limit wins.
    story.body_succeeds(1);
    assert!(story.heard_work().is_empty());
    assert_eq!(
        story.session.attempts.len(),
        1,
        "its slot waits for the orchestrator's cancel"
    );
    story.cancel(1, 0);
    assert_eq!(story.heard_acks().stopped, [token_bytes(1)]);
}

#[test]
fn a_body_is_cancelled_at_its_deadline_and_aborted_shortly_afterwards() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 1_000);
    story.pass(999);
    assert!(story.cancelled.is_empty());
    story.pass(1);
    assert_eq!(story.cancelled, [token(1)]);
    story.pass(10_000);
    assert_eq!(story.aborted, [(token(1), 1_500)]);
}

#[test]
fn an_output_of_the_limit_passes_and_one_byte_more_is_resource_exhausted() {
    let mut story = Story::welcomed();
    for (name, bytes, passes) in [(1, OUTPUT_BYTES_MAX, true), (2, OUTPUT_BYTES_MAX + 1, false)] {
        story.assign(name, "work", 5_000);
        let output = Opaque::from_encoded(Bytes::from(vec![0; bytes]));
        story.body_ends(name, success_with(output));
        let outcomes = story.heard_outcomes();
        match outcomes[0].outcome.as_ref().unwrap() {
            Outcome::Success(_) => assert!(passes),
            Outcome::Failure(failure) => {
                assert!(!passes && failure.code == "RESOURCE_EXHAUSTED", "{failure:?}");
            }
            Outcome::Released(_) => panic!("nothing was released"),
        }
    }
}

#[test]
fn outcomes_are_split_over_messages_that_keep_the_limit() {
    use prost::Message;
    let mut story = Story::begin();
    let limits = SessionLimits {
        message_bytes_max: 2_000,
        ..SessionLimits::default()
    };
    let welcome = escapement_wire::worker::v1::Welcome {
        limits: Some(limits),
        ..story.welcome_message()
    };
    story.say(Response::Welcome(welcome.clone()));
    for name in 1..=3 {
        story.assign(name, "wait", 5_000);
    }
    story.disconnect();
    let output = Opaque::from_encoded(Bytes::from(vec![0; 1_200]));
    for name in 1..=3 {
        story.body_ends(name, success_with(output.clone()));
    }
    story.pass(200);
    story.heard();
    story.say(Response::Welcome(welcome));
    let mut messages = story.heard_work();
    messages.retain(|message| matches!(message, Request::Outcomes(_)));
    assert_eq!(messages.len(), 3);
    for message in messages {
        let request = escapement_wire::worker::v1::SessionRequest {
            seq: u64::MAX,
            message: Some(message),
        };
        assert!(request.encoded_len() <= 2_000, "{} bytes", request.encoded_len());
    }
}

#[test]
fn a_context_that_is_too_deep_is_dropped_and_the_message_says_so() {
    for (n_objects, kept) in [(27, true), (28, false)] {
        let mut story = Story::welcomed();
        story.assign(1, "work", 5_000);
        let context = (0..n_objects).fold(json!({}), |inner, _| json!({ "in": inner }));
        story.body_fails(1, StepError::new("BUSY", "later").context(context));
        let outcomes = story.heard_outcomes();
        let Some(Outcome::Failure(failure)) = &outcomes[0].outcome else {
            panic!("{outcomes:?}")
        };
        assert_eq!(failure.context.is_some(), kept, "{n_objects}");
        assert_eq!(
            failure.message.contains("deeper than 82"),
            !kept,
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_context_that_is_too_large_is_dropped_and_the_message_says_so() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    let error = StepError::new("BUSY", "x".repeat(2_000)).context(json!({ "dump": "y".repeat(17 << 10) }));
    story.body_fails(1, error);
    let outcomes = story.heard_outcomes();
    let Some(Outcome::Failure(failure)) = &outcomes[0].outcome else {
        panic!("{outcomes:?}")
    };
    assert!(failure.context.is_none());
    assert!(
        failure.message.ends_with("more than 16384)"),
        "{}",
        failure.message
    );
    assert_eq!(failure.message.chars().count(), 1_000);
}

#[test]
fn a_verdict_of_stop_ends_an_attempt_and_keep_leaves_it() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 50_000);
    story.assign(2, "work", 50_000);
    story.disconnect();
    story.pass(200);
    let verdict = |name, verdict: attempt_verdict::Verdict| AttemptVerdict {
        attempt_token: token_bytes(name),
        verdict: verdict.into(),
    };
    let mut welcome = story.welcome_message();
    welcome.verdicts = vec![
        verdict(1, attempt_verdict::Verdict::Keep),
        verdict(2, attempt_verdict::Verdict::Stop),
    ];
    story.say(Response::Welcome(welcome));
    assert_eq!(story.cancelled, [token(2)]);
    story.heard();
    story.body_ends(2, TaskEnd::Aborted);
    assert_eq!(story.heard_acks().stopped, [token_bytes(2)]);
}

#[test]
fn a_snapshot_lists_what_is_here_and_the_last_assignments_that_were_read() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 5_000);
    story.assign(2, "work", 5_000);
    story.body_succeeds(2);
    let last_assignment_seq = story.session.stream.welcomed_mut().unwrap().last_assignment_seq;
    story.say(snapshot_request(7));
    let snapshot = story.heard().into_iter().find_map(|request| match request {
        Request::Snapshot(snapshot) => Some(snapshot),
        _ => None,
    });
    let snapshot = snapshot.unwrap();
    assert_eq!(
        (snapshot.n, snapshot.last_assignment_seq),
        (7, last_assignment_seq)
    );
    let phases: Vec<_> = snapshot
        .in_flight
        .iter()
        .map(|item| (item.attempt_token[0], item.phase()))
        .collect();
    assert_eq!(phases, [(1, Phase::Running), (2, Phase::Finished)]);
}
