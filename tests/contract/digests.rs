//! When two requests are the same, what is warned of, and how large a plan may be.

use crate::documents::{CONCURRENCY_LIMIT, UNIX_MS, object_of, request, step_id};
use escapement_contract::{PlanDraft, RequestDraft, RetryPolicyDraft, validate_plan, validate_request};
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_wire::v1;
use prost::Message;

fn digest(change: impl FnOnce(&mut RequestDraft)) -> [u8; 32] {
    let mut draft = request();
    change(&mut draft);
    *validate_request(draft, CONCURRENCY_LIMIT).unwrap().digest()
}

fn plan(draft: &mut RequestDraft) -> &mut PlanDraft {
    draft.plan.as_mut().unwrap()
}

/// Row and two changes of the valid request.
type Pair = (&'static str, fn(&mut RequestDraft), fn(&mut RequestDraft));

#[test]
fn requests_that_say_the_same_have_the_same_digest() {
    //
    let pairs: &[Pair] = &[
        ("another execution id", |_| {}, |draft| draft.execution_id = None),
        (
            "ids in upper case",
            |_| {},
            |draft| {
                let plan = plan(draft);
                plan.id = plan.id.to_uppercase();
                for step in &mut plan.steps {
                    step.id = step.id.to_uppercase();
                }
            },
        ),
        (
            "references in upper case",
            |_| {},
            |draft| plan(draft).steps[1].depends_on = vec![step_id(0).to_uppercase()],
        ),
        (
            "no priority",
            |draft| plan(draft).priority = Some(0),
            |draft| plan(draft).priority = None,
        ),
        (
            "no timeout",
            |draft| plan(draft).timeout_ms = Some(300_000),
            |draft| plan(draft).timeout_ms = None,
        ),
        (
            "no concurrency",
            |draft| draft.max_concurrent_steps = Some(1),
            |draft| draft.max_concurrent_steps = None,
        ),
        (
            "no metadata",
            |draft| plan(draft).metadata = Some(Opaque::default()),
            |draft| plan(draft).metadata = None,
        ),
        (
            "no environment",
            |draft| draft.environment = Some(Opaque::default()),
            |draft| draft.environment = None,
        ),
        (
            "no retry policy",
            |draft| plan(draft).retry_policy = None,
            |draft| plan(draft).retry_policy = Some(RetryPolicyDraft::default()),
        ),
        (
            "an explicit retry policy",
            |draft| plan(draft).retry_policy = None,
            |draft| {
                plan(draft).retry_policy = Some(RetryPolicyDraft {
                    max_attempts: Some(1),
                    backoff_ms: Some(0),
                    backoff_multiplier: Some(1.0),
                    max_backoff_ms: Some(60_000),
                    retryable_error_codes: vec![],
                });
            },
        ),
        (
            "keys in another order",
            |draft| draft.environment = Some(StructBuilder::new().text("a", "1").text("b", "2").build()),
            |draft| draft.environment = Some(StructBuilder::new().text("b", "2").text("a", "1").build()),
        ),
        (
            "a key written twice",
            |draft| draft.environment = Some(StructBuilder::new().text("a", "2").build()),
            |draft| draft.environment = Some(StructBuilder::new().text("a", "1").text("a", "2").build()),
        ),
    ];
    for (name, one, other) in pairs {
        assert_eq!(digest(one), digest(other), "{name}");
    }
}

#[test]
fn requests_that_differ_have_different_digests() {
    //
    let changes: &[fn(&mut RequestDraft)] = &[
        |_| {},
        |draft| draft.deadline_ms = None,
        |draft| draft.deadline_ms = Some(UNIX_MS + 1),
        |draft| draft.user_id = None,
        |draft| draft.user_id = Some("desk-8".into()),
        |draft| draft.request_id = None,
        |draft| draft.parent_execution_id = Some(step_id(9)),
        |draft| draft.max_concurrent_steps = Some(3),
        |draft| draft.environment = None,
        |draft| draft.environment = Some(StructBuilder::new().text("region", "us").build()),
        |draft| draft.environment = Some(StructBuilder::new().null("region").build()),
        |draft| draft.correlation_context.clear(),
        |draft| draft.correlation_context = [("trac".to_owned(), "eabc".to_owned())].into(),
        |draft| plan(draft).id = step_id(9),
        |draft| plan(draft).name.push('x'),
        |draft| plan(draft).created_at += 1,
        |draft| plan(draft).priority = None,
        |draft| plan(draft).timeout_ms = Some(60_001),
        |draft| plan(draft).estimated_duration_ms = None,
        |draft| plan(draft).estimated_duration_ms = Some(0),
        |draft| plan(draft).tags.push("weekly".into()),
        |draft| plan(draft).tags = vec!["night".into(), "ly".into()],
        |draft| plan(draft).context_requirements.push("x".into()),
        |draft| plan(draft).metadata = None,
        |draft| plan(draft).retry_policy = None,
        |draft| plan(draft).steps.swap(0, 3),
        |draft| plan(draft).steps.truncate(3),
        |draft| plan(draft).steps[3].action = "rest".into(),
        |draft| plan(draft).steps[3].on_failure = 1,
        |draft| plan(draft).steps[3].timeout_ms = Some(1),
        |draft| plan(draft).steps[3].payload = Some(StructBuilder::new().boolean("a", true).build()),
        |draft| plan(draft).steps[3].payload = Some(StructBuilder::new().boolean("a", false).build()),
        |draft| plan(draft).steps[3].payload = Some(StructBuilder::new().null("a").build()),
        |draft| plan(draft).steps[3].payload = Some(StructBuilder::new().number("a", 1.0).build()),
        |draft| plan(draft).steps[3].payload = Some(StructBuilder::new().text("a", "1").build()),
        |draft| plan(draft).steps[3].depends_on = vec![step_id(0)],
    ];
    let mut digests: Vec<[u8; 32]> = changes.iter().map(|change| digest(change)).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), changes.len());
}

