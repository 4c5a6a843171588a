//! How long silence is borne. Where many fall silent at once it is hardly the workers, so nobody is lost in a hurry.

use crate::engine::{Engine, Timer};
use crate::fleet::Session;
use crate::input::SessionKey;
use crate::limits;
use crate::worker::SessionErrorCode;
use alloc::vec::Vec;
use escapement_contract::Evidence;
use escapement_model::planted::{self, Bug};

impl Engine {
    /// The worker was heard: its lease counts from now.
    pub(crate) fn renew_lease(&mut self, key: SessionKey) {
        self.session_mut(key).heard_at_ms = self.now.monotonic_ms;
        self.arm_lease(key);
    }

    /// A heartbeat follows a welcome that was read: the worker hears what it is sent, and may get work.
    pub(crate) fn hears(&mut self, key: SessionKey) {
        self.renew_lease(key);
        let session = self.session_mut(key);
        session.held_back = false;
        session.lease_extended = false;
        session.deaf_since_ms = None;
        self.fleet.refresh_free(key);
    }

    fn arm_lease(&mut self, key: SessionKey) {
        let due_ms = self.session_mut(key).heard_at_ms + self.patience_ms();
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    /// After so much silence a worker has expired by itself a margin ago.
    pub(crate) fn patience_ms(&self) -> u64 {
        if planted::is_on(Bug::LeaseTooShort) {
            return self.config.lease_ms / 2;
        }
        self.config.lease_ms + self.config.lease_margin_ms
    }

    /// The worker has expired by itself a margin ago, so what it had is settled by evidence.
    pub(crate) fn lease_due(&mut self, key: SessionKey) {
        let session = &self.fleet.sessions[&key];
        let (is_connected, is_greeted) = (session.connected, session.identity.is_some());
        if is_greeted && !session.lease_extended && self.many_are_silent() {
            return self.extend_lease(key);
        }
        if is_connected {
            let (code, detail) = if is_greeted {
                (SessionErrorCode::LeaseExpired, "no heartbeat within the lease")
            } else {
                (SessionErrorCode::ProtocolViolation, "no hello in time")
            };
            self.end_stream(key, code, detail, 0);
        }
        self.lose_session(key, Evidence::LeaseExpired);
    }

    /// One more lease, once until it is heard. The worker has expired by itself all the same, so it gets no work until it is heard.
    fn extend_lease(&mut self, key: SessionKey) {
        let due_ms = self.now.monotonic_ms.saturating_add(self.config.lease_ms);
        let session = self.session_mut(key);
        session.lease_extended = true;
        session.held_back = true;
        self.fleet.refresh_free(key);
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    fn many_are_silent(&mut self) -> bool {
        let now_ms = self.now.monotonic_ms;
        // When thousands fall silent at once, their leases end at once: they are not counted for each.
        if now_ms < self.fleet.many_are_silent_until_ms {
            return true;
        }
        let sessions = self.fleet.sessions.values();
        let (mut n_greeted, mut n_silent) = (0_usize, 0_usize);
        for session in sessions.filter(|session| session.identity.is_some()) {
            n_greeted += 1;
            n_silent += usize::from(self.is_silent(session));
        }
        let many =
            n_silent >= limits::MASS_LOSS_SESSIONS_MIN && n_silent * limits::MASS_LOSS_SHARE > n_greeted;
        if many {
            self.fleet.many_are_silent_until_ms = now_ms.saturating_add(limits::MASS_LOSS_HOLDS_MS);
        }
        many
    }

    fn is_silent(&self, session: &Session) -> bool {
        let silence_ms = self.now.monotonic_ms - session.heard_at_ms;
        !session.connected || silence_ms > self.config.heartbeat_interval_ms.saturating_mul(2)
    }

    /// Counts every lease from now.
    pub(crate) fn renew_leases(&mut self, now_ms: u64) {
        let sessions = self.fleet.sessions.iter();
        let greeted: Vec<SessionKey> = sessions
            .filter(|(_, session)| session.identity.is_some())
            .map(|(key, _)| *key)
            .collect();
        for key in greeted {
            let session = self.session_mut(key);
            session.heard_at_ms = now_ms;
            session.deaf_since_ms = session.deaf_since_ms.map(|_| now_ms);
            self.arm_lease(key);
        }
    }
}
