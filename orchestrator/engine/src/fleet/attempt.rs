//! Attempts that workers have.

use super::ActionKey;
use crate::input::SessionKey;
use crate::live::ExecutionKey;
use crate::worker::{AckVerdict, CancelReason};
use escapement_contract::StepIndex;

/// An attempt that a worker has. It holds its credit until the worker is released from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) execution: ExecutionKey,
    pub(crate) step: StepIndex,
    pub(crate) number: u32,
    pub(crate) action: ActionKey,
    pub(crate) depth: u32,
    pub(crate) session: SessionKey,
    /// Number of the message that carried it on its session; 0 where it came over from an earlier one.
    pub(crate) assignment_seq: u64,
    pub(crate) assigned_at_ms: u64,
    /// The worker said that its handler runs.
    pub(crate) started: bool,
    /// The attempt is over for its execution; the worker has been told to stop.
    pub(crate) over: Option<Over>,
}

impl Attempt {
    /// Number of an attempt whose message is not sent yet: no snapshot covers it.
    pub(crate) const NOT_SENT: u64 = u64::MAX;

    /// What a worker is told that reports it from now on, with nothing else to say about it.
    pub(crate) fn later_verdict(&self) -> AckVerdict {
        self.over.map_or(AckVerdict::AlreadyEnded, |over| over.later)
    }
}

/// Why and since when an attempt is over that its worker still has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    pub(crate) reason: CancelReason,
    pub(crate) since_ms: u64,
    /// What the worker is told that still reports it.
    pub(crate) later: AckVerdict,
}
