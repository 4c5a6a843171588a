//! What lists and the store are told of what a run decided. Decides nothing.

use crate::work::{Asked, IndexRow, RequestRow, RevisionRow};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_run::ids::{InputRequestId, RunId};
use escapement_run::journal::{Event, InputRequest, PlanCreated, RequestState};
use escapement_run::plan::SubPlan;
use escapement_run::spec::namespace_named;
use escapement_run::{Commit, Run};
use prost::Message;

pub(super) fn index_row(run: &Run) -> IndexRow {
    let state = run.state();
    IndexRow {
        state: run.shown(),
        namespace: namespace_named(&state.spec.namespace),
        user_id: String::from(&state.spec.user_id),
        priority: state.spec.priority,
        created_at: state.created_at,
        updated_at: state.updated_at,
        due_at: run.due_at(),
        parent_run_id: parent_of(run),
        session_id: Some(&state.spec.session_id).filter(|id| !id.is_empty()).cloned(),
    }
}

/// Returns the run that waits for this one, if there is one.
pub(super) fn parent_of(run: &Run) -> Option<RunId> {
    let parent: [u8; 16] = run.state().spec.parent_run_id[..].try_into().ok()?;
    RunId::from_bytes(parent)
}

/// Returns the revisions that the entries bring.
pub(super) fn new_revisions(run: &Run, commit: &Commit) -> Vec<RevisionRow> {
    let created = commit.events.iter().filter_map(|entry| match &entry.event {
        Some(Event::PlanCreated(created)) => Some(created),
        _ => None,
    });
    let row = |created: &PlanCreated| RevisionRow {
        digest: created.digest[..].try_into().expect("a digest has 32 bytes"),
        document: created.document.clone(),
        sub_plans: run.plan().sub_plans().filter_map(SubPlan::revision).collect(),
    };
    created.map(row).collect()
}

/// Returns the requests that the entries are about, in their order.
pub(super) fn changed_requests(run: &Run, commit: &Commit) -> Vec<RequestRow> {
    let mut changed: Vec<RequestRow> = Vec::new();
    for entry in &commit.events {
        let (id, state, asked) = match entry.event.as_ref() {
            Some(Event::InputRequested(request)) => (&request.id, RequestState::Open, Some(asked(request))),
            Some(Event::InputReceived(answer)) => (&answer.id, RequestState::Answered, None),
            Some(Event::InputExpired(request)) => (&request.id, RequestState::Expired, None),
            Some(Event::InputClosed(request)) => (&request.id, RequestState::Closed, None),
            _ => continue,
        };
        let bytes: [u8; 16] = id[..].try_into().expect("an id has 16 bytes");
        let request_id = InputRequestId::from_bytes(bytes).expect("it was an id");
        let mut known = run.state().requests.iter();
        match changed.iter_mut().find(|row| row.request_id == request_id) {
            Some(row) => row.state = state,
            None => changed.push(RequestRow {
                request_id,
                kind: known.find(|known| known.id == *id).map(InputRequest::kind),
                state,
                asked,
            }),
        }
    }
    changed
}

fn asked(request: &InputRequest) -> Asked {
    Asked {
        kind: request.kind(),
        expires_at: request.expires_at,
        record: Bytes::from(request.encode_to_vec()),
    }
}
