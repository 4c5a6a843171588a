//! What can happen to an execution, and the answer to what cannot happen now.

use super::{Phase, StepState};
use crate::outcome::Outcome;
use crate::plan::StepIndex;
use crate::spelled::spelled;
use alloc::sync::Arc;
use core::fmt;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The execution leaves the admission queue; it starts now.
    Start,
    /// The start is durable.
    StartPersisted,
    /// The attempt was handed to a worker; the step's timer starts.
    Assigned {
        /// The step.
        step: StepIndex,
        /// As in the `Dispatch` effect.
        attempt: u32,
        /// The worker's label.
        worker: Arc<str>,
    },
    /// The worker says that the handler runs.
    AttemptStarted {
        /// The step.
        step: StepIndex,
        /// As in the `Dispatch` effect.
        attempt: u32,
    },
    /// The attempt provably had no effect. It is dispatched again under the same number.
    AttemptReturned {
        /// The step.
        step: StepIndex,
        /// As in the `Dispatch` effect.
        attempt: u32,
        /// How it is known.
        evidence: Evidence,
    },
    /// The attempt has ended.
    AttemptEnded {
        /// The step.
        step: StepIndex,
        /// As in the `Dispatch` effect.
        attempt: u32,
        /// How.
        outcome: Outcome,
    },
    /// No live worker offers the action of a dispatched attempt, nor did one within the grace.
    ActionNotFound {
        /// The step.
        step: StepIndex,
        /// As in the `Dispatch` effect.
        attempt: u32,
    },
    /// Nothing but time has passed.
    Tick,
    /// The settlement is durable.
    SettlePersisted,
}

impl Input {
    /// In snake case, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Input::Start => "start",
            Input::StartPersisted => "start_persisted",
            Input::Assigned { .. } => "assigned",
            Input::AttemptStarted { .. } => "attempt_started",
            Input::AttemptReturned { .. } => "attempt_returned",
            Input::AttemptEnded { .. } => "attempt_ended",
            Input::ActionNotFound { .. } => "action_not_found",
            Input::Tick => "tick",
            Input::SettlePersisted => "settle_persisted",
        }
    }

    /// Returns the step that it is about.
    pub(super) fn step(&self) -> Option<StepIndex> {
        match self {
            Input::Assigned { step, .. }
            | Input::AttemptStarted { step, .. }
            | Input::AttemptReturned { step, .. }
            | Input::AttemptEnded { step, .. }
            | Input::ActionNotFound { step, .. } => Some(*step),
            Input::Start | Input::StartPersisted | Input::Tick | Input::SettlePersisted => None,
        }
    }
}

spelled! {
    /// How it is known that an attempt had no effect.
    pub enum Evidence {
        /// The worker refused it.
        Rejected = "rejected",
        /// The worker gave it back unstarted.
        Released = "released",
        /// The worker's lease ran out before it said that the attempt started.
        LeaseExpired = "lease_expired",
        /// The worker came back without it.
        ResumeOmits = "resume_omits",
        /// The worker was asked what it has, and it was not there.
        SnapshotOmits = "snapshot_omits",
        /// The worker took its leave.
        Goodbye = "goodbye",
        /// An operator said that the worker is gone.
        DeclaredDead = "declared_dead",
        /// The worker may not do it and did nothing; another worker may. The only one for an attempt that started.
        Refused = "refused",
    }
}

/// An input that does not fit. It changed nothing; timers that were due by then fired all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where the execution stood when the input came.
    pub phase: Phase,
    /// The input's name.
    pub input: &'static str,
    /// The state of the step that the input names; `None` if steps do not matter, or the step does not
    /// exist.
    pub step: Option<StepState>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused: the execution is {:?}", self.input, self.phase)?;
        match self.step {
            Some(state) => write!(f, ", the step is {state:?}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Refused {}
