//! Answers that come from the store, and the two questions that several services ask of the engine.
//! Changes nothing.

use crate::grpc::Edge;
use crate::host::handle::{CallError, Lane};
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use bytes::Bytes;
use escapement_codec::certificate as convert;
use escapement_codec::execution;
use escapement_codec::request;
use escapement_codec::stored::{self, Unreadable};
use escapement_codec::stored_execution::stored_execution;
use escapement_contract::Request as PlanRequest;
use escapement_engine::{ActionView, ExecutionView, Input, Refusal};
use escapement_model::ExecutionId;
use escapement_store::{Reader, StoreFault, StoredExecution, StoredState};
use escapement_transport::CallClass;
use escapement_transport::response_budget::{Budgeted, ResponsePermit};
use escapement_wire::v1;
use tonic::Status;
use tracing::error;

/// What the store has of a settled execution.
pub(super) struct StoredSettled {
    /// Without its result.
    pub(super) stored: StoredExecution,
    pub(super) result: Bytes,
    pub(super) audit: Bytes,
    /// For what was counted of it.
    pub(super) permit: ResponsePermit,
}

impl Edge {
    /// Returns the actions that are registered.
    pub(crate) async fn actions(&self, lane: Lane) -> Result<Vec<ActionView>, CallError> {
        self.engine.call(lane, Input::ListActions).await
    }

    /// How an execution stands now, by the engine if it is live, else by the store.
    pub(crate) async fn execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Budgeted<v1::Execution>, Status> {
        match self.live(execution_id).await? {
            Some(view) => Ok(Budgeted::small(execution::live_execution(&view))),
            None => Ok(self.stored_execution(execution_id, ReadClass::Answer).await?),
        }
    }

    /// The same with the certificate of its plan.
    pub(crate) async fn certified_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<v1::Execution, Status> {
        if let Some(view) = self.live(execution_id).await? {
            // the record says the same, but may not be written yet.
            let plan = view.request.plan();
            return Ok(v1::Execution {
                certificate: Some(convert::certificate(plan, view.request.certificate())),
                ..execution::live_execution(&view)
            });
        }
        // The caller of this takes room for the whole of it.
        let Budgeted { value: stored, .. } = self.ended(execution_id, ReadClass::Answer).await?;
        let damaged = |unreadable| damaged(execution_id, &unreadable);
        let certificate = match stored.record.is_empty() {
            true => None,
            false => stored::accepted_certificate(&stored.record).map_err(damaged)?,
        };
        Ok(v1::Execution {
            certificate,
            ..stored_execution(&stored).map_err(damaged)?
        })
    }

    /// Returns what the engine knows of an execution, `None` if it does not hold it.
    pub(crate) async fn live(&self, execution_id: ExecutionId) -> Result<Option<ExecutionView>, CallError> {
        let describe = |caller| Input::Describe { caller, execution_id };
        self.engine.call(Lane::Reads, describe).await
    }

    /// Returns an execution by the store alone.
    pub(crate) async fn stored_execution(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
    ) -> Result<Budgeted<v1::Execution>, Rejection> {
        let Budgeted { value: stored, room } = self.ended(execution_id, reading).await?;
        let value = stored_execution(&stored).map_err(|unreadable| damaged(execution_id, &unreadable))?;
        Ok(Budgeted { value, room })
    }

    /// The result of an execution that the engine does not hold any more.
    pub(crate) async fn stored_result(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
    ) -> Result<Budgeted<v1::PlanResult>, Rejection> {
        let Budgeted { value: stored, room } = self.ended(execution_id, reading).await?;
        let record = stored.result.ok_or(IN_DOUBT)?;
        let value =
            stored::decode_result(&record).map_err(|unreadable| damaged(execution_id, &unreadable))?;
        Ok(Budgeted { value, room })
    }

    //
    /// Returns if a request that the engine refuses, and may not know any more, was accepted before: then it is answered
    /// by the store also while new work is refused. Without a write, and without a slot. `named`: the id that the request
    /// names, and its digest.
    pub(crate) async fn decided_before(
        &self,
        named: Option<(ExecutionId, [u8; 32])>,
        refusal: Refusal,
    ) -> Result<(), Rejection> {
        let refused = Rejection::Refused(refusal);
        let Some((execution_id, digest)) = named else {
            return Err(refused);
        };
        match refusal {
            Refusal::QueueFull
            | Refusal::NamespaceQuota { .. }
            | Refusal::Draining
            | Refusal::StoreFull
            | Refusal::TooManyChildren
            | Refusal::NestedTooDeep => {}
            Refusal::ExecutionIdUsed | Refusal::PlanIdUsed { .. } | Refusal::StoreFailed => {
                return Err(refused);
            }
        }
        let read = self.readers.read(ReadClass::Submission, move |reader| {
            if let Some(stored) = reader.execution(execution_id)? {
                return Ok(Some(stored.summary.request_digest));
            }
            let removed = reader.removed(execution_id)?;
            Ok(removed.map(|removed| removed.request_digest))
        });
        match read.await {
            Ok(Some(accepted)) if accepted == digest => Ok(()),
            Ok(Some(_)) => Err(self.id_in_use(None, execution_id).await),
            // What cannot be read now can be asked for again, as what is refused can.
            Ok(None) | Err(_) => Err(refused),
        }
    }

