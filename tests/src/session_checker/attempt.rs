//! What the checker knows of one attempt. Decides nothing.

use crate::session_journal::{AssignedItem, CancelReason, Event, Hex, OutcomeKind, Uuid};

use super::idle::ActionId;

/// A hand-out of one step.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) execution: Uuid,
    pub(super) step: Uuid,
    pub(super) number: u32,
    pub(super) action: ActionId,
    /// Which boot handed it out.
    pub(super) boot: u64,
    /// Where it was handed out.
    pub(super) line: usize,
    pub(super) t: u64,
    pub(super) timeout_ms: u64,
    /// The session in whose books it stands.
    pub(super) holder: u64,
    /// The instance of that session.
    pub(super) instance: Option<Hex>,
    /// The message that carried it on that session; 0 after a resume.
    pub(super) seq: u64,
    /// It holds a credit of the action's own.
    pub(super) waits: bool,
    /// It holds a credit of the holder.
    pub(super) credit: bool,
    /// The orchestrator was told that its handler began.
    pub(super) started: bool,
    /// The worker gave it up, or lists it as finished after its lease: that says that it began without saying when.
    pub(super) released: bool,
    /// Somebody reported it by a call.
    pub(super) called: bool,
    /// What was reported of it first.
    pub(super) reported: Option<OutcomeKind>,
    /// An outcome of it had a final answer.
    pub(super) answered: bool,
    pub(super) state: State,
    pub(super) evidence: Evidence,
}

impl Attempt {
    pub(super) fn new(item: &AssignedItem, action: ActionId, boot: u64, event: &Event) -> Self {
        Self {
            execution: item.execution,
            step: item.step,
            number: item.attempt,
            action,
            boot,
            line: event.line,
            t: event.t,
            timeout_ms: u64::try_from(item.timeout_ms).unwrap_or(0),
            holder: event.session,
            instance: None,
            seq: 0,
            waits: false,
            credit: false,
            started: false,
            released: false,
            called: false,
            reported: None,
            answered: false,
            state: State::Live,
            evidence: Evidence::NONE,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Its outcome was read as its stream ended, so nobody was told what became of it.
    pub(super) fn may_be_accepted(&self) -> bool {
        self.reported.is_some() && self.state == State::Ended(Why::Unseen)
    }

    /// An outcome of one of these kinds was accepted, or may have been.
    pub(super) fn may_have_ended_with(&self, kinds: &[OutcomeKind]) -> bool {
        match self.state {
            State::Accepted(kind) => kinds.contains(&kind),
            State::Ended(Why::Unseen) => self.reported.is_some_and(|kind| kinds.contains(&kind)),
            State::Live | State::Gone | State::Ended(Why::Cancelled(_) | Why::TimedOut | Why::Stopped) => {
                false
            }
        }
    }
}

/// True if an attempt is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// An outcome of this kind was accepted.
    Accepted(OutcomeKind),
    /// The worker does not have it.
    Gone,
    /// It is not wanted any more.
    Ended(Why),
}

/// Reason why an attempt is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Cancelled(CancelReason),
    /// Its time ran out while nobody could be told.
    TimedOut,
    /// The worker came back with it and was told to stop: it ended before, and no line says of what.
    Stopped,
    /// The journal does not say why.
    Unseen,
}

/// How it may be known that a worker does not have an attempt: a set, since the journal may allow several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence(u8);

impl Evidence {
    pub(super) const NONE: Self = Self(0);
    pub(super) const REJECTED: Self = Self(1);
    pub(super) const RELEASED: Self = Self(2);
    pub(super) const LEASE_EXPIRED: Self = Self(4);
    pub(super) const RESUME_OMITS: Self = Self(8);
    pub(super) const SNAPSHOT_OMITS: Self = Self(16);
    pub(super) const GOODBYE: Self = Self(32);
    pub(super) const DECLARED_DEAD: Self = Self(64);
    /// `stopped` for what was not cancelled: it has no name in records.
    pub(super) const STOPPED: Self = Self(128);

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// Returns true if a record may name it so.
    pub(super) fn allows(self, name: &str) -> bool {
        let named = match name {
            "rejected" => Self::REJECTED,
            "released" => Self::RELEASED,
            "lease_expired" => Self::LEASE_EXPIRED,
            "resume_omits" => Self::RESUME_OMITS,
            "snapshot_omits" => Self::SNAPSHOT_OMITS,
            "goodbye" => Self::GOODBYE,
            "declared_dead" => Self::DECLARED_DEAD,
            _ => Self::NONE,
        };
        self.0 & named.0 != 0
    }
}
