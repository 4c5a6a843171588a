//! Each invariant is found to be violated where it is, and nowhere else.

use serde_json::json;

use super::script::{Script, id, instance, scripts, token};
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
    scripts! {
        Journal: Script::new() => raw(json!({"dropped": 2}));
        Journal: two_workers() => heartbeat(1, 1), at(9), heartbeat(1, 2);
        Journal: Script::new() => shell(7, "closed");
        Journal: two_workers() => line(json!({"s": 1, "dir": "out", "seq": 3, "m": "heartbeat_ack", "n": 1}));
    }
}

#[test]
fn i1_two_live_attempts_of_a_step() {
    scripts! {
        I1: two_workers() => assign(1, 1, 1, 1), at(20), assign(2, 2, 1, 1), at(30);
        I1: two_workers() => assign(1, 1, 1, 1), started(1, 1), at(20), assign(2, 2, 1, 2);
        I1: two_workers() => assign(1, 1, 1, 1), done(1, 1, "success"), at(20), assign(2, 1, 2, 1);
    }
}

#[test]
fn i1_the_lease_of_a_broken_stream_is_not_over() {
    let broken = || {
        let mut script = two_workers();
        script.assign(1, 1, 1, 1).shell(1, "closed");
        script
    };
    scripts! {
        I1: broken() => at(10_000), assign(2, 2, 1, 1);
        clean: broken() => at(11_000), assign(2, 2, 1, 1);
    }
}

#[test]
fn a_time_limit_may_pass_while_nobody_can_be_told() {
    scripts! {
        I1: two_workers() => at(100), assign(1, 1, 1, 1), at(25_000), heartbeat(1, 1), at(25_100), shell(1, "closed"),
            at(30_050), assign(2, 2, 1, 2);
    }
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
    scripts! {
        I1: two_workers() => assign(1, 1, 1, 1), shell(1, "closed"), at(12_000), assign(2, 2, 1, 1),
            hello(3, 1, 4, running(1)), welcome(3, verdict(1, "keep"));
        I1: two_workers() => assign(1, 1, 1, 1), hello(3, 3, 4, running(1)), welcome(3, verdict(1, "keep"));
    }
}

#[test]
fn what_the_same_instant_settles_is_no_second_attempt() {
    scripts! {
        clean: two_workers() => assign(1, 1, 1, 1), at(40_000), assign(2, 2, 1, 2), cancel(1, 1, "step_timeout"),
            at(40_001), heartbeat(1, 1);
    }
}

#[test]
fn i2_a_second_accepted_verdict() {
    scripts! {
        I2: two_workers() => assign(1, 1, 1, 1), done(1, 1, "success"), done(1, 1, "success");
        I2: two_workers() => assign(1, 1, 1, 1), done(1, 1, "success"),
            call(json!({"m": "report_outcomes", "items": [[token(1), "success"]], "verdicts": ["accepted"]}));
        I2: two_workers() => outcome(1, 9, "success"), verdict(1, 9, "accepted");
        I2: two_workers() => assign(1, 1, 1, 1), verdict(1, 1, "accepted");
    }
}

#[test]
fn i2_an_outcome_is_accepted_after_another_settlement() {
    scripts! {
        I2: two_workers() => assign(1, 1, 1, 1), rejected(1, 1), assign(2, 2, 1, 1), outcome(1, 1, "success"),
            verdict(1, 1, "accepted");
        I2: two_workers() => assign(1, 1, 1, 1), started(1, 1), cancel(1, 1, "step_timeout"),
            outcome(1, 1, "success"), verdict(1, 1, "accepted");
        I2: two_workers() => assign(1, 1, 1, 1), started(1, 1), outcome(2, 1, "success"), verdict(2, 1, "accepted");
    }
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
    scripts! {
        I2: two_workers() => assign(1, 1, 1, 1), done(1, 1, "success"), at(20), assign(2, 2, 1, 2);
        I2: two_workers() => assign(1, 1, 1, 1), cancel(1, 1, "execution_ended"), at(20), assign(2, 2, 1, 2);
    }
}

#[test]
fn i4_more_than_the_level_of_the_session() {
    scripts! {
        I4: Script::new() => greet(1, 1, 1), assign_of(1, "other", 1, 1, 1), assign_of(1, "other", 2, 2, 1);
        // A cancelled attempt keeps its credit until it is answered.
        I4: Script::new() => greet(1, 1, 1), assign(1, 1, 1, 1), started(1, 1), cancel(1, 1, "step_timeout"),
            assign(1, 2, 2, 1);
        clean: Script::new() => greet(1, 1, 1), assign(1, 1, 1, 1), started(1, 1), cancel(1, 1, "step_timeout"),
            stopped(1, 1), assign(1, 2, 2, 1);
    }
}

#[test]
fn i4_more_than_the_level_of_the_action() {
    scripts! {
        I4: Script::new() => greet(1, 1, 9), assign(1, 1, 1, 1), assign(1, 2, 2, 1), assign(1, 3, 3, 1);
        I4: Script::new() => greet(1, 1, 9), assign_of(1, "missing", 1, 1, 1);
    }
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
    scripts! {
        clean: lowered(json!({}), 3) => ;
        I4: lowered(json!({"other": 0}), 3) => ;
        clean: lowered(json!({"other": 0}), 1) => ;
        I4: lowered(json!({}), 3) => assign_of(1, "other", 2, 2, 1);
        I4: Script::new() => greet(1, 1, 9), hear(1, json!({"m": "register_actions", "revision": 1, "actions": {}})),
            assign(1, 1, 1, 1);
    }
}

