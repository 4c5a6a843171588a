//! Byte budget and time limit of large answers in transit.

use crate::call_class::CallClass;
use crate::connection_abort::ConnectionAbort;
use crate::limits::{
    ANSWER_TAKE_TIMEOUT, ANSWERS_BYTES_MAX, CONTROL_ANSWERS_BYTES_MAX, SMALL_ANSWER_BYTES,
    STRANGER_ANSWER_TIMEOUT, WATCHED_RECORDS_BYTES_MAX,
};
use crate::refusal::Refusal;
use crate::share::{AnswerShare, NotFree, Share, SharePart, Tenant};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::{Response, Status};
use tracing::debug;

/// The budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ResponseBudget {
    callers: Arc<Semaphore>,
    control: Arc<Semaphore>,
    /// For records from which watchers, and those who list entries page by page, are answered.
    records: Arc<Semaphore>,
    /// Part of these for each tenant.
    record_parts: Share,
}

/// The part of the budget that one answer has; returned when the last clone is dropped.
/// The default is that of a small answer, which needs none.
/// Stored in the extensions of a response, so that it lasts as long as its body.
#[derive(Clone, Debug, Default)]
pub struct ResponsePermit(Option<Arc<Room>>);

/// Permit of one answer and all of its clones.
#[derive(Debug)]
struct Room {
    permit: OwnedSemaphorePermit,
    /// Part of its tenant; `None` if the connection counts that.
    _part: Option<SharePart>,
}

/// Something that goes into an answer, and its part of the budget.
#[derive(Debug)]
pub struct Budgeted<T> {
    /// Value of the part.
    pub value: T,
    /// Part.
    pub room: ResponsePermit,
}

/// The budget of one orchestrator, with nothing taken.
impl Default for ResponseBudget {
    fn default() -> Self {
        let units = |bytes| Arc::new(Semaphore::new(bytes / SMALL_ANSWER_BYTES));
        Self {
            callers: units(ANSWERS_BYTES_MAX),
            control: units(CONTROL_ANSWERS_BYTES_MAX),
            records: units(WATCHED_RECORDS_BYTES_MAX),
            record_parts: Share::new(WATCHED_RECORDS_BYTES_MAX),
        }
    }
}

impl ResponseBudget {
    /// Takes a permit for so many bytes of an answer whose tenant the connection counts. A small answer needs none.
    ///
    /// # Errors
    /// All bytes are taken.
    pub fn take(&self, class: CallClass, bytes: usize) -> Result<ResponsePermit, Refusal> {
        self.take_with(class, bytes, || Ok(None))
    }

    /// Takes a permit for so many bytes of a stream, which count for its tenant.
    ///
    /// # Errors
    /// All bytes are taken, or the share of the tenant is.
    pub fn take_of(
        &self,
        share: &AnswerShare,
        class: CallClass,
        bytes: usize,
    ) -> Result<ResponsePermit, Refusal> {
        let part = || share.share.take(&share.tenant, bytes).map(Some);
        self.take_with(class, bytes, part)
    }

    fn take_with(
        &self,
        class: CallClass,
        bytes: usize,
        part: impl FnOnce() -> Result<Option<SharePart>, NotFree>,
    ) -> Result<ResponsePermit, Refusal> {
        let Some(n_units) = units(bytes) else {
            return Ok(ResponsePermit(None));
        };
        let part = part().map_err(|why| Refusal::for_want(why, class))?;
        let permit = Arc::clone(self.of(class)).try_acquire_many_owned(n_units);
        let permit = permit.map_err(|_| Refusal::Overloaded(class))?;
        Ok(ResponsePermit::new(permit, part))
    }

    /// Takes a permit as [`ResponseBudget::take_of`] does, for a caller that can wait.
    ///
    /// # Errors
    /// The share of the tenant was taken for longer than an answer may be in transit.
    pub async fn wait(
        &self,
        share: &AnswerShare,
        class: CallClass,
        bytes: usize,
    ) -> Result<ResponsePermit, Refusal> {
        let Some(n_units) = units(bytes) else {
            return Ok(ResponsePermit(None));
        };
        let part = share.share.wait(&share.tenant, bytes, ANSWER_TAKE_TIMEOUT);
        let part = part.await.map_err(|why| Refusal::for_want(why, class))?;
        let permit = Arc::clone(self.of(class)).acquire_many_owned(n_units).await;
        let permit = permit.expect("the semaphore is never closed");
        Ok(ResponsePermit::new(permit, Some(part)))
    }