/// Returns the plan as it goes over the wire, for its size alone.
fn encoded_bytes(plan: &PlanDraft) -> usize {
    let step = |step: &escapement_contract::StepDraft| v1::PlanStep {
        id: step.id.clone(),
        action: step.action.clone(),
        payload: step.payload.clone(),
        depends_on: step.depends_on.clone(),
        on_failure: step.on_failure,
        timeout_ms: step.timeout_ms,
    };
    v1::Plan {
        id: plan.id.clone(),
        version: plan.version,
        created_at: plan.created_at,
        steps: plan.steps.iter().map(step).collect(),
        name: plan.name.clone(),
        context_requirements: plan.context_requirements.clone(),
        priority: plan.priority,
        timeout_ms: plan.timeout_ms,
        retry_policy: plan.retry_policy.as_ref().map(|policy| v1::RetryPolicy {
            max_attempts: policy.max_attempts,
            backoff_ms: policy.backoff_ms,
            backoff_multiplier: policy.backoff_multiplier,
            max_backoff_ms: policy.max_backoff_ms,
            retryable_error_codes: policy.retryable_error_codes.clone(),
        }),
        metadata: plan.metadata.clone(),
        tags: plan.tags.clone(),
        estimated_duration_ms: plan.estimated_duration_ms,
    }
    .encoded_len()
}

#[test]
fn a_plan_of_four_mebibytes_is_accepted_and_one_byte_more_is_not() {
    //
    let mut plan = request().plan.unwrap();
    plan.metadata = Some(object_of(4_000_000));
    let room = (4 << 20) - encoded_bytes(&plan);
    plan.metadata = Some(object_of(4_000_000 + room));
    assert_eq!(encoded_bytes(&plan), 4 << 20);
    assert!(validate_plan(plan.clone()).is_ok());
    plan.name.push('x');
    let violations = validate_plan(plan).unwrap_err();
    assert_eq!((violations.len(), violations.first().field.as_str()), (1, "plan"));
}
