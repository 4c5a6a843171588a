//! What workers answer to assignments and cancels, and how an attempt is settled. The first settlement wins.

use crate::engine::{Engine, Timer};
use crate::fleet::Attempt;
use crate::input::SessionKey;
use crate::worker::{AckVerdict, AttemptReport, Cancel, CancelReason, RejectReason};
use alloc::vec::Vec;
use escapement_contract::{Evidence, Input as ContractInput, Outcome, Refused};
use escapement_model::AttemptToken;

impl Engine {
    pub(crate) fn attempt_started(&mut self, key: SessionKey, token: AttemptToken) {
        let Some(attempt) = self.attempt_of(key, token) else {
            return;
        };
        if attempt.over.is_some() || attempt.started {
            return;
        }
        self.fleet
            .attempts
            .get_mut(&token)
            .expect("it was there a line ago")
            .started = true;
        let Attempt {
            execution,
            step,
            number,
            ..
        } = attempt;
        // A limit that ran out by now has ended the attempt; its cancel is on the way.
        let _already_over = self.act(
            execution,
            ContractInput::AttemptStarted {
                step,
                attempt: number,
            },
        );
    }

    pub(crate) fn attempt_rejected(&mut self, key: SessionKey, token: AttemptToken, reason: RejectReason) {
        let Some(attempt) = self.attempt_of(key, token) else {
            return;
        };
        match reason {
            RejectReason::Draining => self.stop_offering(key),
            RejectReason::UnknownAction => self.remove_action(key, attempt.action),
            RejectReason::NoCapacity | RejectReason::Unspecified | RejectReason::LeaseExpired => {
                self.pause_session(key);
            }
            RejectReason::Cancelled => {}
        }
        // what the worker said it started may have run, whatever it says now.
        self.settle_gone(token, Evidence::Rejected);
    }

    pub(crate) fn attempt_stopped(&mut self, key: SessionKey, token: AttemptToken) {
        // A body that has ended had started, whether or not the worker said so.
        self.attempt_started(key, token);
        let Some(attempt) = self.attempt_of(key, token) else {
            return;
        };
        self.release(token, AckVerdict::AlreadyEnded);
        // Nobody asked for it to stop: its outcome is lost.
        if attempt.over.is_none() {
            self.settle_lost(&attempt);
        }
    }

    // one settlement per attempt; whoever comes later is answered and changes nothing.
    pub(crate) fn outcome(&mut self, key: SessionKey, token: AttemptToken, report: AttemptReport) {
        if matches!(report, AttemptReport::Released(_)) {
            self.attempt_started(key, token);
        }
        let verdict = match self.attempt_of(key, token) {
            None => self.fleet.ended.verdict(token),
            Some(attempt) => {
                let verdict = self.settle_attempt(&attempt, report);
                let later = if verdict == AckVerdict::AlreadyEnded {
                    verdict
                } else {
                    AckVerdict::Duplicate
                };
                self.release(token, later);
                verdict
            }
        };
        self.session_mut(key).outbox.outcome_acks.push((token, verdict));
        self.fleet.unflushed.insert(key);
    }

    fn settle_attempt(&mut self, attempt: &Attempt, report: AttemptReport) -> AckVerdict {
        if attempt.over.is_some() {
            return AckVerdict::AlreadyEnded;
        }
        let (outcome, verdict) = match report {
            AttemptReport::Outcome(outcome @ Outcome::Undecodable { .. }) => (outcome, AckVerdict::Invalid),
            AttemptReport::Outcome(outcome) => (outcome, AckVerdict::Accepted),
            AttemptReport::Released(_) => (Outcome::Lost, AckVerdict::Accepted),
        };
        match self.end_attempt(attempt, outcome) {
            Ok(()) => verdict,
            Err(_late) => AckVerdict::AlreadyEnded,
        }
    }

    fn end_attempt(&mut self, attempt: &Attempt, outcome: Outcome) -> Result<(), Refused> {
        let Attempt {
            execution,
            step,
            number,
            ..
        } = *attempt;
        self.live.at_mut(execution).attempts.remove(&step);
        let ended = ContractInput::AttemptEnded {
            step,
            attempt: number,
            outcome,
        };
        self.act(execution, ended)
    }

