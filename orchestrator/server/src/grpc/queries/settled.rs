//! The records of settled executions, a piece at a time, for those who list or watch them.
//! Keeps no record but for those who read it or come back for more, and then for a bounded time; all who want the same one
//! share it.

use super::lookup::{IN_DOUBT, damaged};
use crate::grpc::Edge;
use crate::limits::WATCHED_RECORD_TIMEOUT;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use bytes::Bytes;
use escapement_codec::stored::audit_trail::{AuditTrail, Place, Placed, TrailPiece};
use escapement_codec::stored::{self, Unreadable};
use escapement_contract::Persisted;
use escapement_engine::Piece;
use escapement_model::ExecutionId;
use escapement_store::StoredExecution;
use escapement_transport::CallClass;
use escapement_transport::response_budget::ResponsePermit;
use escapement_transport::share::Tenant;
use escapement_wire::v1;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OnceCell;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

/// The records that are being read. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettledRecords(Arc<Mutex<HashMap<ExecutionId, Weak<Shared>>>>);

/// A reading of a record, for all who want it meanwhile.
type Shared = OnceCell<SettledRecord>;

/// The whole record of a settled execution, as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct SettledRecord {
    execution_id: ExecutionId,
    trail: AuditTrail,
    result: Bytes,
    /// For as long as it is there.
    room: ResponsePermit,
}

/// A record that a watcher reads, and that it has lost once it took too long.
#[derive(Debug)]
pub(crate) struct KeptRecord {
    record: Arc<Mutex<Option<Joined>>>,
    limit: JoinSet<()>,
}

/// Why there is no record for a watcher.
#[derive(Debug)]
enum NotKept {
    /// There is no room for so many bytes now.
    NoRoom(usize),
    Rejected(Rejection),
}

impl From<Rejection> for NotKept {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl Edge {
    /// A piece of the record of an execution that the engine does not hold any more, for one answer.
    ///
    /// If more follows and the record is large, it is kept for a while if there is room, so that the next piece needs no reading.
    pub(crate) async fn settled_piece(
        &self,
        tenant: &Tenant,
        execution_id: ExecutionId,
        from_sequence: u64,
        piece: Piece,
    ) -> Result<TrailPiece, Rejection> {
        let joined = self.settled.join(execution_id);
        let (answers, tenant) = (self.answers.clone(), tenant.clone());
        let take = move |bytes| {
            let room = answers.take_for_record(&tenant, bytes);
            let for_one = || answers.take(CallClass::Reads, bytes).map_err(Rejection::Call);
            room.map_or_else(for_one, Ok)
        };
        let read = || self.read_settled(execution_id, ReadClass::Answer, take);
        let record = joined.shared.get_or_try_init(read).await?;
        let piece = record.trail.piece(from_sequence, piece);
        let piece = piece.map_err(|unreadable| record.damaged(&unreadable))?;
        if piece.has_more && self.answers.is_for_record(&record.room) {
            KeptRecord::new(joined).keep_on();
        }
        Ok(piece)
    }

    /// Returns the record of a settled execution, for a watcher. Waits until there is room for it.
    ///
    /// `settlement`: how it ended, if the watcher was there. Then nothing is read, and removal comes too late for it.
    pub(crate) async fn keep_record(
        &self,
        tenant: &Tenant,
        execution_id: ExecutionId,
        mut settlement: Option<Persisted>,
    ) -> Result<KeptRecord, Rejection> {
        let mut room = None;
        loop {
            let joined = self.settled.join(execution_id);
            let (answers, whose, room_had) = (self.answers.clone(), tenant.clone(), room.take());
            let take = move |bytes| {
                let room = room_had.or_else(|| answers.take_for_record(&whose, bytes));
                room.ok_or(NotKept::NoRoom(bytes))
            };
            // Held for one try only: while this waits for room it holds nothing of the record.
            let read = match settlement.take() {
                Some(settlement) => {
                    let encode = || encode_settled(execution_id, settlement, take);
                    joined.shared.get_or_try_init(encode).await.map(|_| ())
                }
                None => {
                    let read = || self.read_settled(execution_id, ReadClass::Watch, take);
                    joined.shared.get_or_try_init(read).await.map(|_| ())
                }
            };
            match read {
                Ok(()) => return Ok(KeptRecord::new(joined)),
                Err(NotKept::Rejected(rejection)) => return Err(rejection),
                Err(NotKept::NoRoom(bytes)) => {
                    drop(joined);
                    let wait = self.answers.wait_for_record(tenant, bytes);
                    room = Some(wait.await.map_err(Rejection::Call)?);
                }
            }
        }
    }

