//! Plan documents: from JSON to a valid plan, or to everything that is wrong with it. Draws nothing.

use super::json::{Problem, written};
use escapement_codec::request::plan_draft;
use escapement_contract::{Plan, Violations, validate_plan};
use serde_json::Value;

/// Reads a plan document and checks it as the orchestrator does.
///
/// # Errors
/// [`Problem`] with the field of another type, or with what forbids the plan.
pub(super) fn plan(document: &Value) -> Result<Plan, Problem> {
    let plan = written("escapement.v1.Plan", "", document)?;
    validate_plan(plan_draft(plan)).map_err(|violations| refused(&violations))
}

/// What is said of a plan that breaks rules: one line for each, and how many more there are.
fn refused(violations: &Violations) -> Problem {
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

/// Violations that are shown; their number is always said.
const FINDINGS_SHOWN_MAX: usize = 20;
