//! Answers `PreviewRun` about a document that is no plan. Checks none.

use escapement_run::plan::Violations;
use escapement_wire::runs::v1;

/// Returns the preview of a run whose plan is none.
pub(super) fn preview_of_none(violations: &Violations) -> v1::PreviewRunResponse {
    let violations = violations.iter().map(|violation| v1::PlanViolation {
        path: violation.path.clone(),
        code: violation.code.as_str().to_owned(),
        message: violation.message.clone(),
    });
    v1::PreviewRunResponse {
        violations: violations.collect(),
        ..v1::PreviewRunResponse::default()
    }
}
