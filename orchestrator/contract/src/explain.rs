//! Reason why an execution and its steps are in the states that they are in: facts, the rules behind them, and words.
//! Decides nothing and changes nothing.
//!
//! The facts of a live execution come from [`Execution::explain`](crate::Execution::explain), those of a settled one from
//! its record. What only the shell knows (queues, workers, writes) stands beside them, and the shell fills it in.

mod describe;
mod record;
mod rules;

pub(crate) use record::Notes;
pub use record::{explain_queued, explain_settled};

use crate::audit::NotCompleted;
use crate::error::ExecutionError;
use crate::execution::{Evidence, StepState};
use crate::plan::StepIndex;
use crate::result::Status;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::{Severity, StepId};

/// Positions in queues are counted up to this; it stands for that many or more.
pub const COUNTED_MAX: u64 = 1_000;
/// Dependencies of one step that are listed; all are counted.
pub const DEPENDENCIES_LISTED_MAX: usize = 32;

/// A moment of one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The execution as a whole.
    pub execution: ExecutionFacts,
    /// All steps, in canonical order.
    pub steps: Vec<StepFacts>,
}

/// What is known of an execution as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionFacts {
    /// State, and why.
    pub why: ExecutionReason,
    /// Milliseconds until the limit that ends it at the latest; `None` once it has ended.
    pub ends_in_ms: Option<u64>,
}

/// Reason why an execution is in its state.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionReason {
    /// Waits for its admission; `None` until the place is filled in.
    Queued(Option<AdmissionFacts>),
    /// Admitted; its start is being written.
    Starting(WriteFacts),
    /// Steps run.
    Running {
        /// Steps that may be under way at a time.
        n_slots: u32,
        /// Among them those that no step has.
        n_slots_free: u32,
        /// Steps that have ended.
        n_ended: u32,
        /// Steps of the plan.
        n_steps: u32,
    },
    /// It has ended; how is told once that is durable.
    Settling {
        /// Its start is durable.
        has_started: bool,
        /// How the write goes.
        write: WriteFacts,
    },
    /// It has ended for good.
    Settled(Arc<End>),
}

/// The place of an execution among those that wait to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionFacts {
    /// Executions of its namespace that start before it, at most [`COUNTED_MAX`]. Of those that are held back, only those that wait for
    /// the same actions.
    pub n_before: u64,
    /// Executions that run.
    pub n_running: u32,
    /// Executions that may run at a time.
    pub n_running_max: u32,
    /// Present if its namespace has a limit of its own.
    pub quota: Option<QuotaFacts>,
    /// The orchestrator stops: nothing starts any more.
    pub is_draining: bool,
    /// Present if the execution is held back.
    pub held_back: Option<HeldBackFacts>,
}

/// What a namespace has of what it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaFacts {
    /// Executions of the namespace that run.
    pub n_running: u32,
    /// Executions of it that may run at a time.
    pub n_running_max: u32,
}

impl QuotaFacts {
    /// Returns true if none more may run.
    pub fn is_used_up(self) -> bool {
        self.n_running >= self.n_running_max
    }
}

/// Reason why an execution is held back: no live worker could begin with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBackFacts {
    /// An action of its first steps.
    pub action: Arc<str>,
    /// How many others would do as well.
    pub n_others: u32,
    /// Milliseconds since the last worker that offered it left; `None` if none did since the orchestrator started.
    pub absent_for_ms: Option<u64>,
    /// Milliseconds for which it stays registered without a worker; `None`: for as long as the operator declares it.
    pub registered_for_ms: Option<u64>,
}

/// How a write goes that an execution waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFacts {
    /// How often it failed.
    pub n_failures: u32,
    /// It lacks nothing but space.
    pub waits_for_space: bool,
}

/// How an execution ended, and what ended it.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How.
    pub status: Status,
    /// What ended it.
    pub by: EndedBy,
    /// The code of the result's error, if there is one.
    pub error_code: Option<String>,
    /// The step that this error names, if it names one.
    pub step_id: Option<StepId>,
}

/// What ended an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndedBy {
    /// All steps ended; all completed.
    AllCompleted,
    /// All steps ended; some completed.
    SomeCompleted,
    /// All steps ended; none completed, and none was fatal.
    NoneCompleted,
    /// An error of a step with `on_failure = halt`.
    Halt,
    /// A fatal error of a step.
    Fatal,
    /// A step that must not be skipped depends on one that did not complete.
    DependencyUnresolved,
    /// The plan's limit ran out.
    PlanLimit,
    /// The deadline passed in the queue.
    DeadlineInQueue,
    /// The deadline left too little time at the start.
    DeadlineTooNear,
    /// The environment lacked a required key at the start.
    ContextMissing,
    /// The orchestrator restarted while it ran.
    Restart,
    /// It was queued in a backup, and was not to run after the restore.
    Restore,
}

/// What is known of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFacts {
    /// Which.
    pub step: StepIndex,
    /// State, and why.
    pub why: StepReason,
    /// Attempts that it may have.
    pub attempts_max: u32,
    /// Milliseconds until this state is over at the latest; `None` if it has ended, or its execution has.
    pub ends_in_ms: Option<u64>,
}

