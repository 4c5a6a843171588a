//! Limits on open calls of each kind, over all connections, and the byte budgets of requests.
//! Admits or refuses a call before it is read.

use crate::call_class::{BodyPool, CallClass};
use crate::call_slots::{CallPermit, CallSlots, PendingUpload};
use crate::limits::{
    REQUESTS_BYTES_MAX, REQUESTS_SHARE, STRANGER_CALLS_MAX, STRANGERS_BYTES_MAX, WORKERS_BYTES_MAX,
};
use crate::refusal::Refusal;
use crate::request_body::BodyBudget;
use crate::share::Tenant;
use std::sync::Arc;

/// The gate of one orchestrator, or of one connection of it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    open: Arc<OpenCalls>,
    bytes: Bytes,
}

/// Slots of calls that may be open, class by class.
#[derive(Debug)]
struct OpenCalls([Option<CallSlots>; CallClass::ALL.len()]);

/// Budgets for requests that are not complete.
#[derive(Clone, Debug)]
struct Bytes {
    plans: BodyBudget,
    questions: BodyBudget,
    workers: BodyBudget,
    strangers: BodyBudget,
}

/// A call that was let in; sessions have no permit.
pub(crate) type LetIn = (Option<CallPermit>, Option<PendingUpload>);

impl Gate {
    /// Returns the gate of an orchestrator, with every slot free.
    pub(crate) fn new() -> Self {
        let slots = CallClass::ALL.map(|class| class.row().open_max.map(CallSlots::new));
        Self {
            open: Arc::new(OpenCalls(slots)),
            bytes: Bytes {
                plans: BodyBudget::new(REQUESTS_BYTES_MAX),
                questions: BodyBudget::new(REQUESTS_BYTES_MAX),
                workers: BodyBudget::new(WORKERS_BYTES_MAX),
                strangers: BodyBudget::new(STRANGERS_BYTES_MAX),
            },
        }
    }

    /// Returns the gate of one connection, which has only a part of the bytes.
    pub(crate) fn of_connection(&self) -> Self {
        let Bytes {
            plans,
            questions,
            workers,
            strangers,
        } = &self.bytes;
        Self {
            open: Arc::clone(&self.open),
            bytes: Bytes {
                plans: plans.part(REQUESTS_SHARE),
                questions: questions.part(REQUESTS_SHARE),
                workers: workers.part(REQUESTS_SHARE),
                strangers: strangers.part(REQUESTS_SHARE),
            },
        }
    }

    /// Lets one more call of the tenant in.
    ///
    /// # Errors
    /// Every slot of its class is taken, or all that the tenant may have.
    pub(crate) fn enter(&self, class: CallClass, tenant: Tenant) -> Result<LetIn, Refusal> {
        let Some(slots) = &self.open.0[class as usize] else {
            return Ok((None, None));
        };
        let (permit, upload) = slots.take(tenant).map_err(|why| Refusal::for_want(why, class))?;
        Ok((Some(permit), Some(upload)))
    }

    /// Lets in a call of a caller without credentials, as [`Gate::enter`] does.
    /// Such a connection has few calls open, so that unread answers keep no slots from other connections.
    ///
    /// # Errors
    /// As [`Gate::enter`], or the connection has as many as it may.
    pub(crate) fn enter_stranger(&self, class: CallClass, connection: &str) -> Result<LetIn, Refusal> {
        let slots = self.open.0[class as usize].as_ref();
        if slots.is_some_and(|slots| slots.part_of(connection) >= STRANGER_CALLS_MAX) {
            return Err(Refusal::PartTaken(class));
        }
        self.enter(class, Some(connection.into()))
    }

    /// Returns the budget for a request of the tenant, see [`ClassRow::budget`](crate::call_class::ClassRow::budget).
    pub(crate) fn bytes_of(&self, class: CallClass, tenant: Tenant) -> Option<BodyBudget> {
        let budget = match class.row().budget? {
            BodyPool::Plans => &self.bytes.plans,
            BodyPool::Questions => &self.bytes.questions,
            BodyPool::Workers => &self.bytes.workers,
            BodyPool::Strangers => &self.bytes.strangers,
        };
        Some(budget.of(tenant))
    }
}

#[cfg(test)]
mod tests;
