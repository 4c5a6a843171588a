//! What becomes of attempts: what the fleet finds out is told to the execution, and what that says to the worker.

use super::Engine;
use crate::answer::{AttemptHolder, AttemptStanding, Caller};
use crate::fleet::{Attempt, Gone, Told};
use crate::keys::SessionKey;
use crate::worker::{AckVerdict, AttemptReport, CancelReason, RejectReason};
use alloc::vec::Vec;
use escapement_contract::{Evidence, Refused};
use escapement_model::AttemptToken;

impl Engine {
    pub(super) fn attempt_started(&mut self, session: SessionKey, token: AttemptToken) {
        let told = self.fleet.attempt_started(session, token);
        self.tell(told);
    }

    pub(super) fn attempt_rejected(
        &mut self,
        session: SessionKey,
        token: AttemptToken,
        reason: RejectReason,
    ) {
        if self.fleet.attempt_rejected(session, token, reason, &self.turn) {
            // what the worker said it started may have run, whatever it says now.
            self.settle_gone(token, Evidence::Rejected);
        }
    }

    pub(super) fn attempt_stopped(&mut self, session: SessionKey, token: AttemptToken) {
        // A body that has ended had started, whether or not the worker said so.
        self.attempt_started(session, token);
        let told = self.fleet.attempt_stopped(session, token, &self.turn);
        self.tell(told);
    }

    // one settlement per attempt; a later one is answered and changes nothing.
    pub(super) fn outcome(&mut self, session: SessionKey, token: AttemptToken, report: AttemptReport) {
        if matches!(report, AttemptReport::Released(_)) {
            self.attempt_started(session, token);
        }
        let verdict = match self.fleet.attempt_of(session, token) {
            None => self.fleet.verdict_on_ended(token),
            Some(attempt) => {
                let verdict = self.settle_attempt(&attempt, report);
                self.fleet.release(token, verdict.when_repeated(), &self.turn);
                verdict
            }
        };
        self.fleet.acknowledge(session, token, verdict);
    }

    /// What is known of an attempt. Changes nothing.
    pub(super) fn attempt_standing(&self, token: AttemptToken) -> AttemptStanding {
        let Some(attempt) = self.fleet.attempt(token) else {
            return match self.fleet.verdict_on_ended(token) {
                AckVerdict::Unknown => AttemptStanding::Unknown,
                AckVerdict::Accepted
                | AckVerdict::Duplicate
                | AckVerdict::Stale
                | AckVerdict::AlreadyEnded
                | AckVerdict::Invalid => AttemptStanding::Ended,
            };
        };
        let instance_id = self.fleet.instance_of(attempt.session());
        let execution = self.executions.request_of(attempt.execution());
        match execution.filter(|_| !attempt.is_over()) {
            None => AttemptStanding::Over(instance_id),
            Some((execution_id, request)) => AttemptStanding::UnderWay(AttemptHolder {
                instance_id,
                execution_id,
                request,
            }),
        }
    }

    /// Takes outcomes that come without a session. The token is the proof.
    pub(super) fn report_outcomes(
        &mut self,
        caller: Caller<Vec<(AttemptToken, AckVerdict)>>,
        items: Vec<(AttemptToken, AttemptReport)>,
    ) {
        let acks = items
            .into_iter()
            .map(|(token, report)| (token, self.outcome_without_session(token, report)))
            .collect();
        self.turn.reply(caller, acks);
    }

    //
    /// The worker may still have the attempt, so it is told to stop and keeps the credit until it answers.
    fn outcome_without_session(&mut self, token: AttemptToken, report: AttemptReport) -> AckVerdict {
        let Some(attempt) = self.fleet.attempt(token) else {
            return self.fleet.verdict_on_ended(token);
        };
        if matches!(report, AttemptReport::Released(_)) {
            self.attempt_started(attempt.session(), token);
        }
        let attempt = self.fleet.attempt(token).expect("its worker still has it");
        let verdict = self.settle_attempt(&attempt, report);
        if !attempt.is_over() {
            let later = verdict.when_repeated();
            self.fleet
                .cancel(token, CancelReason::Superseded, later, &self.turn);
        }
        verdict
    }

    fn settle_attempt(&mut self, attempt: &Attempt, report: AttemptReport) -> AckVerdict {
        let (verdict, told) = self.fleet.judge(attempt, report);
        match told.map_or(Ok(()), |told| self.apply(told)) {
            Ok(()) => verdict,
            Err(_late) => AckVerdict::AlreadyEnded,
        }
    }

    /// Settles an attempt that its worker does not have any more.
    pub(super) fn settle_gone(&mut self, token: AttemptToken, evidence: Evidence) -> Gone {
        let (gone, told) = self.fleet.settle_gone(token, evidence, &self.turn);
        self.tell(told);
        gone
    }

    /// Tells an execution what it can only take note of: its limits may have ended the attempt already.
    pub(super) fn tell(&mut self, told: Option<Told>) {
        if let Some(told) = told {
            let _already_over = self.apply(told);
        }
    }

    fn apply(&mut self, told: Told) -> Result<(), Refused> {
        self.apply_input(told.execution, told.input)
    }
}

impl AckVerdict {
    /// Returns what the same outcome is told when it comes again.
    fn when_repeated(self) -> Self {
        match self {
            AckVerdict::Accepted | AckVerdict::Invalid => AckVerdict::Duplicate,
            AckVerdict::Duplicate | AckVerdict::Stale | AckVerdict::AlreadyEnded | AckVerdict::Unknown => {
                self
            }
        }
    }
}
