//! True if the core decides again what is recorded of a settled execution. Changes nothing.

use crate::grpc::{Edge, execution_id};
use crate::limits::READERS_PATIENCE;
use crate::status::Rejection;
use escapement_codec::archive::check::{Difference, Verdict, verify};
use escapement_transport::response_budget::Budgeted;
use escapement_transport::share::{SharePart, Tenant};
use escapement_transport::{CallClass, Refusal};
use escapement_wire::v1;
use tonic::{Response, Status};

impl Edge {
    pub(crate) async fn replay_execution(
        &self,
        request: &v1::ReplayExecutionRequest,
        tenant: &Tenant,
    ) -> Result<Response<v1::ReplayExecutionResponse>, Status> {
        let execution_id = execution_id(&request.execution_id)?;
        // Before anything is read: who waits holds nothing.
        let place = self.place_to_replay(tenant).await?;
        let Budgeted { value: record, room } = self.record(execution_id).await?;
        if record.inputs.is_none() {
            return Err(Rejection::InputsNotRecorded(execution_id).into());
        }
        let checking = tokio::task::spawn_blocking(move || {
            let _until_done = (place, room);
            verify(&record)
        });
        let verdict = checking.await.map_err(|_panicked_or_stopping| {
            tracing::error!(%execution_id, "record cannot be replayed");
            Rejection::RecordDamaged
        })?;
        self.answers.answer(CallClass::Reads, answer(verdict))
    }

    async fn place_to_replay(&self, tenant: &Tenant) -> Result<SharePart, Rejection> {
        let place = self.replays.wait(tenant, 1, READERS_PATIENCE).await;
        place.map_err(|why| Rejection::Call(Refusal::for_want(why, CallClass::Reads)))
    }
}

fn answer(verdict: Verdict) -> v1::ReplayExecutionResponse {
    v1::ReplayExecutionResponse {
        identical: verdict.is_identical(),
        inputs: i64::try_from(verdict.n_inputs).unwrap_or(i64::MAX),
        decisions_identical: verdict.decisions_identical,
        result_identical: verdict.result_identical,
        audit_identical: verdict.audit_identical,
        chain_intact: verdict.chain_intact,
        complete: verdict.is_complete,
        first_difference: verdict.differences.into_iter().next().map(difference),
    }
}

fn difference(difference: Difference) -> v1::ReplayDifference {
    v1::ReplayDifference {
        part: difference.part.as_str().to_owned(),
        sequence: i64::try_from(difference.sequence).unwrap_or(i64::MAX),
        recorded: difference.recorded,
        replayed: difference.replayed,
    }
}
