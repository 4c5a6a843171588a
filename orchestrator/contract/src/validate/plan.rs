//! A plan, field by field. Nothing here looks beyond one field but the graph.

use super::{Findings, Place, graph, size, text};
use crate::draft::{PlanDraft, RetryPolicyDraft, StepDraft};
use crate::plan::{OnFailure, Plan, RetryPolicy, Step, StepIndex};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::limits::{
    ACTION_CHARS_MAX, BACKOFF_MS_MAX_DEFAULT, CONTEXT_REQUIREMENTS_MAX, ERROR_CODE_CHARS_MAX,
    LABEL_CHARS_MAX, NAME_CHARS_MAX, PAYLOAD_BYTES_MAX, PLAN_BYTES_MAX, PLAN_TIMEOUT_MS_DEFAULT,
    RETRYABLE_CODES_MAX, STEPS_MAX, TAGS_MAX,
};
use escapement_model::{PlanId, StepId};

/// Returns the plan, or `None` if something is wrong with it.
pub(super) fn plan(draft: PlanDraft, findings: &mut Findings) -> Option<Plan> {
    let bytes = size::plan_bytes(&draft);
    if bytes > PLAN_BYTES_MAX {
        //
        let message = format!("Must have at most {PLAN_BYTES_MAX} bytes encoded, has {bytes}.");
        findings.invalid(Place::default(), || "plan".to_string(), message);
    }
    let id = of_plan(findings, 1, "id", text::id::<PlanId>(&draft.id));
    of_plan(findings, 2, "version", version(draft.version));
    of_plan(findings, 3, "created_at", text::timestamp(draft.created_at));
    let steps = fields_of_steps(&draft.steps, findings);
    let name = text::length(&draft.name, 1..=NAME_CHARS_MAX);
    of_plan(findings, 5, "name", name);
    context_requirements(&draft.context_requirements, findings);
    let timeout_ms = text::at_least(draft.timeout_ms, 1, PLAN_TIMEOUT_MS_DEFAULT.cast_unsigned());
    let timeout_ms = of_plan(findings, 8, "timeout_ms", timeout_ms);
    let retry_policy = retry_policy(draft.retry_policy.unwrap_or_default(), findings);
    if let Some(metadata) = &draft.metadata {
        of_plan(findings, 10, "metadata", text::object(metadata, PLAN_BYTES_MAX));
    }
    list(findings, 11, "tags", &draft.tags, TAGS_MAX);
    let estimate = draft
        .estimated_duration_ms
        .map(|estimate| text::at_least(Some(estimate), 0, 0))
        .transpose();
    let estimated_duration_ms = of_plan(findings, 12, "estimated_duration_ms", estimate);
    if draft.steps.len() > STEPS_MAX {
        return None;
    }
    let ids: Vec<Option<StepId>> = steps.iter().map(|step| step.id).collect();
    let references = graph::resolve(&draft.steps, &ids, findings);
    let order = graph::order(&draft.steps, &references, findings)?;
    let mut valid_steps = Vec::with_capacity(steps.len());
    for ((index, draft), parsed) in (0..).map(StepIndex).zip(draft.steps).zip(&steps) {
        valid_steps.push(step(draft, parsed, references.of(index))?);
    }
    let mut context_requirements = draft.context_requirements;
    // They were collected without knowing how many, and are kept for as long as the execution waits.
    context_requirements.shrink_to_fit();
    Some(Plan {
        id: id?,
        created_at: draft.created_at,
        name: draft.name,
        steps: valid_steps,
        order,
        context_requirements,
        priority: draft.priority.unwrap_or(0),
        timeout_ms: timeout_ms?,
        retry_policy: retry_policy?,
        metadata: draft.metadata.unwrap_or_default(),
        tags: draft.tags,
        estimated_duration_ms: estimated_duration_ms?,
    })
}

fn context_requirements(keys: &[String], findings: &mut Findings) {
    //
    let problem = if keys.is_empty() {
        Err("At least one key is required.".to_string())
    } else {
        Ok(())
    };
    of_plan(findings, 6, "context_requirements", problem);
    list(
        findings,
        6,
        "context_requirements",
        keys,
        CONTEXT_REQUIREMENTS_MAX,
    );
}

fn version(version: i32) -> Result<(), String> {
    //
    match version {
        1 => Ok(()),
        2.. => Err(format!("Version {version} is not supported, only 1 is.")),
        ..1 => Err(format!("Must be 1, is {version}.")),
    }
}

/// What is parsed of a step, as far as it is valid; the rest is taken from the draft.
struct Parsed {
    id: Option<StepId>,
    on_failure: Option<OnFailure>,
    timeout_ms: Option<Option<u64>>,
}

fn step(draft: StepDraft, parsed: &Parsed, references: &[graph::Reference]) -> Option<Step> {
    Some(Step {
        id: parsed.id?,
        action: draft.action,
        payload: draft.payload.unwrap_or_default(),
        depends_on: references.iter().map(|reference| reference.to).collect(),
        on_failure: parsed.on_failure?,
        timeout_ms: parsed.timeout_ms?,
    })
}

