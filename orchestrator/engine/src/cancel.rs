//! How workers are told that attempts are not wanted any more, until they answer. Frees no credit.

use crate::engine::{Engine, Timer};
use crate::fleet::Over;
use crate::input::SessionKey;
use crate::worker::{AckVerdict, Cancel, CancelReason};
use alloc::vec::Vec;
use escapement_model::AttemptToken;

impl Engine {
    /// Tells the worker that an attempt is not wanted any more. It keeps its credit until the worker answers;
    /// an outcome that still comes is answered with `later`.
    pub(crate) fn cancel(&mut self, token: AttemptToken, reason: CancelReason, later: AckVerdict) {
        let since_ms = self.now.monotonic_ms;
        let attempt = self
            .fleet
            .attempts
            .get_mut(&token)
            .expect("a live attempt is held by a session");
        attempt.over = Some(Over {
            reason,
            since_ms,
            later,
        });
        let session = attempt.session;
        let grace_ms = self.config.cancel_grace_ms;
        self.session_mut(session).outbox.cancels.insert(
            token,
            Cancel {
                token,
                reason,
                grace_ms,
            },
        );
        self.arm_cancels(session);
    }

    pub(crate) fn repeat_cancels(&mut self, key: SessionKey) {
        let grace_ms = self.config.cancel_grace_ms;
        let session = &self.fleet.sessions[&key];
        if !session.connected {
            return;
        }
        let over = session.tokens().iter().filter_map(|token| {
            let over = self.fleet.attempts[token].over?;
            Some((*token, over.reason))
        });
        let unanswered: Vec<(AttemptToken, CancelReason)> = over.collect();
        if unanswered.is_empty() {
            return;
        }
        let cancels = &mut self.session_mut(key).outbox.cancels;
        cancels.extend(unanswered.into_iter().map(|(token, reason)| {
            (
                token,
                Cancel {
                    token,
                    reason,
                    grace_ms,
                },
            )
        }));
        self.arm_cancels(key);
    }

    /// Sends the cancels of a session with the batch, and again where they are not answered in time.
    fn arm_cancels(&mut self, key: SessionKey) {
        self.fleet.unflushed.insert(key);
        // Time must pass between two rounds.
        let due_ms = self.now.monotonic_ms + self.config.cancel_repeat_ms.max(1);
        self.timers.set(Timer::Cancels(key), Some(due_ms));
    }
}
