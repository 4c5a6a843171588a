//! Entries of a record, and results, from the wire back to what the contract knows, so that they can be hashed and explained.
//! Refuses what the contract cannot have said; compares nothing.

use escapement_contract::{
    AuditEntry, AuditKind, CAUSE_DEPTH_MAX, Evidence, ExecutionError, NotCompleted, PlanResult, RuleSet,
    SettlementAction, Status,
};
use escapement_model::{Severity, StepId};
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity as WireSeverity;
use escapement_wire::v1::plan_result::Status as WireStatus;
use std::sync::Arc;

/// What the contract cannot have said; holds one sentence.
pub type Meaningless = &'static str;

/// One entry, with the hash that it states.
///
/// # Errors
/// [`Meaningless`] if it is of no kind that the contract knows, or a field has no meaning.
pub fn entry(wire: v1::AuditEntry) -> Result<AuditEntry, Meaningless> {
    let v1::AuditEntry {
        sequence,
        at,
        event,
        hash,
    } = wire;
    Ok(AuditEntry {
        sequence: u64::try_from(sequence).map_err(|_| "the sequence number is negative")?,
        at_unix_ms: at,
        kind: kind(event.ok_or("the kind of the entry is unknown")?)?,
        hash: hash.try_into().map_err(|_| "the hash has not 32 bytes")?,
    })
}

/// What happened.
///
/// # Errors
/// [`Meaningless`] if a field has no meaning.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn kind(event: Event) -> Result<AuditKind, Meaningless> {
    Ok(match event {
        Event::Accepted(v1::ExecutionAccepted {
            deadline_ms,
            provenance_digest,
        }) => AuditKind::Accepted {
            deadline_ms,
            provenance_digest: match provenance_digest.as_slice() {
                [] => None,
                digest => Some(digest.try_into().map_err(|_| "a digest has not 32 bytes")?),
            },
        },
        Event::Started(v1::ExecutionStarted { started_at }) => AuditKind::Started { started_at },
        Event::StepWaiting(v1::StepWaiting { step_id, attempt }) => AuditKind::StepWaiting {
            step_id: self::step_id(&step_id)?,
            attempt: count(attempt)?,
        },
        Event::AttemptAssigned(v1::AttemptAssigned {
            step_id,
            attempt,
            worker_id,
        }) => AuditKind::AttemptAssigned {
            step_id: self::step_id(&step_id)?,
            attempt: count(attempt)?,
            worker: worker_id.into(),
        },
        Event::AttemptStarted(v1::AttemptStarted { step_id, attempt }) => AuditKind::AttemptStarted {
            step_id: self::step_id(&step_id)?,
            attempt: count(attempt)?,
        },
        Event::AttemptReturned(v1::AttemptReturned {
            step_id,
            attempt,
            evidence,
        }) => AuditKind::AttemptReturned {
            step_id: self::step_id(&step_id)?,
            attempt: count(attempt)?,
            evidence: Evidence::spelled(&evidence).ok_or("the evidence is unknown")?,
        },
        Event::AttemptFailed(v1::AttemptFailed {
            step_id,
            attempt,
            error,
        }) => AuditKind::AttemptFailed {
            step_id: self::step_id(&step_id)?,
            attempt: count(attempt)?,
            error: present(error)?,
        },
        Event::RetryScheduled(v1::RetryScheduled {
            step_id,
            next_attempt,
            delay_ms,
        }) => AuditKind::RetryScheduled {
            step_id: self::step_id(&step_id)?,
            next_attempt: count(next_attempt)?,
            delay_ms: u64::try_from(delay_ms).map_err(|_| "the delay is negative")?,
        },
        Event::StepCompleted(v1::StepCompleted {
            step_id,
            attempts,
            warnings,
        }) => AuditKind::StepCompleted {
            step_id: self::step_id(&step_id)?,
            attempts: count(attempts)?,
            warnings: warnings.into_iter().map(self::error).collect::<Result<_, _>>()?,
        },
        Event::StepNotCompleted(v1::StepNotCompleted {
            step_id,
            attempts,
            reason,
            error,
        }) => AuditKind::StepNotCompleted {
            step_id: self::step_id(&step_id)?,
            attempts: count(attempts)?,
            reason: NotCompleted::spelled(&reason).ok_or("the reason is unknown")?,
            error: present(error)?,
        },
        Event::MandatoryAction(v1::MandatoryAction {
            rule_set,
            number,
            action,
        }) => {
            let rule_set = RuleSet::spelled(&rule_set);
            AuditKind::MandatoryAction {
                rule_set: rule_set.ok_or("the rule set is unknown")?,
                number: count(number)?,
                action: SettlementAction::spelled(&action).ok_or("the action is unknown")?,
            }
        }
        Event::StepsIncomplete(v1::StepsIncomplete { step_ids }) => AuditKind::StepsIncomplete {
            step_ids: step_ids
                .iter()
                .map(|id| self::step_id(id))
                .collect::<Result<_, _>>()?,
        },
        Event::Settled(event) => AuditKind::Settled {
            status: status(event.status())?,
        },
    })
}

