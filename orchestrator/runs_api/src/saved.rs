//! What a run is made from besides its request: saved plans, revisions, and what is known of actions.

use crate::errors::Rejection;
use crate::resolution::Defaults;
use escapement_model::hex;
use escapement_model::{Namespace, Opaque, PlanId};
use escapement_run::plan::{self, Plan, Step, StepKind};
use escapement_run::presets::Preset;
use escapement_run::spec::ActionProfile;
use escapement_runs_shell::RunsHandle;
use escapement_runs_shell::catalogue::profiles_of;
use escapement_runs_shell::saved::{document_of, saved_plan};
use escapement_store::runs::Scope;
use std::sync::Arc;

/// What is known of the actions that a run of the plan calls, its own ones included, sorted by name.
///
/// # Errors
/// [`Rejection::Call`] if the store cannot be read.
pub(crate) async fn profiles(
    runs: &RunsHandle,
    plan: &Arc<Plan>,
    own_actions: Vec<String>,
) -> Result<Vec<ActionProfile>, Rejection> {
    let (plan, seen) = (Arc::clone(plan), runs.seen().clone());
    if plan.tools().next().is_some() {
        // RUN-13.6: a model learns its tools as they are now.
        seen.refresh().await;
    } else {
        // What a worker has just begun to offer counts.
        let asks_a_model = |step: &Step| matches!(step.kind, StepKind::LlmDecision(_));
        let mut actions = plan.actions();
        if plan.steps.iter().any(asks_a_model) {
            actions.extend(own_actions.iter().map(String::as_str));
        }
        seen.refresh_for(&actions).await;
    }
    let read = runs
        .readers()
        .read(move |reader| profiles_of(reader, &plan, &own_actions, &seen));
    Ok(read.await?)
}

/// The newest revision of a saved plan, and what the plan says about its runs.
///
/// # Errors
/// [`Rejection::NotFound`] with `PLAN_NOT_FOUND`, also if it is another user's or of another namespace.
pub(crate) async fn plan_of(
    runs: &RunsHandle,
    plan_id: PlanId,
    user_id: &str,
    namespace: &Namespace,
) -> Result<(Arc<Plan>, Defaults), Rejection> {
    let (id, user_id, namespace) = (plan_id.to_string(), user_id.to_owned(), namespace.clone());
    let read = runs.readers().read(move |reader| {
        let found = saved_plan(reader, &id, &user_id)?;
        let Some((definition, saved)) = found.filter(|(found, _)| found.namespace == namespace) else {
            return Ok(None);
        };
        let document = document_of(reader, &definition, &saved)?;
        let defaults = Defaults {
            plan_id: id,
            preset: Preset::spelled(&saved.preset),
            autonomy_level: Some(saved.autonomy_level),
            priority: u32::try_from(definition.priority).ok(),
            run_ms: saved.timeout_ms,
            max_retries: Some(saved.max_retries),
        };
        Ok(Some((readable(&document), defaults)))
    });
    let (plan, defaults) = read.await?.ok_or_else(|| plan_not_found(&plan_id.to_string()))?;
    Ok((Arc::new(plan?), defaults))
}

/// There is no such plan, or it is somebody else's.
pub(crate) fn plan_not_found(plan_id: &str) -> Rejection {
    Rejection::NotFound {
        reason: "PLAN_NOT_FOUND",
        message: format!("No plan has the id {plan_id}."),
    }
}

/// The plan of a revision that a run or a saved plan of one of these scopes refers to.
///
/// # Errors
/// [`Rejection::NotFound`] with `REVISION_NOT_FOUND`.
pub(crate) async fn revision(
    runs: &RunsHandle,
    digest: [u8; 32],
    scopes: Vec<Scope>,
) -> Result<Arc<Plan>, Rejection> {
    let read = runs.readers().read(move |reader| {
        let stored = reader.revision(&digest, &scopes)?;
        Ok(stored.map(|stored| readable(&Opaque::from_encoded(stored.document))))
    });
    let plan = read.await?;
    let not_found = || Rejection::NotFound {
        reason: "REVISION_NOT_FOUND",
        message: format!(
            "No run and no saved plan has the revision sha256:{}.",
            hex::text(&digest)
        ),
    };
    Ok(Arc::new(plan.ok_or_else(not_found)??))
}

/// A document that was checked before.
fn readable(document: &Opaque) -> Result<Plan, Rejection> {
    plan::read(document).map_err(|violations| {
        Rejection::failed(
            "PLAN_UNREADABLE",
            format!("The document is no plan: {violations}."),
        )
    })
}
