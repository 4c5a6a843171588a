//! What workers say: which message goes where. How sessions begin, break and end stands in `session_end`.

use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::fleet::Session;
use crate::input::SessionKey;
use crate::worker::{FromWorker, SessionErrorCode, ToWorker};
use alloc::format;
use escapement_model::{SessionId, limits};

impl Engine {
    pub(crate) fn session_opened(&mut self, key: SessionKey, session_id: SessionId) {
        let now_ms = self.now.monotonic_ms;
        self.fleet.sessions.insert(key, Session::new(session_id, now_ms));
        // Until its hello it has no lease but this one.
        let due_ms = now_ms.saturating_add(limits::HELLO_TIMEOUT_MS);
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    pub(crate) fn session_message(&mut self, key: SessionKey, seq: u64, message: FromWorker) {
        // A stream that was ended here may still deliver what was on its way.
        let Some(session) = self
            .fleet
            .sessions
            .get_mut(&key)
            .filter(|session| session.connected)
        else {
            return;
        };
        if seq != session.last_seq_in + 1 {
            let detail = format!("expected message {}, got {seq}", session.last_seq_in + 1);
            return self.refuse_session(key, SessionErrorCode::ProtocolViolation, &detail);
        }
        session.last_seq_in = seq;
        match (session.identity.is_some(), message) {
            (false, FromWorker::Hello(hello)) => self.hello(key, hello),
            (true, FromWorker::Hello(_)) => {
                self.refuse_session(key, SessionErrorCode::ProtocolViolation, "a second hello");
            }
            (_, FromWorker::Unknown) => {}
            (false, _) => {
                self.refuse_session(
                    key,
                    SessionErrorCode::ProtocolViolation,
                    "the first message must be hello",
                );
            }
            (true, FromWorker::RegisterActions { actions, .. })
                if actions.len() > limits::SESSION_ACTIONS_MAX =>
            {
                self.refuse_session(key, SessionErrorCode::LimitExceeded, "too many actions");
            }
            (true, FromWorker::RegisterActions { revision, actions }) => {
                self.register(key, revision, actions);
            }
            (
                true,
                FromWorker::Capacity {
                    revision,
                    max_in_flight,
                    per_action,
                },
            ) => {
                self.set_capacity(key, revision, max_in_flight, &per_action);
            }
            (true, FromWorker::Heartbeat { n, .. }) => self.heartbeat(key, n),
            (
                true,
                FromWorker::AttemptAcks {
                    started,
                    rejected,
                    stopped,
                },
            ) => {
                started
                    .into_iter()
                    .for_each(|token| self.attempt_started(key, token));
                rejected
                    .into_iter()
                    .for_each(|(token, reason)| self.attempt_rejected(key, token, reason));
                stopped
                    .into_iter()
                    .for_each(|token| self.attempt_stopped(key, token));
            }
            (true, FromWorker::Outcomes { items, unreadable }) => {
                items
                    .into_iter()
                    .for_each(|(token, report)| self.outcome(key, token, report));
                if !unreadable.is_empty() {
                    self.send(key, ToWorker::UnknownOutcomes(unreadable));
                }
            }
            // Nobody asked for one.
            (true, FromWorker::Snapshot { .. }) => {}
            (true, FromWorker::Drain) => self.worker_drain(key),
            (true, FromWorker::Goodbye) => self.goodbye(key),
        }
    }

    fn heartbeat(&mut self, key: SessionKey, n: u64) {
        let now_ms = self.now.monotonic_ms;
        self.session_mut(key).heard_at_ms = now_ms;
        self.arm_lease(key);
        self.send(key, ToWorker::HeartbeatAck { n });
    }

    /// A worker without room is left alone for a moment, or it would be asked again at once, for ever.
    pub(crate) fn pause_session(&mut self, key: SessionKey) {
        let until_ms = self.now.monotonic_ms + self.config.rejection_pause_ms.max(1);
        self.session_mut(key).paused_until_ms = until_ms;
        self.timers.set(Timer::Pause(key), Some(until_ms));
        self.fleet.refresh_free(key);
    }

    pub(crate) fn pause_over(&mut self, key: SessionKey) {
        if let Some(session) = self.fleet.sessions.get_mut(&key) {
            session.paused_until_ms = 0;
            self.fleet.refresh_free(key);
        }
    }

    pub(crate) fn session_mut(&mut self, key: SessionKey) -> &mut Session {
        self.fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there")
    }

    pub(crate) fn refuse_session(&mut self, key: SessionKey, code: SessionErrorCode, detail: &str) {
        let retry_after_ms = 1_000;
        self.send(
            key,
            ToWorker::SessionError {
                code,
                detail: detail.into(),
                retry_after_ms,
            },
        );
        self.effects.push_back(Effect::CloseSession(key));
        self.stream_ended(key);
    }
}
