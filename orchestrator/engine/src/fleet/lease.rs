//! Lease expiry. If more than a fifth of the sessions fall silent together, the cause is hardly the workers: each lease is
//! extended once.

use super::session::Session;
use super::{Fleet, Timer};
use crate::keys::SessionKey;
use crate::limits;
use crate::turn::Turn;
use crate::worker::SessionErrorCode;
use alloc::vec::Vec;
use escapement_model::planted::{self, Bug};

impl Fleet {
    /// The worker was heard: its lease counts from now.
    pub(super) fn renew_lease(&mut self, key: SessionKey, turn: &Turn) {
        self.session_mut(key).heard_at_ms = turn.now_ms();
        self.arm_lease(key, turn.now_ms());
    }

    /// A heartbeat follows a welcome that was read: the worker hears what it is sent, and may get work.
    pub(super) fn hears(&mut self, key: SessionKey, turn: &Turn) {
        let session = self.session_mut(key);
        session.heard_at_ms = turn.now_ms();
        session.held_back = false;
        session.lease_extended = false;
        session.deaf_since_ms = None;
        self.arm_lease(key, turn.now_ms());
        self.reindex(key);
    }

    fn arm_lease(&mut self, key: SessionKey, heard_at_ms: u64) {
        let due_ms = heard_at_ms + self.patience_ms();
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    /// After so much silence a worker has expired by itself a margin ago.
    pub(super) fn patience_ms(&self) -> u64 {
        if planted::is_on(Bug::LeaseTooShort) {
            return self.config.lease_ms / 2;
        }
        self.config.lease_ms + self.config.lease_margin_ms
    }

    /// Returns true if the session is over: the worker has expired by itself a margin ago, so what it had is settled by
    /// evidence.
    pub(super) fn lease_due(&mut self, key: SessionKey, turn: &mut Turn) -> bool {
        let session = &self.sessions[&key];
        let (is_connected, is_greeted) = (session.connected, session.identity.is_some());
        if is_greeted && !session.lease_extended && self.many_are_silent(turn) {
            self.extend_lease(key, turn);
            return false;
        }
        if is_connected {
            let (code, detail) = if is_greeted {
                (SessionErrorCode::LeaseExpired, "no heartbeat within the lease")
            } else {
                (SessionErrorCode::ProtocolViolation, "no hello in time")
            };
            self.end_stream(key, code, detail, 0, turn);
        }
        true
    }

    /// One more lease, once until it is heard. The worker has expired by itself all the same, so it gets no work until it is heard.
    fn extend_lease(&mut self, key: SessionKey, turn: &Turn) {
        let due_ms = turn.now_ms().saturating_add(self.config.lease_ms);
        let session = self.session_mut(key);
        session.lease_extended = true;
        session.held_back = true;
        self.reindex(key);
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    fn many_are_silent(&mut self, turn: &Turn) -> bool {
        let now_ms = turn.now_ms();
        // When thousands fall silent at once, their leases end at once: they are not counted for each.
        if now_ms < self.many_are_silent_until_ms {
            return true;
        }
        let sessions = self.sessions.values();
        let (mut n_greeted, mut n_silent) = (0_usize, 0_usize);
        for session in sessions.filter(|session| session.identity.is_some()) {
            n_greeted += 1;
            n_silent += usize::from(self.is_silent(session, turn));
        }
        let many =
            n_silent >= limits::MASS_LOSS_SESSIONS_MIN && n_silent * limits::MASS_LOSS_SHARE > n_greeted;
        if many {
            self.many_are_silent_until_ms = now_ms.saturating_add(limits::MASS_LOSS_HOLDS_MS);
        }
        many
    }

    fn is_silent(&self, session: &Session, turn: &Turn) -> bool {
        let silence_ms = turn.now_ms() - session.heard_at_ms;
        !session.connected || silence_ms > self.config.heartbeat_interval_ms.saturating_mul(2)
    }

    /// The process stood still and read no heartbeats: no worker is declared dead for that, and no action forgotten.
    pub(crate) fn forgive_pause(&mut self, now_ms: u64, stood_still_ms: u64, turn: &Turn) {
        self.renew_leases(now_ms);
        self.extend_registrations(stood_still_ms, turn);
    }

    /// Counts every lease from now.
    fn renew_leases(&mut self, now_ms: u64) {
        let sessions = self.sessions.iter();
        let greeted: Vec<SessionKey> = sessions
            .filter(|(_, session)| session.identity.is_some())
            .map(|(key, _)| *key)
            .collect();
        for key in greeted {
            let session = self.session_mut(key);
            session.heard_at_ms = now_ms;
            session.deaf_since_ms = session.deaf_since_ms.map(|_| now_ms);
            self.arm_lease(key, now_ms);
        }
    }
}
