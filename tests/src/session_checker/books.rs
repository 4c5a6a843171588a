//! Everything that the checker remembers, and the few ways in which an attempt changes. Reads no message itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::session_journal::{Event, Hex, Uuid, What};

use super::CheckerSettings;
use super::attempt::{Attempt, Evidence, State, Why};
use super::idle::{ActionId, Actions, Clock};
use super::report::{Count, Invariant, Report, Violation};
use super::session::{Session, Stage};

/// The checker's memory.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) settings: CheckerSettings,
    pub(super) report: Report,
    pub(super) actions: Actions,
    /// Of all boots.
    pub(super) attempts: BTreeMap<Hex, Attempt>,
    /// The hand-outs of each step in their order, of all boots.
    pub(super) steps: BTreeMap<(Uuid, Uuid), Vec<Hex>>,
    pub(super) boot: u64,
    boot_unix_ms: Option<i64>,
    pub(super) sessions: BTreeMap<u64, Session>,
    /// The session that was welcomed last of each instance.
    pub(super) instances: BTreeMap<Hex, u64>,
    pub(super) drained: BTreeSet<Hex>,
    drained_in_order: VecDeque<Hex>,
    pub(super) declared: BTreeSet<Hex>,
    /// Calls whose answer comes in a line of its own.
    pub(super) calls: BTreeMap<String, super::verdicts::Items>,
    /// Sessions that greeted in this instant.
    pub(super) greeting: Vec<u64>,
    /// Second live attempts, unless the first one is settled within the instant.
    conflicts: Vec<(Hex, Violation)>,
    t: u64,
    line: usize,
}

impl Books {
    pub(super) fn new(settings: CheckerSettings) -> Self {
        Self {
            settings,
            report: Report::default(),
            actions: Actions::default(),
            attempts: BTreeMap::new(),
            steps: BTreeMap::new(),
            boot: 0,
            boot_unix_ms: None,
            sessions: BTreeMap::new(),
            instances: BTreeMap::new(),
            drained: BTreeSet::new(),
            drained_in_order: VecDeque::new(),
            declared: BTreeSet::new(),
            calls: BTreeMap::new(),
            greeting: Vec::new(),
            conflicts: Vec::new(),
            t: 0,
            line: 0,
        }
    }

    pub(super) fn handle(&mut self, event: &Event) {
        self.report.add(Count::Events, 1);
        self.line = event.line;
        match &event.what {
            What::Boot { unix_ms, .. } => return self.begin_boot(*unix_ms, event.t),
            What::Dropped(n) => {
                self.report.add(Count::DroppedLines, *n);
                return self.violate(Invariant::Journal, event, None, format!("{n} lines are missing"));
            }
            _ => {}
        }
        let later;
        let mut event = event;
        if event.t < self.t {
            let text = format!("time runs back from {}", self.t);
            self.violate(Invariant::Journal, event, None, text);
            let t = self.t;
            later = Event { t, ..event.clone() };
            event = &later;
        }
        if event.t > self.t {
            self.flush_conflicts();
            self.greeting.clear();
            self.t = event.t;
        }
        match &event.what {
            What::Boot { .. } | What::Dropped(_) => {}
            What::Opened => {
                let session = Session::opened(event.t, &self.settings);
                if self.sessions.insert(event.session, session).is_some() {
                    self.violate(
                        Invariant::Journal,
                        event,
                        None,
                        "the session was opened before".to_owned(),
                    );
                }
            }
            What::Call(call) => self.call(event, call),
            What::Reply(reply) => self.reply(event, reply),
            _ if !self.sessions.contains_key(&event.session) => {
                let text = "the session was never opened".to_owned();
                self.violate(Invariant::Journal, event, None, text);
            }
            What::Closed => self.stream_is_over(event.session),
            What::Ended => {
                self.stream_is_over(event.session);
                if let Some(session) = self.sessions.get_mut(&event.session) {
                    session.is_shut = true;
                }
            }
            // What was on its way to an orchestrator that has ended the stream changes nothing.
            What::In { .. } if self.sessions[&event.session].is_shut => {}
            What::In { message, .. } => self.hear(event, message),
            What::Out { seq, message } => self.say(event, *seq, message),
        }
        self.refresh_free(event.session);
    }

