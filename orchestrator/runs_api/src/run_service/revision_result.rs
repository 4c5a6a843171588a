//! What came of a revision, out of the run as it is, or of its journal.

use super::Runs;
use crate::errors::Rejection;
use crate::journal::forward;
use crate::views::{Document, EndOfRevision, revision_result};
use escapement_model::{Opaque, RunId};
use escapement_run::Run;
use escapement_run::journal::{Entry, Stored};
use escapement_run::plan::Plan;
use escapement_run::state::RunState;
use escapement_runs_shell::CallError;
use escapement_transport::share::Tenant;
use escapement_wire::runs::v1;
use std::sync::Arc;

/// What is known of a revision without its journal.
enum Seen {
    /// The run goes on with it.
    Open,
    /// What came of it, and the state of the session.
    Ended(Box<v1::RevisionResult>, Stored),
    /// The number of the entry that says that another plan takes its place.
    ReplacedAt(u64),
}

impl Runs {
    /// What came of a revision of a run; `None` as long as the run goes on with it.
    ///
    /// `begun`: the number of the entry that it begins with; `plan`: its plan.
    pub(super) async fn revision_result(
        &self,
        run_id: RunId,
        begun: u64,
        plan: Arc<Plan>,
        tenant: &Tenant,
    ) -> Result<Option<v1::RevisionResult>, Rejection> {
        let seen = self.look(run_id, move |run, _| seen(run_id, run, begun)).await?;
        let (mut result, session) = match seen {
            Seen::Open => return Ok(None),
            Seen::Ended(result, session) => (*result, session),
            Seen::ReplacedAt(end) => {
                let (state, entry) = self.before(run_id, end, tenant).await?;
                if state.revision != plan.digest[..] {
                    return Err(damaged(run_id, begun));
                }
                let event = entry.event.ok_or_else(|| damaged(run_id, end))?;
                let session = session_state(&state);
                let run = Run::from_snapshot(state, plan);
                let result = revision_result(run_id, &run, EndOfRevision::Replaced(end, &event));
                (result, session)
            }
        };
        let state = self.look(run_id, move |_, blobs| session.load(blobs)).await?;
        result.aggregated_state = Some(Opaque::from_encoded(state));
        Ok(Some(result))
    }

    /// A run as it was before that entry, and the entry.
    async fn before(&self, run_id: RunId, end: u64, tenant: &Tenant) -> Result<(RunState, Entry), Rejection> {
        let _one_of_few = self.heavy_place(tenant).await?;
        let mut state = RunState::default();
        loop {
            let next = state.sequence + 1;
            let stretch = forward(&self.runs, run_id, next, usize::MAX, SCAN_BYTES).await?;
            if stretch.entries.is_empty() {
                return Err(damaged(run_id, next));
            }
            for (entry, _) in stretch.entries {
                let next = state.sequence + 1;
                if entry.sequence != next || entry.event.is_none() {
                    return Err(damaged(run_id, next));
                }
                if next == end {
                    return Ok((state, entry));
                }
                state.apply(&entry);
            }
        }
    }
}

fn seen(run_id: RunId, run: &Run, begun: u64) -> Seen {
    let state = run.state();
    let replans = state.replans.iter().map(|replan| replan.sequence);
    let revisions = state.revisions.iter().map(|revision| revision.sequence);
    match replans
        .chain(revisions)
        .filter(|sequence| *sequence > begun)
        .min()
    {
        Some(end) => Seen::ReplacedAt(end),
        None if state.stage().is_end() => {
            let result = revision_result(run_id, run, EndOfRevision::OfRun);
            Seen::Ended(Box::new(result), session_state(state))
        }
        None => Seen::Open,
    }
}

fn session_state(state: &RunState) -> Stored {
    let session = state.session.as_ref();
    session.map_or_else(Stored::default, |session| session.state.clone())
}

fn damaged(run_id: RunId, sequence: u64) -> Rejection {
    let why = format!("entry {sequence} is unreadable");
    Rejection::OfRun(run_id, CallError::Damaged(why))
}

/// Bytes of entries that are read at a time.
const SCAN_BYTES: usize = 1 << 20;
