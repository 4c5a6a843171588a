//! By what a handler knows that it does something again: the key against repeats and the number of the attempt, as headers of an
//! assignment. Makes no key of a run: that stands in what the run sent.

use std::collections::BTreeMap;

use escapement_contract::Request;
use escapement_engine::Assignment;
use escapement_model::headers;
use escapement_model::opaque::{ValueView, value_of};

/// Writes both headers, over whatever the caller's correlation context has under these names.
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
/// What a handler executes inherits the environment of the attempt, but the steps of its plan are effects of their own: only a plan that
/// says the same of itself is the attempt itself.
fn of_run(request: &Request) -> Option<(&str, u32)> {
    let [_step] = request.plan().steps() else {
        return None;
    };
    let plan = request.plan().metadata().as_encoded();
    // Most plans say nothing of a run, and then no environment is searched.
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

/// What the environment of an attempt says of it; of runs alone.
const ENVIRONMENT_KEY: &str = "escapement_run";
/// What plan and environment of an attempt say alike.
const SHARED: [&str; 4] = ["run_id", "step", "index", "attempt"];
/// More than a run makes of its id, the key of a step, a unit and an epoch; a part of what the engine leaves for headers.
const KEY_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests;
