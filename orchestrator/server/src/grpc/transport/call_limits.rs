//! How many calls of each kind are open at a time, over all connections, and whose bytes count where.
//! Lets a call in or refuses it before anything of it is read. Knows no service.

use super::call_slots::{Incomplete, Place, Places};
use super::request_body::BodyBudget;
use crate::call_class::CallClass;
use crate::limits::{
    OPEN_CONTROLS_MAX, OPEN_EXECUTES_MAX, OPEN_HEALTH_MAX, OPEN_READS_MAX, OPEN_REFLECTIONS_MAX,
    OPEN_REPORTS_MAX, OPEN_SUBSCRIPTIONS_MAX, OPEN_WAITS_MAX, OPEN_WATCHES_MAX, OPEN_WRITES_MAX,
    REQUESTS_BYTES_MAX, REQUESTS_SHARE, WORKERS_BYTES_MAX,
};
use crate::status::Rejection;
use std::sync::Arc;

/// The gate of one orchestrator, or of one connection of it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    open: Arc<OpenCalls>,
    bytes: Bytes,
}

/// Places of calls that may be open.
#[derive(Debug)]
struct OpenCalls {
    writes: Places,
    executes: Places,
    reads: Places,
    waits: Places,
    watches: Places,
    subscriptions: Places,
    controls: Places,
    reports: Places,
    health: Places,
    reflections: Places,
}

/// What requests that are not complete may hold.
#[derive(Clone, Debug)]
struct Bytes {
    writes: BodyBudget,
    reads: BodyBudget,
    workers: BodyBudget,
}

/// A call that was let in. Sessions have no place: those that have not spoken are bounded where they are served,
/// the others by the engine.
pub(crate) type LetIn = (Option<Place>, Option<Incomplete>);

impl Gate {
    /// The gate of an orchestrator, with every place free.
    pub(crate) fn new() -> Self {
        let places = Places::new;
        Self {
            open: Arc::new(OpenCalls {
                writes: places(OPEN_WRITES_MAX),
                executes: places(OPEN_EXECUTES_MAX),
                reads: places(OPEN_READS_MAX),
                waits: places(OPEN_WAITS_MAX),
                watches: places(OPEN_WATCHES_MAX),
                subscriptions: places(OPEN_SUBSCRIPTIONS_MAX),
                controls: places(OPEN_CONTROLS_MAX),
                reports: places(OPEN_REPORTS_MAX),
                health: places(OPEN_HEALTH_MAX),
                reflections: places(OPEN_REFLECTIONS_MAX),
            }),
            bytes: Bytes {
                writes: BodyBudget::new(REQUESTS_BYTES_MAX),
                reads: BodyBudget::new(REQUESTS_BYTES_MAX),
                workers: BodyBudget::new(WORKERS_BYTES_MAX),
            },
        }
    }

    /// The gate of one connection, which has only a part of the bytes.
    pub(crate) fn of_connection(&self) -> Self {
        let Bytes {
            writes,
            reads,
            workers,
        } = &self.bytes;
        Self {
            open: Arc::clone(&self.open),
            bytes: Bytes {
                writes: writes.part(REQUESTS_SHARE),
                reads: reads.part(REQUESTS_SHARE),
                workers: workers.part(REQUESTS_SHARE),
            },
        }
    }

    /// Lets one more call in.
    ///
    /// # Errors
    /// Every place of its kind is taken.
    pub(crate) fn enter(&self, kind: CallClass) -> Result<LetIn, Rejection> {
        let Some(places) = self.open.of(kind) else {
            return Ok((None, None));
        };
        let (place, incomplete) = places.take().ok_or(Rejection::Overloaded(kind))?;
        Ok((Some(place), Some(incomplete)))
    }

    /// Where the bytes of a request count.
    /// `None` for a stream of messages, each of which has its own limit and which may stay open for ever.
    pub(crate) fn bytes_of(&self, kind: CallClass) -> Option<BodyBudget> {
        match kind {
            CallClass::Sessions | CallClass::Reflections => None,
            CallClass::Writes | CallClass::Executes => Some(self.bytes.writes.clone()),
            CallClass::Reads | CallClass::Waits | CallClass::Watches | CallClass::Subscriptions => {
                Some(self.bytes.reads.clone())
            }
            CallClass::Controls | CallClass::Reports | CallClass::Health => Some(self.bytes.workers.clone()),
        }
    }
}

impl OpenCalls {
    fn of(&self, kind: CallClass) -> Option<&Places> {
        match kind {
            CallClass::Writes => Some(&self.writes),
            CallClass::Executes => Some(&self.executes),
            CallClass::Reads => Some(&self.reads),
            CallClass::Waits => Some(&self.waits),
            CallClass::Watches => Some(&self.watches),
            CallClass::Subscriptions => Some(&self.subscriptions),
            CallClass::Controls => Some(&self.controls),
            CallClass::Reports => Some(&self.reports),
            CallClass::Health => Some(&self.health),
            CallClass::Reflections => Some(&self.reflections),
            CallClass::Sessions => None,
        }
    }
}

#[cfg(test)]
mod tests;
