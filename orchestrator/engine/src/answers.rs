//! What workers answer to assignments and cancels, and how an attempt is settled. The first settlement wins.

use crate::engine::Engine;
use crate::fleet::Attempt;
use crate::input::SessionKey;
use crate::session_end::Gone;
use crate::worker::{AckVerdict, AttemptReport, RejectReason};
use escapement_contract::{Evidence, Input as ContractInput, Outcome, Refused};
use escapement_model::AttemptToken;
use escapement_model::planted::{self, Bug};

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
        self.release(token, attempt.later_verdict());
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
            None => self.verdict_on_ended(token),
            Some(attempt) => {
                let verdict = self.settle_attempt(&attempt, report);
                self.release(token, verdict.when_repeated());
                verdict
            }
        };
        self.session_mut(key).outbox.outcome_acks.push((token, verdict));
        self.fleet.unflushed.insert(key);
    }

    pub(crate) fn settle_attempt(&mut self, attempt: &Attempt, report: AttemptReport) -> AckVerdict {
        if let Some(over) = attempt.over {
            return over.later;
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
            .filter(|attempt| attempt.session == key || planted::is_on(Bug::ForeignToken))
            .copied()
    }

    // what never started is handed out again, uncounted; what started is lost.
    /// Settles an attempt that its worker does not have any more.
    pub(crate) fn settle_gone(&mut self, token: AttemptToken, evidence: Evidence) -> Gone {
        let attempt = self.fleet.attempts[&token];
        if let Some(over) = attempt.over {
            self.release(token, over.later);
            Gone::Over
        } else if attempt.started && !planted::is_on(Bug::StartedHandedOutAgain) {
            self.release(token, AckVerdict::AlreadyEnded);
            self.settle_lost(&attempt);
            Gone::Lost
        } else {
            self.release(token, AckVerdict::Stale);
            self.hand_out_again(&attempt, evidence);
            Gone::Returned
        }
    }

    fn settle_lost(&mut self, attempt: &Attempt) {
        let _already_over = self.end_attempt(attempt, Outcome::Lost);
    }

    fn hand_out_again(&mut self, attempt: &Attempt, evidence: Evidence) {
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

    /// What is told about an attempt that nobody has.
    pub(crate) fn verdict_on_ended(&self, token: AttemptToken) -> AckVerdict {
        let verdict = self.fleet.ended.recall(token).unwrap_or(AckVerdict::Unknown);
        if verdict == AckVerdict::Duplicate && planted::is_on(Bug::OutcomeTwice) {
            return AckVerdict::Accepted;
        }
        verdict
    }

    /// Gives an attempt's credit back and remembers what a repeated outcome is told.
    fn release(&mut self, token: AttemptToken, later: AckVerdict) {
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
        session.strike_out(token);
        session.give_back_slot(attempt.action, attempt.depth);
        self.fleet.action_mut(attempt.action).in_flight -= 1;
        self.fleet
            .ended
            .remember(token, later, self.config.ended_attempts_max);
        self.fleet.load_changed(attempt.session);
        self.fleet
            .forget_action_if_unused(attempt.action, self.now.monotonic_ms);
    }
}
