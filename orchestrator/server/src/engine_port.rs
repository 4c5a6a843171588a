//! The contract of this process for its runs: answers of the engine, and of the store for executions that have left the engine.

mod joint;

use self::joint::EngineWay;
use crate::grpc::Edge;
use crate::grpc::caller::Caller;
use crate::grpc::queries::paging::page_size;
use crate::host::effects::ended_execution;
use crate::host::handle::Lane;
use crate::limits::AUDIT_PAGE_MAX;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_codec::provenance::trace_context;
use escapement_codec::{fleet, stored};
use escapement_engine::{Ended, Input};
use escapement_model::ExecutionId;
use escapement_runs_shell::{ContractPort, EndedExecution, JointWay, Origin, PortRefusal};
use escapement_transport::CallClass;
use escapement_transport::call_class::message_bytes_max;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use prost::Message;
use tonic::Status;
use tonic_types::StatusExt;

/// Calls the engine and the store of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EnginePort(Edge);

impl EnginePort {
    pub(crate) fn new(edge: Edge) -> Self {
        Self(edge)
    }

    async fn accept(&self, request: v1::SubmitPlanRequest, origin: &Origin) -> Result<(), Status> {
        let (trace, caller) = within(&request, origin)?;
        let (execution_id, live) = self.0.accept(request, trace, &caller).await?;
        if live.is_none() {
            let stored = self.0.stored_execution(execution_id, ReadClass::Submission);
            stored.await.map_err(Rejection::of_submission)?;
        }
        Ok(())
    }

    async fn end(&self, execution_id: ExecutionId) -> Result<EndedExecution, Status> {
        let wait = |caller| Input::Wait { caller, execution_id };
        match self.0.engine.call(Lane::Reads, wait).await? {
            Ended::Settled(settlement) => Ok(ended_execution(&settlement)),
            Ended::Refused(refusal) => Err(Rejection::Refused(refusal).into()),
            Ended::NotLive => Ok(EndedExecution {
                result: self.0.stored_result(execution_id, ReadClass::Answer).await?.value,
                assigned: None,
            }),
        }
    }

    async fn worker(&self, execution_id: ExecutionId) -> Result<Option<String>, Status> {
        let entries_max = page_size(None, AUDIT_PAGE_MAX, AUDIT_PAGE_MAX)?;
        let page = self.0.audit_page(&None, execution_id, 0, entries_max);
        let entries = page.await?.entries;
        Ok(entries.into_iter().rev().find_map(|entry| match entry.event {
            Some(Event::AttemptAssigned(assigned)) => Some(assigned.worker_id),
            _ => None,
        }))
    }
}

/// Returns what a run's attempt is submitted with.
fn within(
    request: &v1::SubmitPlanRequest,
    origin: &Origin,
) -> Result<(Option<v1::StoredTraceContext>, Caller), Status> {
    let (bytes, bytes_max) = (request.encoded_len(), message_bytes_max(CallClass::Executes));
    if bytes > bytes_max {
        let message = format!("the request has {bytes} bytes, the limit is {bytes_max}");
        return Err(Status::out_of_range(message));
    }
    let trace = origin.trace.as_ref();
    let trace = trace.and_then(|trace| trace_context(Some(&trace.traceparent), Some(&trace.tracestate)));
    Ok((trace, Caller::within(origin.principal())))
}

impl ContractPort for EnginePort {
    fn joint_way(&self) -> Option<Box<dyn JointWay>> {
        Some(Box::new(EngineWay::new(self.0.clone())))
    }

    async fn submit(&self, request: v1::SubmitPlanRequest, origin: &Origin) -> Result<(), PortRefusal> {
        answer(self.accept(request, origin).await)
    }

    async fn wait_for_end(&self, execution_id: ExecutionId) -> Result<EndedExecution, PortRefusal> {
        answer(self.end(execution_id).await)
    }

    async fn look_up(&self, execution_id: ExecutionId) -> Result<v1::Execution, PortRefusal> {
        answer(self.0.certified_execution(execution_id).await)
    }

    async fn accepted(&self, execution_id: ExecutionId) -> Result<v1::SubmitPlanRequest, PortRefusal> {
        let stored = answer(self.0.stored(execution_id, ReadClass::Answer).await)?;
        let accepted = stored::accepted_request(&stored.value.record);
        answer(accepted.map_err(|_| Rejection::RecordDamaged))
    }

    async fn last_worker(&self, execution_id: ExecutionId) -> Result<Option<String>, PortRefusal> {
        answer(self.worker(execution_id).await)
    }

    async fn explain(&self, execution_id: ExecutionId) -> Result<v1::ExplainExecutionResponse, PortRefusal> {
        let request = v1::ExplainExecutionRequest {
            execution_id: execution_id.to_string(),
            ..v1::ExplainExecutionRequest::default()
        };
        Ok(answer(self.0.explain_execution(request).await)?.into_inner())
    }

    async fn actions(&self) -> Result<Vec<v1::Action>, PortRefusal> {
        let actions = answer(self.0.actions(Lane::Control).await)?;
        Ok(actions.iter().map(fleet::action).collect())
    }
}

/// Returns an answer with its refusal in the words of runs.
fn answer<T>(answer: Result<T, impl Into<Status>>) -> Result<T, PortRefusal> {
    answer.map_err(|refused| {
        let status = refused.into();
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.as_str());
        PortRefusal::new(&format!("{:?}", status.code()), reason, status.message())
    })
}

#[cfg(test)]
mod tests;
