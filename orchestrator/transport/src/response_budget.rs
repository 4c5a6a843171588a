//! Byte budget and time limit of large answers in transit.

use crate::call_class::CallClass;
use crate::connection_abort::ConnectionAbort;
use crate::limits::{
    ANSWER_TAKE_TIMEOUT, ANSWERS_BYTES_MAX, CONTROL_ANSWERS_BYTES_MAX, SMALL_ANSWER_BYTES,
    STRANGER_ANSWER_TIMEOUT, WATCHED_RECORDS_BYTES_MAX,
};
use crate::refusal::Refusal;
use crate::share::{NotFree, Share, SharePart, Tenant};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::{Response, Status};
use tracing::debug;

/// The budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ResponseBudget {
    callers: Share,
    control: Share,
    /// For records from which watchers, and those who list entries page by page, are answered.
    records: Share,
}

/// The part of the budget that one answer has; returned when the last clone is dropped.
/// The default is that of a small answer, which needs none.
/// Stored in the extensions of a response, so that it lasts as long as its body.
#[derive(Clone, Debug, Default)]
pub struct ResponsePermit(Option<Arc<SharePart>>);

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
        Self {
            callers: Share::new(ANSWERS_BYTES_MAX),
            control: Share::new(CONTROL_ANSWERS_BYTES_MAX),
            records: Share::new(WATCHED_RECORDS_BYTES_MAX),
        }
    }
}

impl ResponseBudget {
    /// Takes a permit for so many bytes of an answer. The connection makes it one of its tenant.
    ///
    /// # Errors
    /// All bytes are taken.
    pub fn take(&self, class: CallClass, bytes: usize) -> Result<ResponsePermit, Refusal> {
        self.take_of(&None, class, bytes)
    }

    /// Takes a permit for so many bytes of a stream of the tenant. A small answer needs none.
    ///
    /// # Errors
    /// All bytes are taken, or the share of the tenant is.
    pub(crate) fn take_of(
        &self,
        tenant: &Tenant,
        class: CallClass,
        bytes: usize,
    ) -> Result<ResponsePermit, Refusal> {
        let part = taken_if_large(bytes, || self.of(class).take(tenant, bytes));
        part.map_err(|why| Refusal::for_want(why, class))
    }

    /// Takes a permit as [`ResponseBudget::take_of`] does, for a caller that can wait.
    ///
    /// # Errors
    /// The share of the tenant was taken for longer than an answer may be in transit.
    pub(crate) async fn wait(
        &self,
        tenant: &Tenant,
        class: CallClass,
        bytes: usize,
    ) -> Result<ResponsePermit, Refusal> {
        wait_if_large(self.of(class), tenant, bytes, class).await
    }

    /// Takes a permit for a record that serves more than one answer; `None` if the tenant can have none now.
    pub fn take_for_record(&self, tenant: &Tenant, bytes: usize) -> Option<ResponsePermit> {
        let bytes = bytes.min(RECORD_BYTES_MAX);
        taken_if_large(bytes, || self.records.take(tenant, bytes)).ok()
    }

    /// Takes a permit as [`ResponseBudget::take_for_record`] does, for a caller that can wait.
    ///
    /// # Errors
    /// The share of the tenant was taken for longer than an answer may be in transit.
    pub async fn wait_for_record(&self, tenant: &Tenant, bytes: usize) -> Result<ResponsePermit, Refusal> {
        let bytes = bytes.min(RECORD_BYTES_MAX);
        wait_if_large(&self.records, tenant, bytes, CallClass::Watches).await
    }

    /// Returns true for budget that was taken for a record. False for a small one, which needs none.
    pub fn is_for_record(&self, room: &ResponsePermit) -> bool {
        let part = room.0.as_ref();
        part.is_some_and(|part| part.is_of(&self.records))
    }

    /// Returns the answer to a call.
    ///
    /// # Errors
    /// If it is large and the budget is used up.
    pub fn answer<T: Message>(&self, class: CallClass, message: T) -> Result<Response<T>, Status> {
        let room = self.take(class, message.encoded_len())?;
        Ok(with_room(message, room))
    }

    fn of(&self, class: CallClass) -> &Share {
        if class.row().is_of_callers {
            &self.callers
        } else {
            &self.control
        }
    }
}

impl ResponsePermit {
    /// Counts the answer with those of the tenant from now on; those of operators are apart.
    ///
    /// # Errors
    /// The tenant has as many bytes of answers on their way as it may.
    pub(crate) fn make_of(&mut self, tenant: &Tenant, class: CallClass) -> Result<(), Refusal> {
        let part = self.0.as_mut().filter(|_| class.row().is_of_callers);
        let made = part
            .and_then(Arc::get_mut)
            .map_or(Ok(()), |part| part.make_of(tenant));
        made.map_err(|_| Refusal::PartTaken(class))
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

/// Returns a permit of the part, or none for a small answer.
fn taken_if_large(
    bytes: usize,
    take: impl FnOnce() -> Result<SharePart, NotFree>,
) -> Result<ResponsePermit, NotFree> {
    let part = (bytes >= SMALL_ANSWER_BYTES).then(take).transpose()?;
    Ok(ResponsePermit(part.map(Arc::new)))
}

async fn wait_if_large(
    share: &Share,
    tenant: &Tenant,
    bytes: usize,
    class: CallClass,
) -> Result<ResponsePermit, Refusal> {
    if bytes < SMALL_ANSWER_BYTES {
        return Ok(ResponsePermit(None));
    }
    let part = share.wait(tenant, bytes, ANSWER_TAKE_TIMEOUT).await;
    let part = part.map_err(|why| Refusal::for_want(why, class))?;
    Ok(ResponsePermit(Some(Arc::new(part))))
}

/// Largest count of one record: as much as one tenant alone may have.
const RECORD_BYTES_MAX: usize = WATCHED_RECORDS_BYTES_MAX / 2;

#[cfg(test)]
mod tests;
