//! Records against the journal: what was accepted stands there, and what stands there is explained.

use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::{
    AttemptAssigned, AttemptFailed, AttemptReturned, AuditEntry, ExecutionError, ExecutionSettled,
    StepCompleted,
};
use serde_json::json;

use super::script::{Script, id};
use crate::session_checker::{
    Count,
    Invariant::{I3, I6, I8},
};

pub(super) fn assigned(step: u64, attempt: i32) -> Event {
    Event::AttemptAssigned(AttemptAssigned {
        step_id: id(step),
        attempt,
        worker_id: "w1".to_owned(),
    })
}

pub(super) fn returned(step: u64, attempt: i32, evidence: &str) -> Event {
    Event::AttemptReturned(AttemptReturned {
        step_id: id(step),
        attempt,
        evidence: evidence.to_owned(),
    })
}

pub(super) fn failed(step: u64, attempt: i32, code: &str) -> Event {
    let error = ExecutionError {
        error_code: code.to_owned(),
        ..ExecutionError::default()
    };
    Event::AttemptFailed(AttemptFailed {
        step_id: id(step),
        attempt,
        error: Some(error),
    })
}

pub(super) fn completed(step: u64, attempts: i32) -> Event {
    Event::StepCompleted(StepCompleted {
        step_id: id(step),
        attempts,
        ..StepCompleted::default()
    })
}

/// Gives execution 1 this record, settled.
pub(super) fn recorded(script: &mut Script, events: Vec<Event>) -> &mut Script {
    let all = events
        .into_iter()
        .chain([Event::Settled(ExecutionSettled::default())]);
    let entries = all.zip(1..).map(|(event, sequence)| AuditEntry {
        hash: Vec::new(),
        sequence,
        at: 0,
        event: Some(event),
    });
    script.records.insert(id(1), entries.collect());
    script
}

/// Two workers; step 1 is rejected once and completes at its second attempt; its first one failed.
fn story() -> Script {
    let mut script = Script::new();
    script
        .greet(1, 1, 4)
        .greet(2, 2, 4)
        .assign(1, 1, 1, 1)
        .rejected(1, 1)
        .assign(2, 2, 1, 1);
    script
        .done(2, 2, "failure")
        .assign(1, 3, 1, 2)
        .done(1, 3, "success");
    script
}

fn record() -> Vec<Event> {
    vec![
        assigned(1, 1),
        returned(1, 1, "rejected"),
        assigned(1, 1),
        failed(1, 1, "BROKEN"),
        assigned(1, 2),
        completed(1, 2),
    ]
}

#[test]
fn a_record_that_agrees_is_clean() {
    let mut script = story();
    recorded(&mut script, record()).is_clean();
    script.report().at_least(Count::Records, 1);
}

#[test]
fn i3_an_accepted_outcome_is_not_in_the_record() {
    let without = |at: usize| {
        let mut events = record();
        events.remove(at);
        events
    };
    recorded(&mut story(), without(3)).violates(I3);
    recorded(&mut story(), without(5)).violates(I3);
    let mut script = Script::new();
    script.greet(1, 1, 4).assign(1, 1, 1, 1).done(1, 1, "released");
    recorded(&mut script, vec![assigned(1, 1)]).violates(I3);
    recorded(&mut script, vec![assigned(1, 1), failed(1, 1, "WORKER_LOST")]).is_clean();
    recorded(&mut script, vec![assigned(1, 1), returned(1, 1, "released")]).is_clean();
}

#[test]
fn a_refused_attempt_is_handed_out_again_or_fails() {
    let mut script = Script::new();
    script
        .greet(1, 1, 4)
        .greet(2, 2, 4)
        .assign(1, 1, 1, 1)
        .done(1, 1, "refused")
        .assign(2, 2, 1, 1)
        .done(2, 2, "refused");
    let record = |evidence: &str| {
        vec![
            assigned(1, 1),
            returned(1, 1, evidence),
            assigned(1, 1),
            failed(1, 1, "NOT_ALLOWED"),
        ]
    };
    recorded(&mut script, record("refused")).is_clean();
    recorded(&mut script, record("rejected")).violates(I6);
    recorded(&mut script, record("refused")[..3].to_vec()).is_clean();
    let mut script = Script::new();
    script.greet(1, 1, 4).assign(1, 1, 1, 1).done(1, 1, "refused");
    recorded(&mut script, vec![assigned(1, 1)]).violates(I3);
}

#[test]
fn i6_the_record_does_not_fit_the_journal() {
    let mut events = record();
    events[1] = returned(1, 1, "goodbye");
    recorded(&mut story(), events).violates(I6);
    let mut events = record();
    events.remove(1);
    recorded(&mut story(), events).violates(I6);
    let mut events = record();
    events.drain(..2);
    recorded(&mut story(), events).violates(I6);
}

