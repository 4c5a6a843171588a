//! The whole record of a settled execution, to replay or export it. Keeps and changes nothing.

use super::lookup::{IN_DOUBT, StoredSettled, damaged};
use crate::grpc::Edge;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use bytes::Bytes;
use escapement_codec::archive::Archive;
use escapement_model::ExecutionId;
use escapement_store::{StoredExecution, StoredState};
use escapement_transport::CallClass;
use escapement_transport::response_budget::Budgeted;
use tonic::Status;

impl Edge {
    /// Returns every stored byte of a settled execution, and the room for them.
    pub(crate) async fn record(&self, execution_id: ExecutionId) -> Result<Budgeted<Archive>, Status> {
        match self.live(execution_id).await? {
            Some(_) => Err(Rejection::NotSettled(execution_id).into()),
            None => Ok(self.stored_record(execution_id).await?),
        }
    }

    async fn stored_record(&self, execution_id: ExecutionId) -> Result<Budgeted<Archive>, Rejection> {
        let unsettled = |state| match state {
            // The engine has parked it.
            StoredState::Queued => Rejection::NotSettled(execution_id),
            StoredState::Running | StoredState::Settled => IN_DOUBT,
        };
        let answers = self.answers.clone();
        let take = move |stored: &StoredExecution, audit_bytes| {
            let result_bytes = stored.result.as_ref().map_or(0, Bytes::len);
            let bytes = stored.record.len() + result_bytes + audit_bytes;
            answers.take(CallClass::Reads, bytes).map_err(Rejection::Call)
        };
        let read = self.stored_settled(execution_id, ReadClass::Answer, unsettled, take);
        let StoredSettled {
            stored,
            result,
            audit,
            permit,
        } = read.await?;
        let digest = stored.summary.request_digest;
        let record = Archive::of_store(execution_id, digest, stored.record, result, &audit);
        let value = record.map_err(|unreadable| damaged(execution_id, &unreadable))?;
        Ok(Budgeted { value, room: permit })
    }
}
