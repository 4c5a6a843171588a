//! `ForkRun` and `RetryRun`: new runs that keep what other ones did.

use super::Runs;
use super::create::{client_request, new_run_id};
use super::steps::{step_named, unknown_step};
use super::verbs::etag;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::header::Header;
use crate::views::{Detail, run_view};
use escapement_model::RunId;
use escapement_run::spec::Spec;
use escapement_run::{Run, ShownState};
use escapement_runs_shell::{CallError, Fork, KeepSteps};
use escapement_store::runs::ClientRequest;
use escapement_wire::runs::v1;

impl Runs {
    pub(super) async fn fork_run(
        &self,
        request: v1::ForkRunRequest,
    ) -> Result<v1::ForkRunResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        fields.note("request_id", &request.request_id);
        let last_sequence = etag(&request.etag, &mut fields);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let from_step = request.from_step.clone();
        let request_id = request.request_id.clone();
        let seen = self.look(run_id, move |run, _| {
            if last_sequence.is_some_and(|last| last != run.state().sequence) {
                return Err(Rejection::OfRun(run_id, CallError::EtagMismatch));
            }
            if !from_step.is_empty() && step_named(run, &from_step).is_err() {
                return Err(unknown_step("from_step", run));
            }
            Ok(spec_of_fork(run, run_id, request_id, 0))
        });
        let spec = seen.await??;
        let client = client_request("fork", &spec.user_id, &request.request_id, &request);
        let keep = match request.from_step {
            step if step.is_empty() => KeepSteps::Completed,
            step => KeepSteps::Before(step),
        };
        let run = Some(self.forked(run_id, keep, spec, client).await?);
        Ok(v1::ForkRunResponse { run })
    }

    pub(super) async fn retry_run(
        &self,
        request: v1::RetryRunRequest,
    ) -> Result<v1::RetryRunResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        fields.note("request_id", &request.request_id);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let request_id = request.request_id.clone();
        let seen = self.look(run_id, move |run, _| {
            if !matches!(run.shown(), ShownState::Failed | ShownState::Timeout) {
                let message = format!("Run {run_id} has not failed; it is {}.", run.shown().as_str());
                return Err(Rejection::failed("NOT_FAILED", message));
            }
            let header = Header::of(&run.state().spec);
            if header.retry_count >= header.max_retries {
                let message = format!(
                    "The chain of run {run_id} has its {} retries.",
                    header.max_retries
                );
                return Err(Rejection::failed("RETRIES_USED_UP", message));
            }
            Ok(spec_of_fork(run, run_id, request_id, 1))
        });
        let spec = seen.await??;
        let client = client_request("retry", &spec.user_id, &request.request_id, &request);
        let run = Some(self.forked(run_id, KeepSteps::Completed, spec, client).await?);
        Ok(v1::RetryRunResponse { run })
    }

    async fn forked(
        &self,
        from: RunId,
        keep: KeepSteps,
        spec: Spec,
        request: Option<ClientRequest>,
    ) -> Result<v1::Run, Rejection> {
        let fork = Fork {
            from,
            run_id: new_run_id()?,
            keep,
            spec: Some(spec),
            request,
        };
        let created = self.runs.fork(fork).await;
        let created = created.map_err(|error| Rejection::OfRun(from, error))?;
        self.look(created.run_id, |run, blobs| run_view(run, blobs, Detail::Usual))
            .await
    }
}

/// As the other run, in its chain.
fn spec_of_fork(run: &Run, run_id: RunId, request_id: String, n_retries: u32) -> Spec {
    let spec = run.state().spec.clone();
    let mut header = Header::of(&spec);
    if header.chain_id.is_empty() {
        header.chain_id = run_id.to_string();
    }
    header.retry_count += n_retries;
    Spec {
        request_id,
        header: header.encoded(),
        ..spec
    }
}
