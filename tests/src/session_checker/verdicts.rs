//! Answers to outcomes, on streams and to calls, and what operators say. Judges I2.

use crate::session_journal::{Call, Event, Hex, OutcomeKind, Reply, Verdict};

use super::attempt::{Evidence, State};
use super::books::Books;
use super::report::{Count, Invariant, Violation};
use super::session::Session;

/// What a call reports.
pub(super) type Items = Vec<(Hex, OutcomeKind)>;

impl Books {
    /// The answer to an outcome on a stream.
    pub(super) fn acknowledge(&mut self, event: &Event, token: Hex, verdict: Verdict) {
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        session.stopping.remove(&token);
        let Some(kind) = session
            .unanswered
            .get_mut(&token)
            .and_then(|outcome| outcome.kinds.pop())
        else {
            let text = "an answer to an outcome that was not read".to_owned();
            return self.violate(Invariant::I2, event, Some(token), text);
        };
        if session.unanswered[&token].kinds.is_empty() {
            session.unanswered.remove(&token);
        }
        let instance = session.instance();
        self.judge_verdict(event, token, kind, verdict, Some(instance));
        if self.held_attempt(token, event.session).is_some() {
            self.release(token);
        }
    }

    pub(super) fn call(&mut self, event: &Event, call: &Call) {
        match call {
            Call::ReportOutcomes {
                items,
                verdicts,
                call,
            } => {
                self.report.add(Count::Reports, 1);
                self.report.add(Count::OutcomesRead, items.len() as u64);
                for (token, _) in items {
                    if let Some(attempt) = self.attempt(*token) {
                        attempt.called = true;
                    }
                }
                match (verdicts, call) {
                    (Some(verdicts), _) => self.answer_call(event, items, verdicts),
                    (None, Some(call)) => {
                        self.calls.insert(call.to_string(), items.clone());
                    }
                    (None, None) => {
                        let text = "a call with neither `verdicts` nor `call`".to_owned();
                        self.violate(Invariant::Journal, event, None, text);
                    }
                }
            }
            Call::DrainWorker { instance, worker } => {
                let is_meant = |(number, session): &(&u64, &Session)| {
                    self.is_present(**number)
                        && session.hello.as_ref().is_some_and(|hello| {
                            Some(hello.instance) == *instance || Some(&hello.worker) == worker.as_ref()
                        })
                };
                let meant: Vec<Hex> = self
                    .sessions
                    .iter()
                    .filter(is_meant)
                    .filter_map(|(_, session)| session.instance())
                    .collect();
                meant.into_iter().for_each(|instance| self.drain(instance));
            }
            Call::DeclareWorkerDead { instance } => {
                self.declared.insert(*instance);
                if let Some(session) = self.instances.get(instance).copied() {
                    // Where its stream is over for a lease, it was lost before anybody said so.
                    let lost = self.is_maybe_lost(session);
                    let before = if lost {
                        Evidence::LEASE_EXPIRED
                    } else {
                        Evidence::NONE
                    };
                    self.lose(session, before.and(Evidence::DECLARED_DEAD));
                }
            }
        }
    }

    pub(super) fn reply(&mut self, event: &Event, reply: &Reply) {
        let Reply::ReportOutcomes { call, verdicts } = reply;
        match self.calls.remove(&call.to_string()) {
            Some(items) => self.answer_call(event, &items, verdicts),
            None => {
                let text = "an answer to a call that was not made".to_owned();
                self.violate(Invariant::Journal, event, None, text);
            }
        }
    }

    fn answer_call(&mut self, event: &Event, items: &Items, verdicts: &[Verdict]) {
        if items.len() != verdicts.len() {
            let text = format!("{} verdicts on {} outcomes", verdicts.len(), items.len());
            self.violate(Invariant::I2, event, None, text);
        }
        for ((token, kind), verdict) in items.iter().zip(verdicts) {
            // What is over stays what it was, whatever somebody says of it.
            let believed = !matches!(verdict, Verdict::Stale | Verdict::Unknown);
            if let Some(attempt) = self.attempt(*token)
                && believed
                && attempt.is_live()
            {
                attempt.started |= matches!(
                    kind,
                    OutcomeKind::Success | OutcomeKind::Failure | OutcomeKind::Refused
                );
                attempt.released |= *kind == OutcomeKind::Released;
            }
            self.judge_verdict(event, *token, *kind, *verdict, None);
        }
    }

    /// I2. `from` is the instance of the stream; a call is nobody's.
    fn judge_verdict(
        &mut self,
        event: &Event,
        token: Hex,
        kind: OutcomeKind,
        verdict: Verdict,
        from: Option<Option<Hex>>,
    ) {
        let settles = matches!(verdict, Verdict::Accepted | Verdict::Invalid);
        let counted = if settles {
            Count::OutcomesAccepted
        } else {
            Count::OutcomesRefused
        };
        self.report.add(counted, 1);
        if !settles {
            self.settle_unseen(token);
        }
        let Some(attempt) = self.attempt(token) else {
            if settles {
                let text = format!("{verdict:?} for an attempt that was never handed out");
                self.violate(Invariant::I2, event, Some(token), text);
            }
            return;
        };
        let is_own = from.is_none_or(|instance| instance == attempt.instance);
        attempt.answered |= is_own;
        let kind = if verdict == Verdict::Invalid {
            OutcomeKind::Invalid
        } else {
            kind
        };
        let wrong = match (verdict, attempt.state) {
            (Verdict::Accepted, _) if kind == OutcomeKind::Invalid => Some("accepted what cannot be read"),
            (Verdict::Accepted | Verdict::Invalid, _) if !is_own => Some("accepted from another instance"),
            (Verdict::Accepted | Verdict::Invalid, State::Live) => None,
            (Verdict::Accepted | Verdict::Invalid, State::Accepted(_)) => Some("accepted a second time"),
            (Verdict::Accepted | Verdict::Invalid, State::Gone) => {
                Some("accepted after it was settled that the worker does not have it")
            }
            (Verdict::Accepted | Verdict::Invalid, _) if attempt.may_be_accepted() => None,
            (Verdict::Accepted | Verdict::Invalid, State::Ended(_)) => Some("accepted after it was over"),
            (Verdict::Duplicate, State::Accepted(_)) => None,
            (Verdict::Duplicate, _) if attempt.called || attempt.may_be_accepted() => None,
            (Verdict::Duplicate, _) => Some("a duplicate of what was not accepted"),
            (Verdict::Unknown | Verdict::Stale, State::Live) if is_own => {
                Some("refused, and the attempt is live")
            }
            (Verdict::Unknown | Verdict::Stale | Verdict::AlreadyEnded, _) => None,
        };
        if settles && wrong.is_none() {
            if kind == OutcomeKind::Released {
                attempt.evidence = attempt.evidence.and(Evidence::RELEASED);
            }
            self.settle(token, State::Accepted(kind));
        } else if verdict == Verdict::AlreadyEnded && is_own {
            self.settle(token, State::Ended(super::attempt::Why::Unseen));
        }
        if let Some(wrong) = wrong {
            self.violate(Invariant::I2, event, Some(token), wrong.to_owned());
        }
    }

    pub(super) fn violate_at(
        &mut self,
        invariant: Invariant,
        line: usize,
        session: u64,
        token: Hex,
        text: String,
    ) {
        let token = Some(token);
        self.report.violate(Violation {
            invariant,
            line,
            session,
            token,
            text,
        });
    }
}
