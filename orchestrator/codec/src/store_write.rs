//! The engine's writes in the store's terms, and the store's outcomes in the engine's. Writes nothing.

use crate::provenance::Provenance;
use crate::stored;
use escapement_contract::{AuditKind, Request, Settlement, Status};
use escapement_engine::{ActionMemory, StoreWrite, WriteConflict, WriteOutcome};
use escapement_model::Namespace;
use escapement_model::planted::{self, Bug};
use escapement_store::{AcceptWrite, Conflict, Outcome, Write};

/// One write in the store's terms, with its records encoded.
pub fn encode(content: &StoreWrite) -> Write {
    match content {
        StoreWrite::Accept {
            execution_id,
            request,
            accepted_at,
            deadline_ms,
            started_at,
        } => {
            let plan = request.plan();
            Write::Accept(AcceptWrite {
                execution_id: *execution_id,
                plan_id: plan.id(),
                request_digest: *request.digest(),
                priority: plan.priority(),
                accepted_at: *accepted_at,
                started_at: *started_at,
                deadline_ms: *deadline_ms,
                parent_execution_id: request.parent_execution_id(),
                plan_name: plan.name().to_owned(),
                user_id: request.user_id().map(str::to_owned),
                request_id: request.request_id().map(str::to_owned),
                tags: plan.tags().to_vec(),
                namespace: namespace_of(request),
                record: stored::encode_accepted(request, *execution_id),
            })
        }
        StoreWrite::Start {
            execution_id,
            started_at,
        } => Write::Start {
            execution_id: *execution_id,
            started_at: Some(*started_at),
        },
        StoreWrite::Settle { settlement, .. } => {
            let (result, audit) = stored::encode_settlement(settlement);
            Write::Settle {
                execution_id: settlement.result.execution_id,
                status: status_number(settlement.result.status),
                started_at: started_at(settlement),
                settled_at: settlement.result.completed_at,
                outline: stored::encode_outline(&settlement.result),
                result,
                audit,
            }
        }
        StoreWrite::RememberActions { memories } => {
            let memory = |memory: &ActionMemory| escapement_store::ActionMemory {
                name: memory.name.to_string(),
                left_ms: memory.left_ms,
            };
            Write::RememberActions(memories.iter().map(memory).collect())
        }
    }
}

/// Returns the namespace that a request belongs to.
pub fn namespace_of(request: &Request) -> Namespace {
    Provenance::known(request.provenance()).namespace
}

/// Returns the time at which it started; `None` for what was settled from the queue. The entry is among the first.
fn started_at(settlement: &Settlement) -> Option<i64> {
    settlement.audit.iter().find_map(|entry| match entry.kind {
        AuditKind::Started { started_at } => Some(started_at),
        _ => None,
    })
}

/// Returns the numbers of `PlanResult.Status`.
fn status_number(status: Status) -> u8 {
    match status {
        Status::Success => 1,
        Status::Partial => 2,
        Status::Failure => 3,
    }
}

/// Returns the bytes of the blobs of one write.
pub fn blob_bytes(write: &Write) -> usize {
    match write {
        Write::Accept(accept) => accept.record.len(),
        Write::Start { .. } => 0,
        Write::Settle { result, audit, .. } => result.len() + audit.len(),
        Write::RememberActions(memories) => memories.iter().map(|memory| memory.name.len()).sum(),
        Write::Operator(write) => write.deed.n_bytes(),
    }
}

/// What came of one write, in the engine's terms.
pub fn outcome(outcome: Outcome) -> WriteOutcome {
    let conflict = match outcome {
        Outcome::Done { .. } => return WriteOutcome::Durable,
        Outcome::Conflict(_) if planted::is_on(Bug::ConflictIsDone) => return WriteOutcome::Durable,
        Outcome::Conflict(Conflict::ExecutionIdUsed { request_digest }) => {
            WriteConflict::ExecutionIdUsed { request_digest }
        }
        Outcome::Conflict(Conflict::PlanIdUsed { execution_id }) => {
            WriteConflict::PlanIdUsed { execution_id }
        }
        Outcome::Conflict(Conflict::NotFound) => WriteConflict::NotFound,
        Outcome::Conflict(Conflict::AlreadyStarted | Conflict::AlreadySettled) => WriteConflict::AlreadyThere,
    };
    WriteOutcome::Conflict(conflict)
}
