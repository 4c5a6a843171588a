//! Section 1: what a request is.

use crate::story::{ALLOWANCE, CONCURRENCY_MAX, Spec, plan, step_id, steps};
use escapement_contract::{Finding, RetryPolicyDraft, Violations, validate_request};
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;

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
fn every_violation_is_named_at_once_in_document_order() {
    let spec = with(|spec| {
        spec.0.user_id = Some("u".repeat(256));
        spec.0.max_concurrent_steps = Some(0);
        let plan = spec.plan();
        plan.id = "nonsense".into();
        plan.version = 2;
        plan.created_at = 0;
        plan.name = String::new();
        plan.steps[0].payload = None;
        plan.steps[0].depends_on = vec![step_id("zz").to_string()];
        plan.steps[1].on_failure = 3;
        plan.steps[1].timeout_ms = Some(0);
        plan.context_requirements.clear();
        plan.timeout_ms = Some(-1);
        plan.retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(0),
            ..RetryPolicyDraft::default()
        });
        plan.tags = vec![String::new()];
    });
    check(
        spec,
        &[
            "plan.id",
            "plan.version",
            "plan.created_at",
            "plan.steps[0].payload",
            "plan.steps[0].depends_on[0] DEPENDENCY_UNRESOLVED",
            "plan.steps[1].on_failure",
            "plan.steps[1].timeout_ms",
            "plan.name",
            "plan.context_requirements",
            "plan.timeout_ms",
            "plan.retry_policy.max_attempts",
            "plan.tags[0]",
            "user_id",
            "options.max_concurrent_steps",
        ],
    );
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
fn the_digest_knows_defaults_case_and_order_but_no_execution_id() {
    let digest = |spec: Spec| *validate_request(spec.0, CONCURRENCY_MAX).unwrap().digest();
    let plain = digest(with(|_| ()));
    let spelled_out = with(|spec| {
        spec.0.max_concurrent_steps = Some(1);
        spec.0.execution_id = Some(step_id("x").to_string());
        let plan = spec.plan();
        plan.id = plan.id.to_uppercase();
        plan.steps[1].depends_on[0] = plan.steps[1].depends_on[0].to_uppercase();
        plan.priority = Some(0);
        plan.metadata = Some(Opaque::default());
        plan.retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(1),
            backoff_ms: Some(0),
            backoff_multiplier: Some(1.0),
            max_backoff_ms: Some(60_000),
            retryable_error_codes: Vec::new(),
        });
    });
    assert_eq!(digest(spelled_out), plain);
    let one = StructBuilder::new()
        .text("region", "n")
        .number("n", 1.0)
        .null("z");
    let other = StructBuilder::new()
        .null("z")
        .number("n", 2.0)
        .number("n", 1.0)
        .text("region", "n");
    let environment = |object: StructBuilder| digest(with(|spec| spec.0.environment = Some(object.build())));
    assert_eq!(environment(one), environment(other));
    let changes: [fn(&mut Spec); 8] = [
        |spec| spec.plan().id = step_id("other").to_string(),
        |spec| spec.0.user_id = Some(String::new()),
        |spec| spec.0.deadline_ms = Some(1),
        |spec| spec.0.max_concurrent_steps = Some(2),
        |spec| spec.0.environment = Some(StructBuilder::new().text("region", "south").build()),
        |spec| spec.plan().priority = Some(1),
        |spec| spec.plan().steps[1].depends_on.clear(),
        |spec| spec.plan().steps.swap(0, 1),
    ];
    for change in changes {
        assert_ne!(digest(with(change)), plain);
    }
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
