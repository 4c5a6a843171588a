//! A request, field by field, and its plan. Does not judge the deadline: that is a matter of the start.

use super::{Findings, Place, plan, text};
use crate::digest;
use crate::draft::RequestDraft;
use crate::error::cut;
use crate::request::Request;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use escapement_model::ExecutionId;
use escapement_model::limits::{
    CORRELATION_ENTRIES_MAX, CORRELATION_VALUE_CHARS_MAX, ENVIRONMENT_BYTES_MAX, LABEL_CHARS_MAX,
};

/// Returns the request, or `None` if something is wrong with it. `n_steps_max` is the server's limit of concurrent
/// steps.
pub(super) fn request(draft: RequestDraft, n_steps_max: u32, findings: &mut Findings) -> Option<Request> {
    let plan = match draft.plan {
        Some(draft) => plan::plan(draft, findings),
        None => field(findings, 0, "plan", Err("Required.".to_string())),
    };
    let environment = draft.environment.unwrap_or_default();
    //
    let object = text::object(&environment, ENVIRONMENT_BYTES_MAX);
    field(findings, 2, "environment", object);
    //
    let execution_id = of_id(draft.execution_id.as_deref());
    let execution_id = field(findings, 3, "execution_id", execution_id);
    let parent_execution_id = of_id(draft.parent_execution_id.as_deref());
    let parent_execution_id = field(findings, 5, "parent_execution_id", parent_execution_id);
    let [user_id, request_id] = [&draft.user_id, &draft.request_id].map(|label| of_label(label.as_deref()));
    field(findings, 6, "user_id", user_id);
    field(findings, 7, "request_id", request_id);
    correlation(&draft.correlation_context, findings);
    let max_concurrent_steps = options(draft.max_concurrent_steps, n_steps_max, findings);
    // What is hashed must have been found well-formed.
    if findings.any() {
        return None;
    }
    let (plan, max_concurrent_steps) = (plan?, max_concurrent_steps?);
    // computed here, once.
    let certificate = plan.certificate_under([0; 32], max_concurrent_steps);
    let missing = plan.missing_context_keys(&environment);
    let missing_context_keys = missing.into_iter().map(String::from).collect();
    let mut request = Request {
        plan,
        environment,
        execution_id: execution_id?,
        deadline_ms: draft.deadline_ms,
        parent_execution_id: parent_execution_id?,
        user_id: draft.user_id,
        request_id: draft.request_id,
        correlation_context: draft.correlation_context,
        max_concurrent_steps,
        missing_context_keys,
        digest: [0; 32],
        certificate,
        provenance: alloc::boxed::Box::default(),
    };
    (request.digest, request.certificate.content_digest) = digest::digests(&request);
    Some(request)
}

fn of_id(id: Option<&str>) -> Result<Option<ExecutionId>, String> {
    id.map(text::id).transpose()
}

fn of_label(label: Option<&str>) -> Result<(), String> {
    text::length(label.unwrap_or_default(), 0..=LABEL_CHARS_MAX)
}

fn correlation(context: &BTreeMap<String, String>, findings: &mut Findings) {
    let n_entries = text::count(context.len(), CORRELATION_ENTRIES_MAX);
    field(findings, 8, "correlation_context", n_entries);
    for (key, value) in context {
        let of_key = text::length(key, 1..=LABEL_CHARS_MAX);
        let of_value = text::length(value, 0..=CORRELATION_VALUE_CHARS_MAX);
        for problem in [of_key, of_value] {
            let name = format!("correlation_context[\"{}\"]", cut(key, KEY_CHARS_MAX));
            field(findings, 8, &name, problem);
        }
    }
}

/// Returns the number of steps that may hold a slot at a time, if a plan is asked about without a whole request.
pub(super) fn options(asked: Option<i32>, n_steps_max: u32, findings: &mut Findings) -> Option<u32> {
    let n_steps = concurrency(asked, n_steps_max);
    field(findings, 9, "options.max_concurrent_steps", n_steps)
}

fn concurrency(asked: Option<i32>, n_steps_max: u32) -> Result<u32, String> {
    //
    let n_steps = asked.map_or(Some(1), |asked| u32::try_from(asked).ok());
    let valid = n_steps.filter(|n_steps| (1..=n_steps_max.max(1)).contains(n_steps));
    valid.ok_or_else(|| format!("Must be 1 to {n_steps_max}, is {}.", asked.unwrap_or(1)))
}

fn field<T>(findings: &mut Findings, number: usize, name: &str, checked: Result<T, String>) -> Option<T> {
    let place = Place {
        of_request: number,
        ..Place::default()
    };
    checked
        .map_err(|message| findings.invalid(place, || name.to_string(), message))
        .ok()
}

/// Code points of a key that a path repeats.
const KEY_CHARS_MAX: usize = 64;
