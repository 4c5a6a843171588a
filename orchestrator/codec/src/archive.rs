//! The whole record of one settled execution: request, entries, inputs, result and seal, each as the bytes that are stored.
//! Knows no store and no call; decides nothing about an execution.
//!
//! `proto/RECORD.md` is the description for other implementations.

pub mod check;
pub mod file;
mod verdict;

use crate::stored::audit_trail::ENTRIES_TAG;
use crate::stored::parts::Parts;
use crate::stored::{self, INPUTS_TAG, SEAL_TAG, Unreadable};
use bytes::Bytes;
use escapement_contract::Request;
use escapement_model::ExecutionId;
use escapement_wire::counted::{Counted, LIST_ENTRIES_MAX, has_more_entries};
use escapement_wire::v1;
use prost::Message;

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
        let mut parts = Self::default();
        for part in Parts::of(audit.clone()) {
            let (tag, part) = part?;
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

    /// Returns the certificate that stands behind the accepted request, if there is one.
    ///
    /// # Errors
    /// [`Unreadable`] if the bytes do not decode.
    pub(crate) fn certificate(&self) -> Result<Option<v1::StoredCertificate>, Unreadable> {
        let accepted = v1::StoredAcceptance::decode(self.accepted.clone()).map_err(Unreadable::Wire)?;
        Ok(accepted.certificate)
    }

    /// Returns the request that was accepted.
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

    /// Returns the entries, in order.
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

fn once(slot: &mut Option<Bytes>, part: Bytes) -> Result<(), Unreadable> {
    match slot.replace(part) {
        None => Ok(()),
        Some(_) => Err(Unreadable::Meaningless("a part is there twice".to_owned())),
    }
}
