//! What the checker knows of one session: its levels, what it holds, and what is owed on it. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::session_journal::{ActionLevel, Hello, Hex, OutcomeKind};

use super::CheckerSettings;
use super::idle::ActionId;

/// A stream.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) stage: Stage,
    /// As its `Welcome` names it.
    pub(super) id: Option<Hex>,
    /// Read, and maybe not answered yet.
    pub(super) hello: Option<Hello>,
    /// The present session when `Hello` was read, if that has a later number.
    pub(super) held_up: bool,
    /// When `Hello` was read.
    pub(super) greeted_at: u64,
    /// The session of the instance that was welcomed last when `Hello` was read.
    pub(super) follows: Option<u64>,
    /// Since when the instance was deaf when it said `Hello`.
    pub(super) greeted_deaf_since: Option<u64>,
    /// The same, until a heartbeat shows that it hears: it gets no work before.
    pub(super) deaf_since: Option<u64>,
    pub(super) drain_started: bool,
    /// The engine has ended the stream: nothing that still comes is read.
    pub(super) is_shut: bool,
    /// An operator drained the instance before.
    pub(super) must_drain: bool,
    pub(super) capacity_revision: u64,
    pub(super) actions_revision: u64,
    pub(super) max_in_flight: u32,
    pub(super) actions: BTreeMap<ActionId, Level>,
    /// Attempts that hold a credit, by action.
    pub(super) in_flight: BTreeMap<ActionId, u32>,
    pub(super) n_ordinary: u32,
    pub(super) held: BTreeSet<Hex>,
    /// What its resume was told to stop: the orchestrator may count it until the worker has answered.
    pub(super) stopping: BTreeSet<Hex>,
    /// Rejected for a reason that will pass: it is not thought to have a free slot.
    pub(super) reluctant: bool,
    /// When `Hello` or the last heartbeat was read.
    pub(super) heard: u64,
    pub(super) last_out_seq: u64,
    pub(super) last_assignment_seq: u64,
    /// Number and time of the last snapshot request.
    pub(super) snapshot_n: u64,
    pub(super) snapshot_asked: Option<u64>,
    /// Outcomes that were read and not answered.
    pub(super) unanswered: BTreeMap<Hex, Unanswered>,
    /// Outcomes of the session before that the worker must send again, since its `Hello` did not list them.
    pub(super) owed: BTreeMap<Hex, usize>,
    allowance_milli: i64,
    allowance_at: u64,
    pub(super) over_allowance: bool,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Stage {
    /// Neither greeted nor welcomed.
    #[default]
    Opened,
    Welcomed,
    /// The stream is over; attempts stay until a resume or the end of the lease.
    Suspect,
    /// Nothing of it is left.
    Over,
}

/// The level of one action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// `None`: only the session's level bounds it.
    pub(super) max: Option<u32>,
    pub(super) waits: bool,
    /// The worker rejected it as unknown since it was registered.
    pub(super) forgotten: bool,
    /// A slot was free when this was asked last.
    pub(super) free: bool,
}

impl From<ActionLevel> for Level {
    fn from(level: ActionLevel) -> Self {
        Self {
            max: (level.max > 0).then_some(level.max),
            waits: level.waits,
            forgotten: false,
            free: false,
        }
    }
}

/// An outcome without an answer.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub(super) kinds: Vec<OutcomeKind>,
    pub(super) line: usize,
    pub(super) t: u64,
}

impl Session {
    pub(super) fn opened(t: u64, settings: &CheckerSettings) -> Self {
        Self {
            allowance_milli: milli(settings.session_messages_burst),
            allowance_at: t,
            heard: t,
            ..Self::default()
        }
    }

    pub(super) fn instance(&self) -> Option<Hex> {
        self.hello.as_ref().map(|hello| hello.instance)
    }

    pub(super) fn worker(&self) -> &str {
        self.hello.as_ref().map_or("", |hello| &hello.worker)
    }

    /// Says why no further attempt of the action may be sent, if that is so.
    pub(super) fn refusal(&self, action: ActionId) -> Option<String> {
        let Some(level) = self.actions.get(&action) else {
            return Some("the session does not offer the action".to_owned());
        };
        let n = self.in_flight.get(&action).copied().unwrap_or(0);
        if level.waits {
            let max = level.max.unwrap_or(0) * DEPTHS;
            return (n >= max)
                .then(|| format!("{n} of {max} attempts of an action that waits are in flight"));
        }
        if self.n_ordinary >= self.max_in_flight {
            let (n, max) = (self.n_ordinary, self.max_in_flight);
            return Some(format!("{n} of {max} attempts are in flight"));
        }
        let max = level.max.filter(|max| n >= *max)?;
        Some(format!("{n} of {max} attempts of the action are in flight"))
    }

    /// Returns true if work of the action would be sent if there were some.
    pub(super) fn has_free_slot(&self, action: ActionId) -> bool {
        let level = self.actions.get(&action);
        self.stage == Stage::Welcomed
            && !(self.drain_started || self.must_drain || self.reluctant)
            && self.deaf_since.is_none()
            && self.stopping.is_empty()
            && level.is_some_and(|level| !level.waits && !level.forgotten)
            && self.refusal(action).is_none()
    }

    pub(super) fn take_credit(&mut self, token: Hex, action: ActionId, waits: bool) {
        if self.held.insert(token) {
            *self.in_flight.entry(action).or_default() += 1;
            self.n_ordinary += u32::from(!waits);
        }
    }

    pub(super) fn release_credit(&mut self, token: Hex, action: ActionId, waits: bool) {
        if self.held.remove(&token) {
            if let Some(n) = self.in_flight.get_mut(&action) {
                *n -= 1;
            }
            self.n_ordinary -= u32::from(!waits);
        }
    }

    /// What the worker may send more, since so much was sent to it.
    pub(super) fn allow(&mut self, messages: u64) {
        self.allowance_milli = (self.allowance_milli + milli(messages)).min(milli(ALLOWANCE_MAX));
    }

    /// Takes what a message costs off the allowance; true the first time that it is clearly overdrawn.
    pub(super) fn overdraws(&mut self, t: u64, cost: u64, settings: &CheckerSettings) -> bool {
        let burst = milli(settings.session_messages_burst);
        if self.allowance_milli < burst {
            let grown = (t - self.allowance_at) * settings.session_messages_per_second;
            let grown = i64::try_from(grown).unwrap_or(i64::MAX);
            self.allowance_milli = self.allowance_milli.saturating_add(grown).min(burst);
        }
        self.allowance_at = t;
        self.allowance_milli -= milli(cost);
        let first = self.allowance_milli < -milli(ALLOWANCE_SLACK) && !self.over_allowance;
        self.over_allowance |= first;
        first
    }
}

fn milli(messages: u64) -> i64 {
    i64::try_from(messages * 1_000).unwrap_or(i64::MAX)
}

/// Depths of nesting at which an action that waits has its level each.
const DEPTHS: u32 = 9;
const ALLOWANCE_MAX: u64 = 200_000;
/// The engine may count in other portions of time.
const ALLOWANCE_SLACK: u64 = 100;
