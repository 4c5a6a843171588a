//! The counterpart of the malformed requests: as much as is allowed, and not a bit more.

use super::{Case, case, graph, ids, plan_case, policy_case, step_case};
use crate::documents::{CONCURRENCY_LIMIT, nested_lists, nested_object, object_of, step};
use bytes::Bytes;
use escapement_contract::RetryPolicyDraft;
use escapement_model::Opaque;
use escapement_model::limits::{
    ACTION_CHARS_MAX, CONTEXT_REQUIREMENTS_MAX, CORRELATION_ENTRIES_MAX, CORRELATION_VALUE_CHARS_MAX,
    ENVIRONMENT_BYTES_MAX, ERROR_CODE_CHARS_MAX, LABEL_CHARS_MAX, NAME_CHARS_MAX, OBJECT_NESTING_MAX,
    PAYLOAD_BYTES_MAX, RETRYABLE_CODES_MAX, STEPS_MAX, TAGS_MAX,
};

/// A letter of four bytes: lengths count code points.
const WIDE: &str = "\u{1f600}";

pub(super) fn cases() -> Vec<Case> {
    [
        of_the_plan(),
        of_the_policy(),
        of_steps(),
        of_the_request(),
        ids::accepted(),
        graph::accepted(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_the_plan() -> Vec<Case> {
    //
    vec![
        plan_case("name of one letter", |plan| plan.name = "n".into(), []),
        plan_case("name of a blank", |plan| plan.name = " ".into(), []),
        plan_case(
            "name of 255 letters",
            |plan| plan.name = "n".repeat(NAME_CHARS_MAX),
            [],
        ),
        plan_case(
            "name of 255 wide letters",
            |plan| plan.name = WIDE.repeat(NAME_CHARS_MAX),
            [],
        ),
        plan_case("1 step", |plan| plan.steps.truncate(1), []),
        plan_case(
            "1024 steps",
            |plan| plan.steps = (0..STEPS_MAX).map(step).collect(),
            [],
        ),
        plan_case("created at 1", |plan| plan.created_at = 1, []),
        plan_case(
            "created at the end of time",
            |plan| plan.created_at = i64::MAX,
            [],
        ),
        plan_case("plan timeout 1", |plan| plan.timeout_ms = Some(1), []),
        plan_case(
            "plan timeout without end",
            |plan| plan.timeout_ms = Some(i64::MAX),
            [],
        ),
        plan_case("no plan timeout", |plan| plan.timeout_ms = None, []),
        plan_case("lowest priority", |plan| plan.priority = Some(i32::MIN), []),
        plan_case("highest priority", |plan| plan.priority = Some(i32::MAX), []),
        plan_case(
            "estimated duration 0",
            |plan| plan.estimated_duration_ms = Some(0),
            [],
        ),
        plan_case(
            "a requirement of 255 wide letters",
            |plan| plan.context_requirements = vec![WIDE.repeat(LABEL_CHARS_MAX)],
            [],
        ),
        plan_case(
            "1024 requirements",
            |plan| plan.context_requirements = vec!["region".into(); CONTEXT_REQUIREMENTS_MAX],
            [],
        ),
        plan_case(
            "a requirement that the environment lacks",
            |plan| plan.context_requirements = vec!["missing".into()],
            [],
        ),
        plan_case("no tags", |plan| plan.tags.clear(), []),
        plan_case(
            "64 tags of 255 wide letters",
            |plan| plan.tags = vec![WIDE.repeat(LABEL_CHARS_MAX); TAGS_MAX],
            [],
        ),
        plan_case("no metadata", |plan| plan.metadata = None, []),
        plan_case(
            "metadata of 90 nested messages",
            |plan| plan.metadata = Some(nested_object(OBJECT_NESTING_MAX)),
            [],
        ),
    ]
}

fn of_the_policy() -> Vec<Case> {
    //
    vec![
        plan_case("no retry policy", |plan| plan.retry_policy = None, []),
        plan_case(
            "a retry policy that says nothing",
            |plan| plan.retry_policy = Some(RetryPolicyDraft::default()),
            [],
        ),
        policy_case("one attempt", |policy| policy.max_attempts = Some(1), []),
        policy_case(
            "attempts without end",
            |policy| policy.max_attempts = Some(i32::MAX),
            [],
        ),
        policy_case("backoff 0", |policy| policy.backoff_ms = Some(0), []),
        policy_case(
            "backoff without end",
            |policy| policy.backoff_ms = Some(i64::MAX),
            [],
        ),
        policy_case("longest backoff 0", |policy| policy.max_backoff_ms = Some(0), []),
        policy_case(
            "longest backoff below the first",
            |policy| policy.max_backoff_ms = Some(1),
            [],
        ),
        policy_case("multiplier 1", |policy| policy.backoff_multiplier = Some(1.0), []),
        policy_case(
            "the largest multiplier",
            |policy| policy.backoff_multiplier = Some(f64::MAX),
            [],
        ),
        policy_case(
            "every code retryable",
            |policy| policy.retryable_error_codes = vec!["*".into()],
            [],
        ),
        policy_case(
            "a retryable code of 50 wide letters",
            |policy| policy.retryable_error_codes = vec![WIDE.repeat(ERROR_CODE_CHARS_MAX)],
            [],
        ),
        policy_case(
            "256 retryable codes",
            |policy| policy.retryable_error_codes = vec!["BUSY".into(); RETRYABLE_CODES_MAX],
            [],
        ),
        policy_case(
            "a fatal code retryable",
            |policy| policy.retryable_error_codes = vec!["UNKNOWN_ERROR".into()],
            [],
        ),
    ]
}

fn of_steps() -> Vec<Case> {
    //
    let null_value = Opaque::from_encoded(Bytes::from_static(&[0x0a, 0x05, 0x0a, 0x01, b'k', 0x12, 0x00]));
    vec![
        step_case("action of one letter", |step| step.action = "a".into(), []),
        step_case(
            "action of 100 letters",
            |step| step.action = "a".repeat(ACTION_CHARS_MAX),
            [],
        ),
        step_case(
            "action of 100 wide letters",
            |step| step.action = WIDE.repeat(ACTION_CHARS_MAX),
            [],
        ),
        step_case(
            "payload of 1 MiB",
            |step| step.payload = Some(object_of(PAYLOAD_BYTES_MAX)),
            [],
        ),
        step_case(
            "payload of 90 nested messages",
            |step| step.payload = Some(nested_object(OBJECT_NESTING_MAX)),
            [],
        ),
        step_case(
            "payload of 90 nested messages in lists",
            |step| step.payload = Some(nested_lists(OBJECT_NESTING_MAX)),
            [],
        ),
        step_case(
            "payload with a value that says nothing",
            |step| step.payload = Some(null_value),
            [],
        ),
        step_case("halt", |step| step.on_failure = 0, []),
        step_case("skip", |step| step.on_failure = 1, []),
        step_case("retry", |step| step.on_failure = 2, []),
        step_case("step timeout 1", |step| step.timeout_ms = Some(1), []),
        step_case(
            "step timeout above the plan's",
            |step| step.timeout_ms = Some(60_001),
            [],
        ),
        step_case(
            "step timeout without end",
            |step| step.timeout_ms = Some(i64::MAX),
            [],
        ),
    ]
}

fn of_the_request() -> Vec<Case> {
    //
    vec![
        case("no environment", |draft| draft.environment = None, []),
        case(
            "environment of 90 nested messages",
            |draft| draft.environment = Some(nested_object(OBJECT_NESTING_MAX)),
            [],
        ),
        case(
            "environment of 1 MiB",
            |draft| draft.environment = Some(object_of(ENVIRONMENT_BYTES_MAX)),
            [],
        ),
        case("no deadline", |draft| draft.deadline_ms = None, []),
        case("a deadline in the past", |draft| draft.deadline_ms = Some(1), []),
        case(
            "a deadline at the end of time",
            |draft| draft.deadline_ms = Some(i64::MAX),
            [],
        ),
        case("no concurrency", |draft| draft.max_concurrent_steps = None, []),
        case("concurrency 1", |draft| draft.max_concurrent_steps = Some(1), []),
        case(
            "concurrency at the server's limit",
            |draft| draft.max_concurrent_steps = Some(i32::try_from(CONCURRENCY_LIMIT).unwrap()),
            [],
        ),
        case("no user id", |draft| draft.user_id = None, []),
        case(
            "user id of 255 wide letters",
            |draft| draft.user_id = Some(WIDE.repeat(LABEL_CHARS_MAX)),
            [],
        ),
        case(
            "request id of 255 wide letters",
            |draft| draft.request_id = Some(WIDE.repeat(LABEL_CHARS_MAX)),
            [],
        ),
        case(
            "64 correlation entries at their limits",
            |draft| {
                draft.correlation_context = (0..CORRELATION_ENTRIES_MAX)
                    .map(|n| (format!("{n:0255}"), WIDE.repeat(CORRELATION_VALUE_CHARS_MAX)))
                    .collect();
            },
            [],
        ),
        case("no correlation", |draft| draft.correlation_context.clear(), []),
    ]
}
