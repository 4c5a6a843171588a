//! Runs that other runs wait for: what they are made from, what their end says, and which of them nobody waits for.

use bytes::Bytes;
use escapement_model::opaque::ValueView;
use escapement_model::{Opaque, RunId};
use escapement_run::journal::{Entry, Event, Stored, Usage};
use escapement_run::outcome::encoded;
use escapement_run::spec::{Constraints, Limits, Spec};
use escapement_run::state::UnitStage;
use escapement_run::{Blobs, Input, Run};
use escapement_runs_host::RunsHost;
use prost::Message;

use crate::message::Child;

// RUN-4.12
/// What a child is made from: its parent's, with limits that are cut to what the parent has left.
pub(crate) fn child_spec(parent: &Run, child: &Child, now: i64, blobs: &dyn Blobs) -> Spec {
    let state = parent.state();
    let lived_ms = u64::try_from(now.saturating_sub(state.created_at)).unwrap_or(0);
    let limits = &state.spec.limits;
    Spec {
        input: child.input.clone(),
        // RUN-13.11
        budget: child.budget.clone(),
        environment: Opaque::from_encoded(load(&state.environment, blobs)),
        limits: Limits {
            run_ms: left(limits.run_ms, state.active_ms),
            lifetime_ms: left(limits.lifetime_ms, lived_ms),
            ..*limits
        },
        parent_run_id: state.run_id.clone(),
        depth: state.spec.depth + 1,
        forked_from: Bytes::new(),
        header: Bytes::new(),
        // RUN-12.5: what the run may call, its children may; what it produces, it shows itself.
        constraints: Constraints {
            must_produce: Vec::new(),
            expected_artifact_type: String::new(),
            ..state.spec.constraints.clone()
        },
        // A child carries out the plan that its parent names, and no other one.
        planner: None,
        fallback: None,
        goal: String::new(),
        ..state.spec.clone()
    }
}

/// A limit of 0 would mean none.
fn left(limit_ms: u64, used_ms: u64) -> u64 {
    limit_ms.saturating_sub(used_ms).max(1)
}

/// How a child ended, for its parent.
#[derive(Clone, Debug)]
pub(crate) struct ChildEnd {
    /// Its output, an encoded value, or what went wrong.
    result: Result<Bytes, String>,
    /// What it used, if that is known.
    used: Option<Usage>,
}

impl ChildEnd {
    // RUN-13.11
    /// The child was never made, and used nothing.
    pub(crate) fn never_made(why: String) -> Self {
        Self {
            result: Err(why),
            used: Some(Usage::default()),
        }
    }

    /// What became of the child cannot be read.
    pub(crate) fn unreadable(why: String) -> Self {
        Self {
            result: Err(why),
            used: None,
        }
    }

    /// What the last entry of the child says.
    pub(crate) fn of(last_entry: &[u8], blobs: &dyn Blobs) -> Self {
        let entry = Entry::decode(last_entry).unwrap_or_default();
        Self {
            result: result_of(entry.event, blobs),
            used: entry.spent,
        }
    }

    /// As the parent takes it in.
    pub(crate) fn of_child(self, run_id: RunId) -> Input {
        let Self { result, used } = self;
        Input::ChildEnded { run_id, result, used }
    }
}

/// The output of a child, or what went wrong.
fn result_of(event: Option<Event>, blobs: &dyn Blobs) -> Result<Bytes, String> {
    match event {
        Some(Event::RunCompleted(end)) => Ok(match &end.output {
            Some(output) => load(output, blobs),
            None => encoded(ValueView::Null),
        }),
        Some(Event::RunFailed(end)) => Err(format!("{}: {}", end.error.code, end.error.message)),
        Some(Event::RunCancelled(end)) => Err(format!("the child run was cancelled: {}", end.reason)),
        _ => Err("the end of the child run is not readable".to_owned()),
    }
}

fn load(stored: &Stored, blobs: &dyn Blobs) -> Bytes {
    match stored.content() {
        Some(digest) => blobs.blob(&digest),
        None => stored.inline.clone(),
    }
}

/// True if a unit of the run waits for that child.
pub(crate) fn waits_for(parent: &Run, child: RunId) -> bool {
    let mut units = parent.state().steps.iter().flat_map(|step| &step.units);
    units.any(|unit| unit.stage() == UnitStage::Live && unit.child[..] == child.as_bytes()[..])
}

/// Children that live although nobody waits for them: what a crash kept from being cancelled.
pub(crate) fn orphans(host: &mut RunsHost) -> Vec<RunId> {
    let children: Vec<(RunId, RunId)> = host.runs().children().collect();
    let is_orphan = |(child, parent): &(RunId, RunId)| {
        let parent = host.run(*parent);
        !parent.is_some_and(|(parent, _)| waits_for(parent, *child))
    };
    let orphans = children.into_iter().filter(is_orphan);
    orphans.map(|(child, _)| child).collect()
}

/// The run that waits for this one, if there is one.
pub(crate) fn parent_of(run: &Run) -> Option<RunId> {
    let bytes: [u8; 16] = run.state().spec.parent_run_id[..].try_into().ok()?;
    RunId::from_bytes(bytes)
}
