//! Changes saved plans. The plan is read and changed on a reader. It is written in one turn of the thread of
//! runs, unless it has changed since it was read.

use std::sync::Arc;

use escapement_model::Namespace;
use escapement_runs_shell::saved::{SavedPlan, document_of, saved_plan};
use escapement_runs_shell::{CallError, RunsHandle, WorkOwner};
use escapement_store::StoreFault;
use escapement_store::runs::{
    Definition, DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut, DefinitionWrite,
    ExpectedVersion, RunReader, RunStore, RunSummary,
};

use super::draft::{Draft, Shown, Target};
use super::nesting::is_as_seen;
use super::preparing::{Preparation, Prepared, prepare};
use crate::errors::Rejection;
use crate::header::Header;
use crate::journal::spec_of;

/// Saves a new plan, or finds the one that the same request has saved.
pub(crate) async fn create(
    runs: &RunsHandle,
    target: Target,
    namespace: Namespace,
    draft: Draft,
) -> Result<Shown, Rejection> {
    let prepare = move |reader: &dyn RunReader, target: &Target| {
        if let Some((definition, saved)) = saved_plan(reader, &target.plan_id, &target.user_id)? {
            let is_same = match (saved.requests.first(), &target.request) {
                (Some(known), Some(request)) => request.repeats(known),
                (known, request) => known.is_none() && request.is_none(),
            };
            return match is_same {
                true => Ok(Ok(Preparation::Known(Box::new(shown(
                    reader, definition, saved,
                )?)))),
                false => Ok(Err(CallError::RequestIdReused.into())),
            };
        }
        prepare(reader, target, namespace.clone(), None, draft.clone())
    };
    save(runs, target, prepare).await
}

