//! What is sent, in which order and under which number. Decides nothing about what a message says.

use super::Fleet;
use super::allowance::cost_of_entries;
use super::message_split::{assignment_bytes, split_by_size};
use crate::effect::Effect;
use crate::keys::SessionKey;
use crate::limits;
use crate::turn::Turn;
use crate::worker::{Assignment, ToWorker};
use alloc::vec::Vec;

impl Fleet {
    /// Sends what the batch left in the outboxes: answers first, then work, then cancels.
    ///
    /// A cancel frees no credit, so no work waits for it; and it never overtakes the work that it is about.
    pub(crate) fn flush_sessions(&mut self, turn: &mut Turn) {
        while let Some(key) = self.unflushed.pop_first() {
            let Some(session) = self.sessions.get_mut(&key) else {
                continue;
            };
            let outbox = core::mem::take(&mut session.outbox);
            for acks in split_by_size(outbox.outcome_acks, |_| limits::TOKEN_ITEM_BYTES) {
                self.send(key, ToWorker::OutcomeAcks(acks), turn);
            }
            for assignments in split_by_size(outbox.assignments, assignment_bytes) {
                self.send_assignments(key, assignments, turn);
            }
            let cancels = outbox.cancels.into_values().collect();
            for cancels in split_by_size(cancels, |_| limits::TOKEN_ITEM_BYTES) {
                self.send(key, ToWorker::Cancels(cancels), turn);
            }
        }
    }

    fn send_assignments(&mut self, key: SessionKey, assignments: Vec<Assignment>, turn: &mut Turn) {
        let seq = self.session_mut(key).last_seq_out + 1;
        for assignment in &assignments {
            // One that was settled since it was handed out is gone from the books.
            if let Some(attempt) = self.attempts.get_mut(&assignment.token) {
                attempt.assignment_seq = seq;
            }
        }
        self.session_mut(key).last_assignment_seq = seq;
        self.send(key, ToWorker::Assignments(assignments), turn);
        self.expect_answers(key, turn);
    }

    /// Queues a message under the next number of its stream; nothing is sent on a stream that has ended.
    pub(super) fn send(&mut self, key: SessionKey, message: ToWorker, turn: &mut Turn) {
        let session = self.session_mut(key);
        if !session.connected {
            return;
        }
        let entitled = match &message {
            ToWorker::Assignments(items) => items.len() as u64 * limits::MESSAGES_PER_ASSIGNMENT,
            ToWorker::SnapshotRequest { .. } => 1 + cost_of_entries(session.tokens().len()),
            _ => 0,
        };
        session.allowance.entitle(entitled);
        session.last_seq_out += 1;
        let seq = session.last_seq_out;
        turn.push(Effect::Send {
            session: key,
            seq,
            message,
        });
    }
}
