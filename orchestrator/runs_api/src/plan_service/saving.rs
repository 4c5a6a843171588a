//! Changes of saved plans: what was there is read, changed and written in one turn of the thread of runs.

use std::collections::BTreeSet;

use bytes::Bytes;
use escapement_model::{Namespace, Opaque};
use escapement_run::plan::{self, Plan, SubPlan};
use escapement_runs_host::documents_below;
use escapement_runs_shell::saved::{SavedPlan, SavedRequest, document_of, saved_plan};
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::StoreFault;
use escapement_store::runs::{
    Content, Definition, DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut, DefinitionWrite,
    ExpectedVersion, RunReader, RunStore, RunSummary, Scope,
};
use prost::Message;

use super::nesting::{Known, contains_itself};
use crate::caller::Caller;
use crate::errors::{Problem, Rejection};
use crate::header::Header;
use crate::journal::spec_of;

/// A saved plan as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The index columns.
    pub(crate) definition: Definition,
    /// The record.
    pub(crate) saved: SavedPlan,
    /// The document of the newest revision; `None` in lists.
    pub(crate) document: Option<Opaque>,
    /// The run of it that was created last.
    pub(crate) newest_run: Option<RunSummary>,
    /// Retries in the chain of that run.
    pub(crate) retry_count: u32,
    /// The step that the call has added.
    pub(crate) step_key: String,
}

/// Which plan a call changes, and when.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The plan.
    pub(crate) plan_id: String,
    /// Whose it must be; empty for anybody's.
    pub(crate) user_id: String,
    /// Only in this version.
    pub(crate) version: Option<u64>,
    /// What its caller may repeat.
    pub(crate) request: Option<SavedRequest>,
    /// Who says which actions it calls; `None` if the call brings none.
    pub(crate) caller: Option<Caller>,
}

impl Target {
    /// Why its caller may not save this plan in the namespace.
    fn refusal_of(&self, namespace: &Namespace, plan: &Plan) -> Option<Rejection> {
        let caller = self.caller.as_ref()?;
        caller.check_plan(namespace, "document", plan).err()
    }
}

/// A plan while it is changed.
pub(crate) struct Draft {
    /// Higher first in lists.
    pub(crate) priority: i32,
    /// The record.
    pub(crate) saved: SavedPlan,
    /// The document of the newest revision.
    pub(crate) document: Opaque,
    /// The plan of the document that takes its place.
    pub(crate) plan: Option<Plan>,
    /// The step that is added.
    pub(crate) step_key: String,
}

/// Saves a new plan, or finds the one that the same request has saved.
pub(crate) async fn create(
    runs: &RunsHandle,
    target: Target,
    namespace: Namespace,
    draft: Draft,
) -> Result<Shown, Rejection> {
    let work = move |store: &mut dyn RunStore, now| {
        let reader = store.reader()?;
        if let Some((definition, saved)) = saved_plan(&*reader, &target.plan_id, &target.user_id)? {
            let is_same = match (saved.requests.first(), &target.request) {
                (Some(known), Some(request)) => request.repeats(known),
                (known, request) => known.is_none() && request.is_none(),
            };
            return match is_same {
                true => Ok(Ok(shown(&*reader, definition, saved)?)),
                false => Ok(Err(CallError::RequestIdReused.into())),
            };
        }
        write(store, &*reader, &target, namespace, None, draft, now)
    };
    runs.with_store(work).await?
}

