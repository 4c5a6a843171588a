//! The bytes of the records that the store keeps: Protocol Buffers, so that old records stay readable.
//! Decides nothing and stores nothing.

pub mod audit_trail;
pub mod input_log;
pub(crate) mod parts;
pub mod seal;
mod unreadable;

pub use self::unreadable::Unreadable;

use self::seal::Seal;
use crate::audit;
use crate::certificate;
use crate::execution;
use crate::provenance::Provenance;
use crate::request;
use bytes::Bytes;
use escapement_contract::{AuditEntry, PlanResult, Request, Settlement, validate_request};
use escapement_model::ExecutionId;
use escapement_wire::v1;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

/// What was accepted: the request, with the id under which it was accepted, and the certificate of its plan.
pub fn encode_accepted(request: &Request, execution_id: ExecutionId) -> Bytes {
    //
    let appended = v1::StoredAcceptance {
        plan: None,
        certificate: Some(certificate::to_store(request.certificate())),
        ..v1::StoredAcceptance::default()
    };
    let provenance = request.provenance();
    let request = request::request_to_wire(request, execution_id);
    let n_bytes = request.encoded_len() + appended.encoded_len() + provenance.len();
    let mut record = Vec::with_capacity(n_bytes);
    // Encoded messages in a row are one that has the fields of all.
    request.encode_raw(&mut record);
    appended.encode_raw(&mut record);
    record.extend_from_slice(provenance);
    Bytes::from(record)
}

/// Reads what was accepted.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode or the request is not valid any more.
pub fn decode_accepted(record: &Bytes) -> Result<Request, Unreadable> {
    let provenance = accepted_provenance(record)?.encode();
    let wire = accepted_request(record)?;
    // The server's own limit does not bind here: it may have been lowered since the request was accepted.
    let concurrency_max = i32::MAX.unsigned_abs();
    let request = validate_request(request::request_draft(wire), concurrency_max)
        .map_err(|violations| Unreadable::Invalid(violations.to_string()))?;
    Ok(request.with_provenance(provenance))
}

/// Where a request came from that was accepted.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode, or its namespace is none.
pub fn accepted_provenance(record: &Bytes) -> Result<Provenance, Unreadable> {
    let stored = v1::StoredAcceptance::decode(record.clone()).map_err(Unreadable::Wire)?;
    Provenance::of_stored(stored)
        .ok_or_else(|| Unreadable::Meaningless("its namespace has a name that none has".to_owned()))
}

/// Reads what was accepted, without checking it.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode.
pub fn accepted_request(record: &Bytes) -> Result<v1::SubmitPlanRequest, Unreadable> {
    let mut wire = v1::SubmitPlanRequest::decode(record.clone()).map_err(Unreadable::Wire)?;
    // Earlier records spell defaults out, and may for that be larger than the plan that was accepted.
    if let Some(plan) = &mut wire.plan {
        request::leave_out_defaults(plan);
    }
    Ok(wire)
}

/// Returns the certificate with which a request was accepted; `None` if an earlier version accepted it.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode.
pub fn accepted_certificate(record: &Bytes) -> Result<Option<v1::PlanCertificate>, Unreadable> {
    let wire = v1::StoredAcceptance::decode(record.clone()).map_err(Unreadable::Wire)?;
    let (Some(plan), Some(stored)) = (wire.plan, wire.certificate) else {
        return Ok(None);
    };
    let certificate = certificate::from_store(&plan, &stored);
    let certificate =
        certificate.ok_or_else(|| Unreadable::Invalid("its certificate is not of its plan".to_owned()));
    certificate.map(Some)
}

/// Returns the number of steps that the plan has that was accepted.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode.
pub fn accepted_steps(record: &Bytes) -> Result<i32, Unreadable> {
    let wire = v1::SubmitPlanRequest::decode(record.clone()).map_err(Unreadable::Wire)?;
    let n_steps = wire.plan.map_or(0, |plan| plan.steps.len());
    Ok(i32::try_from(n_steps).unwrap_or(i32::MAX))
}

/// How an execution ended.
pub fn encode_result(result: &PlanResult) -> Bytes {
    Bytes::from(execution::result(result).encode_to_vec())
}

/// Reads how an execution ended.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode.
pub fn decode_result(record: &Bytes) -> Result<v1::PlanResult, Unreadable> {
    v1::PlanResult::decode(record.clone()).map_err(Unreadable::Wire)
}

/// What lists show of how an execution ended.
pub fn encode_outline(result: &PlanResult) -> Bytes {
    let error = result.error.as_ref();
    let outline = v1::StoredOutline {
        error_code: error.map(|error| error.code.clone()),
        duration_ms: result.duration_ms,
        steps_executed: execution::count(result.steps_executed),
        steps_total: execution::count(result.steps_total),
        //
        interrupted: error.is_some_and(|error| error.is_interruption()),
    };
    Bytes::from(outline.encode_to_vec())
}

/// Reads what lists show; `None` if the bytes do not decode, which asking for the execution itself tells.
pub fn decode_outline(outline: &Bytes) -> Option<v1::StoredOutline> {
    v1::StoredOutline::decode(outline.clone()).ok()
}

/// What happened, in order. The record is the message that lists entries, without a next page.
pub fn encode_audit(entries: &[AuditEntry]) -> Bytes {
    let entries = entries.iter().map(audit::entry).collect();
    Bytes::from(
        v1::ListAuditEntriesResponse {
            entries,
            next_sequence: 0,
        }
        .encode_to_vec(),
    )
}

/// How an execution ended, and what happened with everything that led there and the seal over both.
///
/// The second is an encoded `StoredAudit`: the message that lists entries, with more behind it.
pub fn encode_settlement(settlement: &Settlement) -> (Bytes, Bytes) {
    let result = encode_result(&settlement.result);
    let inputs = input_log::encode(settlement);
    let head = settlement
        .audit
        .last()
        .expect("the record of what ended has its end")
        .hash;
    let seal = Seal::over(&head, &result, &inputs).encode();
    let mut audit = Vec::from(encode_audit(&settlement.audit));
    encode_part(INPUTS_TAG, &inputs, &mut audit);
    encode_part(SEAL_TAG, &seal, &mut audit);
    (result, Bytes::from(audit))
}

fn encode_part(tag: u32, part: &[u8], into: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, into);
    encode_varint(part.len() as u64, into);
    into.extend_from_slice(part);
}

/// Reads what happened.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode.
pub fn decode_audit(record: &Bytes) -> Result<Vec<v1::AuditEntry>, Unreadable> {
    let list = v1::ListAuditEntriesResponse::decode(record.clone()).map_err(Unreadable::Wire)?;
    Ok(list.entries)
}

/// `inputs` of `StoredAudit`.
pub(crate) const INPUTS_TAG: u32 = 100;
/// `seal` of `StoredAudit`.
pub(crate) const SEAL_TAG: u32 = 101;
