//! The `google.rpc` details of a refusal, in short.

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Checks the code of a refusal and gives its reason; the domain must be ours.
#[track_caller]
pub(crate) fn reason(status: &Status, code: Code) -> String {
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("every refusal has an ErrorInfo");
    assert_eq!(info.domain, "escapement.dev");
    info.reason.clone()
}

/// Returns the field violations of a refusal as path and code.
#[track_caller]
pub(crate) fn violations(status: &Status) -> Vec<(String, String)> {
    let details = status.get_error_details();
    let request = details.bad_request().expect("the refusal has a BadRequest");
    let violations = request.field_violations.iter();
    violations
        .map(|violation| {
            assert!(!violation.description.is_empty(), "{violation:?}");
            (violation.field.clone(), violation.reason.clone())
        })
        .collect()
}
