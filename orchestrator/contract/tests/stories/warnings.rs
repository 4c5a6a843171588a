//! What is allowed in a plan and yet probably not meant.

use crate::story::{Spec, steps};
use escapement_contract::validate_plan;

/// Returns the warnings about a plan, as field and code.
fn warnings(mut spec: Spec) -> Vec<String> {
    let plan = validate_plan(std::mem::take(spec.plan())).unwrap();
    let warnings = plan.warnings();
    warnings
        .iter()
        .map(|finding| format!("{} {}", finding.field, finding.code))
        .collect()
}

/// A plan about which there is nothing to say.
fn limited() -> Spec {
    steps("limit limit=1")
}

//
#[test]
fn what_is_probably_not_meant_is_a_warning() {
    assert!(warnings(limited()).is_empty());
    assert!(warnings(limited().step("a").skip()).is_empty());
    assert_eq!(
        warnings(limited().step("a").limit(1000)),
        ["plan.steps[1].timeout_ms STEP_LIMIT_NEVER_BINDS"]
    );
    assert!(warnings(limited().step("a").limit(999)).is_empty());
    let no_limits = "plan.steps NO_STEP_LIMITS";
    assert_eq!(warnings(steps("a")), [no_limits]);
    let never = "plan.steps[1].on_failure RETRY_NEVER_HAPPENS";
    assert_eq!(warnings(steps("a; b retry")), [no_limits, never]);
    assert!(warnings(steps("a; b limit=1")).is_empty());
    let created = |created_at| {
        let mut spec = limited();
        spec.plan().created_at = created_at;
        warnings(spec)
    };
    assert_eq!(created(1_763_690_000), ["plan.created_at TIME_IN_SECONDS"]);
    assert!(created(1_763_690_000_000).is_empty());
}

//
#[test]
fn a_retry_that_never_happens_says_what_is_missing() {
    let missing = |max_attempts, codes: &[&str]| {
        let mut spec = limited().step("a").retry().attempts(max_attempts, 0, codes);
        let warnings = validate_plan(std::mem::take(spec.plan())).unwrap().warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(
            (warnings[0].field.as_str(), warnings[0].code),
            ("plan.steps[1].on_failure", "RETRY_NEVER_HAPPENS")
        );
        warnings[0].message.clone()
    };
    assert!(missing(1, &["*"]).contains("max_attempts must be above 1"));
    assert!(missing(3, &[]).contains("retryable_error_codes lists no code"));
    assert!(missing(3, &["PLAN_TIMEOUT"]).contains("ever has severity error"));
}

//
#[test]
fn retries_that_end_as_a_skip_are_warned_of_unless_something_behind_them_stops_the_plan() {
    let retried = || limited().step("a").retry().attempts(3, 0, &["BUSY"]);
    let ends = ["plan.steps[1].on_failure RETRY_ENDS_AS_SKIP"];
    assert_eq!(warnings(retried()), ends);
    assert_eq!(warnings(retried().step("b").skip().after(&["a"])), ends);
    assert!(warnings(retried().step("b").after(&["a"])).is_empty());
    let passed_on = retried().step("b").skip().after(&["a"]).step("c").after(&["b"]);
    assert!(warnings(passed_on).is_empty());
    // Once for all steps, with their number.
    let mut many = retried().step("b").retry().step("c").retry();
    let warnings = validate_plan(std::mem::take(many.plan())).unwrap().warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message.ends_with("2 other steps."), "{warnings:?}");
}

//
#[test]
fn a_limit_that_stops_the_plan_though_the_step_is_to_be_skipped_or_retried_is_warned_of() {
    let skipped = || limited().step("a").skip().limit(5);
    assert_eq!(
        warnings(skipped()),
        ["plan.steps[1].on_failure SKIP_DOES_NOT_COVER_TIMEOUT"]
    );
    assert!(warnings(skipped().attempts(1, 0, &["STEP_TIMEOUT"])).is_empty());
    let retried = |codes: &[&str]| {
        let spec = limited().step("a").retry().limit(5).attempts(3, 0, codes);
        warnings(spec.step("b").after(&["a"]))
    };
    assert_eq!(
        retried(&["BUSY"]),
        ["plan.steps[1].on_failure RETRY_DOES_NOT_COVER_TIMEOUT"]
    );
    assert!(retried(&["*"]).is_empty());
}

//
#[test]
fn a_policy_of_which_no_step_makes_use_is_warned_of() {
    let unused = ["plan.retry_policy RETRY_POLICY_UNUSED"];
    assert_eq!(warnings(limited().attempts(3, 0, &["*"])), unused);
    assert_eq!(warnings(limited().attempts(3, 0, &[])), unused);
    assert_eq!(warnings(limited().attempts(1, 0, &["BUSY"])), unused);
    assert!(warnings(limited().attempts(1, 10, &[])).is_empty());
}
