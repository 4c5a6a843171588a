//! Answers that come from the store, and the two questions that several services ask of the engine.
//! Changes nothing.

use super::Edge;
use crate::convert::answer;
use crate::engine_link::{Lane, NoReply};
use crate::readers::Reading;
use crate::records::{self, Unreadable};
use crate::status::Rejection;
use escapement_engine::{ActionView, Input, Refusal, Reply};
use escapement_model::ExecutionId;
use escapement_store::StoredExecution;
use escapement_wire::v1;
use tonic::Status;
use tracing::error;

impl Edge {
    /// The actions that are registered.
    pub(crate) async fn actions(&self, lane: Lane) -> Result<Vec<ActionView>, NoReply> {
        let Reply::Actions(actions) = self.engine.call(lane, Input::ListActions).await? else {
            unreachable!("a question for the actions is answered with the actions");
        };
        Ok(actions)
    }

    /// How an execution stands now, by the engine where it is live, else by the store.
    pub(crate) async fn execution(&self, execution_id: ExecutionId) -> Result<v1::Execution, Status> {
        match self
            .engine
            .call(Lane::Reads, |caller| Input::Describe { caller, execution_id })
            .await?
        {
            Reply::Described(view) => Ok(answer::live_execution(&view)),
            Reply::NotLive => Ok(self.stored_execution(execution_id, Reading::Answer).await?),
            Reply::Refused(refusal) => Err(Rejection::Refused(refusal).into()),
            other => unreachable!("a question for one execution is not answered with {other:?}"),
        }
    }

    /// An execution by the store alone.
    pub(crate) async fn stored_execution(
        &self,
        execution_id: ExecutionId,
        reading: Reading,
    ) -> Result<v1::Execution, Rejection> {
        let stored = self.stored(execution_id, reading).await?;
        answer::stored_execution(&stored).map_err(|unreadable| damaged(execution_id, &unreadable))
    }

    /// The result of an execution that the engine does not hold any more.
    pub(crate) async fn stored_result(
        &self,
        execution_id: ExecutionId,
        reading: Reading,
    ) -> Result<v1::PlanResult, Rejection> {
        let stored = self.stored(execution_id, reading).await?;
        // Accepted, not settled and not with the engine: its write is in doubt, and only asking again tells.
        let record = stored.result.ok_or(Rejection::Refused(Refusal::StoreFailed))?;
        records::decode_result(&record).map_err(|unreadable| damaged(execution_id, &unreadable))
    }

    pub(super) async fn stored(
        &self,
        execution_id: ExecutionId,
        reading: Reading,
    ) -> Result<StoredExecution, Rejection> {
        let stored = self
            .readers
            .read(reading, move |reader| reader.execution(execution_id))
            .await?;
        match stored {
            Some(stored) => Ok(stored),
            None => Err(self.absent(execution_id, reading).await?),
        }
    }

    /// Why an execution is not there. Asked last: it may have been removed since it was looked for.
    pub(super) async fn absent(
        &self,
        execution_id: ExecutionId,
        reading: Reading,
    ) -> Result<Rejection, Rejection> {
        let removed = self
            .readers
            .read(reading, move |reader| reader.removed(execution_id))
            .await?;
        Ok(removed.map_or(
            Rejection::ExecutionNotFound(execution_id),
            Rejection::ExecutionRemoved,
        ))
    }
}

/// The records of an execution do not decode.
pub(super) fn damaged(execution_id: ExecutionId, unreadable: &Unreadable) -> Rejection {
    error!(%execution_id, error = unreadable as &dyn std::error::Error, "record cannot be read");
    Rejection::RecordDamaged
}
