//! What workers say: which message goes where. How sessions begin stands in `hello`, how they end in `session_end`.

use crate::cut::{can_answer, split_by_size, unreadable_bytes};
use crate::engine::{Engine, Timer};
use crate::fleet::{Allowance, Session, cost_of};
use crate::input::SessionKey;
use crate::limits::WORKER_LIST_MAX;
use crate::worker::{FromWorker, SessionErrorCode, ToWorker};
use alloc::format;
use escapement_model::{SessionId, limits};

impl Engine {
    pub(crate) fn session_opened(&mut self, key: SessionKey, session_id: SessionId) {
        let now_ms = self.now.monotonic_ms;
        let allowance = Allowance::new(
            self.config.session_messages_burst,
            self.config.session_messages_per_second,
            now_ms,
        );
        let session = Session::new(session_id, allowance, now_ms);
        self.fleet.sessions.insert(key, session);
        // Until its hello it has no lease but this one.
        let due_ms = now_ms.saturating_add(limits::HELLO_TIMEOUT_MS);
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    pub(crate) fn session_message(&mut self, key: SessionKey, seq: u64, message: FromWorker) {
        let now_ms = self.now.monotonic_ms;
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
        if let Some(detail) = broken_limit(&message) {
            return self.refuse_session(key, SessionErrorCode::LimitExceeded, detail);
        }
        let n_held = session.tokens().len();
        if !session.allowance.take(cost_of(&message), n_held, now_ms) {
            return self.refuse_session(key, SessionErrorCode::LimitExceeded, "too many messages");
        }
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
            (true, FromWorker::Heartbeat { n, in_flight_hash }) => self.heartbeat(key, n, in_flight_hash),
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
                for unreadable in split_by_size(unreadable, unreadable_bytes) {
                    self.send(key, ToWorker::UnknownOutcomes(unreadable));
                }
            }
            (
                true,
                FromWorker::Snapshot {
                    n,
                    last_assignment_seq,
                    in_flight,
                },
            ) => self.snapshot(key, n, last_assignment_seq, &in_flight),
            (true, FromWorker::Drain) => self.worker_drain(key),
            (true, FromWorker::Goodbye) => self.goodbye(key),
        }
    }

    fn heartbeat(&mut self, key: SessionKey, n: u64, in_flight_hash: Option<[u8; 16]>) {
        self.hears(key);
        self.send(key, ToWorker::HeartbeatAck { n });
        if let Some(in_flight_hash) = in_flight_hash {
            self.compare_books(key, in_flight_hash);
        }
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
        self.end_stream(key, code, detail, RETRY_AFTER_MS);
        self.stream_ended(key);
    }
}

/// The limit that a message breaks, for people.
fn broken_limit(message: &FromWorker) -> Option<&'static str> {
    let (is_broken, detail) = match message {
        FromWorker::RegisterActions { actions, .. } => {
            (actions.len() > limits::SESSION_ACTIONS_MAX, "too many actions")
        }
        FromWorker::AttemptAcks {
            started,
            rejected,
            stopped,
        } => {
            let longest = started.len().max(rejected.len()).max(stopped.len());
            (longest > WORKER_LIST_MAX, "too many answers in one message")
        }
        FromWorker::Outcomes { unreadable, .. } if !unreadable.iter().all(can_answer) => {
            (true, "a token that no answer can hold")
        }
        FromWorker::Outcomes { items, unreadable } => (
            items.len() + unreadable.len() > WORKER_LIST_MAX,
            "too many outcomes in one message",
        ),
        FromWorker::Snapshot { in_flight, .. } => (in_flight.len() > WORKER_LIST_MAX, "too many attempts"),
        FromWorker::Capacity { per_action, .. } => {
            (per_action.len() > limits::SESSION_ACTIONS_MAX, "too many actions")
        }
        // A hello has its own checks.
        FromWorker::Hello(_)
        | FromWorker::Heartbeat { .. }
        | FromWorker::Drain
        | FromWorker::Goodbye
        | FromWorker::Unknown => (false, ""),
    };
    is_broken.then_some(detail)
}

/// For a worker that did not keep to the protocol: it will hardly do better at once.
const RETRY_AFTER_MS: u64 = 1_000;
