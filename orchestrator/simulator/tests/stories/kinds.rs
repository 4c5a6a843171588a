//! What each kind of stub leads to, and which stub fits a step.

use crate::scene::{ends, failed, plan, step_id, takes};
use escapement_contract::{AuditKind, Reported};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
use escapement_simulator::End;

fn output(text: &str) -> Opaque {
    StructBuilder::new().text("from", text).build()
}

#[test]
fn without_stubs_everything_completes_at_once_with_empty_outputs() {
    let played = plan().step("a").step("b after=a").play();
    assert_eq!(played.result(), "success 2/2 at 0");
    let payload = &played.0.settlement.result.result_payload;
    assert_eq!(payload.entries().count(), 2);
    played.says(
        "0 a#1 step_waiting attempt_assigned attempt_started step_completed, \
         0 b#1 step_waiting attempt_assigned attempt_started step_completed",
    );
    // Start and its write, three for each attempt, and the write of the result.
    assert_eq!(played.0.n_inputs, 9);
}

#[test]
fn the_output_of_a_stub_stands_in_the_result() {
    let scene = plan()
        .step("a")
        .stub([ends(3, 4, End::Completed(output("a stub")))]);
    let played = scene.play();
    assert_eq!(played.result(), "success 1/1 at 7");
    let expected = StructBuilder::new().object(&step_id("a").to_string(), output("a stub").as_encoded());
    assert_eq!(played.0.settlement.result.result_payload, expected.build());
}

#[test]
fn a_failure_is_classified_and_retried_as_the_plan_says() {
    let scene = plan()
        .attempts(3, 100, &["BUSY"])
        .step("a retry")
        .stub([ends(0, 5, failed("BUSY")), takes(1, 10)]);
    let played = scene.play();
    assert_eq!(played.result(), "success 1/1 at 116");
    played.says(
        "0 a#1 step_waiting attempt_assigned attempt_started, 5 a#1 attempt_failed, \
         5 a#2 retry_scheduled, 105 a#2 step_waiting, 106 a#2 attempt_assigned attempt_started, \
         116 a#2 step_completed",
    );
}

#[test]
fn the_last_stub_of_a_list_stands_for_all_that_follow() {
    let scene = plan()
        .attempts(4, 0, &["*"])
        .step("a retry")
        .stub([ends(0, 1, failed("FIRST")), ends(0, 10, failed("AGAIN"))]);
    let played = scene.play();
    assert_eq!(played.result(), "failure 0/1 AGAIN at 31");
}

#[test]
fn a_reserved_code_has_its_own_severity_and_an_unusable_one_is_unknown() {
    let shouted = |code: &str, severity| {
        End::Failed(Reported {
            code: code.into(),
            severity,
            ..Reported::default()
        })
    };
    let reserved = shouted("RESOURCE_EXHAUSTED", Some(Severity::Warn));
    let scene = plan().step("a skip").stub([ends(0, 0, reserved)]);
    assert_eq!(scene.play().result(), "failure 0/1 RESOURCE_EXHAUSTED at 0");
    for unusable in [String::new(), "X".repeat(51), "X".repeat(5_000)] {
        let scene = plan().step("a skip").stub([ends(0, 0, shouted(&unusable, None))]);
        assert_eq!(scene.play().result(), "failure 0/1 UNKNOWN_ERROR at 0");
    }
    let warned = shouted("ODD", Some(Severity::Warn));
    let scene = plan().step("a").stub([ends(0, 0, warned)]).step("b");
    assert_eq!(scene.play().result(), "partial 1/2 ODD at 0");
}

//
#[test]
fn a_lost_attempt_had_started() {
    let scene = plan().step("a").stub([ends(2, 8, End::Lost)]);
    let played = scene.play();
    assert_eq!(played.result(), "failure 0/1 WORKER_LOST at 10");
    assert!(played.record().contains(&"2 attempt_started a#1".to_owned()));
}

//
#[test]
fn a_returned_attempt_had_not_started_and_comes_again_under_its_number() {
    let scene = plan()
        .step("a")
        .stub([ends(0, 5, End::Returned), ends(1, 5, End::Returned), takes(0, 7)]);
    let played = scene.play();
    assert_eq!(played.result(), "success 1/1 at 18");
    played.says(
        "0 a#1 step_waiting attempt_assigned, 5 a#1 attempt_returned step_waiting, \
         6 a#1 attempt_assigned, \
         11 a#1 attempt_returned step_waiting attempt_assigned attempt_started, \
         18 a#1 step_completed",
    );
}

#[test]
fn a_silent_attempt_ends_by_its_limit_or_by_the_plans() {
    let scene = plan().step("a limit=300").stub([ends(5, 1, End::Silent)]);
    assert_eq!(scene.play().result(), "failure 0/1 STEP_TIMEOUT at 305");
    let scene = plan().step("a").stub([ends(5, 1, End::Silent)]);
    assert_eq!(scene.play().result(), "failure 0/1 PLAN_TIMEOUT at 1000");
}

//
#[test]
fn an_action_that_nobody_offers_is_never_handed_out() {
    let scene = plan().step("a skip").stub([ends(40, 99, End::ActionNotFound)]);
    let played = scene.play();
    assert_eq!(played.result(), "failure 0/1 ACTION_NOT_FOUND at 40");
    assert_eq!(played.record()[1], "40 attempt_failed a#1");
}

//
#[test]
fn an_output_that_cannot_be_kept_fails_as_it_would_in_truth() {
    let large = StructBuilder::new().text("x", &"x".repeat(1 << 20)).build();
    let scene = plan().step("a").stub([ends(0, 1, End::Completed(large))]);
    assert_eq!(scene.play().result(), "failure 0/1 RESOURCE_EXHAUSTED at 1");
    let malformed = Opaque::from_encoded(vec![0xff; 3].into());
    let scene = plan().step("a").stub([ends(0, 1, End::Completed(malformed))]);
    assert_eq!(scene.play().result(), "failure 0/1 UNKNOWN_ERROR at 1");
}

//
#[test]
fn an_environment_that_lacks_a_key_ends_the_simulation_before_any_step() {
    let mut scene = plan().step("a");
    scene.plan().context_requirements.push("owner".into());
    let played = scene.play();
    assert_eq!(played.result(), "failure 0/1 CONTEXT_MISSING at 0");
    assert!(played.record().is_empty() && played.0.timeline.spans.is_empty());
}

#[test]
fn the_most_particular_stub_counts_and_among_equals_the_first() {
    let scene = plan().step("a").step("b").step("c").step("d").stubs(|stubs| {
        stubs
            .otherwise(vec![takes(0, 1)])
            .otherwise(vec![takes(0, 900)])
            .action("do_b".into(), vec![takes(0, 20)])
            .action("do_b".into(), vec![takes(0, 900)])
            .action("do_c".into(), vec![takes(0, 900)])
            .step(step_id("c"), vec![takes(0, 300)])
            .step(step_id("c"), vec![takes(0, 900)])
            .step(step_id("nobody"), vec![takes(0, 900)])
    });
    assert_eq!(scene.play().result(), "success 4/4 at 322");
}

#[test]
fn the_worker_of_every_attempt_has_the_label_of_the_simulator() {
    let played = plan().step("a").play();
    let labels = played
        .0
        .settlement
        .audit
        .iter()
        .filter_map(|entry| match &entry.kind {
            AuditKind::AttemptAssigned { worker, .. } => Some(worker.as_ref()),
            _ => None,
        });
    assert_eq!(labels.collect::<Vec<_>>(), [escapement_simulator::WORKER]);
}
