//! The whole record of one settled execution: request, entries, inputs, result and seal, each as the bytes that are stored.
//! Knows no store and no call; decides nothing about an execution.
//!
//! `proto/RECORD.md` is the description for other implementations.

pub mod check;
pub mod file;
mod verdict;

use crate::stored::{self, INPUTS_TAG, SEAL_TAG, Unreadable};
use bytes::{Buf, Bytes};
use escapement_contract::Request;
use escapement_model::ExecutionId;
use escapement_wire::counted::{Counted, LIST_ENTRIES_MAX, has_more_entries};
use escapement_wire::v1;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The parts. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Names the execution.
    pub execution_id: ExecutionId,
    /// What the request was accepted with.
    pub request_digest: [u8; 32],
    /// An encoded `SubmitPlanRequest`.
    pub accepted: Bytes,
    /// Encoded `AuditEntry`s, in order.
    pub entries: Vec<Bytes>,
    /// An encoded `ExecutionInputs`; `None` for what an earlier version recorded.
    pub inputs: Option<Bytes>,
    /// An encoded `PlanResult`.
    pub result: Bytes,
    /// An encoded `RecordSeal`; `None` for what an earlier version recorded.
    pub seal: Option<Bytes>,
}

/// What a stored audit record consists of: an encoded `StoredAudit`, taken apart without a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditParts {
    /// Encoded `AuditEntry`s, in order.
    pub entries: Vec<Bytes>,
    /// An encoded `ExecutionInputs`.
    pub inputs: Option<Bytes>,
    /// An encoded `RecordSeal`.
    pub seal: Option<Bytes>,
}

impl AuditParts {
    /// Takes a stored audit record apart. What it does not know it skips.
    ///
    /// # Errors
    /// [`Unreadable`] if the bytes do not decode, or a part that there is once comes twice.
    pub fn read(audit: &Bytes) -> Result<Self, Unreadable> {
        let mut rest = audit.clone();
        let mut parts = Self::default();
        while rest.has_remaining() {
            let (tag, wire_type) = decode_key(&mut rest).map_err(Unreadable::Wire)?;
            if wire_type != WireType::LengthDelimited {
                skip_field(wire_type, tag, &mut rest, DecodeContext::default()).map_err(Unreadable::Wire)?;
                continue;
            }
            let part = delimited(&mut rest)?;
            match tag {
                ENTRIES_TAG => parts.entries.push(part),
                INPUTS_TAG => once(&mut parts.inputs, part)?,
                SEAL_TAG => once(&mut parts.seal, part)?,
                _ => {}
            }
        }
        Ok(parts)
    }
}

impl Archive {
    /// The record of what a store holds.
    ///
    /// # Errors
    /// [`Unreadable`] if the audit record does not decode.
    pub fn of_store(
        execution_id: ExecutionId,
        request_digest: [u8; 32],
        accepted: Bytes,
        result: Bytes,
        audit: &Bytes,
    ) -> Result<Self, Unreadable> {
        let AuditParts {
            entries,
            inputs,
            seal,
        } = AuditParts::read(audit)?;
        Ok(Self {
            execution_id,
            request_digest,
            accepted,
            entries,
            inputs,
            result,
            seal,
        })
    }

    /// The certificate that stands behind the accepted request, if there is one.
    ///
    /// # Errors
    /// [`Unreadable`] if the bytes do not decode.
    pub(crate) fn certificate(&self) -> Result<Option<v1::StoredCertificate>, Unreadable> {
        let accepted = v1::StoredAcceptance::decode(self.accepted.clone()).map_err(Unreadable::Wire)?;
        Ok(accepted.certificate)
    }

    /// The request that was accepted.
    ///
    /// # Errors
    /// [`Unreadable`] if it does not decode or is not valid any more.
    pub fn decode_request(&self) -> Result<Request, Unreadable> {
        if has_more_entries(&self.accepted, v1::SubmitPlanRequest::LISTS, LIST_ENTRIES_MAX) {
            return Err(Unreadable::Meaningless(
                "it has more entries than any request".to_owned(),
            ));
        }
        stored::decode_accepted(&self.accepted)
    }

    /// The entries, in order.
    ///
    /// # Errors
    /// [`Unreadable`] if one does not decode.
    pub fn decode_entries(&self) -> Result<Vec<v1::AuditEntry>, Unreadable> {
        let entries = self.entries.iter().cloned().map(v1::AuditEntry::decode);
        entries.collect::<Result<_, _>>().map_err(Unreadable::Wire)
    }

    /// How it ended.
    ///
    /// # Errors
    /// [`Unreadable`] if it does not decode.
    pub fn decode_result(&self) -> Result<v1::PlanResult, Unreadable> {
        stored::decode_result(&self.result)
    }
}

/// The bytes behind a length; cut off if there are fewer.
fn delimited(rest: &mut Bytes) -> Result<Bytes, Unreadable> {
    let length = decode_varint(rest).map_err(Unreadable::Wire)?;
    match usize::try_from(length) {
        Ok(length) if length <= rest.len() => Ok(rest.split_to(length)),
        Ok(_) | Err(_) => Err(Unreadable::Meaningless("a part is cut off".to_owned())),
    }
}

fn once(slot: &mut Option<Bytes>, part: Bytes) -> Result<(), Unreadable> {
    match slot.replace(part) {
        None => Ok(()),
        Some(_) => Err(Unreadable::Meaningless("a part is there twice".to_owned())),
    }
}

/// `entries` of `StoredAudit`.
const ENTRIES_TAG: u32 = 1;
