//! What callers are told: results, errors, executions. From the contract, the engine and the store to the
//! wire.

use crate::provenance::Provenance;
use escapement_contract::{ExecutionError, PlanResult, Progress, Status};
use escapement_engine::ExecutionView;
use escapement_model::Severity;
use escapement_wire::v1;
use escapement_wire::v1::execution::State;

/// Returns a result.
pub fn result(result: &PlanResult) -> v1::PlanResult {
    let PlanResult {
        plan_id,
        execution_id,
        status,
        completed_at,
        duration_ms,
        steps_executed,
        steps_total,
        result_payload,
        error,
    } = result;
    v1::PlanResult {
        plan_id: plan_id.to_string(),
        execution_id: execution_id.to_string(),
        status: self::status(*status) as i32,
        completed_at: *completed_at,
        duration_ms: *duration_ms,
        steps_executed: count(*steps_executed),
        steps_total: count(*steps_total),
        result_payload: Some(result_payload.clone()),
        error: error.as_ref().map(self::error),
    }
}

/// Returns a status.
pub fn status(status: Status) -> v1::plan_result::Status {
    match status {
        Status::Success => v1::plan_result::Status::Success,
        Status::Partial => v1::plan_result::Status::Partial,
        Status::Failure => v1::plan_result::Status::Failure,
    }
}

/// Returns an error with its causes. The depth of the chain is bounded by the contract.
pub fn error(error: &ExecutionError) -> v1::ExecutionError {
    let ExecutionError {
        code,
        message,
        step_id,
        severity,
        cause,
        context,
    } = error;
    v1::ExecutionError {
        error_code: code.clone(),
        message: message.clone(),
        step_id: step_id.map(|id| id.to_string()),
        severity: self::severity(*severity) as i32,
        recoverable: error.recoverable(),
        cause: cause.as_deref().map(|cause| Box::new(self::error(cause))),
        context: Some(context.clone()),
    }
}

fn severity(severity: Severity) -> v1::execution_error::Severity {
    match severity {
        Severity::Warn => v1::execution_error::Severity::Warn,
        Severity::Error => v1::execution_error::Severity::Error,
        Severity::Fatal => v1::execution_error::Severity::Fatal,
    }
}

/// Returns an execution that the engine holds: queued or running, whatever the store may say meanwhile.
pub fn live_execution(view: &ExecutionView) -> v1::Execution {
    let ExecutionView {
        execution_id,
        request,
        accepted_at,
        started_at,
        deadline_ms,
        progress,
        // Only the engine makes one, so that what is shown is durable.
        accept: _,
    } = view;
    let plan = request.plan();
    let provenance = Provenance::known(request.provenance());
    v1::Execution {
        execution_id: execution_id.to_string(),
        plan_id: plan.id().to_string(),
        plan_name: plan.name().to_owned(),
        state: match started_at {
            None => State::Queued as i32,
            Some(_) => State::Running as i32,
        },
        priority: plan.priority(),
        accepted_at: *accepted_at,
        started_at: *started_at,
        settled_at: None,
        deadline_ms: *deadline_ms,
        parent_execution_id: request.parent_execution_id().map(|id| id.to_string()),
        user_id: request.user_id().map(str::to_owned),
        request_id: request.request_id().map(str::to_owned),
        tags: plan.tags().to_vec(),
        progress: Some(self::progress(progress)),
        result: None,
        status: v1::plan_result::Status::Unspecified as i32,
        certificate: None,
        error_code: None,
        duration_ms: None,
        steps_executed: None,
        steps_total: None,
        interrupted: false,
        namespace: provenance.namespace.to_string(),
        accepted_by: provenance.accepted_by,
    }
}

fn progress(progress: &Progress) -> v1::ExecutionProgress {
    let Progress {
        steps_total,
        steps_pending,
        steps_waiting,
        steps_running,
        steps_backing_off,
        steps_completed,
        steps_not_completed,
    } = progress;
    v1::ExecutionProgress {
        steps_total: count(*steps_total),
        steps_pending: count(*steps_pending),
        steps_waiting: count(*steps_waiting),
        steps_running: count(*steps_running),
        steps_backing_off: count(*steps_backing_off),
        steps_completed: count(*steps_completed),
        steps_not_completed: count(*steps_not_completed),
    }
}

/// Steps and attempts are far fewer than `i32` can count.
pub fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