#[test]
fn i4_what_a_resume_keeps_counts() {
    scripts! {
        I4: Script::new() => greet(1, 1, 1), assign(1, 1, 1, 1), started(1, 1), shell(1, "closed"),
            hello(2, 1, 1, running(1)), welcome(2, verdict(1, "keep")), assign(2, 2, 2, 1);
    }
}

#[test]
fn i5_assignments_outside_of_their_time() {
    scripts! {
        I5: Script::new() => hello(1, 1, 4, json!({})), assign(1, 1, 1, 1);
        I5: two_workers() => hear(1, json!({"m": "drain"})), drain_started(1, 0), assign(1, 1, 1, 1);
        I5: two_workers() => shell(1, "closed"), assign(1, 1, 1, 1);
        I5: two_workers() => hear(1, json!({"m": "goodbye"})), assign(1, 1, 1, 1);
        I5: two_workers() => greet(3, 1, 4), assign(1, 1, 1, 1);
    }
}

#[test]
fn i5_drains_and_hellos() {
    scripts! {
        I5: two_workers() => assign(1, 1, 1, 1), drain_started(1, 0);
        I5: two_workers() => call(json!({"m": "drain_worker", "instance": null, "worker": "w1"})),
            drain_started(1, 0), shell(1, "closed"), greet(3, 1, 4), assign(3, 1, 1, 1);
        I5: Script::new() => numbered_hello(1, 1, 2, 4, json!({})), welcome(1, json!({})),
            numbered_hello(2, 1, 1, 4, json!({})), welcome(2, json!({}));
        clean: Script::new() => numbered_hello(1, 1, 2, 4, json!({})), welcome(1, json!({})),
            numbered_hello(2, 1, 1, 4, json!({})), error(2, "superseded"), assign(1, 1, 1, 1);
    }
}

#[test]
fn i6_a_hand_out_again_without_evidence() {
    scripts! {
        I6: two_workers() => assign(1, 1, 1, 1), done(1, 1, "failure"), assign(2, 2, 1, 1);
        I6: two_workers() => assign(1, 1, 1, 1), started(1, 1), hear(1, json!({"m": "goodbye"})), assign(2, 2, 1, 1);
        I6: two_workers() => assign(1, 1, 1, 1), started(1, 1), cancel(1, 1, "step_timeout"), assign(2, 2, 1, 1);
    }
}

#[test]
fn i6_numbers_of_attempts() {
    scripts! {
        I6: two_workers() => assign(1, 1, 1, 2);
        I6: two_workers() => assign(1, 1, 1, 1), rejected(1, 1), assign(2, 2, 1, 2);
        I6: two_workers() => assign(1, 1, 1, 1), done(1, 1, "failure"), assign(2, 2, 1, 3);
        I6: two_workers() => assign(1, 1, 1, 1), boot(), greet(1, 1, 4), assign(1, 2, 1, 1);
    }
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
    scripts! {
        I7: resumed(json!({}), json!({})) => at(20), greet(4, 1, 4);
        I7: resumed(json!({}), json!({})) => ;
        clean: resumed(json!({}), json!({})) => outcome(3, 1, "success"), verdict(3, 1, "already_ended");
        clean: resumed(json!({token(1): "finished"}), verdict(1, "keep")) => outcome(3, 1, "success"),
            verdict(3, 1, "accepted");
    }
    let mut script = resumed(json!({}), json!({}));
    script.settings.careless_workers.insert("w1".to_owned());
    script.is_clean();
}

#[test]
fn i7_an_outcome_changes_or_is_not_answered() {
    scripts! {
        I7: two_workers() => assign(1, 1, 1, 1), started(1, 1), outcome(1, 1, "success"), verdict(1, 1, "accepted"),
            outcome(1, 1, "failure"), verdict(1, 1, "duplicate");
        I7: two_workers() => assign(1, 1, 1, 1), started(1, 1), outcome(1, 1, "success"), at(20_011), heartbeat(1, 1);
    }
}

#[test]
fn i8_a_loss_in_a_hurry() {
    scripts! {
        I8: two_workers() => at(10_900), error(1, "lease_expired");
        I8: two_workers() => at(3_000), heartbeat(1, 1), at(11_000), error(1, "lease_expired");
        clean: two_workers() => at(11_000), error(1, "lease_expired");
        I8: two_workers() => error(1, "declared_dead");
    }
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
    scripts! {
        I9: two_workers() => snapshot_request(1, 1), at(3_000), snapshot_request(1, 2);
        I9: two_workers() => snapshot_request(1, 1), at(4_010), snapshot_request(1, 3);
        clean: two_workers() => snapshot_request(1, 1), at(4_010), snapshot_request(1, 2), at(4_020),
            snapshot(1, 2, 0, json!({})), snapshot_request(1, 3);
    }
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
    scripts! {
        clean: two_workers() => assign(1, 1, 1, 1),
            call(json!({"m": "declare_worker_dead", "instance": instance(1)})), error(1, "declared_dead"),
            assign(2, 2, 1, 1);
    }
}
