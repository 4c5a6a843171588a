//! The spans of a timeline: what they say, that they do not overlap, and that they agree with the record.

use crate::scene::{Played, Scene, T0, ends, failed, plan, takes};
use escapement_contract::AuditKind;
use escapement_simulator::{Activity, End};
use std::collections::BTreeMap;

#[test]
fn every_activity_has_its_span() {
    let scene = plan()
        .at_a_time(2)
        .attempts(3, 100, &["BUSY", "STEP_TIMEOUT"])
        .step("a retry limit=50")
        .stub([
            ends(5, 10, failed("BUSY")),
            ends(0, 0, End::Silent),
            ends(2, 1, End::Returned),
            takes(3, 4),
        ])
        .step("b")
        .stub([takes(0, 20)])
        .step("c after=a")
        .stub([ends(0, 0, End::Silent)]);
    let played = scene.play();
    assert_eq!(played.result(), "failure 2/3 PLAN_TIMEOUT at 1000");
    assert_eq!(
        played.spans(&scene),
        [
            "a#1 waiting 0..5",
            "b#1 running 0..20 completed",
            "a#1 running 5..15 BUSY",
            "a#2 backingoff 15..115",
            "a#2 running 115..165 STEP_TIMEOUT",
            "a#3 backingoff 165..265",
            "a#3 waiting 265..267",
            "a#3 running 267..268 returned",
            "a#3 waiting 268..271",
            "a#3 running 271..275 completed",
            "c#1 running 275..1000 stopped",
        ]
    );
    assert_agrees(&scene, &played);
}

#[test]
fn a_sleep_that_the_plans_limit_cuts_short_ends_with_the_plan() {
    let scene = plan()
        .attempts(2, 5_000, &["BUSY"])
        .step("a retry")
        .stub([ends(0, 10, failed("BUSY"))]);
    let played = scene.play();
    assert_eq!(
        played.spans(&scene),
        ["a#1 running 0..10 BUSY", "a#2 backingoff 10..1000"]
    );
}

#[test]
fn a_step_that_never_runs_has_no_span() {
    let scene = plan()
        .step("a skip")
        .stub([ends(0, 1, failed("X"))])
        .step("b skip after=a")
        .step("c");
    let played = scene.play();
    assert_eq!(played.result(), "partial 1/3 X at 1");
    let spans = played.spans(&scene);
    assert_eq!(spans, ["a#1 running 0..1 X", "c#1 running 1..1 completed"]);
}

#[test]
fn spans_of_one_instant_stand_in_canonical_order() {
    let scene = plan().at_a_time(3).step("c after=a").step("a").step("b");
    let spans = scene.play().spans(&scene);
    assert_eq!(
        spans,
        [
            "a#1 running 0..0 completed",
            "c#1 running 0..0 completed",
            "b#1 running 0..0 completed",
        ]
    );
}

/// Every span has its entries, every hand-out has its span, spans of one step do not overlap.
pub(crate) fn assert_agrees(scene: &Scene, played: &Played) {
    let request = scene.request();
    let plan = request.plan();
    let duration_ms = u64::try_from(played.0.settlement.result.duration_ms).unwrap();
    let mut free_from: BTreeMap<usize, u64> = BTreeMap::new();
    let mut n_running = 0;
    let mut before = (0, 0);
    for span in &played.0.timeline.spans {
        assert!(
            span.from_ms <= span.to_ms && span.to_ms <= duration_ms,
            "{span:?}"
        );
        let place = (span.from_ms, plan.position(span.step));
        assert!(before <= place, "{span:?} comes too late");
        before = place;
        let free = free_from.entry(span.step.as_usize()).or_default();
        assert!(*free <= span.from_ms, "{span:?} overlaps");
        *free = span.to_ms;
        assert_eq!(
            span.ended.is_some(),
            span.activity == Activity::Running,
            "{span:?}"
        );
        n_running += usize::from(span.activity == Activity::Running);
        let begins = played.0.settlement.audit.iter().any(|entry| {
            let at = u64::try_from(entry.at_unix_ms - T0).unwrap();
            let (step_id, attempt, activity) = match &entry.kind {
                AuditKind::StepWaiting { step_id, attempt } => (step_id, *attempt, Activity::Waiting),
                AuditKind::AttemptAssigned { step_id, attempt, .. } => (step_id, *attempt, Activity::Running),
                AuditKind::RetryScheduled {
                    step_id,
                    next_attempt,
                    ..
                } => (step_id, *next_attempt, Activity::BackingOff),
                _ => return false,
            };
            let is_it = *step_id == plan.step(span.step).id() && attempt == span.attempt;
            is_it && activity == span.activity && at == span.from_ms
        });
        assert!(begins, "{span:?} has no entry");
    }
    let handed_out = |kind: &AuditKind| matches!(kind, AuditKind::AttemptAssigned { .. });
    let audit = played.0.settlement.audit.iter();
    let n_handed_out = audit.filter(|entry| handed_out(&entry.kind)).count();
    assert_eq!(n_running, n_handed_out, "every hand-out has its span");
}
