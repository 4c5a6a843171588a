//! What workers answer to assignments and cancels, and how an attempt is settled. The first settlement wins.

use crate::engine::Engine;
use crate::fleet::Attempt;
use crate::input::SessionKey;
use crate::session_end::Gone;
use crate::worker::{AckVerdict, AttemptReport, RejectReason, ReleaseReason};
use escapement_contract::{Evidence, Input as ContractInput, Outcome, Refused, Reported};
use escapement_model::opaque::StructBuilder;
use escapement_model::planted::{self, Bug};
use escapement_model::{AttemptToken, Severity, codes};

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
            let lost = self.lost(&attempt, "stopped", "The worker stopped the attempt unasked.");
            let _already_over = self.end_attempt(&attempt, lost);
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
        let mut verdict = AckVerdict::Accepted;
        let settled = match report {
            AttemptReport::Outcome(outcome) => {
                if matches!(outcome, Outcome::Undecodable { .. }) {
                    verdict = AckVerdict::Invalid;
                }
                self.end_attempt(attempt, outcome)
            }
            AttemptReport::Refused(error) => self.attempt_refused(attempt, error),
            AttemptReport::Released(reason) => self.end_attempt(attempt, self.released(attempt, reason)),
        };
        match settled {
            Ok(()) => verdict,
            Err(_late) => AckVerdict::AlreadyEnded,
        }
    }

    pub(crate) fn end_attempt(&mut self, attempt: &Attempt, outcome: Outcome) -> Result<(), Refused> {
        let Attempt {
            execution,
            step,
            number,
            ..
        } = *attempt;
        let live = self.live.at_mut(execution);
        live.attempts.remove(&step);
        live.refused.remove(&step);
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
            let lost = self.lost(&attempt, evidence.as_str(), words_of_loss(evidence));
            self.release(token, AckVerdict::AlreadyEnded);
            let _already_over = self.end_attempt(&attempt, lost);
            Gone::Lost
        } else {
            self.release(token, AckVerdict::Stale);
            let _already_over = self.hand_out_again(&attempt, evidence);
            Gone::Returned
        }
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
        let session = self.fleet.sessions.get(&attempt.session);
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

    pub(crate) fn hand_out_again(&mut self, attempt: &Attempt, evidence: Evidence) -> Result<(), Refused> {
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
        self.act(execution, returned)
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
        self.forget_action_if_unused(attempt.action);
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
