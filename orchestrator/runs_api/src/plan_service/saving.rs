//! Changes saved plans. A change is decided on a reader. The thread of runs writes it, unless something that the
//! decision rests on has changed since.

use escapement_model::Namespace;
use escapement_runs_host::{Deciding, RunsHost};
use escapement_runs_shell::saved::{SavedPlan, document_of, theirs};
use escapement_runs_shell::{CallError, Decided, RunsHandle, WorkOwner};
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind, RunSummary};

use super::draft::{Draft, Shown, Target, newest_run, shown};
use super::preparing::{Saving, prepare};
use crate::errors::{Rejection, refused};

/// Saves a new plan, or finds the one that the same request has saved.
pub(crate) async fn create(
    runs: &RunsHandle,
    target: Target,
    namespace: Namespace,
    draft: Draft,
) -> Result<Shown, Rejection> {
    let decide = move |deciding: &Deciding<'_>, target: &Target| {
        let Some(found) = deciding.definition(DefinitionKind::SavedPlan, &target.plan_id)? else {
            return prepare(deciding, target, namespace.clone(), None, draft.clone());
        };
        // Another user's plan may have the id that a request leads to.
        let Some((definition, saved)) = theirs(Some(found), &target.user_id)? else {
            return refused(CallError::RequestIdReused);
        };
        let is_same = match (saved.requests.first(), &target.request) {
            (Some(known), Some(request)) => request.repeats(known),
            (known, request) => known.is_none() && request.is_none(),
        };
        match is_same {
            true => answered(shown(deciding.reader(), definition, saved)?),
            false => refused(CallError::RequestIdReused),
        }
    };
    save(runs, target, decide).await
}

/// Changes a plan. A request that was answered before changes nothing, and finds the plan as it is.
///
/// `edit` is called again if the plan has changed since it was read.
pub(crate) async fn change(
    runs: &RunsHandle,
    target: Target,
    edit: impl Fn(&mut Draft) -> Result<(), Rejection> + Send + Sync + 'static,
) -> Result<Shown, Rejection> {
    let decide = move |deciding: &Deciding<'_>, target: &Target| {
        let (definition, saved) = match found(deciding, target)? {
            Ok(found) => found,
            Err(rejection) => return refused(rejection),
        };
        if let Some(request) = &target.request
            && let Some(known) = saved.requests.iter().find(|known| known.id == request.id)
        {
            return match request.repeats(known) {
                true => answered(Shown {
                    step_key: known.step_key.clone(),
                    ..shown(deciding.reader(), definition, saved.clone())?
                }),
                false => refused(CallError::RequestIdReused),
            };
        }
        if target
            .version
            .is_some_and(|version| version != definition.version)
        {
            return refused(Rejection::EtagMismatch);
        }
        let mut draft = Draft {
            priority: definition.priority,
            document: document_of(deciding.reader(), &definition, &saved)?,
            saved,
            plan: None,
            step_key: String::new(),
        };
        if let Err(rejection) = edit(&mut draft) {
            return refused(rejection);
        }
        let namespace = definition.namespace.clone();
        prepare(deciding, target, namespace, Some(definition), draft)
    };
    save(runs, target, decide).await
}

async fn save<D>(runs: &RunsHandle, target: Target, decide: D) -> Result<Shown, Rejection>
where
    D: Fn(&Deciding<'_>, &Target) -> Result<Saving, StoreFault> + Send + Sync + 'static,
{
    let owner = WorkOwner::new("", &target.user_id);
    let decide = move |deciding: &Deciding<'_>| decide(deciding, &target);
    runs.decide(Some(owner), decide).await?
}

#[expect(clippy::unnecessary_wraps, reason = "it ends a decision")]
fn answered(shown: Shown) -> Result<Saving, StoreFault> {
    Ok(Decided::Answer(Ok(shown)))
}

/// Deletes a plan of which no run lives.
pub(crate) async fn delete(runs: &RunsHandle, target: Target) -> Result<(), Rejection> {
    let decide = move |deciding: &Deciding<'_>| {
        let definition = match found(deciding, &target) {
            Ok(Ok((definition, _))) => Some(definition),
            Ok(Err(rejection)) => return refused(rejection),
            // What is damaged can be deleted, and nothing else can be done with it.
            Err(StoreFault::CorruptDefinition { .. }) => None,
            Err(fault) => return Err(fault),
        };
        let version = definition.as_ref().map(|definition| definition.version);
        if version.is_some() && target.version.is_some_and(|wanted| Some(wanted) != version) {
            return refused(Rejection::EtagMismatch);
        }
        if let Some(run) = newest_run(deciding.reader(), &target.plan_id)?
            && run.progress.ended_at.is_none()
        {
            return refused(already_running(&run));
        }
        let plan_id = target.plan_id.clone();
        Ok(Decided::write(0, move |host: &mut RunsHost, _now| {
            host.define(DefinitionKind::SavedPlan, &plan_id, DefinitionChange::Delete);
            Ok(())
        }))
    };
    runs.decide(None, decide).await?
}

fn already_running(run: &RunSummary) -> Rejection {
    Rejection::Failed {
        reason: "ALREADY_RUNNING",
        message: format!("Run {} of the plan has not ended.", run.run_id),
        fact: Some(("run_id", run.run_id.to_string())),
    }
}

fn found(
    deciding: &Deciding<'_>,
    target: &Target,
) -> Result<Result<(Definition, SavedPlan), Rejection>, StoreFault> {
    let found = deciding.definition(DefinitionKind::SavedPlan, &target.plan_id)?;
    let found = theirs(found, &target.user_id)?;
    Ok(found.ok_or_else(|| not_found(&target.plan_id)))
}

/// Returns the refusal for a plan that does not exist, or is another user's.
pub(crate) fn not_found(plan_id: &str) -> Rejection {
    Rejection::NotFound {
        reason: "PLAN_NOT_FOUND",
        message: format!("No saved plan has the id {plan_id}."),
    }
}
