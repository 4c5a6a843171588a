//! What the record of an execution says of the only attempt of its plan.

use crate::records::ExecutionRecord;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;

/// What is known of an execution, from the answer to `GetExecution` and from its entries.
pub(super) fn record(execution: v1::Execution, entries: &[v1::AuditEntry]) -> ExecutionRecord {
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
