//! Refuses requests that are too large for the store although each field is within its own limit.

use crate::errors::{Problem, Rejection, TOO_LARGE};
use escapement_model::Opaque;
use escapement_run::bounds::{PROFILES_BYTES_MAX, SPEC_BYTES_MAX};
use escapement_run::journal::sizes::{profiles_bytes, spec_bytes};
use escapement_run::spec::{ActionProfile, Spec};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use prost::Message;

// RUN-9.6
/// Refuses a run whose spec exceeds its first entry, with the fields that take most of it.
///
/// # Errors
/// [`Rejection::Problems`] with `REQUEST_TOO_LARGE`.
pub(crate) fn require_spec(request: &v1::CreateRunRequest, spec: &Spec) -> Result<(), Rejection> {
    let n_bytes = spec_bytes(spec);
    if n_bytes <= SPEC_BYTES_MAX {
        return Ok(());
    }
    Err(too_large(n_bytes, SPEC_BYTES_MAX, &parts_of(request)))
}

// RUN-9.6
/// Refuses a plan in that field of whose actions too much is known.
///
/// # Errors
/// [`Rejection::Problems`] with `REQUEST_TOO_LARGE`.
pub(crate) fn require_profiles(field: &'static str, profiles: &[ActionProfile]) -> Result<(), Rejection> {
    let n_bytes = profiles_bytes(profiles);
    if n_bytes <= PROFILES_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "must call actions whose profiles have at most {PROFILES_BYTES_MAX} bytes together, has {n_bytes}"
    );
    Err(Rejection::field(field, TOO_LARGE, message))
}

/// Refuses a run with too large profiles of its actions, naming the field that selects its plan or goal.
///
/// # Errors
/// As [`require_profiles`].
pub(crate) fn require_profiles_of(
    request: &v1::CreateRunRequest,
    profiles: &[ActionProfile],
) -> Result<(), Rejection> {
    let field = match &request.what {
        Some(What::PlanId(_)) => "plan_id",
        Some(What::RevisionDigest(_)) => "revision_digest",
        Some(What::Goal(_)) => "goal",
        Some(What::Document(_)) | None => "document",
    };
    require_profiles(field, profiles)
}

/// Refuses what has so many bytes in the store, naming the parts of the request that have most of them.
pub(crate) fn too_large(n_bytes: usize, n_bytes_max: usize, parts: &[(&str, usize)]) -> Rejection {
    let mut parts: Vec<_> = parts.iter().filter(|(_, n_bytes)| *n_bytes > 0).collect();
    parts.sort_by_key(|(_, n_bytes)| std::cmp::Reverse(*n_bytes));
    let problems = parts.into_iter().take(NAMED_MAX).map(|(field, part)| Problem {
        field: (*field).to_owned(),
        reason: TOO_LARGE,
        message: format!("has {part} of {n_bytes} bytes; together they may have {n_bytes_max}"),
    });
    Rejection::Problems(problems.collect())
}

/// Returns the parts of a request that are stored with the spec of its run, and their bytes.
fn parts_of(request: &v1::CreateRunRequest) -> [(&'static str, usize); 10] {
    let labels = request.labels.iter();
    [
        ("labels", labels.map(|(key, value)| key.len() + value.len()).sum()),
        ("metadata", request.metadata.as_ref().map_or(0, Opaque::len)),
        ("policy", encoded(request.policy.as_ref())),
        ("constraints", encoded(request.constraints.as_ref())),
        ("planner", encoded(request.planner.as_ref())),
        ("fallback", encoded(request.fallback.as_ref())),
        ("budget", encoded(request.budget.as_ref())),
        ("user_id", request.user_id.len()),
        ("name", request.name.len()),
        ("llm_model", request.llm_model.len()),
    ]
}

fn encoded(part: Option<&impl Message>) -> usize {
    part.map_or(0, Message::encoded_len)
}

/// Parts that an answer names.
const NAMED_MAX: usize = 4;
