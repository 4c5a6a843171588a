//! Runs that other runs wait for: what they are made from, what their end says, and which of them nobody waits for.

use bytes::Bytes;
use escapement_model::opaque::ValueView;
use escapement_model::{Opaque, RunId};
use escapement_run::journal::{Doubt, Entry, Event, Stored, Usage};
use escapement_run::outcome::encoded;
use escapement_run::spec::{Constraints, Limits, Spec};
use escapement_run::state::{StepStage, UnitStage};
use escapement_run::{Blobs, Input, Run};
use escapement_runs_host::RunsHost;
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunSummary};
use prost::Message;

use crate::message::Child;

// RUN-4.12
/// What a child is made from: its parent's, with limits that are cut to what the parent has left.
pub(crate) fn child_spec(parent: &Run, child: &Child, now: i64, blobs: &dyn Blobs) -> Spec {
    let state = parent.state();
    let lived_ms = u64::try_from(parent.own_time(now).saturating_sub(state.created_at)).unwrap_or(0);
    let limits = &state.spec.limits;
    Spec {
        input: child.input.clone(),
        // RUN-13.11
        budget: child.budget.clone(),
        // RUN-12.14
        doubts: child.doubts.clone(),
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
        // RUN-4.3
        id_seed: match state.spec.seed() {
            Some(seed) => Bytes::copy_from_slice(seed.of_child(child.run_id).as_bytes()),
            None => Bytes::new(),
        },
        ..state.spec.clone()
    }
}

/// Returns a limit of 0 would mean none.
fn left(limit_ms: u64, used_ms: u64) -> u64 {
    limit_ms.saturating_sub(used_ms).max(1)
}

/// How a child ended, for its parent.
#[derive(Clone, Debug)]
pub(crate) struct ChildEnd {
    /// Output, an encoded value, or what went wrong.
    result: Result<Bytes, String>,
    /// What it used, if that is known.
    used: Option<Usage>,
    /// What is in doubt of it and of its children, if that is known.
    doubts: Option<Vec<Doubt>>,
}

impl ChildEnd {
    // RUN-13.11
    /// The child was never made, and used nothing.
    pub(crate) fn never_made(why: String) -> Self {
        Self {
            result: Err(why),
            used: Some(Usage::default()),
            doubts: None,
        }
    }

    /// What became of the child cannot be read.
    pub(crate) fn unreadable(why: String) -> Self {
        Self {
            result: Err(why),
            used: None,
            doubts: None,
        }
    }

    /// What the last entry of the child says, and what the children say that it leaves.
    pub(crate) fn of(last_entry: &[u8], host: &mut RunsHost) -> Self {
        let mut entry = Entry::decode(last_entry).unwrap_or_default();
        let children = entry.children.iter().filter_map(run_id_of).collect();
        entry.doubts.extend(in_doubt(children, host));
        Self {
            doubts: entry.event.is_some().then_some(entry.doubts),
            result: result_of(entry.event, host.blobs()),
            used: entry.spent,
        }
    }

    /// As the parent takes it in.
    pub(crate) fn of_child(self, run_id: RunId) -> Input {
        let Self { result, used, doubts } = self;
        Input::ChildEnded {
            run_id,
            result,
            used,
            doubts,
        }
    }
}

// RUN-12.14
/// The effects that are in doubt of these runs and of their children. A run that cannot be read tells nothing.
pub(crate) fn in_doubt(mut runs: Vec<RunId>, host: &mut RunsHost) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    while let Some(run_id) = runs.pop() {
        if let Some((run, blobs)) = host.run(run_id) {
            doubts.extend(run.in_doubt(blobs));
            runs.extend(run.state().children());
            continue;
        }
        let reader = host.reader();
        let summary = reader.summary(run_id).ok().flatten();
        let last = summary.and_then(|summary| last_entry(reader, run_id, &summary).ok());
        let entry = last
            .and_then(|bytes| Entry::decode(bytes).ok())
            .unwrap_or_default();
        runs.extend(entry.children.iter().filter_map(run_id_of));
        doubts.extend(entry.doubts);
    }
    doubts
}

/// Returns the last entry of a run, encoded; empty if there is none.
pub(crate) fn last_entry(
    reader: &dyn RunReader,
    run_id: RunId,
    summary: &RunSummary,
) -> Result<Bytes, StoreFault> {
    let last = reader.journal(run_id, summary.next_seq - 1, 1)?;
    let entry = last.and_then(|page| page.entries.into_iter().next());
    Ok(entry.map(|entry| entry.bytes).unwrap_or_default())
}

fn run_id_of(bytes: &Bytes) -> Option<RunId> {
    RunId::from_bytes(bytes[..].try_into().ok()?)
}

/// Returns the output of a child, or what went wrong.
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

/// Returns true if a unit of the run waits for that child: nobody waits for what a step has left that is over.
pub(crate) fn waits_for(parent: &Run, child: RunId) -> bool {
    let steps = parent.state().steps.iter();
    let running = steps.filter(|step| step.stage() == StepStage::Running);
    let mut units = running.flat_map(|step| &step.units);
    units.any(|unit| unit.stage() == UnitStage::Live && unit.child[..] == child.as_bytes()[..])
}

/// Children that live although nobody waits for them: what a crash kept from being cancelled.
pub(crate) fn orphans(host: &RunsHost) -> Vec<RunId> {
    let is_orphan = |(child, parent): &(RunId, RunId)| {
        let waits = host.peek(*parent, |parent| waits_for(parent, *child));
        !waits.unwrap_or(false)
    };
    let orphans = host.runs().children().filter(is_orphan);
    orphans.map(|(child, _)| child).collect()
}

/// Returns the run that waits for this one, if there is one.
pub(crate) fn parent_of(run: &Run) -> Option<RunId> {
    run_id_of(&run.state().spec.parent_run_id)
}
