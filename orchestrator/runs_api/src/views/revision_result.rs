//! What came of a revision of a run, as a message.

use super::artifact::artifact_of;
use super::run::error_view;
use super::step::step_view;
use super::words::{count, signed, small};
use escapement_model::opaque::{ValueView, value_of};
use escapement_model::{OpaqueValue, RunId};
use escapement_run::Run;
use escapement_run::journal::{Event, Failure, Stored};
use escapement_run::plan::StepKind;
use escapement_run::state::{RunState, Stage, StepStage, StepState};
use escapement_wire::runs::v1;
use std::collections::BTreeSet;

/// How a run came to the end of a revision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndOfRevision<'a> {
    /// With its own end.
    OfRun,
    /// Another plan took its place: the entry that says so, and its number.
    Replaced(u64, &'a Event),
}

/// What came of the current revision of a run that has ended, or that is as it was before its next revision. The state of the
/// session is left to the caller, who can load it.
pub(crate) fn revision_result(run_id: RunId, run: &Run, end: EndOfRevision<'_>) -> v1::RevisionResult {
    let (state, plan) = (run.state(), run.plan());
    let (last_sequence, error, goes_on) = ended(state, end);
    let mut disabled: BTreeSet<_> = state.disabled_actions.iter().cloned().collect();
    if let EndOfRevision::Replaced(_, Event::ReplanTriggered(replan)) = end {
        disabled.extend(replan.disabled.iter().cloned());
    }
    let steps = || plan.steps.iter().zip(&state.steps);
    let failed = steps().filter(|(_, step)| step.stage() == StepStage::Failed);
    let mut log_bytes = LOG_BYTES_MAX;
    v1::RevisionResult {
        success: matches!((end, state.stage()), (EndOfRevision::OfRun, Stage::Completed)),
        can_replan: goes_on,
        error: error.map(|error| error_view(error, plan)),
        failed_tools: failed.map(|(step, _)| step.key.clone()).collect(),
        disabled_skills: state.disabled_skills().into_iter().map(str::to_owned).collect(),
        disabled_actions: disabled.into_iter().collect(),
        aggregated_state: None,
        assets: state
            .artifacts
            .iter()
            .map(|artifact| artifact_of(run_id, plan, artifact))
            .collect(),
        execution_time_ms: signed(state.active_ms.saturating_sub(state.revision_ms)),
        attempt_number: attempt_number(state),
        tool_results: (0..plan.steps.len())
            .map(|index| tool_result(run, index, &mut log_bytes))
            .collect(),
        last_sequence: signed(last_sequence),
    }
}

/// The number of the last entry, what went wrong, and whether the run went on.
fn ended<'a>(state: &'a RunState, end: EndOfRevision<'a>) -> (u64, Option<&'a Failure>, bool) {
    match end {
        EndOfRevision::OfRun => {
            let error = state.end.as_ref().and_then(|end| end.error.as_ref());
            (state.sequence, error, false)
        }
        // RUN-11.9, RUN-11.11: the fallback is what is left once no other plan can be made.
        EndOfRevision::Replaced(sequence, Event::ReplanTriggered(replan)) => {
            (sequence, Some(&replan.error), replan.cause != "fallback")
        }
        EndOfRevision::Replaced(sequence, _) => (sequence, None, true),
    }
}

/// Revisions so far, and generations that came to no plan.
fn attempt_number(state: &RunState) -> i32 {
    let previous = state.planning.iter().flat_map(|planning| &planning.previous);
    let without_plan = previous.filter(|plan| plan.digest.is_empty()).count();
    small(state.revision_number).saturating_add(count(without_plan))
}

fn tool_result(run: &Run, index: usize, log_bytes: &mut usize) -> v1::ToolResult {
    let view = step_view(run, index, None);
    let (plan, state) = (&run.plan().steps[index], &run.state().steps[index]);
    let error = view.error.filter(|_| state.stage() == StepStage::Failed);
    v1::ToolResult {
        step_key: view.step_key,
        tool_name: match &plan.kind {
            StepKind::ToolCall(call) => call.tool_name.clone(),
            StepKind::Loop(repeated) => repeated.call.tool_name.clone(),
            _ => String::new(),
        },
        state: tool_state(state.stage(), error.as_ref()).to_owned(),
        error,
        execution_time_ms: view.duration_ms.unwrap_or(0),
        retry_count: view.retry_count,
        log: logs(state, log_bytes),
    }
}

/// The state of a step in the words of tools.
fn tool_state(stage: StepStage, error: Option<&v1::RunError>) -> &'static str {
    match (stage, error) {
        (StepStage::Completed, _) => "success",
        (StepStage::Failed, Some(error)) if error.code == "TOOL_TIMEOUT" => "timeout",
        (StepStage::Failed, _) => "failed",
        // The revision ended before it did.
        (StepStage::Pending | StepStage::Running | StepStage::Skipped | StepStage::Blocked, _) => "skipped",
    }
}

/// What the outputs of a step's units say under `$log`, as far as there is room for it.
fn logs(step: &StepState, room: &mut usize) -> Vec<OpaqueValue> {
    let outputs = step.all_units().filter_map(|(_, unit)| unit.output.as_ref());
    let logs = outputs.filter_map(log_of);
    let fits = |log: &OpaqueValue| {
        let rest = room.checked_sub(log.as_encoded().len());
        *room = rest.unwrap_or(0);
        rest.is_some()
    };
    logs.take_while(fits).collect()
}

fn log_of(output: &Stored) -> Option<OpaqueValue> {
    let value = escapement_model::opaque::value(&output.inline).ok()?;
    let ValueView::Struct(object) = value else {
        return None;
    };
    let log = value_of(object, "$log")?;
    Some(OpaqueValue::from_encoded(escapement_run::outcome::encoded(log)))
}

/// Bytes of the logs of a revision: 256 KiB.
const LOG_BYTES_MAX: usize = 262_144;
