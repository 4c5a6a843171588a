//! What `ValidatePlan` warns of beyond the plan itself: times, the environment, payloads. Forbids nothing.

use crate::grpc::Edge;
use crate::limits::{PAYLOAD_CHECK_STEPS_MAX, PAYLOAD_WARNINGS_MAX, SCHEMAS_BYTES_MAX};
use escapement_contract::{Finding, Plan, looks_like_seconds};
use escapement_engine::ActionView;
use escapement_insight::payload_schema::{Mismatch, mismatches};
use escapement_wire::v1;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

impl Edge {
    /// What the schemas that live workers published say of the payloads of a plan.
    ///
    /// Plans have a thread for that which is not shared with other calls, and wait for it: a schema is a worker's, and so is its cost.
    pub(crate) async fn payload_warnings(
        &self,
        plan: &Arc<Plan>,
        actions: &[ActionView],
    ) -> Vec<v1::PlanFinding> {
        let schemas = schemas_of(plan, actions);
        if schemas.is_empty() {
            return Vec::new();
        }
        let place = Arc::clone(&self.payload_checks).acquire_owned().await;
        let plan = Arc::clone(plan);
        let checking = spawn_blocking(move || {
            let _place = place;
            of_payloads(&plan, &schemas)
        });
        match checking.await {
            Ok(warnings) => warnings,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            // The orchestrator ends.
            Err(_) => Vec::new(),
        }
    }
}

/// The schemas of actions of the plan that are offered, by action, as many as there is room for.
fn schemas_of(plan: &Plan, actions: &[ActionView]) -> BTreeMap<String, String> {
    let published = actions
        .iter()
        .filter(|action| action.workers > 0 && !action.input_schema.is_empty());
    let published: BTreeMap<&str, &str> = published
        .map(|action| (action.name.as_ref(), action.input_schema.as_ref()))
        .collect();
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

fn of_payloads(plan: &Plan, schemas: &BTreeMap<String, String>) -> Vec<v1::PlanFinding> {
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
pub(crate) fn of_deadline(plan: &Plan, deadline_ms: i64, now_unix_ms: i64) -> Option<v1::PlanFinding> {
    let left_ms = deadline_ms.saturating_sub(now_unix_ms);
    let (code, message) = if looks_like_seconds(deadline_ms) {
        let message = format!("{deadline_ms} looks like seconds; in Unix milliseconds it lies before 1974.");
        ("TIME_IN_SECONDS", message)
    } else if left_ms <= 0 {
        (
            "DEADLINE_PASSED",
            format!("It passed {} ms ago.", left_ms.unsigned_abs()),
        )
    } else if left_ms.unsigned_abs() < plan.timeout_ms() {
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
pub(crate) fn of_missing_key(key: &str) -> v1::PlanFinding {
    warning(
        "environment",
        escapement_model::codes::CONTEXT_MISSING,
        format!("The plan requires the key {key:?}, which the environment lacks."),
    )
}

/// A finding of the contract.
pub(crate) fn finding(finding: &Finding) -> v1::PlanFinding {
    warning(&finding.field, finding.code, finding.message.clone())
}

fn warning(field: &str, code: &str, message: String) -> v1::PlanFinding {
    v1::PlanFinding {
        field: field.to_owned(),
        code: code.to_owned(),
        message,
    }
}
