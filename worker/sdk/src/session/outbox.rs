//! Pending messages of the present stream, and pending commands. Bounded by the attempts in flight.

use crate::session::{ATTEMPTS_MAX, Command, token_bytes};
use bytes::Bytes;
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::{AttemptAcks, RejectedAttempt, rejected_attempt};
use std::collections::VecDeque;

/// Collects the consequences of changes.
#[derive(Debug, Default)]
pub(super) struct Effects {
    commands: VecDeque<Command>,
    acks: AttemptAcks,
    /// Attempts whose outcomes have not been sent on this stream.
    outcomes: VecDeque<AttemptToken>,
}

impl Effects {
    pub(super) fn command(&mut self, command: Command) {
        self.commands.push_back(command);
    }

    pub(super) fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    pub(super) fn started(&mut self, token: AttemptToken) {
        self.acks.started.push(token_bytes(token));
    }

    pub(super) fn rejected(&mut self, token: AttemptToken, reason: rejected_attempt::Reason) {
        self.acks.rejected.push(RejectedAttempt {
            attempt_token: token_bytes(token),
            reason: reason.into(),
        });
    }

    pub(super) fn stopped(&mut self, token: AttemptToken) {
        self.acks.stopped.push(token_bytes(token));
    }

    pub(super) fn outcome(&mut self, token: AttemptToken) {
        self.outcomes.push_back(token);
    }

    /// Clears the messages of a stream that begins or ends: `Hello` and the recorded outcomes replace them.
    pub(super) fn clear_stream(&mut self) {
        self.acks = AttemptAcks::default();
        self.outcomes.clear();
    }

    /// Sends every recorded outcome on this stream, in the order of the tokens.
    pub(super) fn resend(&mut self, finished: impl Iterator<Item = AttemptToken>) {
        self.outcomes = finished.collect();
    }

    pub(super) fn has_acks(&self) -> bool {
        self.pending_acks() > 0
    }

    pub(super) fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// Returns true if more answers are waiting than credits can have caused.
    pub(super) fn is_flooded(&self) -> bool {
        self.pending_acks() > PENDING_ACKS_MAX
    }

    fn pending_acks(&self) -> usize {
        self.acks.started.len() + self.acks.rejected.len() + self.acks.stopped.len()
    }

    /// Returns the next message of acknowledgements.
    pub(super) fn take_acks(&mut self) -> Option<Request> {
        if !self.has_acks() {
            return None;
        }
        let first = |list: &mut Vec<Bytes>| list.drain(..list.len().min(ACKS_PER_MESSAGE_MAX)).collect();
        let rejected = &mut self.acks.rejected;
        Some(Request::AttemptAcks(AttemptAcks {
            started: first(&mut self.acks.started),
            rejected: rejected
                .drain(..rejected.len().min(ACKS_PER_MESSAGE_MAX))
                .collect(),
            stopped: first(&mut self.acks.stopped),
        }))
    }

    /// Returns the next outcome to send on this stream.
    pub(super) fn first_outcome(&self) -> Option<AttemptToken> {
        self.outcomes.front().copied()
    }

    /// Drops the next outcome, which is in a message, or needs none.
    pub(super) fn drop_first_outcome(&mut self) {
        self.outcomes.pop_front();
    }
}

/// Acknowledgements of one kind in one message: about 80 KiB.
const ACKS_PER_MESSAGE_MAX: usize = 4096;
/// Acknowledgements that may wait: twice the attempts that one session may have.
const PENDING_ACKS_MAX: usize = 2 * ATTEMPTS_MAX;