/// Changes a plan. A request that was answered before changes nothing, and finds the plan as it is.
///
/// `edit` is called again if the plan has changed since it was read.
pub(crate) async fn change(
    runs: &RunsHandle,
    target: Target,
    edit: impl Fn(&mut Draft) -> Result<(), Rejection> + Send + Sync + 'static,
) -> Result<Shown, Rejection> {
    let prepare = move |reader: &dyn RunReader, target: &Target| {
        let (definition, saved) = match found(reader, target)? {
            Ok(found) => found,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if let Some(request) = &target.request
            && let Some(known) = saved.requests.iter().find(|known| known.id == request.id)
        {
            return match request.repeats(known) {
                true => Ok(Ok(Preparation::Known(Box::new(Shown {
                    step_key: known.step_key.clone(),
                    ..shown(reader, definition, saved.clone())?
                })))),
                false => Ok(Err(CallError::RequestIdReused.into())),
            };
        }
        if target
            .version
            .is_some_and(|version| version != definition.version)
        {
            return Ok(Err(Rejection::EtagMismatch));
        }
        let mut draft = Draft {
            priority: definition.priority,
            document: document_of(reader, &definition, &saved)?,
            saved,
            plan: None,
            step_key: String::new(),
        };
        if let Err(rejection) = edit(&mut draft) {
            return Ok(Err(rejection));
        }
        let namespace = definition.namespace.clone();
        prepare(reader, target, namespace, Some(definition), draft)
    };
    save(runs, target, prepare).await
}

// RUN-9.15
/// Prepares a write on a reader, and writes on the thread of runs unless one of its inputs has changed since.
async fn save<P>(runs: &RunsHandle, target: Target, prepare: P) -> Result<Shown, Rejection>
where
    P: Fn(&dyn RunReader, &Target) -> Result<Result<Preparation, Rejection>, StoreFault>
        + Send
        + Sync
        + 'static,
{
    let (target, prepare) = (Arc::new(target), Arc::new(prepare));
    let mut n_left = TRIES_MAX;
    loop {
        n_left -= 1;
        let (known, preparing) = (Arc::clone(&target), Arc::clone(&prepare));
        let owner = WorkOwner::new("", &target.user_id);
        let reading = move |reader: &dyn RunReader| preparing(reader, &known);
        let prepared = runs.readers().read_long(owner, reading);
        let prepared = match prepared.await {
            // What was replaced while it was read looks like damage.
            Err(CallError::Damaged(_)) if n_left > 0 => continue,
            prepared => prepared??,
        };
        let prepared = match prepared {
            Preparation::Known(shown) => return Ok(*shown),
            Preparation::Write(prepared) => prepared,
        };
        let known = Arc::clone(&target);
        let work = move |store: &mut dyn RunStore, reader: &dyn RunReader, now| {
            write(store, reader, &known, *prepared, now)
        };
        match runs.with_store(work).await?? {
            Some(shown) => return Ok(shown),
            None if n_left == 0 => return Err(CallError::Overloaded.into()),
            None => {}
        }
    }
}

/// Deletes a plan of which no run lives.
pub(crate) async fn delete(runs: &RunsHandle, target: Target) -> Result<(), Rejection> {
    let work = move |store: &mut dyn RunStore, reader: &dyn RunReader, _now| {
        let definition = match found(reader, &target) {
            Ok(Ok((definition, _))) => Some(definition),
            Ok(Err(rejection)) => return Ok(Err(rejection)),
            // What is damaged can be deleted, and nothing else can be done with it.
            Err(StoreFault::CorruptDefinition { .. }) => None,
            Err(fault) => return Err(fault),
        };
        let version = definition.as_ref().map(|definition| definition.version);
        if version.is_some() && target.version.is_some_and(|wanted| Some(wanted) != version) {
            return Ok(Err(Rejection::EtagMismatch));
        }
        if let Some(run) = newest_run(reader, &target.plan_id)?
            && run.progress.ended_at.is_none()
        {
            return Ok(Err(already_running(&run)));
        }
        store.define(&DefinitionWrite {
            kind: DefinitionKind::SavedPlan,
            name: target.plan_id,
            expected: ExpectedVersion::Any,
            change: DefinitionChange::Delete,
        })?;
        Ok(Ok(()))
    };
    runs.with_store(work).await?
}

fn already_running(run: &RunSummary) -> Rejection {
    Rejection::Failed {
        reason: "ALREADY_RUNNING",
        message: format!("Run {} of the plan has not ended.", run.run_id),
        fact: Some(("run_id", run.run_id.to_string())),
    }
}

fn found(
    reader: &dyn RunReader,
    target: &Target,
) -> Result<Result<(Definition, SavedPlan), Rejection>, StoreFault> {
    let found = saved_plan(reader, &target.plan_id, &target.user_id)?;
    Ok(found.ok_or_else(|| not_found(&target.plan_id)))
}

/// There is no such plan, or it is somebody else's.
pub(crate) fn not_found(plan_id: &str) -> Rejection {
    Rejection::NotFound {
        reason: "PLAN_NOT_FOUND",
        message: format!("No saved plan has the id {plan_id}."),
    }
}

/// Writes what was prepared; nothing, and `None`, if what it rests on is not as it was.
fn write(
    store: &mut dyn RunStore,
    reader: &dyn RunReader,
    target: &Target,
    prepared: Prepared,
    now: i64,
) -> Result<Result<Option<Shown>, Rejection>, StoreFault> {
    if !is_as_seen(reader, &prepared.seen)? {
        return Ok(Ok(None));
    }
    let Prepared {
        version,
        saved,
        document,
        step_key,
        put,
        ..
    } = prepared;
    let outcome = store.define(&DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: target.plan_id.clone(),
        expected: version.map_or(ExpectedVersion::New, ExpectedVersion::Is),
        change: DefinitionChange::Put(DefinitionPut { at: now, ..put }),
    })?;
    match outcome {
        DefinitionOutcome::Done { .. } => {}
        DefinitionOutcome::TooLarge(bound) => {
            return Ok(Err(CallError::TooLarge(bound.to_string()).into()));
        }
        // Another user's plan may have the id that a request leads to.
        DefinitionOutcome::OtherVersion { .. } if version.is_none() => {
            let own = saved_plan(reader, &target.plan_id, &target.user_id)?;
            return Ok(own.map_or_else(|| Err(CallError::RequestIdReused.into()), |_| Ok(None)));
        }
        DefinitionOutcome::OtherVersion { .. }
        | DefinitionOutcome::NotFound
        | DefinitionOutcome::ContentMissing { .. } => return Ok(Ok(None)),
    }
    let definition = reader.definition(DefinitionKind::SavedPlan, &target.plan_id)?;
    let Some(definition) = definition else {
        return Ok(Err(not_found(&target.plan_id)));
    };
    let newest_run = newest_run(reader, &target.plan_id)?;
    Ok(Ok(Some(Shown {
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        definition,
        saved,
        document: Some(document),
        step_key,
    })))
}

/// A plan with its document.
pub(crate) fn shown(
    reader: &dyn RunReader,
    definition: Definition,
    saved: SavedPlan,
) -> Result<Shown, StoreFault> {
    let newest_run = newest_run(reader, &definition.name)?;
    Ok(Shown {
        document: Some(document_of(reader, &definition, &saved)?),
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        definition,
        saved,
        step_key: String::new(),
    })
}

/// The run of a saved plan that was created last; none if it is damaged.
pub(crate) fn newest_run(reader: &dyn RunReader, plan_id: &str) -> Result<Option<RunSummary>, StoreFault> {
    match reader.newest_run_of(plan_id) {
        Err(StoreFault::CorruptRun { .. }) => Ok(None),
        found => found,
    }
}

/// Retries in the chain of a run; 0 without one, and for one that cannot be read.
pub(crate) fn retries_of(reader: &dyn RunReader, run: Option<&RunSummary>) -> Result<u32, StoreFault> {
    let spec = match run {
        Some(run) => spec_of(reader, run.run_id)?,
        None => None,
    };
    Ok(spec.map_or(0, |spec| Header::of(&spec).retry_count))
}

/// How often a change is prepared while others change what it rests on.
const TRIES_MAX: u32 = 4;
