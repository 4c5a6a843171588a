//! Decides on a reader over the change of a saved plan: checks it, and assembles the definition to write.

use std::collections::BTreeSet;

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_run::plan::{self, Plan, SubPlan};
use escapement_runs_host::{Deciding, RunsHost, documents_below};
use escapement_runs_shell::saved::{SavedPlan, SavedRequest};
use escapement_runs_shell::{CallError, Decided};
use escapement_store::StoreFault;
use escapement_store::runs::{
    Content, Definition, DefinitionChange, DefinitionKind, DefinitionPut, RunReader, Scope,
};
use prost::Message;

use super::draft::{Draft, Shown, Target, newest_run, retries_of};
use super::nesting::{Known, look_through};
use crate::errors::{Problem, Rejection};

/// Decision over a saved plan.
pub(super) type Saving = Decided<Result<Shown, Rejection>>;

/// Judges a draft over what was there.
///
/// # Errors
/// As the store fails.
pub(super) fn prepare(
    deciding: &Deciding<'_>,
    target: &Target,
    namespace: Namespace,
    before: Option<Definition>,
    draft: Draft,
) -> Result<Saving, StoreFault> {
    let reader = deciding.reader();
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
                return Ok(Decided::Answer(Err(rejection)));
            }
            let known = Known {
                plan_id: &target.plan_id,
                user_id: &owner,
                namespace: &namespace,
            };
            if let Err(misplaced) = look_through(deciding, &known, &plan)? {
                return Ok(Decided::Answer(Err(Rejection::PlanWrong(vec![Problem {
                    field: format!("document.steps[{}].config", misplaced.place),
                    reason: misplaced.reason,
                    message: misplaced.message,
                }]))));
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
        at: 0,
        record: Bytes::from(saved.encode_to_vec()),
        contents,
        pinned: pinned.into_iter().collect(),
    };
    if let Err(bound) = put.check_bounds() {
        return Ok(Decided::Answer(
            Err(CallError::TooLarge(bound.to_string()).into()),
        ));
    }
    let newest_run = newest_run(reader, &target.plan_id)?;
    let shown = Shown {
        definition: as_written(&target.plan_id, before.as_ref(), &put),
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        saved,
        document: Some(document),
        step_key,
    };
    let bytes = put.record.len() + put.contents.iter().map(|it| it.bytes().len()).sum::<usize>();
    Ok(Decided::write(bytes, move |host: &mut RunsHost, now| {
        Ok(write(host, shown, put, now))
    }))
}

/// Returns the definition as the store has it once this is written; its times are those of the writing.
fn as_written(plan_id: &str, before: Option<&Definition>, put: &DefinitionPut) -> Definition {
    Definition {
        // The store numbers a new one; no answer has the number.
        number: before.map_or(0, |before| before.number),
        kind: DefinitionKind::SavedPlan,
        name: plan_id.to_owned(),
        namespace: put.namespace.clone(),
        owner: put.owner.clone(),
        priority: put.priority,
        created_at: before.map_or(0, |before| before.created_at),
        updated_at: 0,
        version: before.map_or(0, |before| before.version) + 1,
        record: put.record.clone(),
    }
}

fn write(host: &mut RunsHost, mut shown: Shown, put: DefinitionPut, now: i64) -> Shown {
    let plan = &mut shown.definition;
    if plan.version == 1 {
        plan.created_at = now;
    }
    plan.updated_at = now;
    let change = DefinitionChange::Put(DefinitionPut { at: now, ..put });
    host.define(DefinitionKind::SavedPlan, &plan.name, change);
    shown
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

/// Requests that a plan remembers.
const REQUESTS_KEPT: usize = 32;
