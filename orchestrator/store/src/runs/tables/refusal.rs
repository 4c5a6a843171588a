//! Reason why a write does not become part of a transaction. Undoes nothing.

use crate::StoreFault;
use crate::database::connection::working;
use crate::database::work::Undone;
use crate::runs::write::RunConflict;

/// A conflict, which is the outcome of the batch, or a fault.
pub(super) enum Refusal {
    Conflict(RunConflict),
    Fault(StoreFault),
}

impl From<RunConflict> for Refusal {
    fn from(conflict: RunConflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<StoreFault> for Refusal {
    fn from(fault: StoreFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(working(error))
    }
}

impl Undone for Refusal {
    fn is_fatal(&self) -> bool {
        matches!(self, Self::Fault(StoreFault::Fatal(_)))
    }
}
