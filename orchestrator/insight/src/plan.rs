//! Plan documents: from JSON to a valid plan, or to everything that is wrong with it. Draws nothing.

use super::json::{Object, Problem};
use escapement_contract::{Plan, PlanDraft, RetryPolicyDraft, StepDraft, Violations, validate_plan};
use escapement_model::Opaque;
use escapement_wire::json::to_opaque;

/// Reads a plan document and checks it as the orchestrator does.
///
/// # Errors
/// [`Problem`] with the field of another type, or with what forbids the plan.
pub(super) fn plan(document: &Object<'_>) -> Result<Plan, Problem> {
    validate_plan(draft(document)?).map_err(|violations| refused(&violations))
}

/// What is said of a plan that breaks rules: one line for each, and how many more there are.
pub(super) fn refused(violations: &Violations) -> Problem {
    let mut text = format!("the plan is not valid ({} found):", violations.len());
    for finding in violations.iter().take(FINDINGS_SHOWN_MAX) {
        text.push_str(&format!("\n  {}: {}", finding.field, finding.message));
    }
    match violations.len().saturating_sub(FINDINGS_SHOWN_MAX) {
        0 => {}
        more => text.push_str(&format!("\n  and {more} more")),
    }
    Problem(text)
}

fn draft(document: &Object<'_>) -> Result<PlanDraft, Problem> {
    document.has_only(&[
        "id",
        "version",
        "created_at",
        "steps",
        "name",
        "context_requirements",
        "priority",
        "timeout_ms",
        "retry_policy",
        "metadata",
        "tags",
        "estimated_duration_ms",
    ])?;
    let steps = document.objects("steps")?;
    Ok(PlanDraft {
        id: document.text("id")?,
        version: document.integer32("version")?.unwrap_or(0),
        created_at: document.integer("created_at")?.unwrap_or(0),
        steps: steps.iter().map(step).collect::<Result<_, _>>()?,
        name: document.text("name")?,
        context_requirements: document.texts("context_requirements")?,
        priority: document.integer32("priority")?,
        timeout_ms: document.integer("timeout_ms")?,
        retry_policy: document
            .object("retry_policy")?
            .map(|policy| retry_policy(&policy))
            .transpose()?,
        metadata: opaque(document, "metadata")?,
        tags: document.texts("tags")?,
        estimated_duration_ms: document.integer("estimated_duration_ms")?,
    })
}

fn step(step: &Object<'_>) -> Result<StepDraft, Problem> {
    step.has_only(&[
        "id",
        "action",
        "payload",
        "depends_on",
        "on_failure",
        "timeout_ms",
    ])?;
    Ok(StepDraft {
        id: step.text("id")?,
        action: step.text("action")?,
        payload: opaque(step, "payload")?,
        depends_on: step.texts("depends_on")?,
        on_failure: step.choice("on_failure", &["halt", "skip", "retry"])?,
        timeout_ms: step.integer("timeout_ms")?,
    })
}

fn retry_policy(policy: &Object<'_>) -> Result<RetryPolicyDraft, Problem> {
    policy.has_only(&[
        "max_attempts",
        "backoff_ms",
        "backoff_multiplier",
        "max_backoff_ms",
        "retryable_error_codes",
    ])?;
    Ok(RetryPolicyDraft {
        max_attempts: policy.integer32("max_attempts")?,
        backoff_ms: policy.integer("backoff_ms")?,
        backoff_multiplier: policy.double("backoff_multiplier")?,
        max_backoff_ms: policy.integer("max_backoff_ms")?,
        retryable_error_codes: policy.texts("retryable_error_codes")?,
    })
}

fn opaque(object: &Object<'_>, name: &str) -> Result<Option<Opaque>, Problem> {
    Ok(object.object(name)?.map(|object| to_opaque(object.fields())))
}

/// Violations that are shown; their number is always said.
const FINDINGS_SHOWN_MAX: usize = 20;
