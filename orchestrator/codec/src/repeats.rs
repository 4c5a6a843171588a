//! Writes the headers by which a handler recognizes repeats: the idempotency key and the number of the
//! attempt. The key of a run comes from the request of the run.

use std::collections::BTreeMap;

use escapement_contract::Request;
use escapement_engine::Assignment;
use escapement_model::headers;
use escapement_model::opaque::{ValueView, value_of};

/// Writes both headers, replacing any of the same names in the caller's correlation context.
pub(crate) fn write_headers(assignment: &Assignment, headers: &mut BTreeMap<String, String>) {
    let (key, attempt) = match of_run(&assignment.request) {
        Some((key, attempt)) => (key.to_owned(), attempt),
        None => {
            let step_id = assignment.request.plan().step(assignment.step).id();
            (
                format!("{}/{step_id}", assignment.execution_id),
                assignment.attempt,
            )
        }
    };
    headers.insert(headers::IDEMPOTENCY_KEY.to_owned(), key);
    headers.insert(headers::ATTEMPT.to_owned(), attempt.to_string());
}

// RUN-4.5
/// Returns the key and the number of an attempt of a run, `None` for any other execution.
///
/// A handler's execution inherits the environment of the attempt, but the steps of its plan are effects of
/// their own. Only a plan with the same values in its metadata is the attempt itself.
fn of_run(request: &Request) -> Option<(&str, u32)> {
    let [_step] = request.plan().steps() else {
        return None;
    };
    let plan = request.plan().metadata().as_encoded();
    // Most plans have no metadata of a run, and then no environment is searched.
    value_of(plan, SHARED[0])?;
    let ValueView::Struct(own) = value_of(request.environment().as_encoded(), ENVIRONMENT_KEY)? else {
        return None;
    };
    if !SHARED
        .iter()
        .all(|name| value_of(plan, name) == value_of(own, name))
    {
        return None;
    }
    match (value_of(own, "idempotency_key")?, value_of(own, "attempt")?) {
        (ValueView::Text(key), ValueView::Number(attempt)) if is_key(key) && is_count(attempt) => {
            Some((key, attempt as u32))
        }
        _ => None,
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= KEY_BYTES_MAX
}

fn is_count(number: f64) -> bool {
    number >= 1.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0
}

/// Name in the environment of an attempt for its description; only for runs.
const ENVIRONMENT_KEY: &str = "escapement_run";
/// Fields that plan and environment of an attempt have in common.
const SHARED: [&str; 4] = ["run_id", "step", "index", "attempt"];
/// More than a run makes of its id, the key of a step, a unit and an epoch; a part of what the engine leaves for headers.
const KEY_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests;
