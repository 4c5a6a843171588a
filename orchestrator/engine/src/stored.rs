//! What the store says: what it holds at a start, and what came of reads and writes. Reads and writes nothing.

use crate::keys::NamespaceKey;
use alloc::sync::Arc;
use escapement_contract::{Interruption, Request};
use escapement_model::ExecutionId;

/// What the store keeps of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionMemory {
    /// Name.
    pub name: Arc<str>,
    /// For how many milliseconds it stays registered without a worker; `None`: forget it.
    pub left_ms: Option<u64>,
}

/// An execution that the store holds unsettled.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Id.
    pub execution_id: ExecutionId,
    /// Whose share it takes.
    pub namespace: NamespaceKey,
    /// What was asked.
    pub request: Arc<Request>,
    /// Unix milliseconds.
    pub accepted_at: i64,
    /// Unix milliseconds.
    pub deadline_ms: i64,
    /// `None` if it is queued; else why it must not run any more.
    pub interruption: Option<Interruption>,
}

/// What is kept of a queued execution whose request is in the store alone.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredParked {
    /// Id.
    pub execution_id: ExecutionId,
    /// Whose share it takes.
    pub namespace: NamespaceKey,
    /// Of the request.
    pub request_digest: [u8; 32],
    /// Of the plan.
    pub priority: i32,
    /// Unix milliseconds.
    pub deadline_ms: i64,
}

/// What came of asking for the request of a queued execution.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    /// Here it is.
    Loaded(Recovered),
    /// It cannot be read, now or later: the execution stays unsettled, and the engine forgets it.
    Damaged,
    /// The store could not; trying again makes sense.
    Failed,
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Durable.
    Durable,
    /// The store holds something that forbids it; nothing was written.
    Conflict(WriteConflict),
    /// The store could not; nothing was written, and trying again makes sense.
    Failed(WriteFailure),
}

/// What forbids a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteConflict {
    /// The execution id is in use, for a request with this digest.
    ExecutionIdUsed {
        /// Of the request that was accepted under it.
        request_digest: [u8; 32],
    },
    /// The plan id was accepted under another execution id.
    PlanIdUsed {
        /// That one.
        execution_id: ExecutionId,
    },
    /// The execution is further than the write would bring it.
    AlreadyThere,
    /// The execution is not there.
    NotFound,
}

/// Reason why a write may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// There is no space for it.
    Full,
    /// Anything else that may pass.
    Busy,
}
