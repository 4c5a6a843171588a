//! What a welcome changes: who holds what, and what is owed. Judges the resume's part of I1 and I5.

use std::collections::BTreeMap;

use crate::session_journal::{Event, Hello, Hex, Phase, Previous, Resumption};

use super::attempt::{Evidence, State, Why};
use super::books::Books;
use super::report::{Count, Invariant};
use super::session::{Stage, Unanswered};
use super::to_worker::ALLOWED_PER_ASSIGNMENT;

impl Books {
    pub(super) fn welcome(
        &mut self,
        event: &Event,
        id: Hex,
        refused: &[String],
        verdicts: &BTreeMap<Hex, Resumption>,
    ) {
        self.report.add(Count::Sessions, 1);
        let number = event.session;
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let Some(hello) = session.hello.clone() else {
            let text = "a welcome without a `Hello`".to_owned();
            return self.violate(Invariant::Journal, event, None, text);
        };
        session.stage = Stage::Welcomed;
        session.id = Some(id);
        let kept = verdicts.values().filter(|verdict| **verdict == Resumption::Keep);
        session.allow(ALLOWED_PER_ASSIGNMENT * kept.count() as u64);
        session.max_in_flight = hello.max_in_flight;
        session.must_drain = self.drained.contains(&hello.instance);
        if session.held_up {
            let text = "a `Hello` that was held up takes over from a later one".to_owned();
            self.violate(Invariant::I5, event, None, text);
        }
        let mut actions = hello.actions.clone();
        actions.retain(|name, _| !refused.contains(name));
        self.replace_actions(number, &actions);
        let before = self.instances.insert(hello.instance, number);
        if let Some(before) = before {
            self.report.add(Count::Resumes, 1);
            self.follow(before, number, &hello);
            self.take_over(before, number, &hello, verdicts);
        }
        for (token, verdict) in verdicts {
            match verdict {
                Resumption::Keep => self.judge_kept(event, *token, hello.instance),
                Resumption::Stop => {
                    if let Some(session) = self.sessions.get_mut(&number) {
                        session.stopping.insert(*token);
                    }
                }
            }
        }
    }

    fn take_over(&mut self, before: u64, now: u64, hello: &Hello, verdicts: &BTreeMap<Hex, Resumption>) {
        self.judge_owed(before);
        let maybe_lost = self.is_maybe_lost(before);
        let is_long_deaf = self.is_long_deaf(now);
        let Some(old) = self.sessions.get_mut(&before) else {
            return;
        };
        old.stage = Stage::Over;
        let unanswered = std::mem::take(&mut old.unanswered);
        for token in old.held.iter().copied().collect::<Vec<_>>() {
            let evidence = if maybe_lost {
                Evidence::LEASE_EXPIRED
            } else {
                Evidence::NONE
            };
            match (hello.in_flight.get(&token), verdicts.get(&token)) {
                (Some(phase), Some(Resumption::Keep)) => self.keep(token, *phase, now),
                // Its lease is long over, whatever it lists: what it does not run is as good as lost.
                (Some(phase), Some(Resumption::Stop)) if is_long_deaf && *phase != Phase::Running => {
                    if let Some(attempt) = self.attempt(token).filter(|attempt| attempt.is_live()) {
                        let has_begun = *phase == Phase::Finished;
                        // Where it may have been lost before, nobody can say what was known of it by then.
                        attempt.started |= has_begun && !maybe_lost;
                        attempt.released |= has_begun && maybe_lost;
                    }
                    self.gone(token, Evidence::LEASE_EXPIRED);
                }
                (Some(phase), _) => {
                    if let Some(attempt) = self.attempt(token) {
                        attempt.started |= *phase != Phase::Received && !maybe_lost;
                        attempt.evidence = attempt.evidence.and(evidence);
                    }
                    self.settle(token, State::Ended(Why::Stopped));
                    self.release(token);
                }
                (None, _) => self.gone(token, evidence.and(Evidence::RESUME_OMITS)),
            }
        }
        self.refresh_free(before);
        self.inherit(now, hello, unanswered);
    }

    /// Another session of the instance may have been welcomed since this `Hello` was read.
    fn follow(&mut self, before: u64, now: u64, hello: &Hello) {
        let deaf_since = self.deaf_since(before, hello);
        if let Some(session) = self.sessions.get_mut(&now)
            && session.follows != Some(before)
        {
            session.follows = Some(before);
            (session.greeted_deaf_since, session.deaf_since) = (deaf_since, deaf_since);
        }
    }

    /// Since when the instance hears nothing, if this `Hello` does not name the session that was welcomed last.
    pub(super) fn deaf_since(&self, last: u64, hello: &Hello) -> Option<u64> {
        let last = self.sessions.get(&last)?;
        let is_heard = match hello.previous {
            Previous::Untold => true,
            Previous::Nothing => false,
            Previous::Session(named) => last.id == Some(named),
        };
        (!is_heard).then(|| last.deaf_since.unwrap_or(last.heard))
    }

    /// Returns true if the instance had heard nothing for a lease and its margin when it said this `Hello`.
    fn is_long_deaf(&self, number: u64) -> bool {
        let patience = self.settings.lease_ms + self.settings.lease_margin_ms;
        let session = self.sessions.get(&number);
        session.is_some_and(|session| {
            let since = session.greeted_deaf_since;
            since.is_some_and(|since| session.greeted_at + 1 >= since + patience)
        })
    }

    fn keep(&mut self, token: Hex, phase: Phase, session: u64) {
        self.release(token);
        let Some(attempt) = self.attempt(token) else {
            return;
        };
        attempt.holder = session;
        attempt.seq = 0;
        attempt.credit = true;
        attempt.started |= phase != Phase::Received;
        let (action, waits) = (attempt.action, attempt.waits);
        self.report.add(Count::KeptAttempts, 1);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.take_credit(token, action, waits);
        }
    }

    /// I7: outcomes without an answer that the worker lists go on; what it does not list, it must send again.
    fn inherit(&mut self, now: u64, hello: &Hello, unanswered: BTreeMap<Hex, Unanswered>) {
        let Some(session) = self.sessions.get_mut(&now) else {
            return;
        };
        for (token, outcome) in unanswered {
            if hello.in_flight.contains_key(&token) {
                let line = outcome.line;
                let (kinds, t) = (Vec::new(), outcome.t);
                session.unanswered.insert(token, Unanswered { kinds, line, t });
            } else {
                session.owed.insert(token, outcome.line);
            }
        }
    }

    /// I1: one attempt of a step is wanted, and of one instance.
    fn judge_kept(&mut self, event: &Event, token: Hex, instance: Hex) {
        let Some(attempt) = self.attempt(token) else {
            return;
        };
        let (step, is_foreign) = (
            (attempt.execution, attempt.step),
            attempt.instance != Some(instance),
        );
        if attempt.is_live() && is_foreign {
            let text = "another instance holds the attempt that is kept".to_owned();
            return self.violate(Invariant::I1, event, Some(token), text);
        }
        let last = self.steps.get(&step).and_then(|tokens| tokens.last().copied());
        if let Some(last) = last.filter(|last| *last != token)
            && self.attempt(last).is_some_and(|last| last.is_live())
        {
            let text = format!("the attempt is kept, and attempt {last} of the same step is live");
            self.violate(Invariant::I1, event, Some(token), text);
        }
    }
}
