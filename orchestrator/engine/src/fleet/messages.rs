//! What workers say, as far as it is the same for all messages: their order, what they cost, the signs of life.
//! Judges no attempt.

use super::allowance::{Allowance, cost_of};
use super::message_split::{can_answer, split_by_size, unreadable_bytes};
use super::session::Session;
use super::{Fleet, Timer};
use crate::keys::SessionKey;
use crate::limits::WORKER_LIST_MAX;
use crate::turn::Turn;
use crate::worker::{FromWorker, SessionErrorCode, ToWorker};
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::{SessionId, limits};

impl Fleet {
    pub(crate) fn session_opened(&mut self, key: SessionKey, session_id: SessionId, turn: &Turn) {
        let now_ms = turn.now_ms();
        let allowance = Allowance::new(
            self.config.session_messages_burst,
            self.config.session_messages_per_second,
            now_ms,
        );
        let session = Session::new(session_id, allowance, now_ms);
        self.sessions.insert(key, session);
        // Until its hello it has no lease but this one.
        let due_ms = now_ms.saturating_add(limits::HELLO_TIMEOUT_MS);
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    /// Returns true if a message may be handled. If not, it is refused, and the session with it.
    pub(crate) fn admit_message(
        &mut self,
        key: SessionKey,
        seq: u64,
        message: &FromWorker,
        turn: &mut Turn,
    ) -> bool {
        // A stream that was ended here may still deliver what was on its way.
        let session = self.sessions.get_mut(&key);
        let Some(session) = session.filter(|session| session.connected) else {
            return false;
        };
        let Err((code, detail)) = check_message(session, seq, message, turn) else {
            return true;
        };
        self.refuse_session(key, code, &detail, turn);
        false
    }

    pub(crate) fn heartbeat(
        &mut self,
        key: SessionKey,
        n: u64,
        in_flight_hash: Option<[u8; 16]>,
        turn: &mut Turn,
    ) {
        self.hears(key, turn);
        self.send(key, ToWorker::HeartbeatAck { n }, turn);
        if let Some(in_flight_hash) = in_flight_hash {
            self.compare_books(key, in_flight_hash, turn);
        }
    }

    /// Answers outcomes whose tokens are no tokens.
    pub(crate) fn answer_unreadable(&mut self, key: SessionKey, unreadable: Vec<Bytes>, turn: &mut Turn) {
        for unreadable in split_by_size(unreadable, unreadable_bytes) {
            self.send(key, ToWorker::UnknownOutcomes(unreadable), turn);
        }
    }

    /// A worker without room is left alone for a moment, or it would be asked again at once, for ever.
    pub(super) fn pause_session(&mut self, key: SessionKey, turn: &Turn) {
        let until_ms = turn.now_ms() + self.config.rejection_pause_ms.max(1);
        self.session_mut(key).paused_until_ms = until_ms;
        self.timers.set(Timer::Pause(key), Some(until_ms));
        self.reindex(key);
    }

    pub(super) fn pause_over(&mut self, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.paused_until_ms = 0;
            self.reindex(key);
        }
    }

    pub(super) fn session_mut(&mut self, key: SessionKey) -> &mut Session {
        self.sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there")
    }

    pub(super) fn refuse_session(
        &mut self,
        key: SessionKey,
        code: SessionErrorCode,
        detail: &str,
        turn: &mut Turn,
    ) {
        self.end_stream(key, code, detail, RETRY_AFTER_MS, turn);
        self.stream_ended(key, turn);
    }
}

fn check_message(
    session: &mut Session,
    seq: u64,
    message: &FromWorker,
    turn: &Turn,
) -> Result<(), (SessionErrorCode, Cow<'static, str>)> {
    let next_seq = session.last_seq_in + 1;
    if seq != next_seq {
        let detail = format!("expected message {next_seq}, got {seq}");
        return Err((SessionErrorCode::ProtocolViolation, detail.into()));
    }
    session.last_seq_in = seq;
    if let Some(detail) = broken_limit(message) {
        return Err((SessionErrorCode::LimitExceeded, detail.into()));
    }
    let n_held = session.tokens().len();
    if !session.allowance.take(cost_of(message), n_held, turn.now_ms()) {
        return Err((SessionErrorCode::LimitExceeded, "too many messages".into()));
    }
    let out_of_order = match (session.identity.is_some(), message) {
        (false, FromWorker::Hello(_)) | (_, FromWorker::Unknown) => return Ok(()),
        (true, FromWorker::Hello(_)) => "a second hello",
        (false, _) => "the first message must be hello",
        (true, _) => return Ok(()),
    };
    Err((SessionErrorCode::ProtocolViolation, out_of_order.into()))
}

/// Returns the limit that a message breaks, in words.
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
