//! Drain, from the signal to the end.

use super::spoken::drain_started;
use super::story::{DRAIN_GRACE_MS, Story, is_released, token, token_bytes};
use crate::session::TaskEnd;
use crate::{SessionEvent, WorkerError};
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message as Request;

#[test]
fn a_drain_goes_drain_outcomes_goodbye_and_heartbeats_stop_last() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.heard();
    story.stop();
    assert!(matches!(story.heard()[..], [Request::Drain(_)]));
    story.assign(2, "work", 500_000);
    let acks = story.heard_acks();
    assert_eq!(acks.rejected[0].reason(), Reason::Draining);
    story.say(drain_started());
    story.pass(9_000);
    let heard = story.heard();
    assert!(
        !heard.is_empty()
            && heard
                .iter()
                .all(|request| matches!(request, Request::Heartbeat(_)))
    );
    story.body_succeeds(1);
    assert!(
        matches!(story.heard_work()[..], [Request::Outcomes(_)]),
        "no goodbye before the acknowledgement"
    );
    story.pass(3_000);
    assert!(matches!(story.heard()[..], [Request::Heartbeat(_)]));
    story.acknowledge(1);
    assert!(matches!(story.heard()[..], [Request::Goodbye(_)]));
    assert!(story.requests_ended && story.end.is_none());
    story.disconnect();
    assert!(matches!(story.end, Some(Ok(()))), "{:?}", story.end);
}

#[test]
fn goodbye_waits_for_drain_started() {
    let mut story = Story::welcomed();
    story.heard();
    story.stop();
    story.pass(2_000);
    assert!(matches!(story.heard()[..], [Request::Drain(_)]));
    story.say(drain_started());
    assert!(matches!(story.heard()[..], [Request::Goodbye(_)]));
    // The orchestrator does not end the stream: the worker does.
    story.pass(1_000);
    assert!(matches!(story.end, Some(Ok(()))));
}

#[test]
fn what_outlasts_the_grace_is_stopped_and_released() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.stop();
    story.say(drain_started());
    story.pass(DRAIN_GRACE_MS - 1);
    assert!(story.cancelled.is_empty());
    story.pass(1);
    assert_eq!(story.cancelled, [token(1)]);
    story.heard();
    story.body_ends(1, TaskEnd::Aborted);
    let outcomes = story.heard_outcomes();
    assert!(is_released(&outcomes[0], 1), "{outcomes:?}");
    story.acknowledge(1);
    assert!(matches!(story.heard()[..], [Request::Goodbye(_)]));
}

#[test]
fn a_body_that_cannot_be_stopped_is_left_behind() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.stop();
    story.say(drain_started());
    story.pass(DRAIN_GRACE_MS + 500);
    assert_eq!(story.aborted.len(), 1);
    story.pass(500);
    let outcomes = story.heard_outcomes();
    assert!(
        outcomes.len() == 1 && is_released(&outcomes[0], 1),
        "{outcomes:?}"
    );
    story.acknowledge(1);
    story.body_succeeds(1);
    assert!(story.heard_outcomes().is_empty());
    story.disconnect();
    assert!(matches!(story.end, Some(Ok(()))));
}

#[test]
fn an_unacknowledged_outcome_ends_the_drain_with_an_error_in_the_end() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.body_succeeds(1);
    story.stop();
    story.say(drain_started());
    story.pass(DRAIN_GRACE_MS + 5_999);
    assert!(story.end.is_none());
    story.pass(1);
    assert!(
        matches!(
            story.end,
            Some(Err(WorkerError::DrainIncomplete { unsettled: 1 }))
        ),
        "{:?}",
        story.end
    );
}

#[test]
fn a_drain_survives_a_reconnect() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.stop();
    story.disconnect();
    story.pass(200);
    let hello = story.heard_hello();
    assert_eq!((hello.max_in_flight, hello.in_flight.len()), (0, 1));
    story.welcome();
    assert!(
        story
            .heard_work()
            .iter()
            .any(|request| matches!(request, Request::Drain(_)))
    );
    story.say(drain_started());
    story.body_succeeds(1);
    assert_eq!(story.heard_outcomes()[0].attempt_token, token_bytes(1));
    story.acknowledge(1);
    assert!(matches!(story.heard()[..], [Request::Goodbye(_)]));
}

#[test]
fn a_worker_with_nothing_in_flight_and_no_session_ends_at_once() {
    let mut story = Story::begin();
    story.disconnect();
    story.stop();
    assert!(matches!(story.end, Some(Ok(()))));
}

#[test]
fn an_operators_drain_is_told_and_ends_nothing() {
    let mut story = Story::welcomed();
    story.assign(1, "work", 500_000);
    story.heard();
    story.say(drain_started());
    story.say(drain_started());
    assert!(
        matches!(&story.events[..], [SessionEvent::Drained { orchestrator }] if orchestrator == "http://story"),
        "{:?}",
        story.events
    );
    story.pass(60_000);
    assert!(story.disconnects.is_empty() && story.end.is_none());
    story.body_succeeds(1);
    story.acknowledge(1);
    assert!(
        !story
            .heard()
            .iter()
            .any(|request| matches!(request, Request::Goodbye(_))),
        "it stays until it is asked to stop"
    );
    story.stop();
    assert!(matches!(
        story.heard()[..],
        [Request::Drain(_), Request::Goodbye(_)]
    ));
}
