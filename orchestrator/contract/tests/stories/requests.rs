//! Section 1: what a request is.

use crate::story::{ALLOWANCE, CONCURRENCY_MAX, Spec, plan, step_id, steps};
use escapement_contract::{Finding, Violations, validate_request};

fn findings(spec: Spec) -> Vec<Finding> {
    validate_request(spec.0, CONCURRENCY_MAX).map_or_else(|all| all.iter().cloned().collect(), |_| Vec::new())
}

/// The paths and codes of all violations.
#[track_caller]
fn check(spec: Spec, expected: &[&str]) {
    let found: Vec<String> = findings(spec)
        .iter()
        .map(|finding| match finding.code {
            "INVALID_PAYLOAD" => finding.field.clone(),
            code => format!("{} {code}", finding.field),
        })
        .collect();
    assert_eq!(found, expected);
}

fn with(change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = steps("a; b after=a");
    change(&mut spec);
    spec
}

//
#[test]
fn a_request_without_a_plan_is_refused() {
    let mut spec = plan();
    spec.0.plan = None;
    check(spec, &["plan"]);
}

//
#[test]
fn a_refusal_names_at_most_a_thousand_violations() {
    let spec = with(|spec| {
        for step in &mut spec.plan().steps {
            step.depends_on = (0..5000).map(|n| format!("nobody {n}")).collect();
        }
    });
    let all = findings(spec);
    assert_eq!(all.len(), 1000);
    assert_eq!(all[0].field, "plan.steps[0].depends_on[0]");
}

//
#[test]
fn a_deadline_that_nobody_gave_allows_for_the_queue() {
    let request = validate_request(with(|_| ()).0, 1).unwrap();
    assert_eq!(
        escapement_contract::default_deadline(5, request.plan(), ALLOWANCE),
        5 + 1000 + 500
    );
    assert_eq!(
        escapement_contract::default_deadline(5, request.plan(), u64::MAX),
        i64::MAX
    );
}

//
#[test]
fn the_first_findings_are_told_whether_they_are_about_fields_or_about_the_graph() {
    let mut spec = (0..1_024).fold(plan(), |spec, n| spec.step(&format!("{n}")));
    let ids: Vec<String> = spec.plan().steps.iter().map(|step| step.id.clone()).collect();
    for (index, step) in spec.plan().steps.iter_mut().enumerate() {
        // Two fields that are wrong, and a cycle through all of them.
        (step.on_failure, step.timeout_ms) = (9, Some(0));
        step.depends_on = vec![ids[(index + 1) % 1_024].clone()];
    }
    spec.plan().steps[0]
        .depends_on
        .push(step_id("nobody").to_string());
    spec.plan().steps[500].depends_on.push(ids[0].clone());
    let refusal = validate_request(spec.0, 1).unwrap_err();
    let fields: Vec<&str> = refusal.iter().map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields.len(), 1_000);
    assert_eq!(
        fields[..4],
        [
            "plan.steps[0].depends_on[1]",
            "plan.steps[0].on_failure",
            "plan.steps[0].timeout_ms",
            "plan.steps[1].on_failure",
        ]
    );
    assert_eq!(fields[999], "plan.steps[499].on_failure");
}

//
#[test]
fn a_refusal_reads_as_a_sentence() {
    let refusal: Violations = validate_request(plan().0, 1).unwrap_err();
    assert_eq!(refusal.to_string(), "plan.steps: At least one step is required.");
    assert_eq!(refusal.first().code, "INVALID_PAYLOAD");
}
