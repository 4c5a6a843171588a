//! The chain that ties the entries of a record together: each has a hash over the one before and itself.
//! Keeps nothing; a changed, missing or added entry shows because every hash behind it differs. Whether the last one is
//! missing the chain alone does not show: a record ends with `settled`, and the seal of a file is over the last hash.
//!
//! The first hash follows from the execution id and the request's digest: the text `escapement record 1`, the id, the digest.
//! Each further one: the hash before, the sequence number, the time, the name of what
//! happened as `escapement.v1.AuditEntry.event` spells it, and its fields in the order of their numbers there.
//! Numbers, texts, ids and objects are spelt as `encoder` says; a status and a severity are texts; an error is its code,
//! message, step id, severity, cause (step id and cause may be absent) and its context, a cause is the same without its context.

use crate::audit::{AuditEntry, AuditKind};
use crate::error::ExecutionError;
use escapement_model::encoder::Encoder;
use escapement_model::{ExecutionId, StepId};

/// A hash of the chain.
pub type ChainHash = [u8; 32];

/// Where the chain of an execution begins.
pub fn chain_seed(execution_id: ExecutionId, request_digest: &[u8; 32]) -> ChainHash {
    //
    Encoder::named("escapement record 1", |encoder| {
        encoder.bytes(execution_id.as_bytes());
        encoder.bytes(request_digest);
    })
}

/// Returns the digest of where a request came from; `None` if nothing is said of that.
pub(crate) fn provenance_digest(provenance: &[u8]) -> Option<ChainHash> {
    //
    let digest = || Encoder::named("escapement provenance 1", |encoder| encoder.bytes(provenance));
    (!provenance.is_empty()).then(digest)
}

impl AuditEntry {
    /// The hash that this entry must have behind the hash `before`; whatever it has is not looked at.
    ///
    /// # Panics
    /// If the context of an error is not a well-formed object.
    pub fn link(&self, before: &ChainHash) -> ChainHash {
        //
        let AuditEntry {
            sequence,
            at_unix_ms,
            kind,
            hash: _,
        } = self;
        Encoder::chained(before, |encoder| {
            encoder.number(*sequence);
            encoder.number(at_unix_ms.cast_unsigned());
            encoder.text(kind.name());
            encode_kind(encoder, kind);
        })
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn encode_kind<'a>(encoder: &mut Encoder<'a>, kind: &'a AuditKind) {
    match kind {
        AuditKind::Accepted {
            deadline_ms,
            provenance_digest,
        } => {
            encoder.number(deadline_ms.cast_unsigned());
            // Behind the deadline nothing else stands, so leaving it out is not ambiguous.
            if let Some(digest) = provenance_digest {
                encoder.bytes(digest);
            }
        }
        AuditKind::Started { started_at } => encoder.number(started_at.cast_unsigned()),
        AuditKind::StepWaiting { step_id, attempt } | AuditKind::AttemptStarted { step_id, attempt } => {
            encode_attempt(encoder, step_id, *attempt);
        }
        AuditKind::AttemptAssigned {
            step_id,
            attempt,
            worker,
        } => {
            encode_attempt(encoder, step_id, *attempt);
            encoder.text(worker);
        }
        AuditKind::AttemptReturned {
            step_id,
            attempt,
            evidence,
        } => {
            encode_attempt(encoder, step_id, *attempt);
            encoder.text(evidence.as_str());
        }
        AuditKind::AttemptFailed {
            step_id,
            attempt,
            error,
        } => {
            encode_attempt(encoder, step_id, *attempt);
            encode_error(encoder, error);
        }
        AuditKind::RetryScheduled {
            step_id,
            next_attempt,
            delay_ms,
        } => {
            encode_attempt(encoder, step_id, *next_attempt);
            encoder.number(*delay_ms);
        }
        AuditKind::StepCompleted {
            step_id,
            attempts,
            warnings,
        } => {
            encode_attempt(encoder, step_id, *attempts);
            encoder.number(warnings.len() as u64);
            warnings.iter().for_each(|warning| encode_error(encoder, warning));
        }
        AuditKind::StepNotCompleted {
            step_id,
            attempts,
            reason,
            error,
        } => {
            encode_attempt(encoder, step_id, *attempts);
            encoder.text(reason.as_str());
            encode_error(encoder, error);
        }
        AuditKind::MandatoryAction {
            rule_set,
            number,
            action,
        } => {
            encoder.text(rule_set.as_str());
            encoder.number(u64::from(*number));
            encoder.text(action.as_str());
        }
        AuditKind::StepsIncomplete { step_ids } => {
            encoder.number(step_ids.len() as u64);
            step_ids
                .iter()
                .for_each(|step_id| encoder.bytes(step_id.as_bytes()));
        }
        AuditKind::Settled { status } => encoder.text(status.as_str()),
    }
}

fn encode_attempt<'a>(encoder: &mut Encoder<'a>, step_id: &StepId, attempt: u32) {
    encoder.bytes(step_id.as_bytes());
    encoder.number(u64::from(attempt));
}

fn encode_error<'a>(encoder: &mut Encoder<'a>, error: &'a ExecutionError) {
    encode_error_without_context(encoder, error);
    encoder.object(&error.context);
}

/// Recursive; the depth of a chain of causes is bounded.
///
/// The context of a cause stands in the entry that is about it; a thousand steps may have one cause.
fn encode_error_without_context<'a>(encoder: &mut Encoder<'a>, error: &'a ExecutionError) {
    let ExecutionError {
        code,
        message,
        step_id,
        severity,
        cause,
        context: _,
    } = error;
    encoder.text(code);
    encoder.text(message);
    encoder.optional(*step_id, |encoder, step_id| encoder.bytes(step_id.as_bytes()));
    encoder.text(severity.as_str());
    encoder.optional(cause.as_deref(), encode_error_without_context);
}
