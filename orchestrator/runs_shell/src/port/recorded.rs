//! Reads of one execution: the record of the only attempt of its plan, why it has not ended, and where it is.

use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace};
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use tokio::time::timeout;
use tonic::client::GrpcService;
use tonic::codegen::{Body, StdError};

use super::Contract;
use super::refused::{Refusal, refusal};
use crate::limits::RECORD_PATIENCE;
use crate::records::{ExecutionRecord, NoAnswer, ParentExecution};

/// Reads a value of one kind about an execution.
pub(crate) trait ReadExecution<A> {
    /// Reads the value, as far as the execution is stored and the executor answers in time.
    fn read(&mut self, execution_id: ExecutionId) -> impl Future<Output = A> + Send;
}

impl<T> ReadExecution<ExecutionRecord> for Contract<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    async fn read(&mut self, execution_id: ExecutionId) -> ExecutionRecord {
        let execution_id = execution_id.to_string();
        let request = v1::GetExecutionRequest {
            execution_id: execution_id.clone(),
        };
        let Ok(Ok(found)) = timeout(RECORD_PATIENCE, self.plans.get_execution(request)).await else {
            return ExecutionRecord::default();
        };
        let request = v1::ListAuditEntriesRequest {
            execution_id,
            from_sequence: 0,
            page_size: None,
        };
        let entries = match timeout(RECORD_PATIENCE, self.plans.list_audit_entries(request)).await {
            Ok(Ok(page)) => page.into_inner().entries,
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        record(found.into_inner().execution.unwrap_or_default(), &entries)
    }
}

impl<T> ReadExecution<Option<v1::ExplainExecutionResponse>> for Contract<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// Returns `None` also if the execution has ended or is not known.
    async fn read(&mut self, execution_id: ExecutionId) -> Option<v1::ExplainExecutionResponse> {
        let request = v1::ExplainExecutionRequest {
            execution_id: execution_id.to_string(),
            ..v1::ExplainExecutionRequest::default()
        };
        let explained = timeout(RECORD_PATIENCE, self.plans.explain_execution(request)).await;
        let explained = explained.ok()?.ok()?.into_inner();
        let execution = explained.execution.as_ref()?;
        (execution.state() != v1::execution::State::Settled).then_some(explained)
    }
}

impl<T> ReadExecution<Result<Option<ParentExecution>, NoAnswer>> for Contract<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    async fn read(&mut self, execution_id: ExecutionId) -> Result<Option<ParentExecution>, NoAnswer> {
        let request = v1::GetExecutionRequest {
            execution_id: execution_id.to_string(),
        };
        let found = timeout(RECORD_PATIENCE, self.plans.get_execution(request)).await;
        match found.map_err(|_| NoAnswer)? {
            Ok(found) => Ok(found.into_inner().execution.map(parent)),
            Err(status) => match refusal(&status) {
                Refusal::NotNow { .. } | Refusal::NotKnown { .. } => Err(NoAnswer),
                Refusal::Never { .. } | Refusal::Removed | Refusal::OtherRequest => Ok(None),
            },
        }
    }
}

fn parent(execution: v1::Execution) -> ParentExecution {
    ParentExecution {
        runs: execution.state() == v1::execution::State::Running,
        namespace: Namespace::parse(&execution.namespace).unwrap_or_default(),
        owner: execution.accepted_by.map(|by| by.name),
    }
}

/// Returns the record of an execution, from the answer to `GetExecution` and from its entries.
fn record(execution: v1::Execution, entries: &[v1::AuditEntry]) -> ExecutionRecord {
    let assigned = entries.iter().rev().find_map(|entry| match &entry.event {
        Some(Event::AttemptAssigned(assigned)) => Some(assigned.worker_id.clone()),
        _ => None,
    });
    let outcome = execution.result.map(|result| match result.error {
        Some(error) => error.error_code,
        None => "completed".to_owned(),
    });
    let certificate = execution.certificate;
    ExecutionRecord {
        plan_digest: certificate
            .map(|certificate| certificate.content_digest)
            .unwrap_or_default(),
        worker_id: assigned.unwrap_or_default(),
        outcome: outcome.unwrap_or_default(),
    }
}
