//! Log lines about executions, from the thread that makes them durable: what is logged is in the store.
//! Names ids and codes only; what callers and handlers wrote stands in no log.
//! At the level `debug`: a busy orchestrator has thousands of executions in a second.

use escapement_codec::store_write::namespace_of;
use escapement_contract::{AuditKind, Settlement, Status};
use escapement_engine::StoreWrite;
use tracing::{Level, debug, enabled};

/// Logs a write that is durable.
pub fn written(content: &StoreWrite) {
    if !enabled!(Level::DEBUG) {
        return;
    }
    match content {
        StoreWrite::Accept {
            execution_id,
            request,
            started_at,
            ..
        } => {
            let (plan_id, starts) = (request.plan().id(), started_at.is_some());
            debug!(
                %execution_id, %plan_id, namespace = %namespace_of(request), starts,
                "execution accepted"
            );
        }
        StoreWrite::Start { execution_id, .. } => debug!(%execution_id, "execution started"),
        StoreWrite::Settle { settlement, .. } => settled(settlement),
        StoreWrite::RememberActions { .. } => {}
    }
}

fn settled(settlement: &Settlement) {
    let result = &settlement.result;
    let (execution_id, plan_id) = (result.execution_id.to_string(), result.plan_id);
    for entry in &settlement.audit {
        step(&execution_id, entry.at_unix_ms, &entry.kind);
    }
    let Some(error) = &result.error else {
        debug!(%execution_id, %plan_id, duration_ms = result.duration_ms, "execution succeeded");
        return;
    };
    let step_id = error.step_id.map(|step_id| step_id.to_string());
    let (code, duration_ms) = (error.code.as_str(), result.duration_ms);
    let (steps_executed, steps_total) = (result.steps_executed, result.steps_total);
    let ended = match result.status {
        Status::Partial => "execution ended in part",
        Status::Success | Status::Failure => "execution failed",
    };
    debug!(
        %execution_id, %plan_id, code, step_id, steps_executed, steps_total, duration_ms,
        "{ended}"
    );
}

/// What an attempt or a step went through, with the time when it did.
fn step(execution_id: &str, at_unix_ms: i64, kind: &AuditKind) {
    let event = kind.name();
    match kind {
        AuditKind::AttemptAssigned {
            step_id,
            attempt,
            worker,
        } => debug!(execution_id, at_unix_ms, %step_id, attempt, worker_id = &**worker, "{event}"),
        AuditKind::AttemptReturned {
            step_id,
            attempt,
            evidence,
        } => debug!(execution_id, at_unix_ms, %step_id, attempt, evidence = evidence.as_str(), "{event}"),
        AuditKind::AttemptFailed {
            step_id,
            attempt,
            error,
        } => debug!(execution_id, at_unix_ms, %step_id, attempt, code = error.code, "{event}"),
        AuditKind::RetryScheduled {
            step_id,
            next_attempt,
            delay_ms,
        } => debug!(execution_id, at_unix_ms, %step_id, next_attempt, delay_ms, "{event}"),
        AuditKind::StepCompleted {
            step_id, attempts, ..
        } => {
            debug!(execution_id, at_unix_ms, %step_id, attempts, "{event}");
        }
        AuditKind::StepNotCompleted {
            step_id,
            attempts,
            reason,
            error,
        } => {
            let (reason, code) = (reason.as_str(), error.code.as_str());
            debug!(execution_id, at_unix_ms, %step_id, attempts, reason, code, "{event}");
        }
        AuditKind::Accepted { .. }
        | AuditKind::Started { .. }
        | AuditKind::StepWaiting { .. }
        | AuditKind::AttemptStarted { .. }
        | AuditKind::MandatoryAction { .. }
        | AuditKind::StepsIncomplete { .. }
        | AuditKind::Settled { .. } => {}
    }
}
