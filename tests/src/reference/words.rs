//! The words of the second interpreter. They have the meanings of the contract and know nobody else's types.

use escapement_model::{Opaque, Severity};

/// An instant on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// For limits.
    pub monotonic_ms: u64,
    /// For timestamps.
    pub unix_ms: i64,
}

/// Where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum Phase {
    Queued,
    Starting,
    Running,
    Settling,
    Settled,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum StepState {
    Pending,
    Waiting {
        attempt: u32,
    },
    Assigned {
        attempt: u32,
    },
    Started {
        attempt: u32,
    },
    BackingOff {
        next_attempt: u32,
    },
    Completed,
    NotCompleted,
    /// The execution ended before the step did.
    Stopped,
}

/// What happened. Steps by their places in the plan's list.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum Input {
    Start,
    StartPersisted,
    SettlePersisted,
    Tick,
    Assigned {
        step: usize,
        attempt: u32,
    },
    AttemptStarted {
        step: usize,
        attempt: u32,
    },
    AttemptReturned {
        step: usize,
        attempt: u32,
        /// The worker says that it may not do it and did nothing.
        is_refused: bool,
    },
    AttemptEnded {
        step: usize,
        attempt: u32,
        outcome: Outcome,
    },
    ActionNotFound {
        step: usize,
        attempt: u32,
    },
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With an output.
    Completed {
        /// The bytes that the worker sent.
        output: Opaque,
    },
    /// With an error, or a warning without an output.
    Failed(Reported),
    /// Nobody can read what the worker said.
    Undecodable,
    /// Worker vanished.
    Lost,
}

/// An error as the worker told it. Without texts, which decide nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Any text.
    pub code: String,
    /// `None` if the worker did not say.
    pub severity: Option<Severity>,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum Status {
    Success,
    Partial,
    Failure,
}

/// Reason why a step did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum NotCompleted {
    Failed,
    Skipped,
    RetriesExhausted,
    NotRetryable,
    WarnedWithoutOutput,
    DependencyUnresolved,
}

/// Reason why a worker is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the contract says what they are")]
pub enum WithdrawReason {
    StepTimeout,
    ExecutionEnded,
}
