//! A stream of one worker, and what is about to be sent on it.

use super::allowance::Allowance;
use super::free::FreeSlots;
use super::snapshots::Snapshots;
use crate::keys::ActionKey;
use crate::limits::SESSION_ATTEMPTS_MAX;
use crate::worker::{AckVerdict, Assignment, Cancel};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::limits::NESTING_DEPTH_MAX;
use escapement_model::planted::{self, Bug};
use escapement_model::{AttemptToken, InstanceId, SessionId};

/// A session. It outlives its stream by the rest of the lease, so that the same instance can come back.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) session_id: SessionId,
    /// Present once the worker said `Hello`.
    pub(super) identity: Option<Identity>,
    /// The stream is there.
    pub(super) connected: bool,
    pub(super) draining: bool,
    /// It was told that no assignment follows.
    pub(super) drain_told: bool,
    pub(super) opened_at_ms: u64,
    pub(super) heard_at_ms: u64,
    /// It was silent together with many others and got a second lease; there is no third before its next heartbeat.
    pub(super) lease_extended: bool,
    /// True once a notice said that actions were refused.
    pub(super) refusals_told: bool,
    /// It gets no work before its next heartbeat: its lease was extended, or it may not hear what is sent to it.
    pub(super) held_back: bool,
    /// Since when nothing that was sent to the process has arrived, as far as its hello shows; a heartbeat ends it.
    pub(super) deaf_since_ms: Option<u64>,
    pub(super) allowance: Allowance,
    pub(super) snapshots: Snapshots,
    /// The worker said that it has no room; left alone until then.
    pub(super) paused_until_ms: u64,
    pub(super) last_seq_in: u64,
    pub(super) last_seq_out: u64,
    pub(super) last_assignment_seq: u64,
    pub(super) max_in_flight: u32,
    pub(super) capacity_revision: u64,
    pub(super) actions_revision: u64,
    pub(super) actions: BTreeMap<ActionKey, SessionAction>,
    /// Attempts that count against `max_in_flight`.
    pub(super) in_flight: u32,
    /// All attempts that the worker has not been released from.
    tokens: BTreeSet<AttemptToken>,
    /// XOR of these.
    tokens_hash: u128,
    pub(super) outbox: Outbox,
}

/// Who a worker says it is.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) worker_id: Arc<str>,
    pub(super) instance_id: InstanceId,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) build: String,
    /// 0 if its hellos are not numbered.
    pub(super) hello_number: u64,
    /// Owner of its registrations.
    pub(super) owner: Arc<str>,
}

/// An action that a session offers, and how much of it is taken.
#[derive(Debug)]
pub(super) struct SessionAction {
    /// Own level; `None`: the session's alone.
    pub(super) max_in_flight: Option<u32>,
    pub(super) waits: bool,
    /// As the action has them.
    pub(super) traits: Bytes,
    /// By depth of nesting; ordinary actions count everything under 0.
    pub(super) in_flight: BTreeMap<u32, u32>,
    /// The session's entries in the index of the action.
    pub(super) indexed: FreeSlots,
}

/// What the next flush sends.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) outcome_acks: Vec<(AttemptToken, AckVerdict)>,
    pub(super) cancels: BTreeMap<AttemptToken, Cancel>,
    pub(super) assignments: Vec<Assignment>,
}

impl Session {
    pub(super) fn new(session_id: SessionId, allowance: Allowance, now_ms: u64) -> Self {
        Self {
            session_id,
            identity: None,
            connected: true,
            draining: false,
            drain_told: false,
            opened_at_ms: now_ms,
            heard_at_ms: now_ms,
            lease_extended: false,
            refusals_told: false,
            held_back: false,
            deaf_since_ms: None,
            allowance,
            snapshots: Snapshots::new(now_ms),
            paused_until_ms: 0,
            last_seq_in: 0,
            last_seq_out: 0,
            last_assignment_seq: 0,
            max_in_flight: 0,
            capacity_revision: 0,
            actions_revision: 0,
            actions: BTreeMap::new(),
            in_flight: 0,
            tokens: BTreeSet::new(),
            tokens_hash: 0,
            outbox: Outbox::default(),
        }
    }

