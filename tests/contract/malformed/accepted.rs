//! The counterpart of the malformed requests: as much as is allowed, and not a bit more.

use super::{Case, itself, plan_of, policy_of, rows, step_of, steps};
use crate::documents::{CONCURRENCY_LIMIT, PLAN_ID, nested_lists, nested_object, object_of};
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
    let mut cases: Vec<Case> = plans().into_iter().collect();
    cases.extend(policies());
    cases.extend(single_steps());
    cases.extend(requests());
    cases
}

fn plans() -> impl IntoIterator<Item = Case> {
    rows! { plan in plan_of, "plan." {
        plan.id = "ABCDEF01-2345-4678-ABCD-EF0123456789".into() => [];
        plan.id = "3f2504e0-4f89-41d3-8a0c-0305e82c3301".into() => [];
        plan.id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301".into() => [];
        plan.id = "3f2504e0-4f89-41d3-aa0c-0305e82c3301".into() => [];
        plan.id = "3f2504e0-4f89-41d3-ba0c-0305e82c3301".into() => [];
        plan.id = "3f2504e0-4f89-41d3-Aa0c-0305e82c3301".into() => [];
        plan.id = "3f2504e0-4f89-41d3-Ba0c-0305e82c3301".into() => [];
        plan.name = "n".into() => [];
        plan.name = " ".into() => [];
        plan.name = "n".repeat(NAME_CHARS_MAX) => [];
        plan.name = WIDE.repeat(NAME_CHARS_MAX) => [];
        plan.steps.truncate(1) => [];
        plan.steps = steps(STEPS_MAX, |_| {}) => [];
        plan.created_at = 1 => [];
        plan.created_at = i64::MAX => [];
        plan.timeout_ms = Some(1) => [];
        plan.timeout_ms = Some(i64::MAX) => [];
        plan.timeout_ms = None => [];
        plan.priority = Some(i32::MIN) => [];
        plan.priority = Some(i32::MAX) => [];
        plan.estimated_duration_ms = Some(0) => [];
        plan.context_requirements = vec![WIDE.repeat(LABEL_CHARS_MAX)] => [];
        plan.context_requirements = vec!["region".into(); CONTEXT_REQUIREMENTS_MAX] => [];
        // The environment lacks it, which is for the execution to find.
        plan.context_requirements = vec!["missing".into()] => [];
        plan.tags.clear() => [];
        plan.tags = vec![WIDE.repeat(LABEL_CHARS_MAX); TAGS_MAX] => [];
        plan.metadata = None => [];
        plan.metadata = Some(nested_object(OBJECT_NESTING_MAX)) => [];
        plan.retry_policy = None => [];
        plan.retry_policy = Some(RetryPolicyDraft::default()) => [];
    } }
}

fn policies() -> impl IntoIterator<Item = Case> {
    rows! { policy in policy_of, "plan.retry_policy." {
        policy.max_attempts = Some(1) => [];
        policy.max_attempts = Some(i32::MAX) => [];
        policy.backoff_ms = Some(0) => [];
        policy.backoff_ms = Some(i64::MAX) => [];
        policy.max_backoff_ms = Some(0) => [];
        // Below the first one.
        policy.max_backoff_ms = Some(1) => [];
        policy.backoff_multiplier = Some(1.0) => [];
        policy.backoff_multiplier = Some(f64::MAX) => [];
        policy.retryable_error_codes = vec!["*".into()] => [];
        policy.retryable_error_codes = vec![WIDE.repeat(ERROR_CODE_CHARS_MAX)] => [];
        policy.retryable_error_codes = vec!["BUSY".into(); RETRYABLE_CODES_MAX] => [];
        // A fatal one.
        policy.retryable_error_codes = vec!["UNKNOWN_ERROR".into()] => [];
    } }
}

fn single_steps() -> impl IntoIterator<Item = Case> {
    let null_value = Opaque::from_encoded(Bytes::from_static(&[0x0a, 0x05, 0x0a, 0x01, b'k', 0x12, 0x00]));
    rows! { step in step_of, "plan.steps[3]." {
        // Nothing forbids one text as the id of different things.
        step.id = PLAN_ID.into() => [];
        step.action = "a".into() => [];
        step.action = "a".repeat(ACTION_CHARS_MAX) => [];
        step.action = WIDE.repeat(ACTION_CHARS_MAX) => [];
        step.payload = Some(object_of(PAYLOAD_BYTES_MAX)) => [];
        step.payload = Some(nested_object(OBJECT_NESTING_MAX)) => [];
        step.payload = Some(nested_lists(OBJECT_NESTING_MAX)) => [];
        step.payload = Some(null_value) => [];
        step.on_failure = 0 => [];
        step.on_failure = 1 => [];
        step.on_failure = 2 => [];
        step.timeout_ms = Some(1) => [];
        // Above the plan's.
        step.timeout_ms = Some(60_001) => [];
        step.timeout_ms = Some(i64::MAX) => [];
    } }
}

fn requests() -> impl IntoIterator<Item = Case> {
    let concurrency = i32::try_from(CONCURRENCY_LIMIT).unwrap();
    let value = || WIDE.repeat(CORRELATION_VALUE_CHARS_MAX);
    let entries = (0..CORRELATION_ENTRIES_MAX).map(|n| (format!("{n:0255}"), value()));
    rows! { draft in itself, "" {
        draft.execution_id = None => [];
        draft.execution_id = Some("ABCDEF01-2345-4678-9BCD-EF0123456789".into()) => [];
        draft.parent_execution_id = Some("abCDEF01-2345-4678-bbcd-EF0123456789".into()) => [];
        draft.parent_execution_id = Some(PLAN_ID.into()) => [];
        draft.environment = None => [];
        draft.environment = Some(nested_object(OBJECT_NESTING_MAX)) => [];
        draft.environment = Some(object_of(ENVIRONMENT_BYTES_MAX)) => [];
        draft.deadline_ms = None => [];
        draft.deadline_ms = Some(1) => [];
        draft.deadline_ms = Some(i64::MAX) => [];
        draft.max_concurrent_steps = None => [];
        draft.max_concurrent_steps = Some(1) => [];
        draft.max_concurrent_steps = Some(concurrency) => [];
        draft.user_id = None => [];
        draft.user_id = Some(WIDE.repeat(LABEL_CHARS_MAX)) => [];
        draft.request_id = Some(WIDE.repeat(LABEL_CHARS_MAX)) => [];
        draft.correlation_context = entries.collect() => [];
        draft.correlation_context.clear() => [];
    } }
}