    async fn read_settled<E: From<Rejection> + Send + 'static>(
        &self,
        execution_id: ExecutionId,
        reading: ReadClass,
        take: impl FnOnce(usize) -> Result<ResponsePermit, E> + Send + 'static,
    ) -> Result<SettledRecord, E> {
        let unsettled = |_| IN_DOUBT;
        let take = move |stored: &StoredExecution, audit_bytes| {
            take(stored.result.as_ref().map_or(0, Bytes::len) + audit_bytes)
        };
        let settled = self
            .stored_settled(execution_id, reading, unsettled, take)
            .await?;
        Ok(SettledRecord {
            execution_id,
            trail: AuditTrail::new(settled.audit),
            result: settled.result,
            room: settled.permit,
        })
    }
}

/// Returns the record that the store has of an execution that has just settled. On a thread of its own: it may be large.
async fn encode_settled(
    execution_id: ExecutionId,
    settlement: Persisted,
    take: impl FnOnce(usize) -> Result<ResponsePermit, NotKept>,
) -> Result<SettledRecord, NotKept> {
    let encoding = spawn_blocking(move || {
        let trail = AuditTrail::new(stored::encode_audit(&settlement.audit));
        (trail, stored::encode_result(&settlement.result))
    });
    let encoded = encoding.await;
    let (trail, result) = encoded.map_err(|_panicked_or_stopping| Rejection::StoreUnreadable)?;
    Ok(SettledRecord {
        execution_id,
        room: take(trail.n_bytes() + result.len())?,
        trail,
        result,
    })
}

impl SettledRecords {
    fn join(&self, execution_id: ExecutionId) -> Joined {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = under_way.entry(execution_id).or_default();
        let shared = slot.upgrade().unwrap_or_else(|| {
            let fresh = Arc::default();
            *slot = Arc::downgrade(&fresh);
            fresh
        });
        Joined {
            records: self.clone(),
            execution_id,
            shared,
        }
    }
}

/// Part in the reading of a record. The last one to leave forgets it, however it leaves.
#[derive(Debug)]
struct Joined {
    records: SettledRecords,
    execution_id: ExecutionId,
    shared: Arc<Shared>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Nobody joins or leaves meanwhile: both need the lock.
        let mut under_way = self.records.0.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&self.shared) == 1 {
            under_way.remove(&self.execution_id);
        }
    }
}

impl KeptRecord {
    fn new(joined: Joined) -> Self {
        let record = Arc::new(Mutex::new(Some(joined)));
        let lost = Arc::clone(&record);
        let mut limit = JoinSet::new();
        limit.spawn(async move {
            sleep(WATCHED_RECORD_TIMEOUT).await;
            let lost = lost.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(lost);
        });
        Self { record, limit }
    }

    /// Keeps it to the end of its time, however often it is asked for meanwhile.
    fn keep_on(mut self) {
        self.limit.detach_all();
    }

    /// Looks at the record; `None` once it is lost.
    pub(crate) fn look<T>(
        &self,
        look: impl FnOnce(&SettledRecord) -> Result<T, Rejection>,
    ) -> Option<Result<T, Rejection>> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let record = record.as_ref()?.shared.get();
        Some(look(record.expect("it is kept once it is read")))
    }
}

impl SettledRecord {
    /// Returns the place of an entry, or of the last one if there are fewer.
    ///
    /// # Errors
    /// [`Rejection::RecordRewritten`] if the entry before it does not have the hash `after`.
    pub(crate) fn find(&self, from_sequence: u64, after: Option<&[u8]>) -> Result<Place, Rejection> {
        let place = self.trail.find(from_sequence, after);
        place
            .map_err(|unreadable| self.damaged(&unreadable))?
            .ok_or(Rejection::RecordRewritten)
    }

    /// Returns the entry at a place.
    pub(crate) fn at(&self, place: Place) -> Result<Placed, Rejection> {
        self.trail
            .at(place)
            .map_err(|unreadable| self.damaged(&unreadable))
    }

    /// Returns the bytes of how it ended.
    pub(crate) fn result_bytes(&self) -> usize {
        self.result.len()
    }

    /// How it ended.
    pub(crate) fn result(&self) -> Result<v1::PlanResult, Rejection> {
        stored::decode_result(&self.result).map_err(|unreadable| self.damaged(&unreadable))
    }

    fn damaged(&self, unreadable: &Unreadable) -> Rejection {
        damaged(self.execution_id, unreadable)
    }
}

#[cfg(test)]
impl SettledRecords {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests;
