//! `ForkRun` and `RetryRun`: new runs that keep what other ones did.

use super::Runs;
use super::ids::{client_request, new_id_seed, new_run_id, spelled_digest};
use super::steps::{point_named, step_named, unknown_step};
use super::verbs::etag;
use crate::caller::{Caller, check_run};
use crate::errors::{Problem, Rejection};
use crate::expressions;
use crate::fields::Fields;
use crate::header::Header;
use crate::saved::profiles;
use crate::sizes;
use escapement_model::{Opaque, RunId};
use escapement_run::plan::{self, Plan, Violations};
use escapement_run::spec::{Spec, namespace_named};
use escapement_run::{EditedPlan, Keep, RefusedReason, Run, ShownState};
use escapement_runs_shell::{CallError, Fork, KeepSteps};
use escapement_store::runs::ClientRequest;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::rollback_run_request::Mode;
use sha2::{Digest, Sha256};
use std::sync::Arc;

impl Runs {
    pub(super) async fn fork_run(
        &self,
        request: v1::ForkRunRequest,
        caller: &Caller,
    ) -> Result<v1::ForkRunResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        fields.note("request_id", &request.request_id);
        let last_sequence = etag(&request.etag, &mut fields);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let edited = request.document.as_ref().map(edited).transpose()?;
        let client = client_request("fork", &run_id.to_string(), &request.request_id, &request);
        let client = self.as_kept(client, spelled_digest("fork", &request)).await?;
        if let Some(before) = self.made_before(client.as_ref()).await? {
            let run = Some(self.look_afterwards(before).await?);
            return Ok(v1::ForkRunResponse { run });
        }
        let keep = match request.from_step.as_str() {
            "" => KeepSteps::Completed,
            step => KeepSteps::Before(step.to_owned()),
        };
        let (from_step, plan) = (request.from_step, edited.clone());
        let (request_id, allow_repeat_effects) = (request.request_id.clone(), request.allow_repeat_effects);
        let by = caller.clone();
        let seen = self.look(run_id, move |run, _| {
            if last_sequence.is_some_and(|last| last != run.state().sequence) {
                return Err(Rejection::OfRun(run_id, CallError::EtagMismatch));
            }
            if !from_step.is_empty() && step_named(run, &from_step).is_err() {
                return Err(unknown_step("from_step", run));
            }
            if let Some(plan) = plan {
                require_kept(run, &from_step, &plan)?;
            }
            let spec = spec_of_fork(run, run_id, request_id, &by)?;
            check_run(spec.author.as_deref(), run.plan(), &spec)?;
            Ok(spec)
        });
        let mut spec = seen.await??;
        self.require_own_session(&spec).await?;
        self.nest_fork(&mut spec, caller).await?;
        let edited = match edited {
            Some(plan) => {
                check_run(spec.author.as_deref(), &plan, &spec)?;
                let own_actions = spec.actions().map(str::to_owned).collect();
                let profiles = profiles(&self.runs, &plan, own_actions).await?;
                sizes::require_profiles("document", &profiles)?;
                // RUN-12.5
                let broken = plan::constraints::violations(&plan, &spec.constraints, &profiles);
                if let Some(violations) = Violations::new(broken) {
                    let field = "document";
                    return Err(Rejection::PlanInvalid { field, violations });
                }
                Some(EditedPlan { plan, profiles })
            }
            None => None,
        };
        let fork = Fork {
            from: run_id,
            run_id: new_run_id()?,
            keep,
            edited,
            allow_repeat_effects,
            spec: Some(spec),
            request: client,
        };
        let created = self.runs.fork(fork).await;
        let created = created.map_err(|error| Rejection::OfRun(run_id, error))?;
        let run = Some(self.look_afterwards(created.run_id).await?);
        Ok(v1::ForkRunResponse { run })
    }

    pub(super) async fn retry_run(
        &self,
        request: v1::RetryRunRequest,
        caller: &Caller,
    ) -> Result<v1::RetryRunResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        fields.note("request_id", &request.request_id);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let client = client_request("retry", &run_id.to_string(), &request.request_id, &request);
        loop {
            if let Some(before) = self.made_before(client.as_ref()).await? {
                let run = Some(self.look_afterwards(before).await?);
                return Ok(v1::RetryRunResponse { run });
            }
            let fork = self
                .next_retry(run_id, &request.request_id, client.clone(), caller)
                .await?;
            let fork = Fork {
                allow_repeat_effects: request.allow_repeat_effects,
                ..fork
            };
            let wanted = fork.run_id;
            match self.runs.fork(fork).await {
                // Another call has made this retry meanwhile: look again.
                Ok(created) if created.run_id == wanted && !created.is_new => {}
                Err(CallError::RequestIdReused) => {}
                created => {
                    let created = created.map_err(|error| Rejection::OfRun(run_id, error))?;
                    let run = Some(self.look_afterwards(created.run_id).await?);
                    return Ok(v1::RetryRunResponse { run });
                }
            }
        }
    }

    // RUN-8.5
    /// Rolls a run back that has ended: that makes another one, which is paused. The same request makes one.
    pub(super) async fn rolled_back(
        &self,
        ended: EndedRun,
        mode: Mode,
        request: &v1::RollbackRunRequest,
        caller: &Caller,
    ) -> Result<v1::Run, Rejection> {
        let EndedRun {
            run_id,
            last_sequence,
        } = ended;
        let client = client_request("rollback", &run_id.to_string(), &request.request_id, request);
        if let Some(before) = self.made_before(client.as_ref()).await? {
            return self.look_afterwards(before).await;
        }
        let number = request.checkpoint.map(i32::cast_unsigned);
        let (request_id, by) = (request.request_id.clone(), caller.clone());
        let seen = self.look(run_id, move |run, _| {
            if last_sequence.is_some_and(|last| last != run.state().sequence) {
                return Err(Rejection::OfRun(run_id, CallError::EtagMismatch));
            }
            let Some(point) = point_named(run, number) else {
                let message = "the run has no such checkpoint".to_owned();
                let refused = CallError::Refused(RefusedReason::NoCheckpoint, message);
                return Err(Rejection::OfRun(run_id, refused));
            };
            let spec = spec_of_fork(run, run_id, request_id, &by)?;
            check_run(spec.author.as_deref(), run.plan(), &spec)?;
            Ok((spec, point.number))
        });
        let (mut spec, number) = seen.await??;
        self.nest_fork(&mut spec, caller).await?;
        let fork = Fork {
            from: run_id,
            run_id: new_run_id()?,
            keep: match mode {
                Mode::Reset => KeepSteps::Nothing,
                Mode::Restore => KeepSteps::Checkpoint(number),
            },
            edited: None,
            allow_repeat_effects: request.allow_repeat_effects,
            spec: Some(spec),
            request: client,
        };
        let created = self.runs.fork(fork).await;
        let created = created.map_err(|error| Rejection::OfRun(run_id, error))?;
        self.look_afterwards(created.run_id).await
    }

    /// The next retry of the chain of that run.
    async fn next_retry(
        &self,
        from: RunId,
        request_id: &str,
        request: Option<ClientRequest>,
        caller: &Caller,
    ) -> Result<Fork, Rejection> {
        let (request_id, by) = (request_id.to_owned(), caller.clone());
        let seen = self.look(from, move |run, _| {
            if !matches!(run.shown(), ShownState::Failed | ShownState::Timeout) {
                let message = format!("Run {from} has not failed; it is {}.", run.shown().as_str());
                return Err(Rejection::failed("NOT_FAILED", message));
            }
            let spec = spec_of_fork(run, from, request_id, &by)?;
            check_run(spec.author.as_deref(), run.plan(), &spec)?;
            Ok(spec)
        });
        let mut spec = seen.await??;
        self.require_own_session(&spec).await?;
        self.nest_fork(&mut spec, caller).await?;
        let mut header = Header::of(&spec);
        let (chain_id, first, last) = (
            header.chain_id.clone(),
            header.retry_count + 1,
            header.max_retries,
        );
        let next = self.runs.readers().read(move |reader| {
            for number in first..=last {
                let run_id = id_of_retry(&chain_id, number);
                if reader.summary(run_id)?.is_none() && reader.removed(run_id)?.is_none() {
                    return Ok(Some((number, run_id)));
                }
            }
            Ok(None)
        });
        let Some((number, run_id)) = next.await? else {
            let message = format!("The chain of run {from} has its {last} retries.");
            return Err(Rejection::failed("RETRIES_USED_UP", message));
        };
        header.retry_count = number;
        spec.header = header.encoded();
        Ok(Fork {
            from,
            run_id,
            keep: KeepSteps::Completed,
            edited: None,
            allow_repeat_effects: false,
            spec: Some(spec),
            request,
        })
    }
}

