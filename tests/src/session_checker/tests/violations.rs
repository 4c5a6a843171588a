//! Each invariant is found to be violated where it is, and nowhere else.

use serde_json::json;

use super::script::{Script, id, instance, token};
use crate::session_checker::Invariant::{I1, I2, I4, I5, I6, I7, I8, I9, I10, Journal};

/// Worker 1 on session 1 and worker 2 on session 2, each with four slots.
fn two_workers() -> Script {
    let mut script = Script::new();
    script.greet(1, 1, 4).greet(2, 2, 4).at(10);
    script
}

fn running(n: u64) -> serde_json::Value {
    let token = token(n);
    json!({ token: "running" })
}

fn verdict(n: u64, verdict: &str) -> serde_json::Value {
    let token = token(n);
    json!({ token: verdict })
}

#[test]
fn missing_lines_and_lines_out_of_order_are_found() {
    let mut script = Script::new();
    script.raw(json!({"dropped": 2}));
    script.violates(Journal);
    let mut script = two_workers();
    script.heartbeat(1, 1).at(9).heartbeat(1, 2);
    script.violates(Journal);
    let mut script = Script::new();
    script.shell(7, "closed");
    script.violates(Journal);
    let mut script = two_workers();
    script.line(json!({"s": 1, "dir": "out", "seq": 3, "m": "heartbeat_ack", "n": 1}));
    script.violates(Journal);
}

#[test]
fn i1_two_live_attempts_of_a_step() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).at(20).assign(2, 2, 1, 1).at(30);
    script.violates(I1);
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).started(1, 1).at(20).assign(2, 2, 1, 2);
    script.violates(I1);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .done(1, 1, "success")
        .at(20)
        .assign(2, 1, 2, 1);
    script.violates(I1);
}

#[test]
fn i1_the_lease_of_a_broken_stream_is_not_over() {
    let broken = || {
        let mut script = two_workers();
        script.assign(1, 1, 1, 1).shell(1, "closed");
        script
    };
    let mut script = broken();
    script.at(10_000).assign(2, 2, 1, 1);
    script.violates(I1);
    let mut script = broken();
    script.at(11_000).assign(2, 2, 1, 1);
    script.is_clean();
}

#[test]
fn a_time_limit_may_pass_while_nobody_can_be_told() {
    let mut script = two_workers();
    script.at(100).assign(1, 1, 1, 1).at(25_000).heartbeat(1, 1);
    script.at(25_100).shell(1, "closed").at(30_050).assign(2, 2, 1, 2);
    script.violates(I1);
    for resumed in [false, true] {
        let mut script = two_workers();
        script.at(100).assign(1, 1, 1, 1).at(25_000).heartbeat(1, 1);
        script.at(25_100).shell(1, "closed").at(30_100);
        if resumed {
            script.greet(3, 1, 4);
        }
        script.assign(2, 2, 1, 2);
        script.is_clean();
    }
}

#[test]
fn i1_a_resume_keeps_an_attempt_that_another_one_followed() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).shell(1, "closed");
    script.at(12_000).assign(2, 2, 1, 1);
    script.hello(3, 1, 4, running(1)).welcome(3, verdict(1, "keep"));
    script.violates(I1);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .hello(3, 3, 4, running(1))
        .welcome(3, verdict(1, "keep"));
    script.violates(I1);
}

#[test]
fn what_the_same_instant_settles_is_no_second_attempt() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).at(40_000);
    script
        .assign(2, 2, 1, 2)
        .cancel(1, 1, "step_timeout")
        .at(40_001)
        .heartbeat(1, 1);
    script.is_clean();
}

#[test]
fn i2_a_second_accepted_verdict() {
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .done(1, 1, "success")
        .done(1, 1, "success");
    script.violates(I2);
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).done(1, 1, "success");
    script.call(json!({"m": "report_outcomes", "items": [[token(1), "success"]], "verdicts": ["accepted"]}));
    script.violates(I2);
    let mut script = two_workers();
    script.outcome(1, 9, "success").verdict(1, 9, "accepted");
    script.violates(I2);
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).verdict(1, 1, "accepted");
    script.violates(I2);
}

