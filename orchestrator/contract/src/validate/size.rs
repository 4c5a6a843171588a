//! Number of bytes that a plan takes encoded, as `escapement.v1.Plan`. A pure leaf; encodes nothing.

use crate::draft::{PlanDraft, RetryPolicyDraft, StepDraft};
use crate::outcome::varint_bytes;
use alloc::string::String;
use escapement_model::Opaque;

/// Returns the bytes of the encoded plan. All field numbers are below 16, so each key takes one byte.
pub(super) fn plan_bytes(plan: &PlanDraft) -> usize {
    let PlanDraft {
        id,
        version,
        created_at,
        steps,
        name,
        context_requirements,
        priority,
        timeout_ms,
        retry_policy,
        metadata,
        tags,
        estimated_duration_ms,
    } = plan;
    let steps = steps.iter().map(|step| delimited(step_bytes(step)));
    text(id)
        + number(i64::from(*version))
        + number(*created_at)
        + steps.sum::<usize>()
        + text(name)
        + texts(context_requirements)
        + optional(priority.map(i64::from))
        + optional(*timeout_ms)
        + message(retry_policy.as_ref().map(policy_bytes))
        + message(metadata.as_ref().map(Opaque::len))
        + texts(tags)
        + optional(*estimated_duration_ms)
}

fn step_bytes(step: &StepDraft) -> usize {
    let StepDraft {
        id,
        action,
        payload,
        depends_on,
        on_failure,
        timeout_ms,
    } = step;
    text(id)
        + text(action)
        + message(payload.as_ref().map(Opaque::len))
        + texts(depends_on)
        + number(i64::from(*on_failure))
        + optional(*timeout_ms)
}

fn policy_bytes(policy: &RetryPolicyDraft) -> usize {
    let RetryPolicyDraft {
        max_attempts,
        backoff_ms,
        backoff_multiplier,
        max_backoff_ms,
        retryable_error_codes,
    } = policy;
    optional(max_attempts.map(i64::from))
        + optional(*backoff_ms)
        + backoff_multiplier.map_or(0, |_| 1 + size_of::<f64>())
        + optional(*max_backoff_ms)
        + texts(retryable_error_codes)
}

fn message(length: Option<usize>) -> usize {
    length.map_or(0, delimited)
}

/// An empty text is not sent.
fn text(text: &str) -> usize {
    if text.is_empty() { 0 } else { delimited(text.len()) }
}

fn texts(texts: &[String]) -> usize {
    texts.iter().map(|text| delimited(text.len())).sum()
}

/// A zero is not sent.
fn number(number: i64) -> usize {
    if number == 0 { 0 } else { optional(Some(number)) }
}

fn optional(number: Option<i64>) -> usize {
    // Negative numbers take ten bytes.
    number.map_or(0, |number| 1 + varint_bytes(number.cast_unsigned()))
}

fn delimited(length: usize) -> usize {
    1 + varint_bytes(length as u64) + length
}