    /// Takes a permit for a record that serves more than one answer; `None` if the tenant can have none now.
    pub fn take_for_record(&self, tenant: &Tenant, bytes: usize) -> Option<ResponsePermit> {
        let bytes = bytes.min(RECORD_BYTES_MAX);
        let Some(n_units) = units(bytes) else {
            return Some(ResponsePermit(None));
        };
        let part = self.record_parts.take(tenant, bytes).ok()?;
        let permit = Arc::clone(&self.records).try_acquire_many_owned(n_units).ok()?;
        Some(ResponsePermit::new(permit, Some(part)))
    }

    /// Takes a permit as [`ResponseBudget::take_for_record`] does, for a caller that can wait.
    ///
    /// # Errors
    /// The share of the tenant was taken for longer than an answer may be in transit.
    pub async fn wait_for_record(&self, tenant: &Tenant, bytes: usize) -> Result<ResponsePermit, Refusal> {
        let bytes = bytes.min(RECORD_BYTES_MAX);
        let Some(n_units) = units(bytes) else {
            return Ok(ResponsePermit(None));
        };
        let part = self.record_parts.wait(tenant, bytes, ANSWER_TAKE_TIMEOUT);
        let part = part
            .await
            .map_err(|why| Refusal::for_want(why, CallClass::Watches))?;
        let permit = Arc::clone(&self.records).acquire_many_owned(n_units).await;
        let permit = permit.expect("the semaphore is never closed");
        Ok(ResponsePermit::new(permit, Some(part)))
    }

    /// Returns true for budget that was taken for a record. False for a small one, which needs none.
    pub fn is_for_record(&self, room: &ResponsePermit) -> bool {
        let room = room.0.as_ref();
        room.is_some_and(|room| Arc::ptr_eq(room.permit.semaphore(), &self.records))
    }

    /// Returns the answer to a call.
    ///
    /// # Errors
    /// If it is large and the budget is used up.
    pub fn answer<T: Message>(&self, class: CallClass, message: T) -> Result<Response<T>, Status> {
        let room = self.take(class, message.encoded_len())?;
        Ok(with_room(message, room))
    }

    fn of(&self, class: CallClass) -> &Arc<Semaphore> {
        if class.row().is_of_callers {
            &self.callers
        } else {
            &self.control
        }
    }
}

impl ResponsePermit {
    fn new(permit: OwnedSemaphorePermit, part: Option<SharePart>) -> Self {
        Self(Some(Arc::new(Room { permit, _part: part })))
    }

    /// Returns the bytes that it stands for.
    pub(crate) fn n_bytes(&self) -> usize {
        let n_units = self.0.as_ref().map_or(0, |room| room.permit.num_permits());
        n_units * SMALL_ANSWER_BYTES
    }

    /// Cuts the connection if the answer is large and is not taken in time. Ends when it is dropped.
    pub fn until_taken(self, abort: Option<ConnectionAbort>) -> TakeDeadline {
        let abort = abort.filter(|_| self.0.is_some());
        self.taken_within(ANSWER_TAKE_TIMEOUT, abort)
    }

    /// Cuts the connection of a caller without credentials if it does not take an answer of any size in time.
    pub(crate) fn until_taken_by_stranger(self, abort: ConnectionAbort) -> TakeDeadline {
        self.taken_within(STRANGER_ANSWER_TIMEOUT, Some(abort))
    }

    fn taken_within(self, patience: Duration, abort: Option<ConnectionAbort>) -> TakeDeadline {
        let limit = abort.map(|abort| {
            let mut limit = JoinSet::new();
            limit.spawn(async move {
                sleep(patience).await;
                debug!("an answer was not taken; its connection was cut");
                abort.abort();
            });
            limit
        });
        TakeDeadline {
            _room: self,
            _limit: limit,
        }
    }
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct TakeDeadline {
    _room: ResponsePermit,
    /// `None` for a small answer.
    _limit: Option<JoinSet<()>>,
}

impl<T> Budgeted<T> {
    /// Creates a part of a short-lived or shared value.
    pub fn small(value: T) -> Self {
        Self {
            value,
            room: ResponsePermit(None),
        }
    }
}

/// Returns the answer to a call, together with its permit.
pub fn with_room<T>(message: T, room: ResponsePermit) -> Response<T> {
    let mut response = Response::new(message);
    response.extensions_mut().insert(room);
    response
}

/// Units of this many bytes; `None` for a small answer. The largest answer has fewer than there are.
fn units(bytes: usize) -> Option<u32> {
    let n_units = bytes / SMALL_ANSWER_BYTES;
    (n_units > 0).then(|| u32::try_from(n_units).unwrap_or(u32::MAX))
}

/// Largest count of one record: as much as one tenant alone may have.
const RECORD_BYTES_MAX: usize = WATCHED_RECORDS_BYTES_MAX / 2;

#[cfg(test)]
mod tests;