    /// The attempt of that token, if this session has it. A token of somebody else's is as good as none.
    fn attempt_of(&self, key: SessionKey, token: AttemptToken) -> Option<Attempt> {
        self.fleet
            .attempts
            .get(&token)
            .filter(|attempt| attempt.session == key)
            .copied()
    }

    /// Tells the worker that an attempt is not wanted any more. It keeps its credit until the worker answers.
    pub(crate) fn cancel(&mut self, token: AttemptToken, reason: CancelReason) {
        let attempt = self
            .fleet
            .attempts
            .get_mut(&token)
            .expect("a live attempt is held by a session");
        attempt.over = Some(reason);
        let session = attempt.session;
        let grace_ms = self.config.cancel_grace_ms;
        self.session_mut(session).outbox.cancels.push(Cancel {
            token,
            reason,
            grace_ms,
        });
        self.arm_cancels(session);
    }

    pub(crate) fn repeat_cancels(&mut self, key: SessionKey) {
        let grace_ms = self.config.cancel_grace_ms;
        let Some(session) = self
            .fleet
            .sessions
            .get_mut(&key)
            .filter(|session| session.connected)
        else {
            return;
        };
        let unanswered: Vec<Cancel> = session
            .tokens
            .iter()
            .filter_map(|token| self.fleet.attempts[token].over.map(|reason| (*token, reason)))
            .map(|(token, reason)| Cancel {
                token,
                reason,
                grace_ms,
            })
            .collect();
        if unanswered.is_empty() {
            return;
        }
        session.outbox.cancels = unanswered;
        self.arm_cancels(key);
    }

    /// Sends the cancels of a session with the batch, and again where they are not answered in time.
    fn arm_cancels(&mut self, key: SessionKey) {
        self.fleet.unflushed.insert(key);
        let due_ms = self.now.monotonic_ms + self.config.cancel_repeat_ms;
        self.timers.set(Timer::Cancels(key), Some(due_ms));
    }

    // what never started is handed out again, uncounted; what started is lost.
    /// Settles an attempt that its worker does not have any more.
    pub(crate) fn settle_gone(&mut self, token: AttemptToken, evidence: Evidence) {
        let attempt = self.fleet.attempts[&token];
        if attempt.over.is_some() {
            self.release(token, AckVerdict::AlreadyEnded);
        } else if attempt.started {
            self.release(token, AckVerdict::AlreadyEnded);
            self.settle_lost(&attempt);
        } else {
            self.release(token, AckVerdict::Stale);
            self.hand_out_again(&attempt, evidence);
        }
    }

    pub(crate) fn settle_lost(&mut self, attempt: &Attempt) {
        let _already_over = self.end_attempt(attempt, Outcome::Lost);
    }

    pub(crate) fn hand_out_again(&mut self, attempt: &Attempt, evidence: Evidence) {
        let Attempt {
            execution,
            step,
            number,
            ..
        } = *attempt;
        self.live.at_mut(execution).attempts.remove(&step);
        let returned = ContractInput::AttemptReturned {
            step,
            attempt: number,
            evidence,
        };
        let _already_over = self.act(execution, returned);
    }

    /// Gives an attempt's credit back and remembers what a repeated outcome is told.
    pub(crate) fn release(&mut self, token: AttemptToken, later: AckVerdict) {
        let attempt = self
            .fleet
            .attempts
            .remove(&token)
            .expect("an attempt is released once");
        let session = self
            .fleet
            .sessions
            .get_mut(&attempt.session)
            .expect("its session holds it");
        session.tokens.remove(&token);
        session.give_back_slot(attempt.action, attempt.depth);
        self.fleet.action_mut(attempt.action).in_flight -= 1;
        self.fleet
            .ended
            .remember(token, later, self.config.ended_attempts_max);
        self.fleet.refresh_free(attempt.session);
        self.fleet
            .forget_action_if_unused(attempt.action, self.now.monotonic_ms);
    }
}
