//! Open requests of all runs: the number of each kind, and the age of the oldest. Sends nothing.

use crate::counted::{Census, REQUEST_KINDS};
use crate::work::RequestRow;
use alloc::collections::{BTreeMap, BTreeSet};
use escapement_model::InputRequestId;
use escapement_run::Run;
use escapement_run::ids::RunId;
use escapement_run::journal::{RequestKind, RequestState};

/// The requests that are open.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    /// Time at which each was opened, Unix milliseconds, and its kind.
    open: BTreeMap<(RunId, InputRequestId), (i64, RequestKind)>,
    /// The same, the oldest first.
    by_age: BTreeSet<(i64, RunId, InputRequestId)>,
    by_kind: [usize; REQUEST_KINDS.len()],
}

impl OpenRequests {
    /// Adds the open requests of a run that begins or resumes.
    pub(crate) fn run_begins(&mut self, run_id: RunId, run: &Run) {
        let requests = run.state().requests.iter();
        for request in requests.filter(|request| request.state() == RequestState::Open) {
            let id: Option<[u8; 16]> = request.id[..].try_into().ok();
            if let Some(id) = id.and_then(InputRequestId::from_bytes) {
                self.opened(run_id, id, request.opened_at, request.kind());
            }
        }
    }

    /// Applies changes of requests of a run at this time, Unix milliseconds.
    pub(crate) fn changed(&mut self, run_id: RunId, rows: &[RequestRow], at: i64) {
        for row in rows {
            match (row.state, &row.asked) {
                (RequestState::Open, Some(asked)) => self.opened(run_id, row.request_id, at, asked.kind),
                (RequestState::Open, None) => {}
                (RequestState::Answered | RequestState::Expired | RequestState::Closed, _) => {
                    self.ended(run_id, row.request_id);
                }
            }
        }
    }

    /// Removes all requests of a run that ended or was dropped.
    pub(crate) fn run_ends(&mut self, run_id: RunId) {
        // No id is less.
        let first = (run_id, InputRequestId::from_random([0; 16]));
        let next = |open: &BTreeMap<_, _>| open.range(first..).next().map(|(key, _)| *key);
        while let Some((_, id)) = next(&self.open).filter(|(of_run, _)| *of_run == run_id) {
            self.ended(run_id, id);
        }
    }

    pub(crate) fn add_to(&self, census: Census) -> Census {
        Census {
            open_requests: self.by_kind,
            oldest_request_at: self.by_age.first().map(|(at, ..)| *at),
            ..census
        }
    }

    fn opened(&mut self, run_id: RunId, id: InputRequestId, at: i64, kind: RequestKind) {
        self.ended(run_id, id);
        self.open.insert((run_id, id), (at, kind));
        self.by_age.insert((at, run_id, id));
        self.by_kind[place(kind)] += 1;
    }

    fn ended(&mut self, run_id: RunId, id: InputRequestId) {
        if let Some((at, kind)) = self.open.remove(&(run_id, id)) {
            self.by_age.remove(&(at, run_id, id));
            self.by_kind[place(kind)] -= 1;
        }
    }
}

fn place(kind: RequestKind) -> usize {
    let place = REQUEST_KINDS.iter().position(|other| *other == kind);
    place.expect("all kinds are in the list")
}