    fn begin_boot(&mut self, unix_ms: Option<i64>, t: u64) {
        self.end_boot();
        self.report.add(Count::Boots, 1);
        self.boot += 1;
        self.boot_unix_ms = unix_ms;
        self.t = t;
    }

    /// The process is over, and with it every session and every attempt.
    pub(super) fn end_boot(&mut self) {
        self.flush_conflicts();
        self.actions.end(self.clock());
        // How long the process went on after the last line is not known: what is silent may have been lost since.
        for session in self
            .sessions
            .values()
            .filter(|session| session.stage == Stage::Suspect)
        {
            for token in &session.held {
                if let Some(attempt) = self.attempts.get_mut(token) {
                    attempt.evidence = attempt.evidence.and(Evidence::LEASE_EXPIRED);
                }
            }
        }
        for number in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.judge_owed(number);
            self.judge_unanswered(number);
        }
        self.sessions.clear();
        self.greeting.clear();
        self.instances.clear();
        self.drained.clear();
        self.drained_in_order.clear();
        self.declared.clear();
        self.calls.clear();
    }

    pub(super) fn violate(&mut self, invariant: Invariant, event: &Event, token: Option<Hex>, text: String) {
        let (line, session) = (event.line, event.session);
        self.report.violate(Violation {
            invariant,
            line,
            session,
            token,
            text,
        });
    }

    /// A second attempt of a step while this one is live.
    pub(super) fn conflict(&mut self, live: Hex, event: &Event, token: Hex) {
        let (line, session) = (event.line, event.session);
        let text = format!("attempt {live} of the same step is live");
        let (invariant, token) = (Invariant::I1, Some(token));
        let violation = Violation {
            invariant,
            line,
            session,
            token,
            text,
        };
        self.conflicts.push((live, violation));
    }

    fn flush_conflicts(&mut self) {
        for (_, violation) in std::mem::take(&mut self.conflicts) {
            self.report.violate(violation);
        }
    }

    pub(super) fn clock(&self) -> Clock {
        Clock {
            t: self.t,
            boot_unix_ms: self.boot_unix_ms,
            window_ms_min: self.settings.free_slot_ms,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.t
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns an attempt that this boot handed out.
    pub(super) fn attempt(&mut self, token: Hex) -> Option<&mut Attempt> {
        let boot = self.boot;
        self.attempts
            .get_mut(&token)
            .filter(|attempt| attempt.boot == boot)
    }

    /// The same, if this session holds it.
    pub(super) fn held_attempt(&mut self, token: Hex, session: u64) -> Option<&mut Attempt> {
        self.attempt(token).filter(|attempt| attempt.holder == session)
    }

    /// A live attempt is over. Nothing happens to one that is over already.
    pub(super) fn settle(&mut self, token: Hex, state: State) {
        if let Some(attempt) = self.attempt(token)
            && attempt.is_live()
        {
            attempt.state = state;
            self.conflicts.retain(|(live, _)| *live != token);
        }
    }

    /// The worker does not have the attempt.
    pub(super) fn gone(&mut self, token: Hex, evidence: Evidence) {
        let now = self.t;
        let Some(attempt) = self.attempt(token) else {
            return;
        };
        if attempt.is_live() {
            // Its time may have run out before, when nobody could be told.
            let may_be_counted = !attempt.started && now + 1 >= attempt.t + attempt.timeout_ms;
            let is_told = evidence == Evidence::REJECTED || !may_be_counted;
            let state = if is_told {
                State::Gone
            } else {
                State::Ended(Why::Unseen)
            };
            attempt.evidence = attempt.evidence.and(evidence);
            if evidence != Evidence::REJECTED {
                self.report.add(Count::Losses, 1);
            }
            self.settle(token, state);
        }
        self.release(token);
    }

    /// The attempt holds no credit any more.
    pub(super) fn release(&mut self, token: Hex) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        if attempt.credit {
            attempt.credit = false;
            let (holder, action, waits) = (attempt.holder, attempt.action, attempt.waits);
            if let Some(session) = self.sessions.get_mut(&holder) {
                session.release_credit(token, action, waits);
            }
        }
    }

    /// Everything that a session holds is gone, and the session with it.
    pub(super) fn lose(&mut self, session: u64, evidence: Evidence) {
        let Some(lost) = self.sessions.get_mut(&session) else {
            return;
        };
        lost.stage = Stage::Over;
        for token in lost.held.iter().copied().collect::<Vec<_>>() {
            self.gone(token, evidence);
        }
        self.refresh_free(session);
    }

    fn stream_is_over(&mut self, session: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.stage = match session.stage {
                Stage::Opened | Stage::Over => Stage::Over,
                Stage::Welcomed | Stage::Suspect => Stage::Suspect,
            };
        }
        // What was read in this very instant was handled, and its answer finds no stream.
        let unheard = self.sessions.get(&session).map_or(Vec::new(), |session| {
            let read = session
                .unanswered
                .iter()
                .filter(|(_, outcome)| !outcome.kinds.is_empty());
            read.map(|(token, _)| *token).collect()
        });
        for token in unheard {
            if self
                .held_attempt(token, session)
                .is_some_and(|attempt| attempt.is_live())
            {
                self.settle(token, State::Ended(Why::Unseen));
            }
            if self.held_attempt(token, session).is_some() {
                self.release(token);
            }
        }
    }

    /// Returns true if the orchestrator certainly has the session: one whose stream is over is kept for what it holds.
    pub(super) fn is_present(&self, number: u64) -> bool {
        self.sessions
            .get(&number)
            .is_some_and(|session| match session.stage {
                Stage::Welcomed => true,
                Stage::Suspect => !session.held.is_empty() && !self.is_maybe_lost(number),
                Stage::Opened | Stage::Over => false,
            })
    }

    /// Returns true if a session whose stream is over may have been lost by now: no line says when.
    pub(super) fn is_maybe_lost(&self, session: u64) -> bool {
        let patience = self.settings.lease_ms + self.settings.lease_margin_ms;
        self.sessions
            .get(&session)
            .is_none_or(|session| session.stage == Stage::Suspect && self.t + 1 >= session.heard + patience)
    }

    /// Settles what may have happened to a live attempt while its stream was over.
    pub(super) fn settle_unseen(&mut self, token: Hex) {
        let Some(attempt) = self.attempt(token).filter(|attempt| attempt.is_live()) else {
            return;
        };
        let (holder, ends) = (attempt.holder, attempt.t + attempt.timeout_ms);
        let Some(session) = self.sessions.get(&holder) else {
            return;
        };
        let is_suspect = session.stage == Stage::Suspect;
        // Long after the lease the same instance may come back without it: then either may stand in the record.
        let omitted = self
            .resumes_without(holder, token)
            .then_some(Evidence::RESUME_OMITS);
        let lost = self.is_maybe_lost(holder).then_some(Evidence::LEASE_EXPIRED);
        if let Some(evidence) = omitted.into_iter().chain(lost).reduce(Evidence::and) {
            self.gone(token, evidence);
        } else if is_suspect && self.t + 1 >= ends {
            self.settle(token, State::Ended(Why::TimedOut));
        }
    }

    /// Returns true if the instance greets right now, without this attempt.
    fn resumes_without(&self, holder: u64, token: Hex) -> bool {
        let instance = self.sessions.get(&holder).and_then(Session::instance);
        self.greeting.iter().any(|session| {
            let hello = self
                .sessions
                .get(session)
                .and_then(|session| session.hello.as_ref());
            hello.is_some_and(|hello| {
                Some(hello.instance) == instance && !hello.in_flight.contains_key(&token)
            })
        })
    }

    /// Remembers who is drained, as many as the protocol does.
    pub(super) fn drain(&mut self, instance: Hex) {
        if self.drained.insert(instance) {
            self.drained_in_order.push_back(instance);
            if self.drained_in_order.len() > DRAINED_MAX
                && let Some(first) = self.drained_in_order.pop_front()
            {
                self.drained.remove(&first);
            }
        }
    }

    /// Tells the actions which free slots the session has now.
    pub(super) fn refresh_free(&mut self, number: u64) {
        let clock = self.clock();
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let ids: Vec<ActionId> = session.actions.keys().copied().collect();
        for id in ids {
            let free = session.has_free_slot(id);
            let Some(level) = session.actions.get_mut(&id) else {
                continue;
            };
            if level.free != free {
                level.free = free;
                self.actions.free(id, free, clock);
            }
        }
    }
}

const DRAINED_MAX: usize = 10_000;
