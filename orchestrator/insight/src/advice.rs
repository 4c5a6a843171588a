//! What looks like a mistake in a plan that is valid: times, the environment, payloads, names of actions. Forbids nothing.

use escapement_advice::{PayloadWarning, PlannedCall};
use escapement_contract::{Finding, NO_DEADLINE, Plan, looks_like_seconds};
use escapement_wire::v1;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the published schemas of the actions of a plan, by action.
pub fn schemas_of(plan: &Plan, published: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
    escapement_advice::schemas_of(plan.steps().iter().map(|step| step.action()), published)
}

/// Returns the calls of a plan.
fn calls_of(plan: &Plan) -> Vec<PlannedCall<'_>> {
    let steps = plan.steps().iter().enumerate();
    let calls = steps.map(|(n, step)| PlannedCall {
        action: step.action(),
        path: format!("plan.steps[{n}].payload"),
        payload: step.payload().as_encoded(),
    });
    calls.collect()
}

/// Returns what these schemas say of the payloads of a plan.
pub fn of_payloads(plan: &Plan, schemas: &BTreeMap<String, String>) -> Vec<v1::PlanFinding> {
    // A payload of the contract is sent as it is.
    let found = escapement_advice::of_payloads(&calls_of(plan), schemas, |_| false);
    let warnings = found.into_iter();
    warnings
        .map(|PayloadWarning { path, message }| warning(&path, PayloadWarning::CODE, message))
        .collect()
}

/// What is odd about a deadline that is asked about at an instant.
pub fn of_deadline(plan: &Plan, deadline_ms: i64, now_unix_ms: i64) -> Option<v1::PlanFinding> {
    let left_ms = deadline_ms.saturating_sub(now_unix_ms);
    let (code, message) = if looks_like_seconds(deadline_ms) {
        let message = format!("{deadline_ms} looks like seconds; in Unix milliseconds it lies before 1974.");
        ("TIME_IN_SECONDS", message)
    } else if left_ms <= 0 {
        (
            "DEADLINE_PASSED",
            format!("It passed {} ms ago.", left_ms.unsigned_abs()),
        )
    } else if deadline_ms != NO_DEADLINE && left_ms.unsigned_abs() < plan.timeout_ms() {
        let message = format!(
            "It leaves {left_ms} ms, and the plan asks for {} ms: move it, or lower plan.timeout_ms.",
            plan.timeout_ms()
        );
        ("DEADLINE_TOO_NEAR", message)
    } else {
        return None;
    };
    Some(warning("deadline_ms", code, message))
}

/// A key that the plan requires and the environment lacks.
pub fn of_missing_key(key: &str) -> v1::PlanFinding {
    warning(
        "environment",
        escapement_model::codes::CONTEXT_MISSING,
        format!("The plan requires the key {key:?}, which the environment lacks."),
    )
}

/// A finding of the contract.
pub fn finding(finding: &Finding) -> v1::PlanFinding {
    warning(&finding.field, finding.code, finding.message.clone())
}

fn warning(field: &str, code: &str, message: String) -> v1::PlanFinding {
    v1::PlanFinding {
        field: field.to_owned(),
        code: code.to_owned(),
        message,
    }
}

/// Actions of the plan that nobody offers, sorted.
pub fn unknown_actions(plan: &Plan, offered: &BTreeSet<&str>) -> Vec<String> {
    let wanted: BTreeSet<&str> = plan.steps().iter().map(|step| step.action()).collect();
    wanted
        .difference(offered)
        .map(|action| (*action).to_owned())
        .collect()
}

/// Returns, for each of these actions, the names that may have been meant.
pub fn suggestions(unknown: &[String], offered: &BTreeSet<&str>) -> Vec<v1::UnknownAction> {
    let suggested = escapement_advice::suggestions(unknown, offered).into_iter();
    suggested
        .map(|(action, suggestions)| v1::UnknownAction { action, suggestions })
        .collect()
}
