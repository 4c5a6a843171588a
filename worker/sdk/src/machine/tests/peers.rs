//! Several orchestrators.

use super::stage::{DRAIN_GRACE, Stage, bytes, token};
use crate::machine::OrchestratorId;
use crate::session::TaskEnd;
use crate::session::tests::spoken::{drain_started, heartbeat_ack};
use crate::{SessionEvent, WorkerError};
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;

const A: OrchestratorId = OrchestratorId::CONFIGURED;

/// Returns a worker with a session with `a` and one with its peer `b`.
fn with_a_peer() -> (Stage, OrchestratorId) {
    let mut stage = Stage::begin();
    stage.welcome(A, 1, &["http://b:1"]);
    let b = stage.id("http://b:1");
    stage.welcome(b, 2, &["http://a:1"]);
    stage.heard(A);
    (stage, b)
}

#[test]
fn every_peer_gets_a_session_of_the_same_instance_and_hellos_are_numbered_over_all() {
    let mut stage = Stage::begin();
    let first = stage.heard_hello(A);
    let peers = [
        "http://b:1",
        "http://A:1/",
        "http://c:1/",
        "https://d:1",
        "",
        "http://b:1",
    ];
    stage.welcome(A, 1, &peers);
    assert_eq!(
        stage.machine.orchestrators().count(),
        3,
        "not its own address, and no other scheme"
    );
    let (b, c) = (stage.id("http://b:1"), stage.id("http://c:1"));
    let (second, third) = (stage.heard_hello(b), stage.heard_hello(c));
    assert_eq!(
        (second.instance_id, third.instance_id),
        (first.instance_id.clone(), first.instance_id)
    );
    assert_eq!(
        (first.hello_number, second.hello_number, third.hello_number),
        (1, 2, 3)
    );
}

#[test]
fn all_sessions_share_one_capacity_and_each_gets_its_own_outcomes() {
    let (mut stage, b) = with_a_peer();
    stage.assign(A, 1);
    stage.assign(b, 2);
    stage.heard(A);
    stage.assign(b, 3);
    assert_eq!(stage.heard_acks(b).rejected[0].reason(), Reason::NoCapacity);
    assert_eq!(stage.machine.tasks(), 2);
    stage.body_succeeds(1);
    assert!(
        matches!(&stage.heard(A)[..], [Request::Outcomes(outcomes)] if outcomes.items[0].attempt_token == bytes(1))
    );
    stage.assign(b, 4);
    assert_eq!(stage.heard_acks(b).started, [bytes(4)]);
    stage.body_succeeds(2);
    assert!(
        matches!(&stage.heard(b)[..], [Request::Outcomes(outcomes)] if outcomes.items[0].attempt_token == bytes(2))
    );
    assert!(stage.heard(A).is_empty());
}

#[test]
fn a_token_that_another_orchestrator_uses_is_refused() {
    let (mut stage, b) = with_a_peer();
    stage.assign(A, 1);
    stage.heard(b);
    stage.assign(b, 1);
    assert_eq!(stage.heard_acks(b).rejected[0].attempt_token, bytes(1));
    assert_eq!(stage.started.len(), 1);
}

#[test]
fn a_level_that_changes_is_told_to_all() {
    let (mut stage, b) = with_a_peer();
    stage.heard(b);
    stage.machine.set_capacity(1);
    stage.machine.set_actions_enabled(&["work"], false);
    stage.pass(0);
    for id in [A, b] {
        let heard = stage.heard(id);
        assert!(
            matches!(&heard[..], [Request::RegisterActions(_), Request::Capacity(_)]),
            "{heard:?}"
        );
    }
}

#[test]
fn a_session_that_breaks_leaves_the_others_alone() {
    let (mut stage, b) = with_a_peer();
    stage.assign(A, 1);
    stage.assign(b, 2);
    stage.disconnect(b);
    stage.pass(20_000);
    assert_eq!(
        stage.cancelled,
        [token(2)],
        "the lease of b ran out, that of a did not"
    );
    assert!(stage.is_open(A) && stage.is_open(b));
    stage.heard(A);
    stage.disconnect(A);
    stage.pass(200);
    let hello = stage.heard_hello(A);
    assert_eq!(hello.in_flight.len(), 1, "what b gave is no business of a");
    assert_eq!(hello.in_flight[0].attempt_token, bytes(1));
}