#[test]
fn who_is_declared_dead_long_after_its_lease_was_lost_before() {
    for (declared_at, is_lost_before) in [(5_000, false), (12_000, true)] {
        let mut script = Script::new();
        script.greet(1, 1, 4).greet(2, 2, 4).assign(1, 1, 1, 1);
        script.shell(1, "closed").at(declared_at);
        script.call(json!({"m": "declare_worker_dead", "instance": super::script::instance(1)}));
        script.assign(2, 2, 1, 1).done(2, 2, "success");
        let events = vec![
            assigned(1, 1),
            returned(1, 1, "lease_expired"),
            assigned(1, 1),
            completed(1, 1),
        ];
        recorded(&mut script, events);
        if is_lost_before {
            script.is_clean();
        } else {
            script.violates(I6);
        }
    }
}

#[test]
fn every_evidence_is_explained_by_its_line() {
    let mut of = Vec::new();
    let mut begun = |evidence: &'static str| {
        let mut script = Script::new();
        script.greet(1, 1, 4).greet(2, 2, 4).assign(1, 1, 1, 1);
        of.push(evidence);
        script
    };
    let mut scripts = Vec::new();
    let mut script = begun("rejected");
    script.rejected(1, 1);
    scripts.push(script);
    let mut script = begun("resume_omits");
    script.shell(1, "closed").greet(3, 1, 4);
    scripts.push(script);
    let mut script = begun("snapshot_omits");
    script.snapshot_request(1, 1).snapshot(1, 1, 2, json!({}));
    scripts.push(script);
    let mut script = begun("goodbye");
    script.hear(1, json!({"m": "goodbye"}));
    scripts.push(script);
    let mut script = begun("lease_expired");
    script.shell(1, "closed").at(11_000);
    scripts.push(script);
    let mut script = begun("declared_dead");
    script.call(json!({"m": "declare_worker_dead", "instance": super::script::instance(1)}));
    scripts.push(script);
    for (at, script) in scripts.iter_mut().enumerate() {
        script.assign(2, 2, 1, 1).done(2, 2, "success");
        for evidence in &of {
            let events = vec![
                assigned(1, 1),
                returned(1, 1, evidence),
                assigned(1, 1),
                completed(1, 1),
            ];
            recorded(script, events);
            if *evidence == of[at] {
                script.is_clean();
            } else {
                script.violates(I6);
            }
        }
    }
}

#[test]
fn i6_a_snapshot_of_before_the_assignment_proves_nothing() {
    let mut script = Script::new();
    script
        .greet(1, 1, 4)
        .assign(1, 1, 1, 1)
        .snapshot_request(1, 1)
        .snapshot(1, 1, 1, json!({}));
    recorded(
        &mut script,
        vec![assigned(1, 1), returned(1, 1, "snapshot_omits")],
    )
    .violates(I6);
}

#[test]
fn i8_a_failure_that_nothing_explains() {
    let one = |lines: fn(&mut Script) -> &mut Script, events: Vec<Event>| {
        let mut script = Script::new();
        script.greet(1, 1, 4).assign(1, 1, 1, 1);
        lines(&mut script);
        recorded(&mut script, events);
        script
    };
    let with = |code: &str| vec![assigned(1, 1), failed(1, 1, code)];
    for code in [
        "WORKER_LOST",
        "STEP_TIMEOUT",
        "UNKNOWN_ERROR",
        "UNAVAILABLE",
        "ACTION_NOT_FOUND",
    ] {
        one(|script| script.started(1, 1), with(code)).violates(I8);
    }
    // A loss, but of what never ran.
    one(
        |script| script.hear(1, json!({"m": "goodbye"})),
        with("WORKER_LOST"),
    )
    .violates(I8);
    one(
        |script| script.started(1, 1).hear(1, json!({"m": "goodbye"})),
        with("WORKER_LOST"),
    )
    .is_clean();
    one(|script| script.started(1, 1).stopped(1, 1), with("WORKER_LOST")).is_clean();
    one(
        |script| script.started(1, 1).cancel(1, 1, "step_timeout"),
        with("STEP_TIMEOUT"),
    )
    .is_clean();
    one(
        |script| {
            script
                .started(1, 1)
                .shell(1, "closed")
                .at(30_000)
                .shell(1, "closed")
        },
        with("STEP_TIMEOUT"),
    )
    .is_clean();
    one(|script| script.started(1, 1), with("PLAN_TIMEOUT")).is_clean();
    one(|script| script.done(1, 1, "failure"), with("ANY")).is_clean();
}

#[test]
fn i8_a_completion_that_nobody_reported() {
    let mut script = Script::new();
    script.greet(1, 1, 4).assign(1, 1, 1, 1).started(1, 1);
    recorded(&mut script, vec![assigned(1, 1), completed(1, 1)]).violates(I8);
}

#[test]
fn an_execution_that_a_restart_ended_is_not_judged() {
    let mut script = Script::new();
    script
        .greet(1, 1, 4)
        .assign(1, 1, 1, 1)
        .done(1, 1, "success")
        .boot();
    recorded(&mut script, Vec::new()).is_clean();
    assert_eq!(script.report().count(Count::RestartedRecords), 1);
}
