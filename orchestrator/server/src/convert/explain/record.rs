//! What a stored record and a stored result say, back to the contract, as far as an explanation needs it.
//! Leaves out the contexts of errors and what is not about a step.

use escapement_contract::{AuditKind, Evidence, ExecutionError, NotCompleted, Status};
use escapement_model::{Opaque, Severity, StepId};
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use std::sync::Arc;

/// What an entry says; `None` for what explains nothing, and for what was not written by this version or an earlier one.
pub fn kind(entry: &v1::AuditEntry) -> Option<AuditKind> {
    let kind = match entry.event.as_ref()? {
        Event::Started(event) => AuditKind::Started {
            started_at: event.started_at,
        },
        Event::StepWaiting(event) => AuditKind::StepWaiting {
            step_id: step_id(&event.step_id)?,
            attempt: number(event.attempt),
        },
        Event::AttemptAssigned(event) => AuditKind::AttemptAssigned {
            step_id: step_id(&event.step_id)?,
            attempt: number(event.attempt),
            worker: event.worker_id.as_str().into(),
        },
        Event::AttemptStarted(event) => AuditKind::AttemptStarted {
            step_id: step_id(&event.step_id)?,
            attempt: number(event.attempt),
        },
        Event::AttemptReturned(event) => AuditKind::AttemptReturned {
            step_id: step_id(&event.step_id)?,
            attempt: number(event.attempt).max(1),
            evidence: evidence(&event.evidence)?,
        },
        Event::AttemptFailed(event) => AuditKind::AttemptFailed {
            step_id: step_id(&event.step_id)?,
            attempt: number(event.attempt),
            error: Arc::new(error(event.error.as_ref()?)),
        },
        Event::RetryScheduled(event) => AuditKind::RetryScheduled {
            step_id: step_id(&event.step_id)?,
            next_attempt: number(event.next_attempt),
            delay_ms: u64::try_from(event.delay_ms).unwrap_or(0),
        },
        Event::StepCompleted(event) => AuditKind::StepCompleted {
            step_id: step_id(&event.step_id)?,
            attempts: number(event.attempts),
            warnings: event.warnings.iter().map(error).collect(),
        },
        Event::StepNotCompleted(event) => AuditKind::StepNotCompleted {
            step_id: step_id(&event.step_id)?,
            attempts: number(event.attempts),
            reason: reason(&event.reason)?,
            error: Arc::new(error(event.error.as_ref()?)),
        },
        Event::Accepted(_) | Event::MandatoryAction(_) | Event::StepsIncomplete(_) | Event::Settled(_) => {
            return None;
        }
    };
    Some(kind)
}

/// How an execution ended; `None` for what is no status.
pub fn status(result: &v1::PlanResult) -> Option<Status> {
    match result.status() {
        v1::plan_result::Status::Success => Some(Status::Success),
        v1::plan_result::Status::Partial => Some(Status::Partial),
        v1::plan_result::Status::Failure => Some(Status::Failure),
        v1::plan_result::Status::Unspecified => None,
    }
}

/// An error with its causes. The depth of the chain was bounded when it was written.
pub fn error(error: &v1::ExecutionError) -> ExecutionError {
    ExecutionError {
        code: error.error_code.clone(),
        message: error.message.clone(),
        step_id: error.step_id.as_deref().and_then(step_id),
        severity: match error.severity() {
            v1::execution_error::Severity::Warn => Severity::Warn,
            v1::execution_error::Severity::Fatal => Severity::Fatal,
            v1::execution_error::Severity::Unspecified | v1::execution_error::Severity::Error => {
                Severity::Error
            }
        },
        cause: error.cause.as_deref().map(|cause| Arc::new(self::error(cause))),
        context: Opaque::default(),
    }
}

fn step_id(text: &str) -> Option<StepId> {
    text.parse().ok()
}

fn number(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn reason(text: &str) -> Option<NotCompleted> {
    let reasons = [
        NotCompleted::Failed,
        NotCompleted::Skipped,
        NotCompleted::RetriesExhausted,
        NotCompleted::NotRetryable,
        NotCompleted::WarnedWithoutOutput,
        NotCompleted::DependencyUnresolved,
    ];
    reasons.into_iter().find(|reason| reason.as_str() == text)
}

fn evidence(text: &str) -> Option<Evidence> {
    let all = [
        Evidence::Rejected,
        Evidence::Released,
        Evidence::LeaseExpired,
        Evidence::ResumeOmits,
        Evidence::SnapshotOmits,
        Evidence::Goodbye,
        Evidence::DeclaredDead,
    ];
    all.into_iter().find(|evidence| evidence.as_str() == text)
}
