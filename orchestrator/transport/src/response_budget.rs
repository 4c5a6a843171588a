//! Byte budget and time limit of large answers in transit.

use crate::call_class::CallClass;
use crate::connection_abort::ConnectionAbort;
use crate::limits::{
    ANSWER_TAKE_TIMEOUT, ANSWERS_BYTES_MAX, CONTROL_ANSWERS_BYTES_MAX, SMALL_ANSWER_BYTES,
    WATCHED_RECORDS_BYTES_MAX,
};
use crate::refusal::Refusal;
use prost::Message;
use std::sync::Arc;
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
}

/// The part of the budget that one answer has; returned when the last clone is dropped.
/// The default is that of a small answer, which needs none.
/// Stored in the extensions of a response, so that it lasts as long as its body.
#[derive(Clone, Debug, Default)]
pub struct ResponsePermit(Option<Arc<OwnedSemaphorePermit>>);

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
        }
    }
}

impl ResponseBudget {
    /// Takes this many bytes of the budget. A small answer needs none.
    ///
    /// # Errors
    /// If the budget is used up.
    pub fn take(&self, class: CallClass, bytes: usize) -> Result<ResponsePermit, Refusal> {
        let Some(n_units) = units(bytes) else {
            return Ok(ResponsePermit(None));
        };
        let permit = Arc::clone(self.of(class)).try_acquire_many_owned(n_units);
        permit
            .map(|permit| ResponsePermit(Some(Arc::new(permit))))
            .map_err(|_| Refusal::Overloaded(class))
    }

    /// Takes them as well, for a caller that can wait.
    pub async fn wait(&self, class: CallClass, bytes: usize) -> ResponsePermit {
        let Some(n_units) = units(bytes) else {
            return ResponsePermit(None);
        };
        let permit = Arc::clone(self.of(class)).acquire_many_owned(n_units).await;
        ResponsePermit(Some(Arc::new(permit.expect("the semaphore is never closed"))))
    }

    /// Returns budget for a record that is kept for more than one answer; `None` if it is used up.
    pub fn take_for_record(&self, bytes: usize) -> Option<ResponsePermit> {
        let Some(n_units) = record_units(bytes) else {
            return Some(ResponsePermit(None));
        };
        let permit = Arc::clone(&self.records).try_acquire_many_owned(n_units).ok()?;
        Some(ResponsePermit(Some(Arc::new(permit))))
    }

    /// Takes budget for a record as well, for a caller that can wait.
    pub async fn wait_for_record(&self, bytes: usize) -> ResponsePermit {
        let Some(n_units) = record_units(bytes) else {
            return ResponsePermit(None);
        };
        let permit = Arc::clone(&self.records).acquire_many_owned(n_units).await;
        ResponsePermit(Some(Arc::new(permit.expect("the semaphore is never closed"))))
    }

    /// Returns true for budget that was taken for a record. False for a small one, which needs none.
    pub fn is_for_record(&self, room: &ResponsePermit) -> bool {
        let permit = room.0.as_ref();
        permit.is_some_and(|permit| Arc::ptr_eq(permit.semaphore(), &self.records))
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
    /// Returns the bytes that it stands for.
    pub(crate) fn n_bytes(&self) -> usize {
        let n_units = self.0.as_ref().map_or(0, |permit| permit.num_permits());
        n_units * SMALL_ANSWER_BYTES
    }

    /// Cuts the connection if the answer is large and is not taken in time. Ends when it is dropped.
    pub fn until_taken(self, abort: Option<ConnectionAbort>) -> TakeDeadline {
        let abort = abort.filter(|_| self.0.is_some());
        self.any_until_taken(abort)
    }

    /// Returns the same deadline for an answer of any size.
    pub(crate) fn any_until_taken(self, abort: Option<ConnectionAbort>) -> TakeDeadline {
        let limit = abort.map(|abort| {
            let mut limit = JoinSet::new();
            limit.spawn(async move {
                sleep(ANSWER_TAKE_TIMEOUT).await;
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

/// Returns the units of a record. One that is larger than the whole budget takes all of it.
fn record_units(bytes: usize) -> Option<u32> {
    units(bytes.min(WATCHED_RECORDS_BYTES_MAX))
}

#[cfg(test)]
mod tests;
