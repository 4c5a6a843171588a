//! Entries of a record, from the wire back to what the contract knows, so that they can be hashed and explained.
//! Refuses what the contract cannot have said; compares nothing.

use escapement_contract::{
    Action, AuditEntry, AuditKind, CAUSE_DEPTH_MAX, Evidence, ExecutionError, NotCompleted, RuleSet, Status,
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
/// [`Meaningless`] where it is of no kind that the contract knows, or a field has no meaning.
pub fn entry(wire: v1::AuditEntry) -> Result<AuditEntry, Meaningless> {
    Ok(AuditEntry {
        sequence: u64::try_from(wire.sequence).map_err(|_| "the sequence number is negative")?,
        at_unix_ms: wire.at,
        kind: kind(wire.event.ok_or("the kind of the entry is unknown")?)?,
        hash: wire.hash.try_into().map_err(|_| "the hash has not 32 bytes")?,
    })
}

/// What happened.
///
/// # Errors
/// [`Meaningless`] where a field has no meaning.
pub fn kind(event: Event) -> Result<AuditKind, Meaningless> {
    Ok(match event {
        Event::Accepted(event) => AuditKind::Accepted {
            deadline_ms: event.deadline_ms,
        },
        Event::Started(event) => AuditKind::Started {
            started_at: event.started_at,
        },
        Event::StepWaiting(event) => AuditKind::StepWaiting {
            step_id: step_id(&event.step_id)?,
            attempt: count(event.attempt)?,
        },
        Event::AttemptAssigned(event) => AuditKind::AttemptAssigned {
            step_id: step_id(&event.step_id)?,
            attempt: count(event.attempt)?,
            worker: event.worker_id.into(),
        },
        Event::AttemptStarted(event) => AuditKind::AttemptStarted {
            step_id: step_id(&event.step_id)?,
            attempt: count(event.attempt)?,
        },
        Event::AttemptReturned(event) => AuditKind::AttemptReturned {
            step_id: step_id(&event.step_id)?,
            attempt: count(event.attempt)?,
            evidence: word(EVIDENCE, Evidence::as_str, &event.evidence).ok_or("the evidence is unknown")?,
        },
        Event::AttemptFailed(event) => AuditKind::AttemptFailed {
            step_id: step_id(&event.step_id)?,
            attempt: count(event.attempt)?,
            error: present(event.error)?,
        },
        Event::RetryScheduled(event) => AuditKind::RetryScheduled {
            step_id: step_id(&event.step_id)?,
            next_attempt: count(event.next_attempt)?,
            delay_ms: u64::try_from(event.delay_ms).map_err(|_| "the delay is negative")?,
        },
        Event::StepCompleted(event) => AuditKind::StepCompleted {
            step_id: step_id(&event.step_id)?,
            attempts: count(event.attempts)?,
            warnings: event.warnings.into_iter().map(error).collect::<Result<_, _>>()?,
        },
        Event::StepNotCompleted(event) => AuditKind::StepNotCompleted {
            step_id: step_id(&event.step_id)?,
            attempts: count(event.attempts)?,
            reason: word(REASONS, NotCompleted::as_str, &event.reason).ok_or("the reason is unknown")?,
            error: present(event.error)?,
        },
        Event::MandatoryAction(event) => {
            let rule_set = word(RULE_SETS, RuleSet::as_str, &event.rule_set);
            AuditKind::MandatoryAction {
                rule_set: rule_set.ok_or("the rule set is unknown")?,
                number: count(event.number)?,
                action: action(&event.action).ok_or("the action is unknown")?,
            }
        }
        Event::StepsIncomplete(event) => AuditKind::StepsIncomplete {
            step_ids: event
                .step_ids
                .iter()
                .map(|id| step_id(id))
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
/// [`Meaningless`] where it is unspecified.
pub fn status(status: WireStatus) -> Result<Status, Meaningless> {
    match status {
        WireStatus::Success => Ok(Status::Success),
        WireStatus::Partial => Ok(Status::Partial),
        WireStatus::Failure => Ok(Status::Failure),
        WireStatus::Unspecified => Err("the status is unknown"),
    }
}

/// An error with its causes.
///
/// # Errors
/// [`Meaningless`] where a field has no meaning.
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
    let cause = match wire.cause {
        None => None,
        Some(cause) => {
            let below = depth_left
                .checked_sub(1)
                .ok_or("the chain of causes is too deep")?;
            Some(Arc::new(error_above(*cause, below)?))
        }
    };
    let context = wire.context.unwrap_or_default();
    // What is hashed must be an object.
    context.check().map_err(|_| "the context is no object")?;
    Ok(ExecutionError {
        code: wire.error_code,
        message: wire.message,
        step_id: wire.step_id.as_deref().map(step_id).transpose()?,
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

/// What a word names.
fn word<T: Copy>(all: &[T], spelt: impl Fn(T) -> &'static str, word: &str) -> Option<T> {
    all.iter().copied().find(|one| spelt(*one) == word)
}

/// Every action stands in one of the lists.
fn action(word: &str) -> Option<Action> {
    let mut all = RULE_SETS.iter().flat_map(|rule_set| rule_set.actions());
    all.find(|listed| listed.action.as_str() == word)
        .map(|listed| listed.action)
}

const RULE_SETS: &[RuleSet] = &[RuleSet::Success, RuleSet::Partial, RuleSet::Failure];

const EVIDENCE: &[Evidence] = &[
    Evidence::Rejected,
    Evidence::Released,
    Evidence::LeaseExpired,
    Evidence::ResumeOmits,
    Evidence::SnapshotOmits,
    Evidence::Goodbye,
    Evidence::DeclaredDead,
    Evidence::Refused,
];

const REASONS: &[NotCompleted] = &[
    NotCompleted::Failed,
    NotCompleted::Skipped,
    NotCompleted::RetriesExhausted,
    NotCompleted::NotRetryable,
    NotCompleted::WarnedWithoutOutput,
    NotCompleted::DependencyUnresolved,
];
