//! Prepares on a reader the change of a saved plan: checks it, and assembles the definition to write.

use std::collections::BTreeSet;

use bytes::Bytes;
use escapement_model::{Namespace, Opaque};
use escapement_run::plan::{self, Plan, SubPlan};
use escapement_runs_host::documents_below;
use escapement_runs_shell::saved::{SavedPlan, SavedRequest};
use escapement_store::StoreFault;
use escapement_store::runs::{Content, Definition, DefinitionPut, RunReader, Scope};
use prost::Message;

use super::draft::{Draft, Shown, Target};
use super::nesting::{Known, Seen, look_through};
use crate::errors::{Problem, Rejection};

/// Outcome of preparing a change.
pub(super) enum Preparation {
    /// The request was answered before: the plan as it is.
    Known(Box<Shown>),
    /// This is to be written.
    Write(Box<Prepared>),
}

/// A change that can be written as long as nothing that it rests on changes.
pub(super) struct Prepared {
    /// The version that it replaces; `None` for a new plan.
    pub(super) version: Option<u64>,
    /// The saved plans below it.
    pub(super) seen: Seen,
    /// The record.
    pub(super) saved: SavedPlan,
    /// The document of the newest revision.
    pub(super) document: Opaque,
    /// The step that is added.
    pub(super) step_key: String,
    /// The definition that the store gets. The time is that of the writing.
    pub(super) put: DefinitionPut,
}

/// Judges a draft over what was there.
///
/// # Errors
/// As the store fails.
pub(super) fn prepare(
    reader: &dyn RunReader,
    target: &Target,
    namespace: Namespace,
    before: Option<Definition>,
    draft: Draft,
) -> Result<Result<Preparation, Rejection>, StoreFault> {
    let Draft {
        priority,
        mut saved,
        mut document,
        plan,
        step_key,
    } = draft;
    let version = before.as_ref().map(|before| before.version);
    let owner = before.and_then(|before| before.owner);
    let owner = owner.unwrap_or_else(|| target.user_id.clone());
    let scope = Scope::of(&namespace, &owner);
    let mut contents = Vec::new();
    let mut pinned = BTreeSet::new();
    let mut seen = Seen::new();
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
            seen = match look_through(reader, &known, &plan)? {
                Ok(seen) => seen,
                Err(misplaced) => {
                    return Ok(Err(Rejection::PlanWrong(vec![Problem {
                        field: format!("document.steps[{}].config", misplaced.place),
                        reason: misplaced.reason,
                        message: misplaced.message,
                    }])));
                }
            };
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
    Ok(Ok(Preparation::Write(Box::new(Prepared {
        version,
        seen,
        saved,
        document,
        step_key,
        put,
    }))))
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
