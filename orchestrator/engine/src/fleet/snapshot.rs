//! When a worker is asked what it has, and what its answer means. Guesses nothing: silence alone settles no attempt.

use super::attempt::Attempt;
use super::snapshots::Pace;
use super::{Fleet, Timer, Told};
use crate::keys::SessionKey;
use crate::turn::Turn;
use crate::worker::{CancelReason, InFlightPhase, ToWorker};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use escapement_model::AttemptToken;

impl Fleet {
    /// Looks again once the patience with what was just assigned is over.
    pub(super) fn expect_answers(&mut self, key: SessionKey, turn: &Turn) {
        let due_ms = turn.now_ms().saturating_add(self.pace().after_ms);
        let before = self.session_mut(key).snapshots.due_ms;
        if before.is_none_or(|before| before > due_ms) {
            self.arm_snapshot(key, Some(due_ms));
        }
    }

    /// Asks if an assignment or the last request has not been answered in time; otherwise arms the timer for it.
    pub(crate) fn snapshot_due(&mut self, key: SessionKey, turn: &mut Turn) {
        let pace = self.pace();
        let session = self.session_mut(key);
        // A worker that comes back has a new session.
        if !session.connected {
            return;
        }
        let due_ms = match session.snapshots.repeat_at_ms(pace) {
            Some(due_ms) => Some(due_ms),
            None => self.unanswered_at_ms(key, pace),
        };
        match due_ms {
            Some(due_ms) if due_ms <= turn.now_ms() => self.ask_for_snapshot(key, turn),
            later => self.arm_snapshot(key, later),
        }
    }

    /// Returns the time at which the worker has to be asked about the first of its assignments that it has not answered.
    fn unanswered_at_ms(&self, key: SessionKey, pace: Pace) -> Option<u64> {
        let session = &self.sessions[&key];
        let attempts = session.tokens().iter().map(|token| &self.attempts[token]);
        let unanswered = attempts.filter(|attempt| !attempt.started);
        unanswered
            .map(|attempt| {
                let Attempt {
                    assignment_seq,
                    assigned_at_ms,
                    ..
                } = *attempt;
                session
                    .snapshots
                    .ask_about_at_ms(assignment_seq, assigned_at_ms, pace)
            })
            .min()
    }

    /// Compares the books with what a heartbeat says that the worker has.
    pub(super) fn compare_books(&mut self, key: SessionKey, in_flight_hash: [u8; 16], turn: &mut Turn) {
        let (pace, now_ms) = (self.pace(), turn.now_ms());
        let session = self.session_mut(key);
        let (books, heartbeat) = (session.tokens_hash(), u128::from_be_bytes(in_flight_hash));
        if session.snapshots.differs(books, heartbeat, pace, now_ms) {
            self.ask_for_snapshot(key, turn);
        }
    }

    fn ask_for_snapshot(&mut self, key: SessionKey, turn: &mut Turn) {
        let (pace, now_ms) = (self.pace(), turn.now_ms());
        let snapshots = &mut self.session_mut(key).snapshots;
        let n = snapshots.ask(now_ms);
        let repeat_at_ms = snapshots.repeat_at_ms(pace);
        self.send(key, ToWorker::SnapshotRequest { n }, turn);
        self.arm_snapshot(key, repeat_at_ms);
    }

    /// Takes a snapshot. Returns the number of the last assignments that it covers; `None` if it answers no open request.
    pub(crate) fn take_snapshot(&mut self, key: SessionKey, n: u64, last_assignment_seq: u64) -> Option<u64> {
        let session = self.session_mut(key);
        let covered_seq = last_assignment_seq.min(session.last_assignment_seq);
        session.snapshots.answered(n, covered_seq).then_some(covered_seq)
    }

    /// What a worker lists and should not have is cancelled.
    pub(crate) fn listed(
        &mut self,
        key: SessionKey,
        token: AttemptToken,
        phase: InFlightPhase,
    ) -> Option<Told> {
        let is_in_books = self.sessions[&key].tokens().contains(&token);
        match (is_in_books, phase) {
            (true, InFlightPhase::Running | InFlightPhase::Finished) => self.attempt_started(key, token),
            // It waits for its turn.
            (true, InFlightPhase::Received) => None,
            // Its outcome is on its way, or the answer to it.
            (false, InFlightPhase::Finished) => None,
            // Once for each snapshot: the books do not hold it, so nothing repeats it.
            (false, InFlightPhase::Received | InFlightPhase::Running) => {
                self.queue_cancel(key, token, CancelReason::Superseded);
                None
            }
        }
    }

    //
    /// Returns the attempts that a worker should have and does not list.
    ///
    /// The worker forgets an attempt only once it has said `rejected` or `stopped`, or read the answer to its outcome.
    /// All of that comes before its snapshot on the stream, so what is missing is missing, whatever is on its way to it.
    pub(crate) fn missing(
        &self,
        key: SessionKey,
        covered_seq: u64,
        listed: &BTreeMap<AttemptToken, InFlightPhase>,
    ) -> Vec<AttemptToken> {
        let tokens = self.sessions[&key].tokens().iter();
        tokens
            .filter(|token| self.attempts[*token].assignment_seq <= covered_seq)
            .filter(|token| !listed.contains_key(*token))
            .copied()
            .collect()
    }

    fn arm_snapshot(&mut self, key: SessionKey, due_ms: Option<u64>) {
        self.session_mut(key).snapshots.due_ms = due_ms;
        self.timers.set(Timer::Snapshot(key), due_ms);
    }

    fn pace(&self) -> Pace {
        Pace {
            // Time must pass between two requests.
            after_ms: self.config.snapshot_after_ms.max(1),
            pause_ms: self.config.snapshot_pause_ms.max(1),
        }
    }
}