#[test]
fn a_peer_that_vanishes_from_the_list_is_left_by_drain() {
    let (mut stage, b) = with_a_peer();
    stage.assign(b, 1);
    stage.heard(b);
    stage.say(A, peers_are(&[]));
    assert!(
        stage.heard(b).is_empty(),
        "an empty list says that nothing changed"
    );
    stage.say(A, peers_are(&["http://c:1"]));
    assert!(stage.find("http://c:1").is_some());
    assert!(matches!(stage.heard(b)[..], [Request::Drain(_)]));
    stage.assign(b, 2);
    assert_eq!(stage.heard_acks(b).rejected[0].reason(), Reason::Draining);
    stage.assign(A, 3);
    assert_eq!(stage.heard_acks(A).started, [bytes(3)]);
    stage.say(b, drain_started());
    stage.body_succeeds(1);
    stage.acknowledge(b, 1);
    assert!(matches!(
        stage.heard(b)[..],
        [Request::Outcomes(_), Request::Goodbye(_)]
    ));
    stage.disconnect(b);
    assert!(stage.find("http://b:1").is_none() && stage.end.is_none());
    // It comes back.
    stage.say(A, peers_are(&["http://b:1"]));
    let again = stage.id("http://b:1");
    assert!(again != b && stage.heard_hello(again).hello_number > 2);
}

fn peers_are(peers: &[&str]) -> Response {
    heartbeat_ack(1, peers)
}

#[test]
fn a_peer_that_is_left_is_not_hurried_but_the_end_of_the_worker_hurries_it() {
    let (mut stage, b) = with_a_peer();
    stage.assign(b, 1);
    stage.say(A, peers_are(&["http://a:1"]));
    stage.say(b, drain_started());
    stage.pass(10 * u64::try_from(DRAIN_GRACE.as_millis()).unwrap());
    assert!(stage.cancelled.is_empty());
    stage.stop();
    stage.pass(u64::try_from(DRAIN_GRACE.as_millis()).unwrap());
    assert_eq!(stage.cancelled, [token(1)]);
}

#[test]
fn a_peer_that_comes_back_while_it_is_left_is_joined_again_with_all_that_it_gave() {
    let (mut stage, b) = with_a_peer();
    stage.assign(b, 1);
    stage.say(A, peers_are(&["http://a:1"]));
    stage.say(b, drain_started());
    stage.heard(b);
    stage.say(A, peers_are(&["http://b:1"]));
    assert_eq!(stage.id("http://b:1"), b);
    stage.pass(1_000);
    let hello = stage.heard_hello(b);
    assert_eq!((hello.max_in_flight, hello.in_flight.len()), (2, 1));
    stage.welcome(b, 2, &[]);
    stage.assign(b, 2);
    assert_eq!(stage.heard_acks(b).started, [bytes(2)]);
    assert!(stage.cancelled.is_empty());
}

#[test]
fn a_peer_that_names_nobody_is_no_reason_to_leave_anybody() {
    let mut stage = Stage::begin();
    stage.welcome(A, 1, &["http://b:1", "http://c:1"]);
    let b = stage.id("http://b:1");
    stage.welcome(b, 2, &[]);
    assert_eq!(stage.machine.orchestrators().count(), 3);
}

#[test]
fn a_peer_that_refuses_the_worker_is_asked_again_later_and_its_bodies_end() {
    for code in [Code::Superseded, Code::Unauthorized, Code::UnsupportedProtocol] {
        let (mut stage, b) = with_a_peer();
        stage.assign(A, 1);
        stage.assign(b, 2);
        stage.refuse(b, code);
        assert!(
            stage.end.is_none() && stage.is_open(A) && !stage.is_open(b),
            "{code:?}"
        );
        assert_eq!(
            (&stage.cancelled[..], &stage.aborted[..]),
            (&[token(2)][..], &[token(2)][..])
        );
        stage.body_succeeds(2);
        assert_eq!(stage.machine.tasks(), 1);
        stage.pass(59_000);
        let again = stage.id("http://b:1");
        assert!(!stage.machine.wants_to_transmit(again));
        stage.pass(1_000);
        assert!(stage.is_open(again));
    }
}