/// Changes a plan. A request that was answered before changes nothing, and finds the plan as it is.
pub(crate) async fn change(
    runs: &RunsHandle,
    target: Target,
    edit: impl FnOnce(&mut Draft) -> Result<(), Rejection> + Send + 'static,
) -> Result<Shown, Rejection> {
    let work = move |store: &mut dyn RunStore, now| {
        let reader = store.reader()?;
        let (definition, saved) = match found(&*reader, &target)? {
            Ok(found) => found,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if let Some(request) = &target.request
            && let Some(known) = saved.requests.iter().find(|known| known.id == request.id)
        {
            return match request.repeats(known) {
                true => Ok(Ok(Shown {
                    step_key: known.step_key.clone(),
                    ..shown(&*reader, definition, saved.clone())?
                })),
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
            document: document_of(&*reader, &definition, &saved)?,
            saved,
            plan: None,
            step_key: String::new(),
        };
        if let Err(rejection) = edit(&mut draft) {
            return Ok(Err(rejection));
        }
        let namespace = definition.namespace.clone();
        write(store, &*reader, &target, namespace, Some(definition), draft, now)
    };
    runs.with_store(work).await?
}

/// Deletes a plan of which no run lives.
pub(crate) async fn delete(runs: &RunsHandle, target: Target) -> Result<(), Rejection> {
    let work = move |store: &mut dyn RunStore, _now| {
        let reader = store.reader()?;
        let definition = match found(&*reader, &target) {
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
        if let Some(run) = newest_run(&*reader, &target.plan_id)?
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

/// Writes a draft over what was there.
fn write(
    store: &mut dyn RunStore,
    reader: &dyn RunReader,
    target: &Target,
    namespace: Namespace,
    before: Option<Definition>,
    draft: Draft,
    now: i64,
) -> Result<Result<Shown, Rejection>, StoreFault> {
    let Draft {
        priority,
        mut saved,
        mut document,
        plan,
        step_key,
    } = draft;
    let owner = before.as_ref().and_then(|before| before.owner.clone());
    let owner = owner.unwrap_or_else(|| target.user_id.clone());
    let scope = Scope::of(&namespace, &owner);
    let mut contents = Vec::new();
    let mut pinned = BTreeSet::new();
    match plan {
        Some(plan) => {
            if let Some(rejection) = target.refusal_of(&namespace, &plan) {
                return Ok(Err(rejection));
            }
            let known = Known {
                plan_id: &target.plan_id,
                user_id: &owner,
                namespace: &namespace,
            };
            if let Some(rejection) = refusal_of(reader, &known, &plan)? {
                return Ok(Err(rejection));
            }
            contents.push(revise(&mut saved, &plan));
            pinned.extend(documents_of(reader, &scope, &plan));
            document = plan.document;
        }
        None => {
            let plan = plan::read(&document).ok();
            pinned.extend(plan.iter().flat_map(|plan| documents_of(reader, &scope, plan)));
            pinned.extend(<[u8; 32]>::try_from(&saved.document[..]).ok());
        }
    }
    remember(&mut saved, target.request.as_ref(), &step_key);
    let put = DefinitionPut {
        namespace,
        owner: Some(owner),
        priority,
        at: now,
        record: Bytes::from(saved.encode_to_vec()),
        contents,
        pinned: pinned.into_iter().collect(),
    };
    let outcome = store.define(&DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: target.plan_id.clone(),
        expected: before.map_or(ExpectedVersion::New, |before| ExpectedVersion::Is(before.version)),
        change: DefinitionChange::Put(put),
    })?;
    if let DefinitionOutcome::TooLarge(bound) = outcome {
        return Ok(Err(CallError::TooLarge(bound.to_string()).into()));
    }
    let DefinitionOutcome::Done { .. } = outcome else {
        // Nothing else is done to the store in this turn; another user's plan may have the id that a request leads to.
        return Ok(Err(CallError::RequestIdReused.into()));
    };
    let definition = reader.definition(DefinitionKind::SavedPlan, &target.plan_id)?;
    let Some(definition) = definition else {
        return Ok(Err(not_found(&target.plan_id)));
    };
    let newest_run = newest_run(reader, &target.plan_id)?;
    Ok(Ok(Shown {
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        definition,
        saved,
        document: Some(document),
        step_key,
    }))
}

/// Why a plan cannot be the newest revision of that saved plan.
fn refusal_of(
    reader: &dyn RunReader,
    known: &Known<'_>,
    plan: &Plan,
) -> Result<Option<Rejection>, StoreFault> {
    let contained = contains_itself(reader, known, plan)?;
    Ok(contained.map(|contained| {
        Rejection::PlanWrong(vec![Problem {
            field: format!("document.steps[{}].config", contained.place),
            reason: "CYCLIC_DEPENDENCY",
            message: contained.message,
        }])
    }))
}

/// Makes this the newest revision, and returns its document.
fn revise(saved: &mut SavedPlan, plan: &Plan) -> Content {
    let content = Content::of_revision(plan.document.as_encoded().clone(), plan.digest);
    if saved.revision[..] != plan.digest[..] {
        saved.revision_number += 1;
    }
    saved.revision = Bytes::copy_from_slice(&plan.digest);
    saved.document = Bytes::copy_from_slice(&content.digest());
    saved.total_steps = u32::try_from(plan.steps.len()).expect("a plan has at most 1024 steps");
    content
}

/// Remembers a request, so that it can be repeated.
fn remember(saved: &mut SavedPlan, request: Option<&SavedRequest>, step_key: &str) {
    saved.requests.extend(request.map(|request| SavedRequest {
        step_key: step_key.to_owned(),
        spelled: Bytes::new(),
        ..request.clone()
    }));
    if saved.requests.len() > REQUESTS_KEPT {
        // The one that created the plan stays.
        saved.requests.remove(1);
    }
}

fn documents_of(reader: &dyn RunReader, scope: &Scope, plan: &Plan) -> BTreeSet<[u8; 32]> {
    let revisions: Vec<[u8; 32]> = plan.sub_plans().filter_map(SubPlan::revision).collect();
    documents_below(reader, scope, &revisions)
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

/// Requests that a plan remembers.
const REQUESTS_KEPT: usize = 32;
