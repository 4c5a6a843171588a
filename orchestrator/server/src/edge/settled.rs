//! The records of settled executions, a piece at a time, for whoever lists or watches them.
//! Keeps no record: those who want the same one at the same time share one reading of it.

use super::Edge;
use super::answers::AnswerRoom;
use super::lookup::damaged;
use crate::readers::Reading;
use crate::records::{self, Unreadable};
use crate::status::{Kind, Rejection};
use bytes::Bytes;
use escapement_engine::{Piece, Refusal};
use escapement_model::ExecutionId;
use escapement_wire::v1;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OnceCell;

/// The records that are being read. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettledRecords(Arc<Mutex<HashMap<ExecutionId, Weak<Shared>>>>);

/// One reading of a record, for all who want it meanwhile.
type Shared = OnceCell<SettledRecord>;

/// The whole record of a settled execution, as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct SettledRecord {
    execution_id: ExecutionId,
    audit: Bytes,
    result: Bytes,
    /// For as long as it is there. `None` for open calls, which have few readers.
    _room: Option<AnswerRoom>,
}

/// A piece of such a record.
#[derive(Debug, Default)]
pub(crate) struct SettledPiece {
    /// In order, without gaps.
    pub(crate) entries: Vec<v1::AuditEntry>,
    /// True where the last of them, if any, is not the last of the record.
    pub(crate) has_more: bool,
    /// Entries of the whole record.
    pub(crate) n_entries: u64,
}

impl Edge {
    /// The record of an execution that the engine does not hold any more.
    pub(crate) async fn with_settled_record<T>(
        &self,
        execution_id: ExecutionId,
        reading: Reading,
        look: impl FnOnce(&SettledRecord) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let joined = self.settled.join(execution_id);
        let record = joined
            .shared
            .get_or_try_init(|| self.read_settled(execution_id, reading))
            .await?;
        look(record)
    }

    async fn read_settled(
        &self,
        execution_id: ExecutionId,
        reading: Reading,
    ) -> Result<SettledRecord, Rejection> {
        let answers = self.answers.clone();
        let read = self.readers.read(reading, move |reader| {
            let Some(stored) = reader.execution(execution_id)? else {
                return Ok(None);
            };
            let audit = reader.audit(execution_id)?;
            let bytes = [&stored.result, &audit].map(|record| record.as_ref().map_or(0, Bytes::len));
            let room = match reading {
                Reading::Open => Ok(None),
                Reading::Answer | Reading::List => answers.take(Kind::Reads, bytes.iter().sum()).map(Some),
            };
            Ok(Some(room.map(|room| (stored.result, audit, room))))
        });
        let Some(found) = read.await? else {
            return Err(self.absent(execution_id, reading).await?);
        };
        let (result, audit, room) = found?;
        // Accepted, not settled and not with the engine: its write is in doubt, and only asking again tells.
        let result = result.ok_or(Rejection::Refused(Refusal::StoreFailed))?;
        let Some(audit) = audit else {
            // It was there a moment ago, settled: it has been removed since, or its record is damaged.
            self.stored(execution_id, reading).await?;
            return Err(Rejection::RecordDamaged);
        };
        Ok(SettledRecord {
            execution_id,
            audit,
            result,
            _room: room,
        })
    }
}

impl SettledRecords {
    fn join(&self, execution_id: ExecutionId) -> Joined<'_> {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = under_way.entry(execution_id).or_default();
        let shared = slot.upgrade().unwrap_or_else(|| {
            let fresh = Arc::default();
            *slot = Arc::downgrade(&fresh);
            fresh
        });
        Joined {
            records: self,
            execution_id,
            shared,
        }
    }
}

/// Part in the reading of a record. The last one to leave forgets it, however it leaves.
struct Joined<'a> {
    records: &'a SettledRecords,
    execution_id: ExecutionId,
    shared: Arc<Shared>,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        // Nobody joins or leaves meanwhile: both need the lock.
        let mut under_way = self.records.0.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&self.shared) == 1 {
            under_way.remove(&self.execution_id);
        }
    }
}

impl SettledRecord {
    /// The entries from a sequence number on, as many as there are and fit. One fits, however large.
    pub(crate) fn piece(&self, from_sequence: u64, piece: Piece) -> Result<SettledPiece, Rejection> {
        self.cut(from_sequence, piece)
            .map_err(|error| damaged(self.execution_id, &Unreadable::Wire(error)))
    }

    /// Bytes of how it ended.
    pub(crate) fn result_bytes(&self) -> usize {
        self.result.len()
    }

    /// How it ended.
    pub(crate) fn result(&self) -> Result<v1::PlanResult, Rejection> {
        records::decode_result(&self.result).map_err(|unreadable| damaged(self.execution_id, &unreadable))
    }

    /// Decodes the wanted entries and no others.
    fn cut(&self, from_sequence: u64, piece: Piece) -> Result<SettledPiece, prost::DecodeError> {
        let mut rest = self.audit.as_ref();
        let mut cut = SettledPiece::default();
        let mut bytes = 0;
        while !rest.is_empty() {
            let (tag, wire_type) = decode_key(&mut rest)?;
            if (tag, wire_type) != (ENTRIES_TAG, WireType::LengthDelimited) {
                skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
                continue;
            }
            let length = usize::try_from(decode_varint(&mut rest)?).unwrap_or(usize::MAX);
            // What is cut off does not decode.
            let (entry, behind) = rest.split_at(length.min(rest.len()));
            rest = behind;
            cut.n_entries += 1;
            if cut.n_entries < from_sequence || cut.has_more {
                continue;
            }
            bytes += entry.len();
            let fits = cut.entries.len() < piece.entries_max && bytes <= piece.bytes_max;
            if fits || cut.entries.is_empty() {
                cut.entries.push(v1::AuditEntry::decode(entry)?);
            } else {
                cut.has_more = true;
            }
        }
        Ok(cut)
    }
}

/// `entries` of the message that is stored.
const ENTRIES_TAG: u32 = 1;

#[cfg(test)]
mod tests;