    /// Returns an execution by the store, whole.
    pub(crate) async fn stored(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
    ) -> Result<Budgeted<StoredExecution>, Rejection> {
        let read = move |reader: &dyn Reader| reader.execution(execution_id);
        self.read_one(execution_id, reading, read).await
    }

    /// The same for an answer that says how it ended: a damaged request does not hide a result that is whole.
    async fn ended(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
    ) -> Result<Budgeted<StoredExecution>, Rejection> {
        let read = move |reader: &dyn Reader| reader.execution_or_ending(execution_id);
        self.read_one(execution_id, reading, read).await
    }

    async fn read_one(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
        read: impl FnOnce(&dyn Reader) -> Result<Option<StoredExecution>, StoreFault> + Send + 'static,
    ) -> Result<Budgeted<StoredExecution>, Rejection> {
        let answers = self.answers.clone();
        let read = self.readers.read(reading, move |reader| {
            let Some(stored) = read(reader)? else {
                return Ok(None);
            };
            // Before the reader is free again: no more of this is held without room than there are readers.
            let bytes = stored.result.as_ref().map_or(0, Bytes::len);
            let room = answers.take(CallClass::Reads, bytes).map_err(Rejection::Call);
            Ok(Some(room.map(|room| Budgeted { value: stored, room })))
        });
        match read.await? {
            Some(stored) => stored,
            None => Err(self.absent(execution_id, reading).await?),
        }
    }

    /// Returns everything that the store has of a settled execution, with the permit that `take` gives for its bytes.
    ///
    /// `unsettled`: what is wrong with one that has no result.
    pub(super) async fn stored_settled<E: From<Rejection> + Send + 'static>(
        &self,
        execution_id: ExecutionId,
        class: ReadClass,
        unsettled: impl FnOnce(StoredState) -> Rejection,
        take: impl FnOnce(&StoredExecution, usize) -> Result<ResponsePermit, E> + Send + 'static,
    ) -> Result<StoredSettled, E> {
        let read = self.readers.read(class, move |reader| {
            let Some(stored) = reader.execution(execution_id)? else {
                return Ok(None);
            };
            let audit = reader.audit(execution_id)?;
            // Before the reader is free again: no more of this is held without room than there are readers.
            let permit = take(&stored, audit.as_ref().map_or(0, Bytes::len));
            Ok(Some(permit.map(|permit| (stored, audit, permit))))
        });
        let Some(found) = read.await? else {
            return Err(self.absent(execution_id, class).await?.into());
        };
        let (mut stored, audit, permit) = found?;
        let result = stored.result.take();
        let result = result.ok_or_else(|| unsettled(stored.summary.state))?;
        let Some(audit) = audit else {
            return Err(self.lost(execution_id, class).await.into());
        };
        Ok(StoredSettled {
            stored,
            result,
            audit,
            permit,
        })
    }

    /// Why a request is refused whose execution id is in use: names the field in which it differs from what was accepted,
    /// as far as that can be read.
    pub(crate) async fn id_in_use(
        &self,
        asked: Option<&PlanRequest>,
        execution_id: ExecutionId,
    ) -> Rejection {
        let Some(asked) = asked else {
            return Rejection::ExecutionIdInUse { differs: None };
        };
        let accepted = match self.live(execution_id).await {
            Ok(Some(view)) => Some(request::request_to_wire(&view.request, execution_id)),
            Ok(None) => {
                let stored = self.stored(execution_id, ReadClass::Answer).await;
                stored
                    .ok()
                    .and_then(|held| stored::accepted_request(&held.value.record).ok())
            }
            Err(_) => None,
        };
        let asked = request::request_to_wire(asked, execution_id);
        Rejection::ExecutionIdInUse {
            differs: accepted.and_then(|accepted| request::first_difference(&accepted, &asked)),
        }
    }

    /// Why the record of an execution is not there that was settled a moment ago: it has been removed since, or is damaged.
    pub(super) async fn lost(&self, execution_id: ExecutionId, class: ReadClass) -> Rejection {
        let stored = self.stored(execution_id, class).await;
        stored.err().unwrap_or(Rejection::RecordDamaged)
    }

    /// Returns the reason why an execution is not there. Asked last: it may have been removed since it was looked for.
    pub(crate) async fn absent(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
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

/// Why there is no result of an execution that was accepted and is not with the engine: its write is in doubt, and only
/// asking again tells.
pub(super) const IN_DOUBT: Rejection = Rejection::Refused(Refusal::StoreFailed);

/// The records of an execution do not decode.
pub(crate) fn damaged(execution_id: ExecutionId, unreadable: &Unreadable) -> Rejection {
    error!(%execution_id, error = unreadable as &dyn std::error::Error, "record cannot be read");
    Rejection::RecordDamaged
}
