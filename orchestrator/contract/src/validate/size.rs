//! How many bytes a plan takes encoded, as `escapement.v1.Plan`. A pure leaf; encodes nothing.

use crate::draft::{PlanDraft, RetryPolicyDraft, StepDraft};
use crate::outcome::varint_bytes;
use alloc::string::String;

/// Bytes of the encoded plan. All field numbers are below 16, so each key takes one byte.
pub(super) fn plan_bytes(plan: &PlanDraft) -> usize {
    text(&plan.id)
        + number(i64::from(plan.version))
        + number(plan.created_at)
        + plan
            .steps
            .iter()
            .map(|step| delimited(step_bytes(step)))
            .sum::<usize>()
        + text(&plan.name)
        + texts(&plan.context_requirements)
        + optional(plan.priority.map(i64::from))
        + optional(plan.timeout_ms)
        + plan
            .retry_policy
            .as_ref()
            .map_or(0, |policy| delimited(policy_bytes(policy)))
        + plan
            .metadata
            .as_ref()
            .map_or(0, |metadata| delimited(metadata.len()))
        + texts(&plan.tags)
        + optional(plan.estimated_duration_ms)
}

fn step_bytes(step: &StepDraft) -> usize {
    text(&step.id)
        + text(&step.action)
        + step
            .payload
            .as_ref()
            .map_or(0, |payload| delimited(payload.len()))
        + texts(&step.depends_on)
        + number(i64::from(step.on_failure))
        + optional(step.timeout_ms)
}

fn policy_bytes(policy: &RetryPolicyDraft) -> usize {
    optional(policy.max_attempts.map(i64::from))
        + optional(policy.backoff_ms)
        + policy.backoff_multiplier.map_or(0, |_| 1 + size_of::<f64>())
        + optional(policy.max_backoff_ms)
        + texts(&policy.retryable_error_codes)
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
