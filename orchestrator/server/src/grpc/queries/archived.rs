//! The whole record of a settled execution, for whoever replays or exports it. Keeps and changes nothing.

use super::lookup::damaged;
use crate::call_class::CallClass;
use crate::grpc::Edge;
use crate::grpc::transport::response_budget::Held;
use crate::status::Rejection;
use crate::storage::readers::Reading;
use escapement_codec::archive::Archive;
use escapement_engine::Refusal;
use escapement_model::ExecutionId;
use escapement_store::StoredState;
use tonic::Status;

impl Edge {
    /// Every stored byte of a settled execution, and the room for them.
    pub(crate) async fn record(&self, execution_id: ExecutionId) -> Result<Held<Archive>, Status> {
        match self.live(execution_id).await? {
            Some(_) => Err(Rejection::NotSettled(execution_id).into()),
            None => Ok(self.stored_record(execution_id).await?),
        }
    }

    async fn stored_record(&self, execution_id: ExecutionId) -> Result<Held<Archive>, Rejection> {
        let reading = Reading::Answer;
        let answers = self.answers.clone();
        let read = self.readers.read(reading, move |reader| {
            let Some(stored) = reader.execution(execution_id)? else {
                return Ok(None);
            };
            let audit = reader.audit(execution_id)?;
            let records = [Some(&stored.record), stored.result.as_ref(), audit.as_ref()];
            let bytes = records.iter().flatten().map(|record| record.len()).sum();
            // Before the reader is free again: no more of this is held without room than there are readers.
            let room = answers.take(CallClass::Reads, bytes);
            Ok(Some(room.map(|room| (stored, audit, room))))
        });
        let Some(found) = read.await? else {
            return Err(self.absent(execution_id, reading).await?);
        };
        let (stored, audit, room) = found?;
        let result = stored.result.ok_or(match stored.summary.state {
            // The engine has parked it.
            StoredState::Queued => Rejection::NotSettled(execution_id),
            // Its write is in doubt, and only asking again tells.
            StoredState::Running | StoredState::Settled => Rejection::Refused(Refusal::StoreFailed),
        })?;
        let Some(audit) = audit else {
            // It was there a moment ago, settled: it has been removed since, or its record is damaged.
            self.stored(execution_id, reading).await?;
            return Err(Rejection::RecordDamaged);
        };
        let digest = stored.summary.request_digest;
        let record = Archive::of_store(execution_id, digest, stored.record, result, &audit);
        let value = record.map_err(|unreadable| damaged(execution_id, &unreadable))?;
        Ok(Held { value, room })
    }
}