fn fields_of_steps(steps: &[StepDraft], findings: &mut Findings) -> Vec<Parsed> {
    //
    let problem = match steps.len() {
        0 => Err("At least one step is required.".to_string()),
        n_steps => text::count(n_steps, STEPS_MAX),
    };
    of_plan(findings, 4, "steps", problem);
    // One finding says enough about a plan that is too long, and an index fits only into one that is not.
    let steps = (0u16..).map(StepIndex).zip(steps.iter().take(STEPS_MAX));
    steps
        .map(|(index, step)| fields_of_step(index, step, findings))
        .collect()
}

fn fields_of_step(index: StepIndex, step: &StepDraft, findings: &mut Findings) -> Parsed {
    let id = of_step(findings, index, 1, "id", text::id::<StepId>(&step.id));
    let action = text::length(&step.action, 1..=ACTION_CHARS_MAX);
    of_step(findings, index, 2, "action", action);
    //
    let payload = match &step.payload {
        Some(payload) => text::object(payload, PAYLOAD_BYTES_MAX),
        None => Err("Required; an empty object will do.".to_string()),
    };
    of_step(findings, index, 3, "payload", payload);
    //
    let on_failure = match step.on_failure {
        0 => Ok(OnFailure::Halt),
        1 => Ok(OnFailure::Skip),
        2 => Ok(OnFailure::Retry),
        unknown => Err(format!("Must be halt (0), skip (1) or retry (2), is {unknown}.")),
    };
    let on_failure = of_step(findings, index, 5, "on_failure", on_failure);
    let timeout_ms = step
        .timeout_ms
        .map(|timeout_ms| text::at_least(Some(timeout_ms), 1, 1))
        .transpose();
    let timeout_ms = of_step(findings, index, 6, "timeout_ms", timeout_ms);
    Parsed {
        id,
        on_failure,
        timeout_ms,
    }
}

fn retry_policy(draft: RetryPolicyDraft, findings: &mut Findings) -> Option<RetryPolicy> {
    let max_attempts = text::at_least(draft.max_attempts.map(i64::from), 1, 1);
    let max_attempts = of_policy(findings, 1, "max_attempts", max_attempts);
    let backoff_ms = of_policy(findings, 2, "backoff_ms", text::at_least(draft.backoff_ms, 0, 0));
    // NaN lies in no range.
    let multiplier = draft.backoff_multiplier.unwrap_or(1.0);
    let problem = if (1.0..f64::INFINITY).contains(&multiplier) {
        Ok(())
    } else {
        Err(format!(
            "Must be a finite number of at least 1.0, is {multiplier}."
        ))
    };
    of_policy(findings, 3, "backoff_multiplier", problem);
    let max_backoff_ms = text::at_least(draft.max_backoff_ms, 0, BACKOFF_MS_MAX_DEFAULT.cast_unsigned());
    let max_backoff_ms = of_policy(findings, 4, "max_backoff_ms", max_backoff_ms);
    let codes = &draft.retryable_error_codes;
    of_policy(
        findings,
        5,
        "retryable_error_codes",
        text::count(codes.len(), RETRYABLE_CODES_MAX),
    );
    for (item, code) in codes.iter().enumerate() {
        if let Err(message) = text::length(code, 1..=ERROR_CODE_CHARS_MAX) {
            let place = Place {
                of_plan: 9,
                field: 5,
                item: item + 1,
                ..Place::default()
            };
            findings.invalid(
                place,
                || format!("plan.retry_policy.retryable_error_codes[{item}]"),
                message,
            );
        }
    }
    Some(RetryPolicy {
        max_attempts: u32::try_from(max_attempts?).expect("it was an i32"),
        backoff_ms: backoff_ms?,
        backoff_multiplier: multiplier,
        max_backoff_ms: max_backoff_ms?,
        retryable_error_codes: draft.retryable_error_codes,
    })
}

/// A list of labels.
fn list(findings: &mut Findings, of_plan_number: usize, name: &str, labels: &[String], n_max: usize) {
    of_plan(findings, of_plan_number, name, text::count(labels.len(), n_max));
    for (item, label) in labels.iter().enumerate() {
        if let Err(message) = text::length(label, 1..=LABEL_CHARS_MAX) {
            let place = Place {
                of_plan: of_plan_number,
                item: item + 1,
                ..Place::default()
            };
            findings.invalid(place, || format!("plan.{name}[{item}]"), message);
        }
    }
}

fn of_plan<T>(findings: &mut Findings, number: usize, name: &str, checked: Result<T, String>) -> Option<T> {
    let place = Place {
        of_plan: number,
        ..Place::default()
    };
    checked
        .map_err(|message| findings.invalid(place, || format!("plan.{name}"), message))
        .ok()
}

fn of_policy<T>(findings: &mut Findings, number: usize, name: &str, checked: Result<T, String>) -> Option<T> {
    let place = Place {
        of_plan: 9,
        field: number,
        ..Place::default()
    };
    checked
        .map_err(|message| findings.invalid(place, || format!("plan.retry_policy.{name}"), message))
        .ok()
}

fn of_step<T>(
    findings: &mut Findings,
    index: StepIndex,
    number: usize,
    name: &str,
    checked: Result<T, String>,
) -> Option<T> {
    let place = Place {
        of_plan: 4,
        step: index.as_usize() + 1,
        field: number,
        ..Place::default()
    };
    checked
        .map_err(|message| findings.invalid(place, || format!("plan.{index}.{name}"), message))
        .ok()
}
