//! The life of each attempt over all streams: one answer, one run, one end.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use escapement_wire::worker::v1::AttemptOutcome;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::session_request::Message as FromWorker;
use escapement_wire::worker::v1::session_response::Message as ToWorker;

use super::{Finding, find};
use crate::log::{Log, Said};
use crate::messages::{hex, shown};

#[derive(Default)]
struct Life {
    started: bool,
    rejected: bool,
    stopped: bool,
    outcome: Option<AttemptOutcome>,
}

#[derive(Default)]
struct Lives {
    by_token: BTreeMap<Bytes, Life>,
    named: BTreeSet<Bytes>,
}

pub(super) fn judge(logs: &[Log], findings: &mut Vec<Finding>) {
    let mut entries: Vec<_> = logs.iter().flat_map(|log| &log.entries).collect();
    // Stable: entries of one stream are in order of time already.
    entries.sort_by_key(|entry| entry.at);
    let mut lives = Lives::default();
    for entry in entries {
        match &entry.said {
            Said::Kit(Some(message)) => lives.told(message),
            Said::Worker(Some(message)) => lives.heard(message, findings),
            Said::Kit(None) | Said::Worker(None) => {}
        }
    }
}

impl Lives {
    fn told(&mut self, message: &ToWorker) {
        match message {
            ToWorker::Assignments(assignments) => {
                let items = assignments.items.iter();
                self.named.extend(items.map(|item| item.attempt_token.clone()));
            }
            ToWorker::Cancels(cancels) => {
                let items = cancels.items.iter();
                self.named.extend(items.map(|item| item.attempt_token.clone()));
            }
            _ => {}
        }
    }

    fn heard(&mut self, message: &FromWorker, findings: &mut Vec<Finding>) {
        match message {
            FromWorker::AttemptAcks(acks) => {
                for token in &acks.started {
                    self.started(token, findings);
                }
                for item in &acks.rejected {
                    self.rejected(&item.attempt_token, findings);
                }
                for token in &acks.stopped {
                    self.life(token, "stopped", findings).stopped = true;
                }
            }
            FromWorker::Outcomes(outcomes) => {
                for item in &outcomes.items {
                    self.outcome(item, findings);
                }
            }
            _ => {}
        }
    }

    fn life(&mut self, token: &Bytes, word: &str, findings: &mut Vec<Finding>) -> &mut Life {
        if !self.named.contains(token) {
            let text = format!(
                "expected tokens of assignments and cancels only, got {word} for {}",
                hex(token)
            );
            find(findings, "no_token_is_made_up", text);
        }
        self.by_token.entry(token.clone()).or_default()
    }

    fn started(&mut self, token: &Bytes, findings: &mut Vec<Finding>) {
        let life = self.life(token, "started", findings);
        if life.rejected {
            let text = format!("{} was rejected and then started", hex(token));
            find(findings, "rejected_never_runs", text);
        } else {
            life.started = true;
        }
    }

    fn rejected(&mut self, token: &Bytes, findings: &mut Vec<Finding>) {
        let life = self.life(token, "rejected", findings);
        if life.started || life.outcome.is_some() {
            let text = format!("{} was started and then rejected", hex(token));
            find(findings, "rejected_never_runs", text);
        } else {
            life.rejected = true;
        }
    }

    fn outcome(&mut self, item: &AttemptOutcome, findings: &mut Vec<Finding>) {
        let token = hex(&item.attempt_token);
        let life = self.life(&item.attempt_token, "an outcome", findings);
        if life.stopped && life.outcome.is_none() {
            let text = format!(
                "expected nothing more of {token} after `stopped`, got {}",
                shown(item.outcome.as_ref())
            );
            find(findings, "stopped_is_the_end", text);
        }
        if life.rejected {
            let text = format!(
                "{token} was rejected and has an outcome, {}",
                shown(item.outcome.as_ref())
            );
            find(findings, "rejected_never_runs", text);
        }
        match &life.outcome {
            Some(before) if !same(before, item) => {
                let (before, after) = (shown(before.outcome.as_ref()), shown(item.outcome.as_ref()));
                let text = format!(
                    "expected the outcome of {token} again unchanged ({before}), got another ({after})"
                );
                find(findings, "an_outcome_never_changes", text);
            }
            Some(_) => {}
            None => life.outcome = Some(item.clone()),
        }
    }
}

/// Equal in every field; the entries of an object may stand in another order.
fn same(one: &AttemptOutcome, other: &AttemptOutcome) -> bool {
    let objects = |item: &AttemptOutcome| {
        let object = match &item.outcome {
            Some(Outcome::Success(success)) => success.output.clone(),
            Some(Outcome::Failure(failure)) => failure.context.clone(),
            Some(Outcome::Released(_)) | None => None,
        };
        object.map(|object| escapement_wire::json::from_opaque(&object).ok())
    };
    let rest = |item: &AttemptOutcome| {
        let mut item = item.clone();
        match &mut item.outcome {
            Some(Outcome::Success(success)) => success.output = None,
            Some(Outcome::Failure(failure)) => failure.context = None,
            Some(Outcome::Released(_)) | None => {}
        }
        item
    };
    one == other || (rest(one) == rest(other) && objects(one) == objects(other))
}