/// A run that has ended, and the entry that its caller takes for the last one.
pub(super) struct EndedRun {
    pub(super) run_id: RunId,
    pub(super) last_sequence: Option<u64>,
}

/// The plan of the document.
fn edited(document: &Opaque) -> Result<Arc<Plan>, Rejection> {
    let plan = plan::read(document).and_then(expressions::checked);
    plan.map(Arc::new).map_err(|violations| Rejection::PlanInvalid {
        field: "document",
        violations,
    })
}

// RUN-8.8
/// Names every step whose result would be kept and that the plan has in another way.
fn require_kept(run: &Run, from_step: &str, plan: &Plan) -> Result<(), Rejection> {
    let keep = match from_step {
        "" => Keep::Completed,
        step => Keep::Before(step),
    };
    let changed = run.changed_by(keep, plan).unwrap_or_default().into_iter();
    let problems: Vec<Problem> = changed
        .map(|changed| Problem {
            field: format!("document.{}", changed.path),
            reason: RefusedReason::KeptStepChanged.as_str(),
            message: format!(
                "must have the step {:?} as it is, since its result is kept",
                changed.key
            ),
        })
        .collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Rejection::Problems(problems)),
    }
}

/// The id of a retry follows from its chain and its number, so that a chain has no more than it may: not if two
/// callers ask at once, and not if one of them was removed.
fn id_of_retry(chain_id: &str, number: u32) -> RunId {
    let digest = Sha256::new()
        .chain_update("retry")
        .chain_update([0])
        .chain_update(chain_id)
        .chain_update(number.to_le_bytes())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    RunId::from_random(bytes)
}

/// Returns the spec of a fork: that of the other run, in its chain and its namespace. The caller begins the
/// fork. A caller whose fork calls actions is limited to its own permissions, and does not approve its own
/// requests. Under a policy no caller begins one in the name of another user. An unauthenticated caller
/// begins it in no name.
fn spec_of_fork(run: &Run, run_id: RunId, request_id: String, by: &Caller) -> Result<Spec, Rejection> {
    let mut spec = run.state().spec.clone();
    let author = by.author(&namespace_named(&spec.namespace));
    if author.is_some() || by.is_judged() {
        spec.author = author;
    }
    let mut header = Header::of(&spec);
    if header.chain_id.is_empty() {
        header.chain_id = run_id.to_string();
    }
    Ok(Spec {
        request_id,
        header: header.encoded(),
        trace: by.trace(),
        id_seed: new_id_seed()?,
        ..spec
    })
}