#[test]
fn i2_an_outcome_is_accepted_after_another_settlement() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).rejected(1, 1).assign(2, 2, 1, 1);
    script.outcome(1, 1, "success").verdict(1, 1, "accepted");
    script.violates(I2);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .cancel(1, 1, "step_timeout");
    script.outcome(1, 1, "success").verdict(1, 1, "accepted");
    script.violates(I2);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .outcome(2, 1, "success")
        .verdict(2, 1, "accepted");
    script.violates(I2);
}

#[test]
fn i2_a_live_attempt_is_refused_or_a_settled_step_runs_again() {
    for wrong in ["stale", "unknown", "duplicate"] {
        let mut script = two_workers();
        script
            .assign(1, 1, 1, 1)
            .started(1, 1)
            .outcome(1, 1, "success")
            .verdict(1, 1, wrong);
        script.violates(I2);
    }
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .done(1, 1, "success")
        .at(20)
        .assign(2, 2, 1, 2);
    script.violates(I2);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .cancel(1, 1, "execution_ended")
        .at(20)
        .assign(2, 2, 1, 2);
    script.violates(I2);
}

#[test]
fn i4_more_than_the_level_of_the_session() {
    let mut script = Script::new();
    script
        .greet(1, 1, 1)
        .assign_of(1, "other", 1, 1, 1)
        .assign_of(1, "other", 2, 2, 1);
    script.violates(I4);
    // A cancelled attempt keeps its credit until it is answered.
    let mut script = Script::new();
    script
        .greet(1, 1, 1)
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .cancel(1, 1, "step_timeout");
    script.assign(1, 2, 2, 1);
    script.violates(I4);
    let mut script = Script::new();
    script
        .greet(1, 1, 1)
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .cancel(1, 1, "step_timeout");
    script.stopped(1, 1).assign(1, 2, 2, 1);
    script.is_clean();
}

#[test]
fn i4_more_than_the_level_of_the_action() {
    let mut script = Script::new();
    script
        .greet(1, 1, 9)
        .assign(1, 1, 1, 1)
        .assign(1, 2, 2, 1)
        .assign(1, 3, 3, 1);
    script.violates(I4);
    let mut script = Script::new();
    script.greet(1, 1, 9).assign_of(1, "missing", 1, 1, 1);
    script.violates(I4);
    let mut script = Script::new();
    script.greet(1, 1, 0);
    for n in 1..=9 {
        script.assign_of(1, "wait", n, n, 1);
    }
    script.is_clean();
    script.assign_of(1, "wait", 10, 10, 1);
    script.violates(I4);
}

#[test]
fn i4_levels_are_those_that_were_read_last() {
    let lowered = |per_action: serde_json::Value, revision: u64| {
        let mut script = Script::new();
        script.greet(1, 1, 9);
        script.hear(
            1,
            json!({"m": "capacity", "revision": 2, "max_in_flight": 9, "per_action": {}}),
        );
        script.hear(
            1,
            json!({"m": "capacity", "revision": revision, "max_in_flight": 1, "per_action": per_action}),
        );
        script.assign_of(1, "other", 1, 1, 1);
        script
    };
    lowered(json!({}), 3).is_clean();
    lowered(json!({"other": 0}), 3).violates(I4);
    lowered(json!({"other": 0}), 1).is_clean();
    let mut script = lowered(json!({}), 3);
    script.assign_of(1, "other", 2, 2, 1);
    script.violates(I4);
    let mut script = Script::new();
    script
        .greet(1, 1, 9)
        .hear(1, json!({"m": "register_actions", "revision": 1, "actions": {}}));
    script.assign(1, 1, 1, 1);
    script.violates(I4);
}

#[test]
fn i4_what_a_resume_keeps_counts() {
    let mut script = Script::new();
    script
        .greet(1, 1, 1)
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .shell(1, "closed");
    script
        .hello(2, 1, 1, running(1))
        .welcome(2, verdict(1, "keep"))
        .assign(2, 2, 2, 1);
    script.violates(I4);
}

