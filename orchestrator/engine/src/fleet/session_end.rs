//! How sessions break and end. A broken stream proves nothing about the work.

use super::last_hello::LastHello;
use super::{Fleet, Timer};
use crate::answer::Losses;
use crate::effect::Effect;
use crate::keys::SessionKey;
use crate::limits::INSTANCES_REMEMBERED_MAX;
use crate::turn::Turn;
use crate::worker::{SessionErrorCode, ToWorker};
use alloc::vec::Vec;
use escapement_contract::Evidence;
use escapement_model::AttemptToken;

impl Losses {
    pub(crate) fn count(&mut self, gone: Gone) {
        match gone {
            Gone::Over => {}
            Gone::Lost => self.n_lost += 1,
            Gone::Returned => self.n_returned += 1,
        }
    }
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

impl Fleet {
    pub(crate) fn session_closed(&mut self, key: SessionKey, turn: &Turn) {
        if self.sessions.contains_key(&key) {
            self.stream_ended(key, turn);
        }
    }

    /// Ends a stream on account of the worker; the session itself is left as it is.
    pub(super) fn end_stream(
        &mut self,
        key: SessionKey,
        code: SessionErrorCode,
        detail: &str,
        retry_after_ms: u64,
        turn: &mut Turn,
    ) {
        let detail = detail.into();
        self.send(
            key,
            ToWorker::SessionError {
                code,
                detail,
                retry_after_ms,
            },
            turn,
        );
        turn.push(Effect::CloseSession(key));
        self.session_mut(key).connected = false;
    }

    /// The stream is gone. The session turns suspect: no new work, its attempts stay, until the instance comes back or
    /// the lease is over.
    pub(super) fn stream_ended(&mut self, key: SessionKey, turn: &Turn) {
        let session = self.session_mut(key);
        session.connected = false;
        let nothing_left = session.identity.is_none() || session.tokens().is_empty();
        self.withdraw_actions(key, turn);
        if nothing_left {
            self.forget_session(key, turn);
        }
    }

    pub(crate) fn worker_drain(&mut self, key: SessionKey, turn: &mut Turn) {
        self.stop_offering(key, turn);
        self.tell_drain_started(key, turn);
    }

    pub(super) fn tell_drain_started(&mut self, key: SessionKey, turn: &mut Turn) {
        let session = self.session_mut(key);
        session.drain_told = true;
        let last_assignment_seq = session.last_assignment_seq;
        self.send(key, ToWorker::DrainStarted { last_assignment_seq }, turn);
    }

    /// The worker says that it leaves. With nothing in flight the clean end; what is left never comes back.
    pub(crate) fn goodbye(&mut self, key: SessionKey, turn: &mut Turn) {
        turn.push(Effect::CloseSession(key));
        self.session_mut(key).connected = false;
    }

    /// Returns the attempts of a session that is over: the caller settles each, and then calls [`Fleet::end_loss`].
    pub(crate) fn begin_loss(&mut self, key: SessionKey, turn: &Turn) -> Vec<AttemptToken> {
        self.withdraw_actions(key, turn);
        self.session_mut(key).tokens().iter().copied().collect()
    }

    pub(crate) fn end_loss(&mut self, key: SessionKey, evidence: Evidence, losses: Losses, turn: &mut Turn) {
        let Losses { n_lost, n_returned } = losses;
        let identity = self.session_mut(key).identity.as_ref();
        if let Some(worker_id) = identity.map(|worker| worker.worker_id.clone())
            && n_lost + n_returned > 0
        {
            turn.push(Effect::WorkerLost {
                worker_id,
                evidence,
                n_lost,
                n_returned,
            });
        }
        self.forget_session(key, turn);
    }

    pub(crate) fn forget_session(&mut self, key: SessionKey, turn: &Turn) {
        self.drop_actions(key, turn);
        for timer in [
            Timer::Lease(key),
            Timer::Cancels(key),
            Timer::Pause(key),
            Timer::Snapshot(key),
        ] {
            self.timers.set(timer, None);
        }
        let session = self.sessions.remove(&key).expect("a session is forgotten once");
        assert!(
            session.tokens().is_empty(),
            "a session is forgotten when it has nothing left"
        );
        if let (Some(identity), Some(last)) = (&session.identity, LastHello::of(&session))
            && self.instances.get(&identity.instance_id) == Some(&key)
        {
            self.instances.remove(&identity.instance_id);
            self.last_hellos
                .remember(identity.instance_id, last, INSTANCES_REMEMBERED_MAX);
        }
    }
}
