//! Questions about an execution that every ring of tests asks through the API. Judges nothing but that it is settled.

use std::time::Duration;

use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{AuditEntry, ListAuditEntriesRequest, PlanResult, WaitExecutionRequest};
use tonic::Status;
use tonic::transport::Channel;

/// `WaitExecution`, which must end with a result within the limit.
///
/// # Errors
/// What the call is answered with, or that the orchestrator is away.
///
/// # Panics
/// If the execution is not settled by then.
pub async fn result_of(
    mut plans: PlanExecutionServiceClient<Channel>,
    execution_id: &str,
    limit: Duration,
) -> Result<PlanResult, Status> {
    let request = WaitExecutionRequest {
        execution_id: execution_id.to_owned(),
        timeout_ms: Some(i64::try_from(limit.as_millis()).expect("a limit is short")),
    };
    let answer = plans.wait_execution(request).await?;
    let execution = answer.into_inner().execution.expect("an answer has an execution");
    assert_eq!(execution.state(), State::Settled, "{execution:?}");
    Ok(execution.result.expect("a settled execution has a result"))
}

/// `ListAuditEntries`, all pages.
///
/// # Errors
/// What a call is answered with, or that the orchestrator is away.
pub async fn record_of(
    mut plans: PlanExecutionServiceClient<Channel>,
    execution_id: &str,
) -> Result<Vec<AuditEntry>, Status> {
    let (mut entries, mut from_sequence) = (Vec::new(), 1);
    while from_sequence != 0 {
        let request = ListAuditEntriesRequest {
            execution_id: execution_id.to_owned(),
            from_sequence,
            page_size: None,
        };
        let page = plans.list_audit_entries(request).await?.into_inner();
        entries.extend(page.entries);
        from_sequence = page.next_sequence;
    }
    Ok(entries)
}
