//! What the second interpreter decides: what must be done, what the record must say, how it ended. Decides nothing itself.

use super::errors::Classified;
use super::words::{NotCompleted, Status, WithdrawReason};

/// What must be done, in order.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum Command {
    PersistStart(i64),
    Dispatch(usize, u32),
    Withdraw(usize, u32, WithdrawReason),
    PersistResult,
    EmitEvent,
    UpdatePlanRegistry,
    ReleaseResources,
    NotifyErrorHandler,
    ReturnResult,
}

/// An entry of the record. Steps by their places in the plan's list.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The execution left the queue, Unix milliseconds.
    Started(i64),
    /// A step and its attempt wait for a worker.
    Waiting(usize, u32),
    /// They have one.
    Assigned(usize, u32),
    /// It says that it runs.
    AttemptStarted(usize, u32),
    /// It never ran.
    /// Step, attempt, and whether its worker may not do it.
    Returned(usize, u32, bool),
    /// It ended without completing the step.
    Failed(usize, u32, Classified),
    /// A step, the attempt to come, and how long it sleeps.
    Retry(usize, u32, u64),
    /// A step and how many attempts it took.
    Completed(usize, u32),
    /// A step, how many attempts were made, and why it did not complete.
    NotCompleted(usize, u32, NotCompleted, Classified),
    /// A mandatory action: rule set, number, name.
    Action(&'static str, u32, &'static str),
    /// Steps that did not complete. Anywhere after the first mandatory action.
    Incomplete(Vec<usize>),
    /// The end.
    Settled(Status),
}

/// How it ended.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named as in a result")]
pub struct Ended {
    pub status: Status,
    pub error: Option<Classified>,
    pub steps_executed: usize,
    pub started_at: i64,
    pub completed_at: i64,
}