#[test]
fn other_credentials_begin_another_instance_at_that_orchestrator() {
    let (mut stage, b) = with_a_peer();
    stage.assign(A, 1);
    stage.assign(b, 2);
    stage.heard(A);
    stage.refuse_as_another(A);
    assert!(stage.end.is_none());
    assert_eq!(stage.cancelled, [token(1)], "what the peer gave goes on");
    stage.pass(1_000);
    let hello = stage.heard_hello(A);
    assert_eq!(hello.instance_id.len(), 16);
    assert_ne!(hello.instance_id[..], [7; 16]);
    assert!(hello.previous_session_id.is_empty() && hello.boot_id_seen.is_empty());
    assert_eq!(hello.in_flight.len(), 1, "it has not ended yet");

    // Again, with others: the instance is one that was never used.
    stage.refuse_as_another(A);
    stage.pass(1_000);
    let again = stage.heard_hello(A).instance_id;
    assert!(again != hello.instance_id && again[..] != [7; 16]);
    stage.welcome(A, 1, &["http://b:1"]);
    stage.task_ends(1, TaskEnd::Aborted);
    assert!(
        matches!(stage.heard(A)[..], [Request::AttemptAcks(_)]),
        "it says that it stopped"
    );
    stage.assign(A, 3);
    assert_eq!(stage.started.last().unwrap().token, token(3));
}

#[test]
fn the_configured_orchestrator_ends_the_worker_for_good_once_its_peers_are_drained() {
    let (mut stage, b) = with_a_peer();
    stage.assign(A, 1);
    stage.assign(b, 2);
    stage.heard(b);
    stage.refuse(A, Code::Unauthorized);
    assert_eq!(stage.cancelled, [token(1)]);
    assert!(matches!(stage.heard(b)[..], [Request::Drain(_)]));
    assert!(stage.end.is_none());
    stage.say(b, drain_started());
    stage.body_succeeds(2);
    stage.acknowledge(b, 2);
    stage.disconnect(b);
    assert!(
        matches!(stage.end, Some(Err(WorkerError::Refused(_)))),
        "{:?}",
        stage.end
    );
}

#[test]
fn a_stop_drains_all_and_ends_with_the_last() {
    let (mut stage, b) = with_a_peer();
    stage.assign(b, 1);
    stage.stop();
    stage.say(A, drain_started());
    stage.disconnect(A);
    assert!(stage.end.is_none());
    stage.say(b, drain_started());
    stage.body_succeeds(1);
    stage.acknowledge(b, 1);
    stage.disconnect(b);
    assert!(matches!(stage.end, Some(Ok(()))), "{:?}", stage.end);
}

#[test]
fn what_no_orchestrator_acknowledges_is_counted_over_all() {
    let (mut stage, b) = with_a_peer();
    stage.assign(A, 1);
    stage.assign(b, 2);
    stage.stop();
    stage.disconnect(A);
    stage.disconnect(b);
    stage.pass(60_000);
    let end = stage.end.take();
    assert!(
        matches!(end, Some(Err(WorkerError::DrainIncomplete { unsettled: 2 }))),
        "{end:?}"
    );
}

/// Two names for one process: its second session supersedes the first, whichever the worker hears of first.
#[test]
fn a_peer_that_is_the_configured_orchestrator_itself_is_given_up() {
    for superseded_first in [true, false] {
        let mut stage = Stage::begin();
        let peers = ["http://alias:1", "http://b:1"];
        stage.welcome(A, 1, &peers);
        let alias = stage.id("http://alias:1");
        if superseded_first {
            stage.refuse(A, Code::Superseded);
            stage.welcome(alias, 1, &peers);
        } else {
            stage.welcome(alias, 1, &peers);
            stage.refuse(A, Code::Superseded);
        }
        stage.pass(1_000);
        assert!(stage.end.is_none(), "{:?}", stage.end);
        assert!(stage.find("http://alias:1").is_none() && stage.is_open(A));
        stage.welcome(A, 1, &peers);
        assert!(stage.find("http://alias:1").is_none() && stage.find("http://b:1").is_some());
    }
}

#[test]
fn superseded_by_another_process_still_ends_a_worker_with_peers() {
    let (mut stage, b) = with_a_peer();
    stage.refuse(A, Code::Superseded);
    stage.say(b, drain_started());
    stage.disconnect(b);
    assert!(
        matches!(stage.end, Some(Err(WorkerError::Superseded))),
        "{:?}",
        stage.end
    );
}

#[test]
fn every_event_says_whom_it_is_about() {
    let (mut stage, b) = with_a_peer();
    stage.say(b, drain_started());
    stage.disconnect(b);
    let names: Vec<_> = stage
        .events
        .iter()
        .map(|event| match event {
            SessionEvent::Connected { orchestrator, .. } => format!("+{orchestrator}"),
            SessionEvent::Disconnected { orchestrator, .. } => format!("-{orchestrator}"),
            SessionEvent::Drained { orchestrator } => format!("={orchestrator}"),
            SessionEvent::Stuck { .. } => "stuck".to_owned(),
        })
        .collect();
    assert_eq!(
        names,
        ["+http://a:1", "+http://b:1", "=http://b:1", "-http://b:1"]
    );
}