#[test]
fn i5_assignments_outside_of_their_time() {
    let mut script = Script::new();
    script.hello(1, 1, 4, json!({})).assign(1, 1, 1, 1);
    script.violates(I5);
    let mut script = two_workers();
    script
        .hear(1, json!({"m": "drain"}))
        .drain_started(1, 0)
        .assign(1, 1, 1, 1);
    script.violates(I5);
    let mut script = two_workers();
    script.shell(1, "closed").assign(1, 1, 1, 1);
    script.violates(I5);
    let mut script = two_workers();
    script.hear(1, json!({"m": "goodbye"})).assign(1, 1, 1, 1);
    script.violates(I5);
    let mut script = two_workers();
    script.greet(3, 1, 4).assign(1, 1, 1, 1);
    script.violates(I5);
}

#[test]
fn i5_drains_and_hellos() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).drain_started(1, 0);
    script.violates(I5);
    let mut script = two_workers();
    script.call(json!({"m": "drain_worker", "instance": null, "worker": "w1"}));
    script
        .drain_started(1, 0)
        .shell(1, "closed")
        .greet(3, 1, 4)
        .assign(3, 1, 1, 1);
    script.violates(I5);
    let mut script = Script::new();
    script.numbered_hello(1, 1, 2, 4, json!({})).welcome(1, json!({}));
    script.numbered_hello(2, 1, 1, 4, json!({})).welcome(2, json!({}));
    script.violates(I5);
    let mut script = Script::new();
    script.numbered_hello(1, 1, 2, 4, json!({})).welcome(1, json!({}));
    script
        .numbered_hello(2, 1, 1, 4, json!({}))
        .error(2, "superseded")
        .assign(1, 1, 1, 1);
    script.is_clean();
}

#[test]
fn i6_a_hand_out_again_without_evidence() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).done(1, 1, "failure").assign(2, 2, 1, 1);
    script.violates(I6);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .hear(1, json!({"m": "goodbye"}))
        .assign(2, 2, 1, 1);
    script.violates(I6);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .cancel(1, 1, "step_timeout")
        .assign(2, 2, 1, 1);
    script.violates(I6);
}

#[test]
fn i6_numbers_of_attempts() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 2);
    script.violates(I6);
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).rejected(1, 1).assign(2, 2, 1, 2);
    script.violates(I6);
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).done(1, 1, "failure").assign(2, 2, 1, 3);
    script.violates(I6);
    let mut script = two_workers();
    script.assign(1, 1, 1, 1).boot().greet(1, 1, 4).assign(1, 2, 1, 1);
    script.violates(I6);
}

#[test]
fn i7_a_worker_forgets_an_outcome() {
    let resumed = |in_flight: serde_json::Value, verdicts: serde_json::Value| {
        let mut script = two_workers();
        script
            .assign(1, 1, 1, 1)
            .started(1, 1)
            .outcome(1, 1, "success")
            .shell(1, "closed");
        script.hello(3, 1, 4, in_flight).welcome(3, verdicts);
        script
    };
    let mut script = resumed(json!({}), json!({}));
    script.at(20).greet(4, 1, 4);
    script.violates(I7);
    resumed(json!({}), json!({})).violates(I7);
    let mut script = resumed(json!({}), json!({}));
    script.outcome(3, 1, "success").verdict(3, 1, "already_ended");
    script.is_clean();
    let mut script = resumed(json!({token(1): "finished"}), verdict(1, "keep"));
    script.outcome(3, 1, "success").verdict(3, 1, "accepted");
    script.is_clean();
    let mut script = resumed(json!({}), json!({}));
    script.settings.careless_workers.insert("w1".to_owned());
    script.is_clean();
}

#[test]
fn i7_an_outcome_changes_or_is_not_answered() {
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .outcome(1, 1, "success")
        .verdict(1, 1, "accepted");
    script.outcome(1, 1, "failure").verdict(1, 1, "duplicate");
    script.violates(I7);
    let mut script = two_workers();
    script
        .assign(1, 1, 1, 1)
        .started(1, 1)
        .outcome(1, 1, "success")
        .at(20_011)
        .heartbeat(1, 1);
    script.violates(I7);
}

#[test]
fn i8_a_loss_in_a_hurry() {
    let mut script = two_workers();
    script.at(10_900).error(1, "lease_expired");
    script.violates(I8);
    let mut script = two_workers();
    script
        .at(3_000)
        .heartbeat(1, 1)
        .at(11_000)
        .error(1, "lease_expired");
    script.violates(I8);
    let mut script = two_workers();
    script.at(11_000).error(1, "lease_expired");
    script.is_clean();
    let mut script = two_workers();
    script.error(1, "declared_dead");
    script.violates(I8);
}

