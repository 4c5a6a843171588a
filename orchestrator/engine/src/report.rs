//! Outcomes that come without a session. The token is the proof; what they settle, they settle as on a stream.

use crate::effect::Reply;
use crate::engine::Engine;
use crate::input::CallerId;
use crate::worker::{AckVerdict, AttemptReport, CancelReason};
use alloc::vec::Vec;
use escapement_model::AttemptToken;

impl Engine {
    pub(crate) fn report_outcomes(&mut self, caller: CallerId, items: Vec<(AttemptToken, AttemptReport)>) {
        let mut acks = Vec::with_capacity(items.len());
        for (token, report) in items {
            acks.push((token, self.outcome_without_session(token, report)));
        }
        self.reply(caller, Reply::OutcomeAcks(acks));
    }

    //
    /// The worker may still have the attempt, so it is told to stop and keeps the credit until it answers.
    fn outcome_without_session(&mut self, token: AttemptToken, report: AttemptReport) -> AckVerdict {
        let Some(attempt) = self.fleet.attempts.get(&token) else {
            return self.verdict_on_ended(token);
        };
        if matches!(report, AttemptReport::Released(_)) {
            self.attempt_started(attempt.session, token);
        }
        let attempt = self.fleet.attempts[&token];
        let verdict = self.settle_attempt(&attempt, report);
        if attempt.over.is_none() {
            self.cancel(token, CancelReason::Superseded, verdict.when_repeated());
        }
        verdict
    }
}

impl AckVerdict {
    /// What the same outcome is told when it comes again.
    pub(crate) fn when_repeated(self) -> Self {
        match self {
            AckVerdict::Accepted | AckVerdict::Invalid => AckVerdict::Duplicate,
            AckVerdict::Duplicate | AckVerdict::Stale | AckVerdict::AlreadyEnded | AckVerdict::Unknown => {
                self
            }
        }
    }
}
