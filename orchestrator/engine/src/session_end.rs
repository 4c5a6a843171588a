//! How sessions break and end. A broken stream proves nothing about the work.

use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::fleet::LastHello;
use crate::input::SessionKey;
use crate::limits::INSTANCES_REMEMBERED_MAX;
use crate::worker::{SessionErrorCode, ToWorker};
use alloc::vec::Vec;
use escapement_contract::Evidence;
use escapement_model::AttemptToken;

/// What a worker that is gone leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Attempts that had started.
    pub(crate) n_lost: u32,
    /// Attempts that wait for another worker.
    pub(crate) n_returned: u32,
}

/// What became of an attempt whose worker does not have it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It was over already.
    Over,
    /// It had started.
    Lost,
    /// It waits for another worker.
    Returned,
}

impl Engine {
    pub(crate) fn session_closed(&mut self, key: SessionKey) {
        if self.fleet.sessions.contains_key(&key) {
            self.stream_ended(key);
        }
    }

    /// Ends a stream on account of the worker; the session itself is left as it is.
    pub(crate) fn end_stream(
        &mut self,
        key: SessionKey,
        code: SessionErrorCode,
        detail: &str,
        retry_after_ms: u64,
    ) {
        self.send(
            key,
            ToWorker::SessionError {
                code,
                detail: detail.into(),
                retry_after_ms,
            },
        );
        self.effects.push_back(Effect::CloseSession(key));
        self.session_mut(key).connected = false;
    }

    /// The stream is gone. The session turns suspect: no new work, its attempts stay, until the instance comes back or
    /// the lease is over.
    pub(crate) fn stream_ended(&mut self, key: SessionKey) {
        let session = self.session_mut(key);
        session.connected = false;
        let nothing_left = session.identity.is_none() || session.tokens().is_empty();
        self.withdraw_actions(key);
        if nothing_left {
            self.forget_session(key);
        }
    }

    pub(crate) fn worker_drain(&mut self, key: SessionKey) {
        self.stop_offering(key);
        self.tell_drain_started(key);
    }

    pub(crate) fn tell_drain_started(&mut self, key: SessionKey) {
        let session = self.session_mut(key);
        session.drain_told = true;
        let last_assignment_seq = session.last_assignment_seq;
        self.send(key, ToWorker::DrainStarted { last_assignment_seq });
    }

    /// With nothing in flight the clean end; whatever is left never comes back.
    pub(crate) fn goodbye(&mut self, key: SessionKey) {
        self.effects.push_back(Effect::CloseSession(key));
        self.session_mut(key).connected = false;
        self.lose_session(key, Evidence::Goodbye);
    }

    pub(crate) fn lose_session(&mut self, key: SessionKey, evidence: Evidence) -> Losses {
        self.withdraw_actions(key);
        let tokens: Vec<AttemptToken> = self.session_mut(key).tokens().iter().copied().collect();
        let mut losses = Losses::default();
        for token in tokens {
            match self.settle_gone(token, evidence) {
                Gone::Over => {}
                Gone::Lost => losses.n_lost += 1,
                Gone::Returned => losses.n_returned += 1,
            }
        }
        let worker_id = self
            .session_mut(key)
            .identity
            .as_ref()
            .map(|worker| worker.worker_id.clone());
        if let Some(worker_id) = worker_id
            && losses.n_lost + losses.n_returned > 0
        {
            self.effects.push_back(Effect::WorkerLost {
                worker_id,
                evidence,
                n_lost: losses.n_lost,
                n_returned: losses.n_returned,
            });
        }
        self.forget_session(key);
        losses
    }

    pub(crate) fn forget_session(&mut self, key: SessionKey) {
        self.drop_actions(key);
        for timer in [
            Timer::Lease(key),
            Timer::Cancels(key),
            Timer::Pause(key),
            Timer::Snapshot(key),
        ] {
            self.timers.set(timer, None);
        }
        let session = self
            .fleet
            .sessions
            .remove(&key)
            .expect("a session is forgotten once");
        assert!(
            session.tokens().is_empty(),
            "a session is forgotten when it has nothing left"
        );
        if let (Some(identity), Some(last)) = (&session.identity, LastHello::of(&session))
            && self.fleet.instances.get(&identity.instance_id) == Some(&key)
        {
            self.fleet.instances.remove(&identity.instance_id);
            self.fleet
                .last_hellos
                .remember(identity.instance_id, last, INSTANCES_REMEMBERED_MAX);
        }
    }
}