/// How an execution ended.
///
/// # Errors
/// [`Meaningless`] if it is unspecified.
pub fn status(status: WireStatus) -> Result<Status, Meaningless> {
    match status {
        WireStatus::Success => Ok(Status::Success),
        WireStatus::Partial => Ok(Status::Partial),
        WireStatus::Failure => Ok(Status::Failure),
        WireStatus::Unspecified => Err("the status is unknown"),
    }
}

/// Returns a result.
///
/// # Errors
/// [`Meaningless`] if a field has no meaning.
pub fn result(wire: v1::PlanResult) -> Result<PlanResult, Meaningless> {
    let status = self::status(wire.status())?;
    let count = |count: i32| u32::try_from(count).map_err(|_| "the number of steps is negative");
    let v1::PlanResult {
        plan_id,
        execution_id,
        status: _,
        completed_at,
        duration_ms,
        steps_executed,
        steps_total,
        result_payload,
        error,
    } = wire;
    Ok(PlanResult {
        plan_id: plan_id.parse().map_err(|_| "the plan has no id")?,
        execution_id: execution_id.parse().map_err(|_| "the execution has no id")?,
        status,
        completed_at,
        duration_ms,
        steps_executed: count(steps_executed)?,
        steps_total: count(steps_total)?,
        result_payload: result_payload.unwrap_or_default(),
        error: error.map(self::error).transpose()?,
    })
}

/// Returns an error with its causes.
///
/// # Errors
/// [`Meaningless`] if a field has no meaning.
pub fn error(wire: v1::ExecutionError) -> Result<ExecutionError, Meaningless> {
    error_above(wire, CAUSE_DEPTH_MAX)
}

/// Recursive; so many errors may lie below this one.
fn error_above(wire: v1::ExecutionError, depth_left: usize) -> Result<ExecutionError, Meaningless> {
    let severity = match wire.severity() {
        WireSeverity::Warn => Severity::Warn,
        WireSeverity::Error => Severity::Error,
        WireSeverity::Fatal => Severity::Fatal,
        WireSeverity::Unspecified => return Err("the severity is unknown"),
    };
    let v1::ExecutionError {
        error_code,
        message,
        step_id,
        severity: _,
        // It follows from the severity.
        recoverable: _,
        cause,
        context,
    } = wire;
    let cause = match cause {
        None => None,
        Some(cause) => {
            let below = depth_left
                .checked_sub(1)
                .ok_or("the chain of causes is too deep")?;
            Some(Arc::new(error_above(*cause, below)?))
        }
    };
    let context = context.unwrap_or_default();
    // What is hashed must be an object.
    context.check().map_err(|_| "the context is no object")?;
    Ok(ExecutionError {
        code: error_code,
        message,
        step_id: step_id.as_deref().map(self::step_id).transpose()?,
        severity,
        cause,
        context,
    })
}

fn present(wire: Option<v1::ExecutionError>) -> Result<Arc<ExecutionError>, Meaningless> {
    Ok(Arc::new(error(wire.ok_or("the error is missing")?)?))
}

fn step_id(text: &str) -> Result<StepId, Meaningless> {
    text.parse().map_err(|_| "a step id is no UUID v4")
}

fn count(number: i32) -> Result<u32, Meaningless> {
    u32::try_from(number).map_err(|_| "a count is negative")
}
