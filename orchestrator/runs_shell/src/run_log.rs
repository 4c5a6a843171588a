//! Log lines about runs that ended. They hold ids, keys and codes; text of callers and handlers is in no log.

use escapement_model::RunId;
use escapement_run::{Run, ShownState};
use tracing::{debug, info};

/// Logs the end of a run, which is durable: at `info` unless it completed, since thousands may complete in a second.
pub(crate) fn ended(run_id: RunId, run: &Run) {
    let state = run.state();
    let took_ms = state.ended_at - state.created_at;
    let error = state.end.as_ref().and_then(|end| end.error.as_ref());
    let code = error.map(|error| error.code.as_str());
    let step = error.and_then(|error| run.plan().steps.get(error.step? as usize));
    let step = step.map(|step| step.key.as_str());
    let request_id = Some(state.spec.request_id.as_str()).filter(|request_id| !request_id.is_empty());
    match run.shown() {
        ShownState::Failed => info!(%run_id, code, step, request_id, took_ms, "run failed"),
        ShownState::Timeout => info!(%run_id, code, step, request_id, took_ms, "run timed out"),
        ShownState::Cancelled => info!(%run_id, code, request_id, took_ms, "run cancelled"),
        _ => debug!(%run_id, request_id, took_ms, "run completed"),
    }
}
