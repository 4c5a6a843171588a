//! What can be written, and what comes of it. Decides nothing.

use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace, PlanId};

use crate::OperatorWrite;

/// A write of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new execution. It gets the next number.
    Accept(AcceptWrite),
    /// A queued execution runs from now on, or is withheld from running.
    Start {
        /// Which one.
        execution_id: ExecutionId,
        /// Unix milliseconds; `None` if it must not run: it is left to be settled.
        started_at: Option<i64>,
    },
    /// A queued or running execution is over and never changes again.
    Settle {
        /// Which one.
        execution_id: ExecutionId,
        /// 1 success, 2 partial, 3 failure; opaque to the store, which lists by it.
        status: u8,
        /// Unix milliseconds; kept only if no start was written before.
        started_at: Option<i64>,
        /// Unix milliseconds.
        settled_at: i64,
        /// How it ended in a few bytes, for lists.
        outline: Bytes,
        /// The result record.
        result: Bytes,
        /// The audit record.
        audit: Bytes,
    },
    /// Keeps these memories, each in place of an earlier one of the same name. Never conflicts.
    RememberActions(Vec<ActionMemory>),
    /// The next entry of what operators did. Its number is that of the entry; an outcome conflicts if its intent is not
    /// there, or has one.
    Operator(OperatorWrite),
}

/// What is kept of an action whose workers may be away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionMemory {
    /// Unique in the store.
    pub name: String,
    /// Milliseconds; opaque to the store. `None` forgets the action.
    pub left_ms: Option<u64>,
}

/// A new execution: index columns and the record of what was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptWrite {
    /// Unique in the store.
    pub execution_id: ExecutionId,
    /// Unique in the store.
    pub plan_id: PlanId,
    /// Digest of the request, given back with a conflict.
    pub request_digest: [u8; 32],
    /// Higher first; the store only keeps it.
    pub priority: i32,
    /// Unix milliseconds.
    pub accepted_at: i64,
    /// Unix milliseconds if it runs at once; `None` queues it.
    pub started_at: Option<i64>,
    /// Unix milliseconds.
    pub deadline_ms: i64,
    /// The execution that asked for this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// The plan's name.
    pub plan_name: String,
    /// Who asked.
    pub user_id: Option<String>,
    /// The caller's own id of the request.
    pub request_id: Option<String>,
    /// The plan's tags, in its order.
    pub tags: Vec<String>,
    /// What it belongs to.
    pub namespace: Namespace,
    /// The accepted record.
    pub record: Bytes,
}

/// What came of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable.
    Done {
        /// Number of the execution, or of the entry of operators; 0 if the write was about none.
        number: u64,
    },
    /// It changed nothing.
    Conflict(Conflict),
}

/// Reason why a write changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Accept: that execution id exists, or was removed. Reported before [`Conflict::PlanIdUsed`] if both hold.
    ExecutionIdUsed {
        /// Digest of the request that was accepted under it.
        request_digest: [u8; 32],
    },
    /// Accept: that plan id was accepted under another execution id.
    PlanIdUsed {
        /// The other execution.
        execution_id: ExecutionId,
    },
    /// Start or settle: no such execution. Outcome: no such intent.
    NotFound,
    /// Start: it runs already.
    AlreadyStarted,
    /// Start or settle: it is settled, or was removed. Outcome: its intent has one.
    AlreadySettled,
}