/// Reason why a step is in its state.
#[derive(Clone, Debug, PartialEq)]
pub enum StepReason {
    /// Its execution has not started.
    AwaitsExecution {
        /// The steps that come before it.
        open: OpenDependencies,
    },
    /// Dependencies have not ended.
    AwaitsDependencies {
        /// These.
        open: OpenDependencies,
        /// The root of a failure because of which it will not run; `None` if it may.
        doomed_by: Option<StepId>,
    },
    /// All dependencies have ended and no slot is free.
    AwaitsTurn {
        /// Steps that have their turn before it.
        n_before: u32,
        /// Steps that may be under way at a time.
        n_slots: u32,
        /// The root of a failure because of which it will not run; `None` if it runs.
        doomed_by: Option<StepId>,
    },
    /// Waits for a worker.
    Waiting {
        /// 1 for the first.
        attempt: u32,
        /// How it is known that this attempt had no effect at the worker that had it before.
        returned: Option<Evidence>,
        /// Its place in the queue of its action; `None` until it is filled in.
        queue: Option<QueueFacts>,
    },
    /// A worker has it and has not said that the handler runs.
    Assigned {
        /// 1 for the first.
        attempt: u32,
        /// Whose it is; `None` until it is filled in.
        worker: Option<WorkerFacts>,
    },
    /// Handler runs.
    Started {
        /// 1 for the first.
        attempt: u32,
        /// Whose it is; `None` until it is filled in.
        worker: Option<WorkerFacts>,
    },
    /// Sleeps before its next attempt.
    BackingOff {
        /// The attempt to come.
        next_attempt: u32,
        /// Milliseconds until then.
        in_ms: u64,
        /// How the attempt before it ended.
        error_code: String,
    },
    /// Its execution has ended, which is not durable: the step is shown as it was before.
    Held(StepState),
    /// Ended with an output.
    Completed {
        /// How many it took.
        attempts: u32,
        /// Warnings in the record, at most 255.
        n_warnings: u8,
    },
    /// Ended without one.
    NotCompleted {
        /// How many were made.
        attempts: u32,
        /// Reason.
        reason: NotCompleted,
        /// Of its error.
        error_code: String,
        /// Of its error.
        severity: Severity,
        /// The step whose failure kept it from running.
        root: Option<StepId>,
        /// It ended without a worker: nobody offered its action.
        was_not_offered: bool,
    },
    /// Its execution ended before it did.
    Stopped {
        /// What it was doing then; `None` if that is not known.
        was: Option<StepState>,
        /// How many were made; `None` if that is not known.
        attempts: Option<u32>,
        /// How its execution ended.
        end: Arc<End>,
    },
}

/// Dependencies of a step that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenDependencies {
    /// How many.
    pub n: u32,
    /// The first of them in the order of the plan, at most [`DEPENDENCIES_LISTED_MAX`].
    pub first: Vec<StepIndex>,
}

/// The place of a step in the queue of its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// Steps of any execution that are served before it, at most [`COUNTED_MAX`].
    pub n_before: u64,
    /// Live workers that offer the action.
    pub n_workers: u32,
    /// Free slots for it at these.
    pub n_slots_free: u32,
    /// If no live worker offers it and the operator does not declare it: milliseconds until the step ends for that.
    pub expires_in_ms: Option<u64>,
}

/// The worker that has an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Label.
    pub label: Arc<str>,
    /// Where its stream is broken: milliseconds until it counts as vanished.
    pub vanishes_in_ms: Option<u64>,
}

impl StepReason {
    /// What the step is doing.
    pub fn state(&self) -> StepState {
        match self {
            StepReason::AwaitsExecution { .. }
            | StepReason::AwaitsDependencies { .. }
            | StepReason::AwaitsTurn { .. } => StepState::Pending,
            StepReason::Waiting { attempt, .. } => StepState::Waiting { attempt: *attempt },
            StepReason::Assigned { attempt, .. } => StepState::Assigned { attempt: *attempt },
            StepReason::Started { attempt, .. } => StepState::Started { attempt: *attempt },
            StepReason::BackingOff { next_attempt, .. } => StepState::BackingOff {
                next_attempt: *next_attempt,
            },
            StepReason::Held(state) => *state,
            StepReason::Completed { .. } => StepState::Completed,
            StepReason::NotCompleted { .. } => StepState::NotCompleted,
            StepReason::Stopped { .. } => StepState::Stopped,
        }
    }
}

impl StepReason {
    pub(crate) fn not_completed(
        attempts: u32,
        reason: NotCompleted,
        error: &ExecutionError,
        was_not_offered: bool,
    ) -> Self {
        StepReason::NotCompleted {
            attempts,
            reason,
            error_code: error.code.clone(),
            severity: error.severity,
            // errors of attempts have no cause.
            root: error.cause.as_deref().and_then(root_of),
            was_not_offered,
        }
    }
}

impl OpenDependencies {
    /// So many, with the first of those that a list gives.
    pub(crate) fn of(n: usize, open: impl Iterator<Item = StepIndex>) -> Self {
        Self {
            n: u32::try_from(n).expect("a plan has at most 1024 steps"),
            first: open.take(n.min(DEPENDENCIES_LISTED_MAX)).collect(),
        }
    }
}

/// Returns the step at the root of an error: the chain of causes ends there, whatever it leaves out.
//
pub(crate) fn root_of(error: &ExecutionError) -> Option<StepId> {
    let chain = core::iter::successors(Some(error), |error| error.cause.as_deref());
    chain.last().and_then(|root| root.step_id)
}
