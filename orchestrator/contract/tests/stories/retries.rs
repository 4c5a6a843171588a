//! Section 2: retries and their delays.

use crate::story::{failed, failure, steps};
use escapement_contract::{RetryPolicyDraft, validate_plan};
use escapement_model::Severity;
use escapement_model::opaque::StructBuilder;

//
#[test]
fn an_eligible_error_is_attempted_again_until_no_attempt_is_left() {
    let mut story = steps("a retry; b").attempts(3, 0, &["FLAKY"]).running();
    story.says("dispatch a#1");
    story.fail("a", "FLAKY").says("dispatch a#2");
    story.fail("a", "FLAKY").says("dispatch a#3");
    //
    story.fail("a", "FLAKY").says("dispatch b#1");
    story
        .complete("b")
        .says("persist_result partial 1/2 error FLAKY@a");
    assert_eq!(story.trace(), ["FLAKY@a#1", "FLAKY@a#2", "FLAKY@a#3"]);
}

//
#[test]
fn what_is_not_listed_is_not_attempted_again() {
    for (codes, expected) in [
        (&["OTHER"][..], "dispatch b#1"),
        (&[][..], "dispatch b#1"),
        (&["*"][..], "dispatch a#2"),
        (&["OTHER", "FLAKY"][..], "dispatch a#2"),
    ] {
        let mut story = steps("a retry; b").attempts(3, 0, codes).running();
        story.says("dispatch a#1");
        story.fail("a", "FLAKY").says(expected);
    }
}

//
#[test]
fn steps_that_do_not_ask_for_retries_get_none() {
    let mut story = steps("a skip; b").attempts(3, 0, &["*"]).running();
    story.says("dispatch a#1");
    story.fail("a", "FLAKY").says("dispatch b#1");
    story
        .fail("b", "FLAKY")
        .says("persist_result failure 0/2 fatal FLAKY@b < error FLAKY@b");
}

//
#[test]
fn warnings_and_fatal_errors_are_never_attempted_again() {
    let spec = steps("a retry; b retry").attempts(3, 0, &["*"]);
    let mut story = spec.running();
    story.says("dispatch a#1");
    story
        .end("a", failed("ODD", Some(Severity::Warn)))
        .says("dispatch b#1");
    story
        .end("b", failed("BAD", Some(Severity::Fatal)))
        .says("persist_result failure 0/2 fatal BAD@b");
}

//
#[test]
fn delays_grow_and_are_capped() {
    let mut spec = steps("a retry");
    let policy = |backoff_ms, multiplier, max_backoff_ms| RetryPolicyDraft {
        backoff_ms: Some(backoff_ms),
        backoff_multiplier: Some(multiplier),
        max_backoff_ms: Some(max_backoff_ms),
        ..RetryPolicyDraft::default()
    };
    let mut delays = |draft: RetryPolicyDraft, ns: &[u32]| -> Vec<u64> {
        spec.plan().retry_policy = Some(draft);
        let plan = validate_plan(spec.plan().clone()).unwrap();
        ns.iter().map(|n| plan.retry_policy().delay_ms(*n)).collect()
    };
    assert_eq!(
        delays(policy(100, 2.0, 1000), &[1, 2, 3, 4, 5, 60]),
        [100, 200, 400, 800, 1000, 1000]
    );
    assert_eq!(
        delays(policy(100, 1.5, 60_000), &[1, 2, 3, 4]),
        [100, 150, 225, 337]
    );
    assert_eq!(delays(policy(7, 1.0, 60_000), &[1, 2, u32::MAX]), [7, 7, 7]);
    assert_eq!(delays(policy(0, f64::MAX, 60_000), &[1, 2, u32::MAX]), [0, 0, 0]);
    assert_eq!(delays(policy(500, 3.0, 100), &[1, 2]), [100, 100]);
    assert_eq!(
        delays(policy(1, f64::MAX, i64::MAX), &[3, u32::MAX]),
        [i64::MAX as u64, i64::MAX as u64]
    );
    assert_eq!(
        delays(policy(i64::MAX, 2.0, i64::MAX), &[1, 2]),
        [i64::MAX as u64, i64::MAX as u64]
    );
}

//
#[test]
fn the_delay_counts_from_the_instant_at_which_the_attempt_was_over() {
    let mut story = steps("a retry limit=100")
        .attempts(2, 50, &["STEP_TIMEOUT"])
        .running();
    story.hand("a").says("dispatch a#1");
    // The tick comes late: the limit was due at 100, so the sleep ended at 150.
    story
        .at(400)
        .tick()
        .says("withdraw a#1 step_timeout, dispatch a#2");
}

//
#[test]
fn contexts_of_repeated_attempts_are_kept_up_to_a_limit() {
    let mut story = steps("a retry").attempts(1000, 0, &["*"]).running();
    let context = StructBuilder::new().text("blob", &"x".repeat(16_000)).build();
    for _ in 0..100 {
        let error = failure("FLAKY", context.clone());
        story.end("a", error);
    }
    story.end("a", failed("BAD", Some(Severity::Fatal)));
    assert_eq!(story.trace().len(), 101);
    let record = format!("{:?}", story.persisted.as_ref().unwrap().audit);
    // 65 contexts of 16 KB fill 1 MiB.
    assert_eq!(record.matches("context_dropped").count(), 35);
    assert!(story.error().context.len() < 1_200_000);
}
