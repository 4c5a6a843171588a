//! What callers say of a saved plan, checked. Reads no document.

use bytes::Bytes;
use escapement_model::limits::{LABEL_CHARS_MAX, NAME_CHARS_MAX};
use escapement_model::{Opaque, PlanId};
use escapement_run::presets::Preset;
use escapement_runs_shell::saved::{SavedPlan, SavedRequest};
use escapement_wire::runs::v1;
use sha2::{Digest, Sha256};

use super::draft::Target;
use crate::caller::Caller;
use crate::canonical::Repeatable;
use crate::errors::Rejection;
use crate::fields::Fields;

/// What a new plan is called in the fields of its request, and what it says beside its document.
pub(crate) struct New<'a> {
    /// Where the plan stands in the request.
    pub(crate) plan: &'a v1::Plan,
    /// 1 to 10.
    pub(crate) priority: Option<i32>,
    /// 0 to 4.
    pub(crate) autonomy_level: Option<i32>,
    /// 0 to 100.
    pub(crate) max_retries: Option<i32>,
    /// Its name if the plan says none.
    pub(crate) name: &'a str,
    /// Its goal if the plan says none.
    pub(crate) goal: &'a str,
}

/// The record of a new plan without a document, and its priority.
pub(crate) fn new_plan(new: &New<'_>, fields: &mut Fields) -> (SavedPlan, i32) {
    let plan = new.plan;
    output_only(plan, fields);
    let name = or(&plan.name, new.name);
    let goal = or(&plan.goal, new.goal);
    fields.text("plan.name", name, 1..=NAME_CHARS_MAX);
    fields.text("plan.goal", goal, 1..=TEXT_CHARS_MAX);
    fields.text("plan.description", &plan.description, 0..=TEXT_CHARS_MAX);
    for (field, note) in [
        ("plan.user_id", &plan.user_id),
        ("plan.source", &plan.source),
        ("plan.source_id", &plan.source_id),
        ("plan.trigger_id", &plan.trigger_id),
        ("plan.goal_id", &plan.goal_id),
        ("plan.external_id", &plan.external_id),
    ] {
        fields.note(field, note);
    }
    // A number that is absent in a plan is 0 there.
    let said = |number: i32| (number != 0).then_some(number);
    let mut number = |field: &str, given: Option<i32>, in_plan, range, default| {
        let (field, number) = match given {
            Some(given) => (field.to_owned(), given),
            None => (format!("plan.{field}"), said(in_plan).unwrap_or(default)),
        };
        fields.number(&field, number, range);
        number
    };
    let priority = number("priority", new.priority, plan.priority, PRIORITY, 5);
    let autonomy_level = number(
        "autonomy_level",
        new.autonomy_level,
        plan.autonomy_level,
        AUTONOMY,
        1,
    );
    let max_retries = number("max_retries", new.max_retries, plan.max_retries, RETRIES, 3);
    fields.number("plan.timeout_ms", plan.timeout_ms, TIMEOUT_MS);
    if let Some(metadata) = &plan.metadata {
        fields.object("plan.metadata", metadata, METADATA_BYTES_MAX);
    }
    let saved = SavedPlan {
        name: name.to_owned(),
        description: plan.description.clone(),
        goal: goal.to_owned(),
        source: plan.source.clone(),
        source_id: plan.source_id.clone(),
        trigger_id: plan.trigger_id.clone(),
        goal_id: plan.goal_id.clone(),
        external_id: plan.external_id.clone(),
        autonomy_level: u32::try_from(autonomy_level).unwrap_or(0),
        max_retries: u32::try_from(max_retries).unwrap_or(0),
        timeout_ms: u64::try_from(plan.timeout_ms).unwrap_or(0),
        metadata: plan.metadata.clone().unwrap_or_default(),
        preset: preset("plan.preset", or(&plan.preset, Preset::Standard.as_str()), fields),
        ..SavedPlan::default()
    };
    (saved, priority)
}

/// Changes the record as the request says; gives the priority back if it changes.
pub(crate) fn update(
    request: &v1::UpdatePlanRequest,
    saved: &mut SavedPlan,
    fields: &mut Fields,
) -> Option<i32> {
    for (field, is_given) in [
        ("status", request.status.is_some()),
        ("current_step_index", request.current_step_index.is_some()),
        ("progress", request.progress.is_some()),
        ("checkpoint", request.checkpoint.is_some()),
        ("error", request.error.is_some()),
    ] {
        only_output(field, is_given, fields);
    }
    let mut text = |field, given: &Option<String>, least, most, to: &mut String| {
        if let Some(given) = given {
            fields.text(field, given, least..=most);
            to.clone_from(given);
        }
    };
    text("name", &request.name, 1, NAME_CHARS_MAX, &mut saved.name);
    text(
        "description",
        &request.description,
        0,
        TEXT_CHARS_MAX,
        &mut saved.description,
    );
    text("goal", &request.goal, 1, TEXT_CHARS_MAX, &mut saved.goal);
    let mut number = |field, given: Option<i32>, range| {
        let given = given?;
        fields.number(field, given, range);
        u32::try_from(given).ok()
    };
    let priority = number("priority", request.priority, PRIORITY).and(request.priority);
    let autonomy_level = number("autonomy_level", request.autonomy_level, AUTONOMY);
    saved.autonomy_level = autonomy_level.unwrap_or(saved.autonomy_level);
    let max_retries = number("max_retries", request.max_retries, RETRIES);
    saved.max_retries = max_retries.unwrap_or(saved.max_retries);
    if let Some(timeout_ms) = request.timeout_ms {
        fields.number("timeout_ms", timeout_ms, TIMEOUT_MS);
        saved.timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
    }
    if let Some(metadata) = &request.metadata {
        fields.object("metadata", metadata, METADATA_BYTES_MAX);
        saved.metadata = metadata.clone();
    }
    if let Some(given) = &request.preset {
        saved.preset = preset("preset", given, fields);
    }
    priority
}

