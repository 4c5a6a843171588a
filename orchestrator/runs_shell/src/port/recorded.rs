//! Reads of one execution: the record of its only attempt, the reason why it has not ended, and its namespace.

use escapement_model::{ExecutionId, Namespace};
use escapement_wire::v1;
use tokio::time::timeout;

use crate::contract_port::{ContractPort, PortRefusal};
use crate::limits::RECORD_PATIENCE;
use crate::records::{ExecutionRecord, NoAnswer, ParentExecution};

/// Returns the record of an execution, as far as it is stored and the contract answers in time.
pub(crate) async fn record(contract: &impl ContractPort, execution_id: ExecutionId) -> ExecutionRecord {
    let Ok(Ok(execution)) = timeout(RECORD_PATIENCE, contract.look_up(execution_id)).await else {
        return ExecutionRecord::default();
    };
    let worker = match timeout(RECORD_PATIENCE, contract.last_worker(execution_id)).await {
        Ok(Ok(worker)) => worker,
        Ok(Err(_)) | Err(_) => None,
    };
    let outcome = execution.result.map(|result| match result.error {
        Some(error) => error.error_code,
        None => "completed".to_owned(),
    });
    let certificate = execution.certificate;
    ExecutionRecord {
        plan_digest: certificate
            .map(|certificate| certificate.content_digest)
            .unwrap_or_default(),
        worker_id: worker.unwrap_or_default(),
        outcome: outcome.unwrap_or_default(),
    }
}

/// Explains an execution; `None` also if it has ended or is not known.
pub(crate) async fn explanation(
    contract: &impl ContractPort,
    execution_id: ExecutionId,
) -> Option<v1::ExplainExecutionResponse> {
    let explained = timeout(RECORD_PATIENCE, contract.explain(execution_id)).await;
    let explained = explained.ok()?.ok()?;
    let execution = explained.execution.as_ref()?;
    (execution.state() != v1::execution::State::Settled).then_some(explained)
}

/// Returns an execution as the parent of a run; `None` for an unknown one.
pub(crate) async fn parent(
    contract: &impl ContractPort,
    execution_id: ExecutionId,
) -> Result<Option<ParentExecution>, NoAnswer> {
    let found = timeout(RECORD_PATIENCE, contract.look_up(execution_id)).await;
    match found.map_err(|_| NoAnswer)? {
        Ok(execution) => Ok(Some(ParentExecution {
            runs: execution.state() == v1::execution::State::Running,
            namespace: Namespace::parse(&execution.namespace).unwrap_or_default(),
            owner: execution.accepted_by.map(|by| by.name),
        })),
        Err(PortRefusal::NotNow { .. } | PortRefusal::NotKnown { .. }) => Err(NoAnswer),
        Err(PortRefusal::Never { .. } | PortRefusal::Removed | PortRefusal::OtherRequest) => Ok(None),
    }
}
