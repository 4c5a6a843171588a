//! How workers are told that attempts are not wanted any more, until they answer. Frees no credit.

use super::attempt::Over;
use super::{Fleet, Timer};
use crate::keys::SessionKey;
use crate::limits::MESSAGES_PER_CANCEL;
use crate::turn::Turn;
use crate::worker::{AckVerdict, Cancel, CancelReason};
use alloc::vec::Vec;
use escapement_model::AttemptToken;

impl Fleet {
    /// Tells the worker that an attempt is not wanted any more. It keeps its credit until the worker answers;
    /// an outcome that still comes is answered with `later`.
    pub(crate) fn cancel(
        &mut self,
        token: AttemptToken,
        reason: CancelReason,
        later: AckVerdict,
        turn: &Turn,
    ) {
        let since_ms = turn.now_ms();
        let attempt = self
            .attempts
            .get_mut(&token)
            .expect("a live attempt is held by a session");
        attempt.over = Some(Over {
            reason,
            since_ms,
            later,
        });
        let session = attempt.session;
        self.session_mut(session).allowance.entitle(MESSAGES_PER_CANCEL);
        self.queue_cancel(session, token, reason);
        self.arm_cancels(session, turn);
    }

    /// Sends a cancel with the batch, once.
    pub(super) fn queue_cancel(&mut self, key: SessionKey, token: AttemptToken, reason: CancelReason) {
        let cancel = Cancel {
            token,
            reason,
            grace_ms: self.config.cancel_grace_ms,
        };
        self.session_mut(key).outbox.cancels.insert(token, cancel);
        self.unflushed.insert(key);
    }

    pub(super) fn repeat_cancels(&mut self, key: SessionKey, turn: &Turn) {
        let session = &self.sessions[&key];
        if !session.connected {
            return;
        }
        let over = session.tokens().iter().filter_map(|token| {
            let over = self.attempts[token].over?;
            Some((*token, over.reason))
        });
        let unanswered: Vec<(AttemptToken, CancelReason)> = over.collect();
        if unanswered.is_empty() {
            return;
        }
        for (token, reason) in unanswered {
            self.queue_cancel(key, token, reason);
        }
        self.arm_cancels(key, turn);
    }

    /// Sends the cancels of a session again if they are not answered in time.
    fn arm_cancels(&mut self, key: SessionKey, turn: &Turn) {
        // Time must pass between two rounds.
        let due_ms = turn.now_ms() + self.config.cancel_repeat_ms.max(1);
        self.timers.set(Timer::Cancels(key), Some(due_ms));
    }
}
