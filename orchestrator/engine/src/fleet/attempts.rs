//! What workers answer to assignments and cancels, and how an attempt is settled. The first settlement wins.

use super::attempt::Attempt;
use super::session_end::Gone;
use super::{Fleet, StepState, Told};
use crate::keys::{ExecutionKey, SessionKey};
use crate::turn::Turn;
use crate::worker::{AckVerdict, AttemptReport, CancelReason, RejectReason, ReleaseReason};
use escapement_contract::{Evidence, Outcome, Reported, StepIndex, WithdrawReason};
use escapement_model::opaque::StructBuilder;
use escapement_model::planted::{self, Bug};
use escapement_model::{AttemptToken, Severity, codes};

impl Fleet {
    /// Notes that the handler of an attempt runs.
    pub(crate) fn attempt_started(&mut self, key: SessionKey, token: AttemptToken) -> Option<Told> {
        let attempt = self.attempts.get_mut(&token)?;
        if !attempt.is_held_by(key) || attempt.over.is_some() || attempt.started {
            return None;
        }
        attempt.started = true;
        // A limit that ran out by now has ended the attempt; its cancel is on the way.
        Some(attempt.is_told_started())
    }

    /// Takes note of why a worker rejects an attempt. Returns false if the session does not have it.
    pub(crate) fn attempt_rejected(
        &mut self,
        key: SessionKey,
        token: AttemptToken,
        reason: RejectReason,
        turn: &Turn,
    ) -> bool {
        let Some(attempt) = self.attempt_of(key, token) else {
            return false;
        };
        match reason {
            RejectReason::Draining => self.stop_offering(key, turn),
            RejectReason::UnknownAction => self.remove_action(key, attempt.action, turn),
            RejectReason::NoCapacity | RejectReason::Unspecified | RejectReason::LeaseExpired => {
                self.pause_session(key, turn);
            }
            RejectReason::Cancelled => {}
        }
        true
    }

    /// Releases an attempt that the worker stopped. If it was not asked to, the outcome is lost.
    pub(crate) fn attempt_stopped(
        &mut self,
        key: SessionKey,
        token: AttemptToken,
        turn: &Turn,
    ) -> Option<Told> {
        let attempt = self.attempt_of(key, token)?;
        self.release(token, attempt.later_verdict(), turn);
        attempt.over.is_none().then(|| {
            let lost = self.lost(&attempt, "stopped", "The worker stopped the attempt unasked.");
            self.end_attempt(&attempt, lost)
        })
    }

    /// Judges a report. Returns what the worker is told, if the execution takes what it is told about it.
    pub(crate) fn judge(&mut self, attempt: &Attempt, report: AttemptReport) -> (AckVerdict, Option<Told>) {
        if let Some(over) = attempt.over {
            return (over.later, None);
        }
        let mut verdict = AckVerdict::Accepted;
        let told = match report {
            AttemptReport::Outcome(outcome) => {
                if matches!(outcome, Outcome::Undecodable { .. }) {
                    verdict = AckVerdict::Invalid;
                }
                self.end_attempt(attempt, outcome)
            }
            AttemptReport::Refused(error) => match self.is_for_another(attempt) {
                true => self.hand_out_again(attempt, Evidence::Refused),
                false => self.end_attempt(attempt, Outcome::Failed(error)),
            },
            AttemptReport::Released(reason) => {
                let outcome = self.released(attempt, reason);
                self.end_attempt(attempt, outcome)
            }
        };
        (verdict, Some(told))
    }

    /// Ends a report: the attempt is released, and the answer goes out with the batch.
    pub(crate) fn acknowledge(&mut self, key: SessionKey, token: AttemptToken, verdict: AckVerdict) {
        self.session_mut(key).outbox.outcome_acks.push((token, verdict));
        self.unflushed.insert(key);
    }

    /// Returns the attempt of that token, if this session has it. The token of another session counts as none.
    pub(crate) fn attempt_of(&self, key: SessionKey, token: AttemptToken) -> Option<Attempt> {
        self.attempt(token).filter(|attempt| attempt.is_held_by(key))
    }

    /// Returns the attempt of that token, whichever session has it.
    pub(crate) fn attempt(&self, token: AttemptToken) -> Option<Attempt> {
        self.attempts.get(&token).copied()
    }

