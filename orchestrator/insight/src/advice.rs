//! What looks like a mistake in a plan that is valid: times, the environment, payloads, names of actions. Forbids nothing.

use crate::payload_schema::{Mismatch, mismatches};
use escapement_contract::{Finding, NO_DEADLINE, Plan, looks_like_seconds};
use escapement_model::spelling::Speller;
use escapement_wire::v1;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the published schemas of the actions of a plan, by action, up to 256 KiB of them.
pub fn schemas_of(plan: &Plan, published: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
    let mut schemas = BTreeMap::new();
    let mut bytes_left = SCHEMAS_BYTES_MAX;
    for action in plan.steps().iter().map(|step| step.action()) {
        let Some(schema) = published.get(action).filter(|_| !schemas.contains_key(action)) else {
            continue;
        };
        let Some(left) = bytes_left.checked_sub(schema.len()) else {
            break;
        };
        bytes_left = left;
        schemas.insert(action.to_owned(), (*schema).to_owned());
    }
    schemas
}

/// What these schemas say of the payloads of a plan: 100 warnings at most, within a bounded time.
pub fn of_payloads(plan: &Plan, schemas: &BTreeMap<String, String>) -> Vec<v1::PlanFinding> {
    let mut warnings = Vec::new();
    let mut budget = PAYLOAD_CHECK_STEPS_MAX;
    for (action, schema) in schemas {
        let Ok(schema) = serde_json::from_str(schema) else {
            continue;
        };
        for (n, step) in plan.steps().iter().enumerate() {
            if step.action() != action || warnings.len() >= PAYLOAD_WARNINGS_MAX {
                continue;
            }
            let found = mismatches(&schema, step.payload().as_encoded(), &mut budget);
            warnings.extend(
                found
                    .into_iter()
                    .map(|Mismatch { path, problem }| v1::PlanFinding {
                        field: format!("plan.steps[{n}].payload{path}"),
                        code: "PAYLOAD_MISMATCH".to_owned(),
                        message: format!("By the input schema of {action} it {problem}."),
                    }),
            );
        }
    }
    warnings.truncate(PAYLOAD_WARNINGS_MAX);
    warnings
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

/// For each of these actions, the names that may have been meant.
pub fn suggestions(unknown: &[String], offered: &BTreeSet<&str>) -> Vec<v1::UnknownAction> {
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut speller = Speller::new(offered);
    unknown
        .iter()
        .map(|action| v1::UnknownAction {
            action: action.clone(),
            suggestions: speller.suggestions(action),
        })
        .collect()
}

/// Bytes of the schemas that one plan is held against: 256 KiB. Actions beyond it are not checked.
const SCHEMAS_BYTES_MAX: usize = 256 << 10;
/// Values, keys and alternatives that are looked at for one plan: some milliseconds. Nothing is found beyond it.
const PAYLOAD_CHECK_STEPS_MAX: usize = 100_000;
/// Warnings about payloads in one answer.
const PAYLOAD_WARNINGS_MAX: usize = 100;
