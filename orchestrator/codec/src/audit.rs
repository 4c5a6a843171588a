//! The record of an execution, entry by entry, to the wire.

use crate::execution::{self, count};
use escapement_contract::{AuditEntry, AuditKind};
use escapement_model::StepId;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;

/// One entry.
pub fn entry(entry: &AuditEntry) -> v1::AuditEntry {
    v1::AuditEntry {
        sequence: i64::try_from(entry.sequence).unwrap_or(i64::MAX),
        at: entry.at_unix_ms,
        event: Some(event(&entry.kind)),
        hash: entry.hash.to_vec(),
    }
}

fn event(kind: &AuditKind) -> Event {
    match kind {
        AuditKind::Accepted {
            deadline_ms,
            provenance_digest,
        } => Event::Accepted(v1::ExecutionAccepted {
            deadline_ms: *deadline_ms,
            provenance_digest: provenance_digest.map_or_else(Vec::new, |digest| digest.to_vec()),
        }),
        AuditKind::Started { started_at } => Event::Started(v1::ExecutionStarted {
            started_at: *started_at,
        }),
        AuditKind::StepWaiting { .. }
        | AuditKind::AttemptAssigned { .. }
        | AuditKind::AttemptStarted { .. }
        | AuditKind::AttemptReturned { .. }
        | AuditKind::AttemptFailed { .. }
        | AuditKind::RetryScheduled { .. } => attempt_event(kind),
        AuditKind::StepCompleted {
            step_id,
            attempts,
            warnings,
        } => Event::StepCompleted(v1::StepCompleted {
            step_id: text(step_id),
            attempts: count(*attempts),
            warnings: warnings.iter().map(execution::error).collect(),
        }),
        AuditKind::StepNotCompleted {
            step_id,
            attempts,
            reason,
            error,
        } => Event::StepNotCompleted(v1::StepNotCompleted {
            step_id: text(step_id),
            attempts: count(*attempts),
            reason: reason.as_str().to_owned(),
            error: Some(execution::error(error)),
        }),
        AuditKind::MandatoryAction {
            rule_set,
            number,
            action,
        } => Event::MandatoryAction(v1::MandatoryAction {
            rule_set: rule_set.as_str().to_owned(),
            number: count(*number),
            action: action.as_str().to_owned(),
        }),
        AuditKind::StepsIncomplete { step_ids } => Event::StepsIncomplete(v1::StepsIncomplete {
            step_ids: step_ids.iter().map(text).collect(),
        }),
        AuditKind::Settled { status } => Event::Settled(v1::ExecutionSettled {
            status: execution::status(*status) as i32,
        }),
    }
}

fn attempt_event(kind: &AuditKind) -> Event {
    match kind {
        AuditKind::StepWaiting { step_id, attempt } => Event::StepWaiting(v1::StepWaiting {
            step_id: text(step_id),
            attempt: count(*attempt),
        }),
        AuditKind::AttemptAssigned {
            step_id,
            attempt,
            worker,
        } => Event::AttemptAssigned(v1::AttemptAssigned {
            step_id: text(step_id),
            attempt: count(*attempt),
            worker_id: worker.as_ref().to_owned(),
        }),
        AuditKind::AttemptStarted { step_id, attempt } => Event::AttemptStarted(v1::AttemptStarted {
            step_id: text(step_id),
            attempt: count(*attempt),
        }),
        AuditKind::AttemptReturned {
            step_id,
            attempt,
            evidence,
        } => Event::AttemptReturned(v1::AttemptReturned {
            step_id: text(step_id),
            attempt: count(*attempt),
            evidence: evidence.as_str().to_owned(),
        }),
        AuditKind::AttemptFailed {
            step_id,
            attempt,
            error,
        } => Event::AttemptFailed(v1::AttemptFailed {
            step_id: text(step_id),
            attempt: count(*attempt),
            error: Some(execution::error(error)),
        }),
        AuditKind::RetryScheduled {
            step_id,
            next_attempt,
            delay_ms,
        } => Event::RetryScheduled(v1::RetryScheduled {
            step_id: text(step_id),
            next_attempt: count(*next_attempt),
            delay_ms: i64::try_from(*delay_ms).unwrap_or(i64::MAX),
        }),
        AuditKind::Accepted { .. }
        | AuditKind::Started { .. }
        | AuditKind::StepCompleted { .. }
        | AuditKind::StepNotCompleted { .. }
        | AuditKind::MandatoryAction { .. }
        | AuditKind::StepsIncomplete { .. }
        | AuditKind::Settled { .. } => unreachable!("the caller passes kinds of attempts only"),
    }
}

fn text(step_id: &StepId) -> String {
    step_id.to_string()
}
