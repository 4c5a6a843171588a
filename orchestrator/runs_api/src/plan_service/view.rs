//! Saved plans in the words of the API.

use escapement_model::Opaque;
use escapement_run::plan::revision_text;
use escapement_store::runs::RunSummary;
use escapement_wire::runs::v1;

use super::document::steps_of;
use super::draft::Shown;
use crate::caller::shown_author;
use crate::views::{state_of_byte, status_word};

/// A plan.
pub(crate) fn plan_view(shown: &Shown) -> v1::Plan {
    let Shown {
        definition,
        saved,
        document,
        newest_run,
        retry_count,
        step_key: _,
    } = shown;
    let signed = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let live = newest_run.as_ref().filter(|run| run.progress.ended_at.is_none());
    let id = |run: Option<&RunSummary>| run.map_or_else(String::new, |run| run.run_id.to_string());
    let digest: Option<[u8; 32]> = saved.revision[..].try_into().ok();
    v1::Plan {
        plan_id: definition.name.clone(),
        namespace: definition.namespace.to_string(),
        created_by: shown_author(saved.author.as_deref()),
        name: saved.name.clone(),
        description: saved.description.clone(),
        goal: saved.goal.clone(),
        user_id: definition.owner.clone().unwrap_or_default(),
        source: saved.source.clone(),
        source_id: saved.source_id.clone(),
        trigger_id: saved.trigger_id.clone(),
        goal_id: saved.goal_id.clone(),
        external_id: saved.external_id.clone(),
        status: status(newest_run.as_ref()).to_owned(),
        revision_digest: digest.as_ref().map_or_else(String::new, revision_text),
        etag: definition.version.to_string(),
        priority: definition.priority,
        autonomy_level: signed(saved.autonomy_level),
        max_retries: signed(saved.max_retries),
        retry_count: signed(*retry_count),
        total_steps: signed(saved.total_steps),
        timeout_ms: i64::try_from(saved.timeout_ms).unwrap_or(i64::MAX),
        created_at: definition.created_at,
        updated_at: definition.updated_at,
        steps: document.as_ref().map(steps_of).unwrap_or_default(),
        live_run_id: id(live),
        metadata: (saved.metadata != Opaque::default()).then(|| saved.metadata.clone()),
        last_run_id: id(newest_run.as_ref()),
        revision_number: signed(saved.revision_number),
        preset: saved.preset.clone(),
        document: document.clone(),
        last_events: Vec::new(),
    }
}

/// The status of a plan with this newest run.
pub(crate) fn status(newest_run: Option<&RunSummary>) -> &'static str {
    let Some(run) = newest_run else {
        return PENDING;
    };
    state_of_byte(run.progress.state).map_or(PENDING, status_word)
}

/// The status of a plan that never ran.
const PENDING: &str = "pending";
/// All words that there are.
pub(crate) const STATUSES: [&str; 6] = ["pending", "running", "paused", "completed", "failed", "cancelled"];
