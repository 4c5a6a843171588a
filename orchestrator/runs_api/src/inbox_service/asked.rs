//! Requests as the store and their runs have them.

use escapement_model::{ExecutionId, InputRequestId, RunId};
use escapement_run::journal::{AnswerType, InputRequest, RequestKind, RequestState};
use escapement_run::plan::Plan;
use escapement_run::{Answer, Blobs, Run, says_the_same};
use escapement_runs_host::request_state_byte;
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::runs::{Scope, StoredInputRequest};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::respond_to_input_request::Answer as Given;
use prost::Message;
use std::sync::Arc;

use super::not_found;
use crate::errors::Rejection;
use crate::saved;
use crate::views::{Document, request_view};

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
    let mut plan = None;
    // The second look has the plan that the first one asks for.
    for _ in 0..2 {
        let (of, given) = (stored.clone(), plan.take());
        let look = move |run: &Run, blobs: &dyn Blobs| shown(&of, run, given, blobs, bytes_max);
        match looked(run_id, runs.look(run_id, look).await)? {
            Some(Shown::Request(view)) => return Ok(Some(*view)),
            Some(Shown::OfRevision(digest)) => {
                plan = Some(saved::revision(runs, digest, vec![Scope::EVERYTHING]).await?);
            }
            Some(Shown::Nothing) | None => break,
        }
    }
    Ok(None)
}

enum Shown {
    Request(Box<v1::InputRequest>),
    /// It is about the plan of this digest, which is not the current one.
    OfRevision([u8; 32]),
    Nothing,
}

/// Shows which workers had what is in doubt, as far as the contract has it on record.
pub(super) async fn show_workers<'a>(
    runs: &RunsHandle,
    requests: impl Iterator<Item = &'a mut v1::InputRequest>,
) {
    let parsed = requests.filter_map(|request| {
        let execution_id: ExecutionId = request.execution_id.parse().ok()?;
        Some((execution_id, request))
    });
    let (executions, requests): (Vec<_>, Vec<_>) = parsed.unzip();
    let records = runs.records_of(executions).await;
    for (request, record) in requests.into_iter().zip(records) {
        request.worker_id = record.worker_id;
    }
}

/// The request of a run. `given`: the plan that it is about, if that is not the current one.
fn shown(
    stored: &StoredInputRequest,
    run: &Run,
    given: Option<Arc<Plan>>,
    blobs: &dyn Blobs,
    bytes_max: u64,
) -> Shown {
    let Some(request) = in_run(run, stored.id).cloned().or_else(|| forgotten(stored)) else {
        return Shown::Nothing;
    };
    let digest = request.unit.map(|unit| run.state().revision_of_epoch(unit.epoch));
    let digest = digest.and_then(|digest| <[u8; 32]>::try_from(&digest[..]).ok());
    let plan = match (given, digest) {
        (Some(given), _) => given,
        (None, Some(digest)) if digest != run.plan().digest => return Shown::OfRevision(digest),
        (None, _) => Arc::clone(run.plan()),
    };
    let view = request_view(&request, run, &plan, blobs, bytes_max);
    Shown::Request(Box::new(v1::InputRequest {
        created_at: stored.opened_at,
        closed_at: stored.closed_at,
        ..view
    }))
}

/// What was seen; `None` if the run is gone meanwhile or cannot be read.
fn looked<T>(run_id: RunId, looked: Result<T, CallError>) -> Result<Option<T>, Rejection> {
    match looked {
        Ok(seen) => Ok(Some(seen)),
        Err(CallError::NotFound | CallError::Removed(_) | CallError::Damaged(_)) => Ok(None),
        Err(error) => Err(Rejection::OfRun(run_id, error)),
    }
}

fn in_run(run: &Run, id: InputRequestId) -> Option<&InputRequest> {
    let mut requests = run.state().requests.iter();
    requests.find(|request| request.id[..] == id.as_bytes()[..])
}

// RUN-6.5
/// Refuses an answer of another shape than the one that fits the request, as long as that is open.
pub(super) fn check_shape(stored: &StoredInputRequest, given: &Given) -> Result<(), CallError> {
    let Some(request) = forgotten(stored).filter(|request| request.state() == RequestState::Open) else {
        return Ok(());
    };
    let fits = match (request.kind(), given) {
        (RequestKind::Question, Given::Text(_)) => request.answer_type() == AnswerType::Text,
        (RequestKind::Question, Given::Choice(_)) => request.answer_type() == AnswerType::Choice,
        (RequestKind::Question, Given::Confirm(_)) => request.answer_type() == AnswerType::Confirm,
        (RequestKind::Question, Given::Form(_)) => request.answer_type() == AnswerType::Form,
        (RequestKind::Approval, Given::Approval(_))
        | (RequestKind::AmbiguousEffect, Given::Effect(_))
        | (RequestKind::RetryExtension | RequestKind::BudgetExtension, Given::Extend(_)) => true,
        _ => false,
    };
    match fits {
        true => Ok(()),
        false => {
            let refused = request.wrong_answer();
            Err(CallError::Refused(refused.reason, refused.message))
        }
    }
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
        let asked = in_run(run, answer.request_id);
        let answered = asked.and_then(|asked| Some((asked, asked.answer.as_ref()?)));
        let Some((asked, winner)) = answered else {
            return Said::Nothing;
        };
        let value = winner.value.as_ref().map(|value| value.load(blobs));
        let is_same = winner.responder.id == answer.responder.id
            && winner.decision() == answer.decision
            && says_the_same(asked, answer.decision, &value.unwrap_or_default(), &answer.value);
        match is_same {
            true => Said::Same,
            false => Said::Other(format!(
                "{} by {}",
                winner.decision().as_str(),
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