    /// Returns a session that offers its actions: greeted, connected, not leaving.
    pub(super) fn is_active(&self) -> bool {
        self.identity.is_some() && self.connected && !self.draining
    }

    pub(super) fn tokens(&self) -> &BTreeSet<AttemptToken> {
        &self.tokens
    }

    /// XOR of all tokens, as the worker's heartbeats have it.
    pub(super) fn tokens_hash(&self) -> u128 {
        self.tokens_hash
    }

    /// Enters an attempt into the session's books.
    pub(super) fn enter(&mut self, token: AttemptToken) {
        if self.tokens.insert(token) {
            self.tokens_hash ^= u128::from_be_bytes(*token.as_bytes());
            self.snapshots.books_changed();
        }
    }

    /// Takes an attempt out of the session's books.
    pub(super) fn strike_out(&mut self, token: AttemptToken) {
        if self.tokens.remove(&token) {
            self.tokens_hash ^= u128::from_be_bytes(*token.as_bytes());
            self.snapshots.books_changed();
        }
    }

    /// Takes a slot of an action. One that the session does not offer any more still takes ordinary room.
    pub(super) fn take_slot(&mut self, action: ActionKey, depth: u32) {
        let ordinary = self.actions.get_mut(&action).is_none_or(|offered| {
            offered.take(depth);
            !offered.waits
        });
        self.in_flight += u32::from(ordinary);
    }

    /// Gives back what [`Session::take_slot`] took.
    pub(super) fn give_back_slot(&mut self, action: ActionKey, depth: u32) {
        let ordinary = self.actions.get_mut(&action).is_none_or(|offered| {
            offered.give_back(depth);
            !offered.waits
        });
        self.in_flight -= u32::from(ordinary);
    }

    /// An active session that may get work now, if it has a slot for it.
    pub(super) fn takes_work(&self) -> bool {
        self.is_active()
            && self.paused_until_ms == 0
            && !self.held_back
            && self.tokens.len() < SESSION_ATTEMPTS_MAX
    }

    /// Returns true if it has an ordinary slot to spare as well.
    pub(super) fn has_ordinary_slot(&self) -> bool {
        let too_many = 2 * u32::from(planted::is_on(Bug::CreditsIgnored));
        self.takes_work() && self.in_flight < self.max_in_flight + too_many
    }
}

impl SessionAction {
    /// Returns the slots that its session has for it. `load`: that of the session, if it has an ordinary slot.
    pub(super) fn free_slots(&self, load: Option<u32>, takes_work: bool) -> FreeSlots {
        if !self.waits {
            return FreeSlots {
                load: load.filter(|_| self.has_own_slot(0)),
                depths: 0,
            };
        }
        let free = (0..=NESTING_DEPTH_MAX).filter(|depth| takes_work && self.has_own_slot(*depth));
        FreeSlots {
            load: None,
            depths: free.fold(0, |depths, depth| depths | 1 << depth),
        }
    }

    fn has_own_slot(&self, depth: u32) -> bool {
        self.max_in_flight.is_none_or(|max| self.taken(depth) < max)
    }

    fn take(&mut self, depth: u32) {
        *self.in_flight.entry(self.pool(depth)).or_default() += 1;
    }

    fn give_back(&mut self, depth: u32) {
        let pool = self.pool(depth);
        let taken = self
            .in_flight
            .get_mut(&pool)
            .expect("a slot is given back once, by who took it");
        *taken -= 1;
        if *taken == 0 {
            self.in_flight.remove(&pool);
        }
    }

    fn taken(&self, depth: u32) -> u32 {
        self.in_flight.get(&self.pool(depth)).copied().unwrap_or(0)
    }

    fn pool(&self, depth: u32) -> u32 {
        if self.waits { depth } else { 0 }
    }
}
