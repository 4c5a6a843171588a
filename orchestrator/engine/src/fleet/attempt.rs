//! Attempts that workers have.

use super::Told;
use crate::keys::{ActionKey, ExecutionKey, SessionKey};
use crate::worker::{AckVerdict, CancelReason};
use escapement_contract::{Evidence, Input as ContractInput, Outcome, StepIndex};
use escapement_model::planted::{self, Bug};

/// An attempt that a worker has. It holds its credit until the worker is released from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(super) execution: ExecutionKey,
    pub(super) step: StepIndex,
    pub(super) number: u32,
    pub(super) action: ActionKey,
    pub(super) depth: u32,
    pub(super) session: SessionKey,
    /// Number of the message that carried it on its session; 0 if it came over from an earlier one.
    pub(super) assignment_seq: u64,
    pub(super) assigned_at_ms: u64,
    /// The worker said that its handler runs.
    pub(super) started: bool,
    /// The attempt is over for its execution; the worker has been told to stop.
    pub(super) over: Option<Over>,
}

impl Attempt {
    /// Number of an attempt whose message is not sent yet: no snapshot covers it.
    pub(super) const NOT_SENT: u64 = u64::MAX;

    pub(super) fn is_held_by(&self, session: SessionKey) -> bool {
        self.session == session || planted::is_on(Bug::ForeignToken)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    pub(crate) fn execution(&self) -> ExecutionKey {
        self.execution
    }

    pub(crate) fn session(&self) -> SessionKey {
        self.session
    }

    /// What its execution is told when its handler runs.
    pub(super) fn is_told_started(&self) -> Told {
        self.tell(|step, attempt| ContractInput::AttemptStarted { step, attempt })
    }

    pub(super) fn is_told_ended(&self, outcome: Outcome) -> Told {
        self.tell(|step, attempt| ContractInput::AttemptEnded {
            step,
            attempt,
            outcome,
        })
    }

    pub(super) fn is_told_returned(&self, evidence: Evidence) -> Told {
        self.tell(|step, attempt| ContractInput::AttemptReturned {
            step,
            attempt,
            evidence,
        })
    }

    fn tell(&self, input: impl FnOnce(StepIndex, u32) -> ContractInput) -> Told {
        Told {
            execution: self.execution,
            input: input(self.step, self.number),
        }
    }

    /// Returns what a worker is told that reports it from now on.
    pub(super) fn later_verdict(&self) -> AckVerdict {
        self.over.map_or(AckVerdict::AlreadyEnded, |over| over.later)
    }
}

/// Why and since when an attempt is over that its worker still has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) reason: CancelReason,
    pub(super) since_ms: u64,
    /// What a worker is told that still reports it.
    pub(super) later: AckVerdict,
}
