//! When a worker is asked what it has, and what its answer means. Guesses nothing: silence alone settles no attempt.

use crate::engine::{Engine, Timer};
use crate::fleet::{Attempt, Pace};
use crate::input::SessionKey;
use crate::worker::{CancelReason, InFlight, InFlightPhase, ToWorker};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use escapement_contract::Evidence;
use escapement_model::AttemptToken;

impl Engine {
    /// Looks again once the patience with what was just assigned is over.
    pub(crate) fn expect_answers(&mut self, key: SessionKey) {
        let due_ms = self.now.monotonic_ms.saturating_add(self.pace().after_ms);
        let before = self.session_mut(key).snapshots.due_ms;
        if before.is_none_or(|before| before > due_ms) {
            self.arm_snapshot(key, Some(due_ms));
        }
    }

    /// Asks where an assignment or the last request has not been answered in time; otherwise notes when it will be so.
    pub(crate) fn snapshot_due(&mut self, key: SessionKey) {
        let pace = self.pace();
        let session = self.session_mut(key);
        // Whoever comes back, comes back with a new session.
        if !session.connected {
            return;
        }
        let due_ms = match session.snapshots.repeat_at_ms(pace) {
            Some(due_ms) => Some(due_ms),
            None => self.unanswered_at_ms(key, pace),
        };
        match due_ms {
            Some(due_ms) if due_ms <= self.now.monotonic_ms => self.ask_for_snapshot(key),
            later => self.arm_snapshot(key, later),
        }
    }

    /// When the worker has to be asked about the first of its assignments that it has not answered.
    fn unanswered_at_ms(&self, key: SessionKey, pace: Pace) -> Option<u64> {
        let session = &self.fleet.sessions[&key];
        let attempts = session.tokens().iter().map(|token| &self.fleet.attempts[token]);
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
    pub(crate) fn compare_books(&mut self, key: SessionKey, in_flight_hash: [u8; 16]) {
        let (pace, now_ms) = (self.pace(), self.now.monotonic_ms);
        let session = self.session_mut(key);
        let (books, heartbeat) = (session.tokens_hash(), u128::from_be_bytes(in_flight_hash));
        if session.snapshots.differs(books, heartbeat, pace, now_ms) {
            self.ask_for_snapshot(key);
        }
    }

    fn ask_for_snapshot(&mut self, key: SessionKey) {
        let (pace, now_ms) = (self.pace(), self.now.monotonic_ms);
        let snapshots = &mut self.session_mut(key).snapshots;
        let n = snapshots.ask(now_ms);
        let repeat_at_ms = snapshots.repeat_at_ms(pace);
        self.send(key, ToWorker::SnapshotRequest { n });
        self.arm_snapshot(key, repeat_at_ms);
    }

    //
    /// What the worker should have and does not is settled; what it has and should not is cancelled.
    ///
    /// The worker forgets an attempt only once it has said `rejected` or `stopped`, or read the answer to its outcome.
    /// All of that comes before its snapshot on the stream, so what is missing is missing, whatever is on its way to it.
    pub(crate) fn snapshot(
        &mut self,
        key: SessionKey,
        n: u64,
        last_assignment_seq: u64,
        in_flight: &[InFlight],
    ) {
        let session = self.session_mut(key);
        let covered_seq = last_assignment_seq.min(session.last_assignment_seq);
        if !session.snapshots.answered(n, covered_seq) {
            return;
        }
        let listed: BTreeMap<AttemptToken, InFlightPhase> =
            in_flight.iter().map(|item| (item.token, item.phase)).collect();
        for (token, phase) in &listed {
            self.listed(key, *token, *phase);
        }
        let session = &self.fleet.sessions[&key];
        let missing: Vec<AttemptToken> = session
            .tokens()
            .iter()
            .filter(|token| self.fleet.attempts[*token].assignment_seq <= covered_seq)
            .filter(|token| !listed.contains_key(*token))
            .copied()
            .collect();
        for token in missing {
            self.settle_gone(token, Evidence::SnapshotOmits);
        }
        self.snapshot_due(key);
    }

    fn listed(&mut self, key: SessionKey, token: AttemptToken, phase: InFlightPhase) {
        let is_in_books = self.fleet.sessions[&key].tokens().contains(&token);
        match (is_in_books, phase) {
            (true, InFlightPhase::Running | InFlightPhase::Finished) => self.attempt_started(key, token),
            // It waits for its turn.
            (true, InFlightPhase::Received) => {}
            // Its outcome is on its way, or the answer to it.
            (false, InFlightPhase::Finished) => {}
            // Once for each snapshot: the books do not hold it, so nothing repeats it.
            (false, InFlightPhase::Received | InFlightPhase::Running) => {
                self.queue_cancel(key, token, CancelReason::Superseded);
            }
        }
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