fn preset(field: &str, text: &str, fields: &mut Fields) -> String {
    let words = Preset::ALL.map(|preset| (preset.as_str(), ()));
    fields.word(field, text, &words);
    text.to_owned()
}

/// Notes what a caller must not say.
fn output_only(plan: &v1::Plan, fields: &mut Fields) {
    for (field, is_given) in [
        ("plan_id", !plan.plan_id.is_empty()),
        ("status", !plan.status.is_empty()),
        ("revision_digest", !plan.revision_digest.is_empty()),
        ("etag", !plan.etag.is_empty()),
        ("retry_count", plan.retry_count != 0),
        ("total_steps", plan.total_steps != 0),
        ("created_at", plan.created_at != 0),
        ("updated_at", plan.updated_at != 0),
        ("steps", !plan.steps.is_empty()),
        ("live_run_id", !plan.live_run_id.is_empty()),
        ("last_run_id", !plan.last_run_id.is_empty()),
        ("revision_number", plan.revision_number != 0),
        ("document", plan.document.is_some()),
        ("last_events", !plan.last_events.is_empty()),
        ("namespace", !plan.namespace.is_empty()),
        ("created_by", plan.created_by.is_some()),
    ] {
        only_output(&format!("plan.{field}"), is_given, fields);
    }
}

fn only_output(field: &str, is_given: bool, fields: &mut Fields) {
    if is_given {
        fields.because(field, "OUTPUT_ONLY", "is set by the orchestrator alone");
    }
}

/// Reads which plan is meant, and when it is changed. `caller`: who says which actions it calls.
///
/// # Errors
/// [`Rejection::Problems`].
pub(crate) fn target(
    plan_id: &str,
    user_id: &str,
    etag: &str,
    request: Option<SavedRequest>,
    caller: Option<Caller>,
) -> Result<Target, Rejection> {
    let mut fields = Fields::default();
    let plan_id = fields.id::<PlanId>("plan_id", plan_id);
    fields.note("user_id", user_id);
    if let Some(request) = &request {
        fields.note("request_id", &request.id);
    }
    let version = match etag {
        "" => None,
        etag => Some(etag.parse::<u64>().ok()),
    };
    fields.conclude()?;
    let version = match version {
        Some(None) => return Err(Rejection::EtagMismatch),
        Some(version) => version,
        None => None,
    };
    Ok(Target {
        plan_id: plan_id.expect("an id that is missing is a problem").to_string(),
        user_id: user_id.to_owned(),
        version,
        request,
        caller,
    })
}

/// What the caller of this request may repeat, if it names it.
pub(crate) fn repeatable(request_id: &str, request: &impl Repeatable) -> Option<SavedRequest> {
    let digest = |encoded: Vec<u8>| Bytes::copy_from_slice(&Sha256::digest(encoded));
    (!request_id.is_empty()).then(|| SavedRequest {
        id: request_id.to_owned(),
        digest: digest(request.encode_meaning()),
        step_key: String::new(),
        spelled: digest(request.encode_in_order()),
    })
}

/// The id of the plan that a request of a user makes: the same one for the same request, else any.
pub(crate) fn id_of(user_id: &str, request: Option<&SavedRequest>) -> Result<PlanId, getrandom::Error> {
    let mut bytes = [0; 16];
    match request {
        Some(request) => {
            let mut hasher = Sha256::new();
            for text in [SCOPE, user_id, &request.id] {
                hasher.update((text.len() as u64).to_le_bytes());
                hasher.update(text);
            }
            bytes.copy_from_slice(&hasher.finalize()[..16]);
        }
        None => getrandom::fill(&mut bytes)?,
    }
    Ok(PlanId::from_random(bytes))
}

/// A document in a request.
pub(crate) fn document<'a>(
    field: &str,
    document: Option<&'a Opaque>,
    fields: &mut Fields,
) -> Option<&'a Opaque> {
    if document.is_none() {
        fields.wrong(field, "is required");
    }
    document
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// What the ids of plans that requests make are derived from.
const SCOPE: &str = "escapement saved plan 1";
/// Code points of a description, or of a goal.
const TEXT_CHARS_MAX: usize = 5000;
/// Bytes of the metadata: 64 KiB.
const METADATA_BYTES_MAX: usize = 64 << 10;
const PRIORITY: std::ops::RangeInclusive<i32> = 1..=10;
const AUTONOMY: std::ops::RangeInclusive<i32> = 0..=4;
const RETRIES: std::ops::RangeInclusive<i32> = 0..=100;
const TIMEOUT_MS: std::ops::RangeInclusive<i64> = 0..=31_536_000_000;
const _: () = assert!(LABEL_CHARS_MAX == 255, "notes have at most 255 code points");
