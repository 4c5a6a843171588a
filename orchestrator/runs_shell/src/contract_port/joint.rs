//! Link by which attempts share commits with their runs.

use std::fmt::{self, Debug};

use escapement_store::StoreFault;
use escapement_store::runs::RunBatch;
use escapement_wire::v1;

use super::EndedExecution;
use crate::rights::Origin;
use crate::store_port::Joined;

/// Link to the store through the engine.
pub trait JointWay: Send {
    /// Commits a batch together with the ends that were received or after them, and accepts attempts in the same commit. An attempt
    /// that is not accepted was not submitted.
    ///
    /// `n_received` is the number of ends that were received before they were durable.
    ///
    /// # Errors
    /// As the store's commit.
    fn commit(
        &mut self,
        batch: &RunBatch,
        n_received: u64,
        attempts: Vec<Leaving>,
    ) -> Result<Joined, StoreFault>;

    /// Reports the number of received ends when no batch builds on them.
    fn received(&mut self, n_received: u64);
}

/// Attempt that may be accepted in the commit of its intent.
#[derive(Debug)]
pub struct Leaving {
    /// Request.
    pub request: v1::SubmitPlanRequest,
    /// Link to the run.
    pub attempt: LinkedAttempt,
}

/// Link from an attempt to its run. It holds the slot of the attempt.
pub struct LinkedAttempt {
    origin: Origin,
    deliver: Box<dyn FnOnce(ReadEnd, bool) + Send>,
}

/// Function that reads the end of an attempt.
pub(crate) type ReadEnd = Box<dyn FnOnce() -> EndedExecution + Send>;

impl LinkedAttempt {
    /// Creates a link. `deliver` takes the end, and true if the end is durable.
    pub(crate) fn new(origin: Origin, deliver: impl FnOnce(ReadEnd, bool) + Send + 'static) -> Self {
        Self {
            origin,
            deliver: Box::new(deliver),
        }
    }

    /// Returns the origin of its run.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Delivers the end to the run. `end` is called on the thread of runs. `is_durable` is true if the end is durable.
    pub fn deliver(self, end: impl FnOnce() -> EndedExecution + Send + 'static, is_durable: bool) {
        (self.deliver)(Box::new(end), is_durable);
    }
}

impl Debug for LinkedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedAttempt")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}