    // what never started is handed out again, uncounted; what started is lost.
    /// Settles an attempt that its worker does not have any more.
    pub(crate) fn settle_gone(
        &mut self,
        token: AttemptToken,
        evidence: Evidence,
        turn: &Turn,
    ) -> (Gone, Option<Told>) {
        let attempt = self.attempts[&token];
        if let Some(over) = attempt.over {
            self.release(token, over.later, turn);
            (Gone::Over, None)
        } else if attempt.started && !planted::is_on(Bug::StartedHandedOutAgain) {
            let lost = self.lost(&attempt, evidence.as_str(), words_of_loss(evidence));
            self.release(token, AckVerdict::AlreadyEnded, turn);
            (Gone::Lost, Some(self.end_attempt(&attempt, lost)))
        } else {
            self.release(token, AckVerdict::Stale, turn);
            (Gone::Returned, Some(self.hand_out_again(&attempt, evidence)))
        }
    }

    /// An execution does not want a step done any more.
    pub(crate) fn withdraw(
        &mut self,
        execution: ExecutionKey,
        step: StepIndex,
        reason: WithdrawReason,
        turn: &Turn,
    ) {
        self.refused.remove(&(execution, step));
        match self.steps.remove(&(execution, step)) {
            Some(StepState::Waiting(queue, place)) => self.remove_waiting(&queue, place),
            Some(StepState::Held(token)) => {
                let reason = match reason {
                    WithdrawReason::StepTimeout => CancelReason::StepTimeout,
                    WithdrawReason::ExecutionEnded => CancelReason::ExecutionEnded,
                };
                self.cancel(token, reason, AckVerdict::AlreadyEnded, turn);
            }
            None => {}
        }
    }

    fn end_attempt(&mut self, attempt: &Attempt, outcome: Outcome) -> Told {
        let step = (attempt.execution, attempt.step);
        self.steps.remove(&step);
        self.refused.remove(&step);
        attempt.is_told_ended(outcome)
    }

    fn hand_out_again(&mut self, attempt: &Attempt, evidence: Evidence) -> Told {
        self.steps.remove(&(attempt.execution, attempt.step));
        attempt.is_told_returned(evidence)
    }

    fn released(&self, attempt: &Attempt, reason: ReleaseReason) -> Outcome {
        let words = match reason {
            ReleaseReason::Drain => "The worker stopped, and gave the attempt up when its grace was over.",
            ReleaseReason::LeaseExpired => "The worker gave the attempt up, since its lease was over.",
        };
        self.lost(attempt, Evidence::Released.as_str(), words)
    }

    //
    /// The outcome is unknown: says which worker had the attempt, and how it is known that it has it no more.
    fn lost(&self, attempt: &Attempt, evidence: &str, words: &str) -> Outcome {
        let session = self.sessions.get(&attempt.session);
        let worker = session.and_then(|session| session.identity.as_ref());
        let worker = worker.map_or("", |worker| &*worker.worker_id);
        Outcome::Failed(Reported {
            code: codes::WORKER_LOST.into(),
            message: words.into(),
            severity: Some(Severity::Error),
            context: StructBuilder::new()
                .text("worker", worker)
                .text("evidence", evidence)
                .build(),
        })
    }

    /// Returns what a worker is told about an attempt that no session holds.
    pub(crate) fn verdict_on_ended(&self, token: AttemptToken) -> AckVerdict {
        let verdict = self.ended.recall(token).unwrap_or(AckVerdict::Unknown);
        if verdict == AckVerdict::Duplicate && planted::is_on(Bug::OutcomeTwice) {
            return AckVerdict::Accepted;
        }
        verdict
    }

    /// Gives an attempt's credit back and remembers what a repeated outcome is told.
    pub(crate) fn release(&mut self, token: AttemptToken, later: AckVerdict, turn: &Turn) {
        let attempt = self.attempts.remove(&token).expect("an attempt is released once");
        let session = self
            .sessions
            .get_mut(&attempt.session)
            .expect("its session holds it");
        session.strike_out(token);
        session.give_back_slot(attempt.action, attempt.depth);
        self.action_mut(attempt.action).in_flight -= 1;
        self.ended.remember(token, later, self.config.ended_attempts_max);
        self.load_changed(attempt.session);
        self.forget_action_if_unused(attempt.action, turn);
    }
}

fn words_of_loss(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::LeaseExpired => "The worker fell silent while the attempt ran, and its lease is over.",
        Evidence::DeclaredDead => "An operator declared the worker dead while the attempt ran.",
        Evidence::Goodbye => "The worker left without the end of the attempt.",
        Evidence::ResumeOmits | Evidence::SnapshotOmits => "The worker does not have the attempt any more.",
        Evidence::Rejected => "The worker refused the attempt after it had started it.",
        Evidence::Released | Evidence::Refused => "The worker gave the attempt up.",
    }
}