#[test]
fn i9_too_much_on_a_session() {
    let mut script = Script::new();
    script.greet(1, 1, 20_000);
    for n in 1..=16_384 {
        script.assign_of(1, "other", n, n, 1);
    }
    script.is_clean();
    script.assign_of(1, "other", 16_385, 16_385, 1);
    script.violates(I9);
}

#[test]
fn i9_a_worker_that_floods_is_heard() {
    let mut script = Script::new();
    script.greet(1, 1, 1);
    for n in 0..1_900 {
        script.heartbeat(1, n);
    }
    // Two seconds allow 400 more.
    script.at(2_000);
    for n in 0..400 {
        script.heartbeat(1, n);
    }
    script.is_clean();
    for n in 0..300 {
        script.heartbeat(1, n);
    }
    script.violates(I9);
}

#[test]
fn i9_snapshot_requests_pile_up() {
    let mut script = two_workers();
    script.snapshot_request(1, 1).at(3_000).snapshot_request(1, 2);
    script.violates(I9);
    let mut script = two_workers();
    script.snapshot_request(1, 1).at(4_010).snapshot_request(1, 3);
    script.violates(I9);
    let mut script = two_workers();
    script
        .snapshot_request(1, 1)
        .at(4_010)
        .snapshot_request(1, 2)
        .at(4_020);
    script.snapshot(1, 2, 0, json!({})).snapshot_request(1, 3);
    script.is_clean();
}

/// One step that waits from 100 to 1,900 on the wall clock, as the record says.
fn waiting(script: &mut Script) {
    use escapement_wire::v1::audit_entry::Event;
    use escapement_wire::v1::{AttemptAssigned, AuditEntry, StepWaiting};
    let (step_id, worker_id) = (id(1), "w1".to_owned());
    let waiting = Event::StepWaiting(StepWaiting { step_id, attempt: 1 });
    let step_id = id(1);
    let assigned = Event::AttemptAssigned(AttemptAssigned {
        step_id,
        attempt: 1,
        worker_id,
    });
    let entry = |at, event| AuditEntry {
        at,
        event: Some(event),
        ..AuditEntry::default()
    };
    script
        .records
        .insert(id(1), vec![entry(100, waiting), entry(1_900, assigned)]);
}

#[test]
fn i10_a_step_waits_beside_a_free_slot() {
    let mut script = Script::new();
    waiting(&mut script);
    script.greet(1, 1, 1).at(1_900).assign(1, 1, 1, 1);
    script.violates(I10);
    // The only slot came free in time, and no work of the action was handed out since.
    let mut script = Script::new();
    waiting(&mut script);
    script
        .greet(1, 1, 1)
        .assign_of(1, "other", 2, 2, 1)
        .at(200)
        .done(1, 2, "success");
    script.at(1_900).assign(1, 1, 1, 1);
    script.violates(I10);
}

#[test]
fn i10_a_step_may_wait_for_its_turn_or_for_a_slot() {
    let mut script = Script::new();
    waiting(&mut script);
    script
        .greet(1, 1, 2)
        .at(1_000)
        .assign(1, 2, 2, 1)
        .at(1_900)
        .assign(1, 1, 1, 1);
    script.is_clean();
    let mut script = Script::new();
    waiting(&mut script);
    script
        .greet(1, 1, 1)
        .assign_of(1, "other", 2, 2, 1)
        .at(1_000)
        .done(1, 2, "success");
    script.at(1_900).assign(1, 1, 1, 1);
    script.is_clean();
    let mut script = Script::new();
    waiting(&mut script);
    script
        .greet(1, 1, 1)
        .drain_started(1, 0)
        .at(1_900)
        .greet(2, 2, 1)
        .assign(2, 1, 1, 1);
    script.is_clean();
}

#[test]
fn an_operators_word_explains_a_loss() {
    let mut script = two_workers();
    script.assign(1, 1, 1, 1);
    script.call(json!({"m": "declare_worker_dead", "instance": instance(1)}));
    script.error(1, "declared_dead").assign(2, 2, 1, 1);
    script.is_clean();
}
