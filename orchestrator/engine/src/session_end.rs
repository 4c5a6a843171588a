//! How sessions begin, break, come back and end. A broken stream proves nothing about the work.

use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::fleet::{Attempt, Identity};
use crate::input::SessionKey;
use crate::worker::{Hello, InFlight, InFlightPhase, KeepOrStop, SessionErrorCode, ToWorker, Welcome};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use escapement_contract::{Evidence, Input as ContractInput};
use escapement_model::{AttemptToken, limits};

impl Engine {
    pub(crate) fn hello(&mut self, key: SessionKey, hello: Hello) {
        let speaks =
            hello.protocol_min <= limits::WORKER_PROTOCOL && limits::WORKER_PROTOCOL <= hello.protocol_max;
        if !speaks {
            return self.refuse_session(
                key,
                SessionErrorCode::UnsupportedProtocol,
                "this orchestrator speaks revision 1",
            );
        }
        if hello.actions.len() > limits::SESSION_ACTIONS_MAX || hello.labels.len() > limits::WORKER_LABELS_MAX
        {
            return self.refuse_session(key, SessionErrorCode::LimitExceeded, "too many actions or labels");
        }
        let n_chars = hello.worker_id.chars().count();
        if n_chars == 0 || n_chars > limits::LABEL_CHARS_MAX {
            let detail = "worker_id must have 1 to 255 code points";
            return self.refuse_session(key, SessionErrorCode::LimitExceeded, detail);
        }
        // A worker that comes back replaces its own session and so needs no room.
        let is_new = !self.fleet.instances.contains_key(&hello.instance_id);
        if is_new && self.fleet.instances.len() >= self.config.max_sessions {
            return self.refuse_session(key, SessionErrorCode::Unavailable, "too many worker sessions");
        }
        let previous = self.fleet.instances.insert(hello.instance_id, key);
        let now_ms = self.now.monotonic_ms;
        let session = self.session_mut(key);
        session.heard_at_ms = now_ms;
        session.max_in_flight = hello.max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX);
        session.identity = Some(Identity {
            worker_id: hello.worker_id,
            instance_id: hello.instance_id,
            labels: hello.labels,
            build: hello.build,
        });
        let session_id = session.session_id;
        let refused_actions = self.register(key, 0, hello.actions);
        if let Some(previous) = previous.filter(|previous| *previous != key) {
            self.take_over(previous, key, &hello.in_flight);
        }
        let verdicts = hello
            .in_flight
            .iter()
            .map(|item| (item.token, self.verdict_of(key, item)))
            .collect();
        self.send(
            key,
            ToWorker::Welcome(Welcome {
                session_id,
                refused_actions,
                verdicts,
            }),
        );
        self.arm_lease(key);
        self.repeat_cancels(key);
    }

    /// The same instance is back: what it still has moves to the new session, what it does not have is settled.
    fn take_over(&mut self, previous: SessionKey, key: SessionKey, in_flight: &[InFlight]) {
        if self.session_mut(previous).connected {
            self.refuse_session(
                previous,
                SessionErrorCode::Superseded,
                "the same instance opened a new session",
            );
        }
        // A session with nothing left is forgotten as soon as its stream ends.
        if !self.fleet.sessions.contains_key(&previous) {
            return;
        }
        let reported: BTreeMap<AttemptToken, InFlightPhase> =
            in_flight.iter().map(|item| (item.token, item.phase)).collect();
        let tokens: Vec<AttemptToken> = self.session_mut(previous).tokens.iter().copied().collect();
        for token in tokens {
            if reported.contains_key(&token) {
                self.move_attempt(token, key);
            } else {
                self.settle_gone(token, Evidence::ResumeOmits);
            }
        }
        self.forget_session(previous);
    }

    /// The attempt stays what it is; only the session that holds it changes.
    fn move_attempt(&mut self, token: AttemptToken, to: SessionKey) {
        let attempt = self.fleet.attempts.get_mut(&token).expect("its session holds it");
        let from = core::mem::replace(&mut attempt.session, to);
        let attempt = *attempt;
        self.session_mut(from).tokens.remove(&token);
        self.take_credit(token, &attempt);
    }

    fn verdict_of(&mut self, key: SessionKey, item: &InFlight) -> KeepOrStop {
        let Some(attempt) = self
            .fleet
            .attempts
            .get(&item.token)
            .filter(|attempt| attempt.session == key)
        else {
            return KeepOrStop::Stop;
        };
        let Attempt {
            execution,
            step,
            number,
            started,
            over,
            ..
        } = *attempt;
        if over.is_some() {
            return KeepOrStop::Stop;
        }
        let runs = matches!(item.phase, InFlightPhase::Running | InFlightPhase::Finished);
        if runs && !started {
            self.fleet
                .attempts
                .get_mut(&item.token)
                .expect("it was there a line ago")
                .started = true;
            let _already_over = self.act(
                execution,
                ContractInput::AttemptStarted {
                    step,
                    attempt: number,
                },
            );
        }
        KeepOrStop::Keep
    }

    pub(crate) fn session_closed(&mut self, key: SessionKey) {
        if self.fleet.sessions.contains_key(&key) {
            self.stream_ended(key);
        }
    }

    /// The stream is gone. The session turns suspect: no new work, its attempts stay, until the instance comes back or
    /// the lease is over.
    pub(crate) fn stream_ended(&mut self, key: SessionKey) {
        let session = self.session_mut(key);
        session.connected = false;
        let nothing_left = session.identity.is_none() || session.tokens.is_empty();
        self.withdraw_actions(key);
        if nothing_left {
            self.forget_session(key);
        }
    }

    pub(crate) fn worker_drain(&mut self, key: SessionKey) {
        self.stop_offering(key);
        let last_assignment_seq = self.session_mut(key).last_assignment_seq;
        self.send(key, ToWorker::DrainStarted { last_assignment_seq });
    }

    /// With nothing in flight the clean end; whatever is left never comes back.
    pub(crate) fn goodbye(&mut self, key: SessionKey) {
        self.effects.push_back(Effect::CloseSession(key));
        self.session_mut(key).connected = false;
        self.lose_session(key, Evidence::Goodbye);
    }

    pub(crate) fn arm_lease(&mut self, key: SessionKey) {
        let lease_ms = self.config.lease_ms + self.config.lease_margin_ms;
        let due_ms = self.session_mut(key).heard_at_ms + lease_ms;
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    /// The worker has expired by itself a margin ago, so what it had is settled by evidence.
    pub(crate) fn lease_due(&mut self, key: SessionKey) {
        let session = self.session_mut(key);
        if session.connected {
            let (code, detail) = match session.identity {
                Some(_) => (
                    SessionErrorCode::LeaseExpired,
                    "no heartbeat within the lease".into(),
                ),
                None => (SessionErrorCode::ProtocolViolation, "no hello in time".into()),
            };
            self.send(
                key,
                ToWorker::SessionError {
                    code,
                    detail,
                    retry_after_ms: 0,
                },
            );
            self.effects.push_back(Effect::CloseSession(key));
            self.session_mut(key).connected = false;
        }
        self.lose_session(key, Evidence::LeaseExpired);
    }

    /// Counts every lease from now.
    pub(crate) fn renew_leases(&mut self, now_ms: u64) {
        let keys: Vec<SessionKey> = self.fleet.sessions.keys().copied().collect();
        for key in keys {
            let session = self.session_mut(key);
            if session.identity.is_some() {
                session.heard_at_ms = now_ms;
                self.arm_lease(key);
            }
        }
    }

    fn lose_session(&mut self, key: SessionKey, evidence: Evidence) {
        self.withdraw_actions(key);
        let tokens: Vec<AttemptToken> = self.session_mut(key).tokens.iter().copied().collect();
        for token in tokens {
            self.settle_gone(token, evidence);
        }
        self.forget_session(key);
    }

    fn forget_session(&mut self, key: SessionKey) {
        self.drop_actions(key);
        for timer in [Timer::Lease(key), Timer::Cancels(key), Timer::Pause(key)] {
            self.timers.set(timer, None);
        }
        let session = self
            .fleet
            .sessions
            .remove(&key)
            .expect("a session is forgotten once");
        assert!(
            session.tokens.is_empty(),
            "a session is forgotten when it has nothing left"
        );
        if let Some(identity) = session.identity
            && self.fleet.instances.get(&identity.instance_id) == Some(&key)
        {
            self.fleet.instances.remove(&identity.instance_id);
        }
    }
}
