//! What a document may say and no run carries out. Such a document that is stored stays readable, and none is taken in any more.

use super::{Code, Plan, Violation, Violations};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

// RUN-1.8
/// Returns a plan that shall run or be saved.
///
/// # Errors
/// [`Violations`]: each of its fields that no run carries out.
pub fn carried_out(plan: Plan) -> Result<Plan, Violations> {
    match not_carried_out(&plan) {
        Some(violations) => Err(violations),
        None => Ok(plan),
    }
}

// RUN-1.8
/// The fields of a plan that no run carries out, in document order; `None` if there are none.
pub fn not_carried_out(plan: &Plan) -> Option<Violations> {
    let steps = plan.steps.iter().filter(|step| step.verify.is_some());
    let mut places: Vec<usize> = steps.map(|step| step.place).collect();
    places.sort_unstable();
    let violations = places.into_iter().map(|place| Violation {
        path: format!("steps[{place}].verify"),
        code: Code::InvalidField,
        message: String::from(NOT_CARRIED_OUT),
    });
    Violations::new(violations.collect())
}

const NOT_CARRIED_OUT: &str =
    "Is not carried out, so it must be absent: let a step that depends on this one look at its result.";
