//! Log lines about executions, from the thread that makes them durable: what is logged is in the store.
//! Names ids and codes only; what callers and handlers wrote stands in no log.
//! At the level `debug`: a busy orchestrator has thousands of executions in a second.

use escapement_codec::store_write::namespace_of;
use escapement_codec::trace::{Sampling, logged_ids};
use escapement_contract::{AuditKind, Request, Settlement, Status};
use escapement_engine::StoreWrite;
use escapement_model::ExecutionId;
use tracing::{Level, debug, enabled};

/// Logs a write that is durable. `sampling`: as executions are traced; `None` if none are.
pub fn written(content: &StoreWrite, sampling: Option<Sampling>) {
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
            let (trace_id, span_id) = logged_ids(*execution_id, request, sampling);
            debug!(
                %execution_id, run_id = run_of(request), trace_id, span_id, %plan_id,
                namespace = %namespace_of(request), starts, "execution accepted"
            );
        }
        StoreWrite::Start { execution_id, .. } => debug!(%execution_id, "execution started"),
        StoreWrite::Settle { settlement, request } => {
            let execution_id = settlement.result.execution_id;
            settled(settlement, &Ids::of(execution_id, request, sampling));
        }
        StoreWrite::RememberActions { .. } => {}
    }
}

/// Ids in every line about an execution.
struct Ids {
    execution_id: String,
    /// Run whose attempt it is.
    run_id: Option<String>,
    trace_id: Option<String>,
    span_id: Option<String>,
}

impl Ids {
    fn of(execution_id: ExecutionId, request: &Request, sampling: Option<Sampling>) -> Self {
        let (trace_id, span_id) = logged_ids(execution_id, request, sampling);
        Self {
            execution_id: execution_id.to_string(),
            run_id: run_of(request).map(str::to_owned),
            trace_id,
            span_id,
        }
    }
}

/// Returns the run that the tags of a plan name, as those of attempts do.
fn run_of(request: &Request) -> Option<&str> {
    let mut tags = request.plan().tags().iter();
    tags.find_map(|tag| tag.strip_prefix("run:"))
}

fn settled(settlement: &Settlement, ids: &Ids) {
    let result = &settlement.result;
    for entry in &settlement.audit {
        step(ids, entry.at_unix_ms, &entry.kind);
    }
    let Ids {
        execution_id,
        run_id,
        trace_id,
        span_id,
    } = ids;
    let run_id = run_id.as_deref();
    let (trace_id, span_id, plan_id) = (trace_id.as_deref(), span_id.as_deref(), result.plan_id);
    let Some(error) = &result.error else {
        debug!(execution_id, run_id, trace_id, span_id, %plan_id, duration_ms = result.duration_ms, "execution succeeded");
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
        execution_id, run_id, trace_id, span_id, %plan_id, code, step_id, steps_executed, steps_total, duration_ms,
        "{ended}"
    );
}

/// Logs an event of an attempt or a step, with its time.
fn step(ids: &Ids, at_unix_ms: i64, kind: &AuditKind) {
    let event = kind.name();
    let execution_id = ids.execution_id.as_str();
    let (trace_id, span_id) = (ids.trace_id.as_deref(), ids.span_id.as_deref());
    match kind {
        AuditKind::AttemptAssigned {
            step_id,
            attempt,
            worker,
        } => {
            debug!(execution_id, trace_id, span_id, at_unix_ms, %step_id, attempt, worker_id = &**worker, "{event}")
        }
        AuditKind::AttemptReturned {
            step_id,
            attempt,
            evidence,
        } => {
            debug!(execution_id, trace_id, span_id, at_unix_ms, %step_id, attempt, evidence = evidence.as_str(), "{event}")
        }
        AuditKind::AttemptFailed {
            step_id,
            attempt,
            error,
        } => {
            debug!(execution_id, trace_id, span_id, at_unix_ms, %step_id, attempt, code = error.code, "{event}")
        }
        AuditKind::RetryScheduled {
            step_id,
            next_attempt,
            delay_ms,
        } => debug!(execution_id, trace_id, span_id, at_unix_ms, %step_id, next_attempt, delay_ms, "{event}"),
        AuditKind::StepCompleted {
            step_id, attempts, ..
        } => {
            debug!(execution_id, trace_id, span_id, at_unix_ms, %step_id, attempts, "{event}");
        }
        AuditKind::StepNotCompleted {
            step_id,
            attempts,
            reason,
            error,
        } => {
            let (reason, code) = (reason.as_str(), error.code.as_str());
            debug!(execution_id, trace_id, span_id, at_unix_ms, %step_id, attempts, reason, code, "{event}");
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
