//! Requests as the store and their runs have them.

use escapement_model::{InputRequestId, RunId};
use escapement_run::journal::{InputRequest, RequestKind, RequestState};
use escapement_run::{Answer, Blobs, Run};
use escapement_runs_host::request_state_byte;
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::runs::StoredInputRequest;
use escapement_wire::runs::v1;
use prost::Message;

use super::not_found;
use crate::errors::Rejection;
use crate::views::{Document, decision_word, request_view};

/// What the store has of a request.
pub(super) async fn stored(runs: &RunsHandle, id: InputRequestId) -> Result<StoredInputRequest, Rejection> {
    let found = runs
        .readers()
        .read(move |reader| reader.input_request(id))
        .await?;
    found.ok_or_else(|| not_found(id))
}

/// The kind of a request.
pub(super) fn kind_of(stored: &StoredInputRequest) -> Option<RequestKind> {
    RequestKind::try_from(i32::from(stored.kind)).ok()
}

/// A request as it is now; `None` if its run is gone meanwhile or cannot be read.
pub(super) async fn view(
    runs: &RunsHandle,
    stored: StoredInputRequest,
    bytes_max: u64,
) -> Result<Option<v1::InputRequest>, Rejection> {
    let run_id = stored.run_id;
    let look = move |run: &Run, blobs: &dyn Blobs| {
        let request = in_run(run, stored.id).cloned().or_else(|| forgotten(&stored))?;
        let view = request_view(&request, run, blobs, bytes_max);
        Some(v1::InputRequest {
            created_at: stored.opened_at,
            closed_at: stored.closed_at,
            ..view
        })
    };
    match runs.look(run_id, look).await {
        Ok(view) => Ok(view),
        Err(CallError::NotFound | CallError::Removed(_) | CallError::Damaged(_)) => Ok(None),
        Err(error) => Err(Rejection::OfRun(run_id, error)),
    }
}

fn in_run(run: &Run, id: InputRequestId) -> Option<&InputRequest> {
    let mut requests = run.state().requests.iter();
    requests.find(|request| request.id[..] == id.as_bytes()[..])
}

/// A request that its run has forgotten: what was asked, and how it ended.
fn forgotten(stored: &StoredInputRequest) -> Option<InputRequest> {
    let mut request = InputRequest::decode(stored.record.clone()).ok()?;
    let state = STATES
        .into_iter()
        .find(|state| request_state_byte(*state) == stored.state);
    request.set_state(state.unwrap_or(RequestState::Closed));
    Some(request)
}

/// What was said to a request before an answer.
pub(super) enum Said {
    /// The same by the same responder.
    Same,
    /// This.
    Other(String),
    /// Nothing.
    Nothing,
}

/// Compares an answer with the one that won.
pub(super) async fn said_to(runs: &RunsHandle, run_id: RunId, answer: Answer) -> Result<Said, Rejection> {
    let look = move |run: &Run, blobs: &dyn Blobs| {
        let request = in_run(run, answer.request_id);
        let Some(winner) = request.and_then(|request| request.answer.as_ref()) else {
            return Said::Nothing;
        };
        let value = winner.value.as_ref().map(|value| value.load(blobs));
        let is_same = winner.responder.id == answer.responder.id
            && winner.decision() == answer.decision
            && value.unwrap_or_default() == answer.value;
        match is_same {
            true => Said::Same,
            false => Said::Other(format!(
                "{} by {}",
                decision_word(winner.decision()),
                winner.responder.id
            )),
        }
    };
    let looked = runs.look(run_id, look).await;
    looked.map_err(|error| Rejection::OfRun(run_id, error))
}

const STATES: [RequestState; 4] = [
    RequestState::Open,
    RequestState::Answered,
    RequestState::Expired,
    RequestState::Closed,
];
