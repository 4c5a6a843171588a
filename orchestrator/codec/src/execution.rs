//! What callers are told: results, errors, executions. From the contract, the engine and the store to the
//! wire.

use escapement_contract::{ExecutionError, PlanResult, Progress, Request, Status};
use escapement_engine::ExecutionView;
use escapement_model::Severity;
use escapement_wire::v1;
use escapement_wire::v1::execution::State;

/// A result.
pub fn result(result: &PlanResult) -> v1::PlanResult {
    v1::PlanResult {
        plan_id: result.plan_id.to_string(),
        execution_id: result.execution_id.to_string(),
        status: status(result.status) as i32,
        completed_at: result.completed_at,
        duration_ms: result.duration_ms,
        steps_executed: count(result.steps_executed),
        steps_total: count(result.steps_total),
        result_payload: Some(result.result_payload.clone()),
        error: result.error.as_ref().map(error),
    }
}

/// A status.
pub fn status(status: Status) -> v1::plan_result::Status {
    match status {
        Status::Success => v1::plan_result::Status::Success,
        Status::Partial => v1::plan_result::Status::Partial,
        Status::Failure => v1::plan_result::Status::Failure,
    }
}

/// An error with its causes. The depth of the chain is bounded by the contract.
pub fn error(error: &ExecutionError) -> v1::ExecutionError {
    v1::ExecutionError {
        error_code: error.code.clone(),
        message: error.message.clone(),
        step_id: error.step_id.map(|id| id.to_string()),
        severity: severity(error.severity) as i32,
        recoverable: error.recoverable(),
        cause: error.cause.as_deref().map(|cause| Box::new(self::error(cause))),
        context: Some(error.context.clone()),
    }
}

fn severity(severity: Severity) -> v1::execution_error::Severity {
    match severity {
        Severity::Warn => v1::execution_error::Severity::Warn,
        Severity::Error => v1::execution_error::Severity::Error,
        Severity::Fatal => v1::execution_error::Severity::Fatal,
    }
}

/// An execution that the engine holds: queued or running, whatever the store may say meanwhile.
pub fn live_execution(view: &ExecutionView) -> v1::Execution {
    let request: &Request = &view.request;
    let plan = request.plan();
    v1::Execution {
        execution_id: view.execution_id.to_string(),
        plan_id: plan.id().to_string(),
        plan_name: plan.name().to_owned(),
        state: match view.started_at {
            None => State::Queued as i32,
            Some(_) => State::Running as i32,
        },
        priority: plan.priority(),
        accepted_at: view.accepted_at,
        started_at: view.started_at,
        settled_at: None,
        deadline_ms: view.deadline_ms,
        parent_execution_id: request.parent_execution_id().map(|id| id.to_string()),
        user_id: request.user_id().map(str::to_owned),
        request_id: request.request_id().map(str::to_owned),
        tags: plan.tags().to_vec(),
        progress: Some(progress(&view.progress)),
        result: None,
        status: v1::plan_result::Status::Unspecified as i32,
        certificate: None,
        ..v1::Execution::default()
    }
}

fn progress(progress: &Progress) -> v1::ExecutionProgress {
    v1::ExecutionProgress {
        steps_total: count(progress.steps_total),
        steps_pending: count(progress.steps_pending),
        steps_waiting: count(progress.steps_waiting),
        steps_running: count(progress.steps_running),
        steps_backing_off: count(progress.steps_backing_off),
        steps_completed: count(progress.steps_completed),
        steps_not_completed: count(progress.steps_not_completed),
    }
}

/// Steps and attempts are far fewer than `i32` can count.
pub fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
