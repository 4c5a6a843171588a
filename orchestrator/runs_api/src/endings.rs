//! How runs ended, as events in CloudEvents form. Reads two rows for each, and sends nothing.

use crate::journal::stored_entry;
use crate::views::{listed, state_of_byte, uuid_text};
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunSummary};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run::State;
use escapement_wire::time::rfc3339;
use prost::Message;

/// The types that events about runs have.
pub const EVENT_TYPES: [&str; 3] = ["run_completed", "run_failed", "run_cancelled"];

/// The type of the event of a run that ended; `None` if it has not, or in a way that this version does not know.
pub fn event_type(run: &RunSummary) -> Option<&'static str> {
    match state_of_byte(run.progress.state)? {
        State::Completed => Some("run_completed"),
        State::Failed | State::Timeout => Some("run_failed"),
        State::Cancelled => Some("run_cancelled"),
        State::Unspecified
        | State::Queued
        | State::Planning
        | State::Waiting
        | State::Running
        | State::Pausing
        | State::Paused
        | State::Verifying => None,
    }
}

/// True if that place in the order of ending is another run's than that of this id. A run that was removed has none any more.
///
/// # Errors
/// As the store fails.
pub fn is_another_at(reader: &dyn RunReader, place: u64, id: &[u8; 16]) -> Result<bool, StoreFault> {
    let page = reader.ended(place.saturating_sub(1), 1)?;
    let found = page.runs.first();
    Ok(found.is_some_and(|(at, run)| *at == place && run.run_id.as_bytes() != id))
}

/// The event of a run that ended, from that source; the same whenever it is read. What has more than `data_bytes_max` bytes as a
/// message is left out, and the event says where it is. `None` as [`event_type`] says.
///
/// # Errors
/// As the store fails; a damaged entry is none, and the event is made of the index columns alone.
pub fn event(
    reader: &dyn RunReader,
    run: &RunSummary,
    source: &str,
    data_bytes_max: usize,
) -> Result<Option<v1::CloudEvent>, StoreFault> {
    let (Some(kind), Some(ended_at)) = (event_type(run), run.progress.ended_at) else {
        return Ok(None);
    };
    let last = stored_entry(reader, run.run_id, run.next_seq.saturating_sub(1))?;
    let state = state_of_byte(run.progress.state).unwrap_or(State::Unspecified);
    let shown = listed(run, None, last.as_ref(), state);
    let id = run.run_id.to_string();
    let created = &run.created;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ending = v1::RunEnding {
        run_id: id.clone(),
        state: shown.state,
        outcome: shown.outcome,
        error_type: shown.error_type,
        reason: shown.reason,
        error: shown.error,
        user_id: text(&created.owner),
        plan_id: text(&created.plan),
        goal_id: text(&created.goal),
        trigger_id: text(&created.trigger),
        parent_run_id: created
            .parent
            .map_or_else(String::new, |parent| uuid_text(parent.as_bytes())),
        created_at: created.created_at,
        completed_at: ended_at,
        last_sequence: shown.last_sequence,
    };
    let data = Some(ending).filter(|ending| ending.encoded_len() <= data_bytes_max);
    let (datacontenttype, dataref) = match &data {
        Some(_) => ("application/json".to_owned(), String::new()),
        None => (
            String::new(),
            format!("/escapement.runs.v1.RunService/GetRun?run_id={id}"),
        ),
    };
    Ok(Some(v1::CloudEvent {
        id,
        source: source.to_owned(),
        specversion: "1.0".to_owned(),
        r#type: kind.to_owned(),
        subject: text(&created.plan),
        time: rfc3339(ended_at),
        datacontenttype,
        data,
        dataref,
        namespace: created.namespace.to_string(),
    }))
}
