//! What workers say. Judges I9's allowance and the worker's part of I7, and takes notes for the rest.

use std::collections::BTreeMap;

use crate::session_journal::{
    ActionLevel, Capacity, Event, FromWorker, Hello, Hex, OutcomeKind, Phase, RejectReason,
};

use super::attempt::Evidence;
use super::books::Books;
use super::report::{Count, Invariant};
use super::session::{Level, Session, Stage, Unanswered};

impl Books {
    /// A message from a worker.
    pub(super) fn hear(&mut self, event: &Event, message: &FromWorker) {
        let settings = &self.settings;
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        if session.overdraws(event.t, cost(message), settings) {
            let text = "the worker sends more than its allowance and is heard all the same".to_owned();
            self.violate(Invariant::I9, event, None, text);
        }
        match message {
            FromWorker::Hello(hello) => self.hello(event, hello),
            FromWorker::RegisterActions { revision, actions } => {
                self.register(event.session, *revision, actions)
            }
            FromWorker::Capacity(capacity) => self.capacity(event.session, capacity),
            FromWorker::Heartbeat { .. } => {
                if let Some(session) = self.sessions.get_mut(&event.session) {
                    session.heard = event.t;
                    session.reluctant = false;
                    session.deaf_since = None;
                }
            }
            FromWorker::AttemptAcks {
                started,
                rejected,
                stopped,
            } => {
                started
                    .iter()
                    .for_each(|token| self.started(*token, event.session));
                for (token, reason) in rejected {
                    self.rejected(*token, *reason, event.session);
                }
                for token in stopped {
                    if let Some(session) = self.sessions.get_mut(&event.session) {
                        session.stopping.remove(token);
                    }
                    self.stopped(*token, event.session);
                }
            }
            FromWorker::Outcomes { items, .. } => {
                for (token, kind) in items {
                    self.outcome(event, *token, *kind);
                }
            }
            FromWorker::Snapshot {
                n,
                last_assignment_seq,
                in_flight,
            } => self.snapshot(event.session, *n, *last_assignment_seq, in_flight),
            FromWorker::Goodbye {} => self.lose(event.session, Evidence::GOODBYE),
            FromWorker::Drain {} | FromWorker::Unknown {} => {}
        }
    }

    fn hello(&mut self, event: &Event, hello: &Hello) {
        let present = self.instances.get(&hello.instance).copied();
        let present_number = present
            .filter(|present| self.is_present(*present))
            .and_then(|present| self.sessions.get(&present))
            .and_then(|present| present.hello.as_ref())
            .map_or(0, |hello| hello.hello_number);
        let deaf_since = present.and_then(|present| self.deaf_since(present, hello));
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        if session.hello.is_none() {
            session.follows = present;
            (session.greeted_deaf_since, session.deaf_since) = (deaf_since, deaf_since);
            session.held_up = (1..present_number).contains(&hello.hello_number);
            (session.heard, session.greeted_at) = (event.t, event.t);
            session.hello = Some(hello.clone());
            self.greeting.push(event.session);
        }
    }

    fn register(&mut self, session: u64, revision: u64, actions: &BTreeMap<String, ActionLevel>) {
        let is_later = |session: &&mut Session| revision > session.actions_revision;
        if let Some(session) = self.sessions.get_mut(&session).filter(is_later) {
            session.actions_revision = revision;
            session.reluctant = false;
        } else {
            return;
        }
        self.replace_actions(session, actions);
    }

    /// The session offers these actions and no other.
    pub(super) fn replace_actions(&mut self, session: u64, actions: &BTreeMap<String, ActionLevel>) {
        let clock = self.clock();
        let named = actions.iter();
        let levels = named
            .map(|(name, level)| (self.actions.id(name), Level::from(*level)))
            .collect();
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        for (id, level) in std::mem::replace(&mut session.actions, levels) {
            match session.actions.get_mut(&id) {
                Some(new) => new.free = level.free,
                None if level.free => self.actions.free(id, false, clock),
                None => {}
            }
        }
    }

    fn capacity(&mut self, session: u64, capacity: &Capacity) {
        let named = capacity.per_action.iter();
        let levels: Vec<_> = named.map(|(name, max)| (self.actions.id(name), *max)).collect();
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        if capacity.revision <= session.capacity_revision {
            return;
        }
        session.capacity_revision = capacity.revision;
        session.reluctant = false;
        session.max_in_flight = capacity.max_in_flight;
        for (id, max) in levels {
            if let Some(level) = session.actions.get_mut(&id) {
                level.max = Some(max);
            }
        }
    }

    fn started(&mut self, token: Hex, session: u64) {
        if let Some(attempt) = self.held_attempt(token, session)
            && !attempt.started
        {
            attempt.started = true;
            self.report.add(Count::Started, 1);
        }
    }

    fn rejected(&mut self, token: Hex, reason: RejectReason, session: u64) {
        let Some(attempt) = self.held_attempt(token, session) else {
            return;
        };
        let action = attempt.action;
        self.report.add(Count::Rejected, 1);
        self.gone(token, Evidence::REJECTED);
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        match (reason, session.actions.get_mut(&action)) {
            (RejectReason::UnknownAction, Some(level)) => level.forgotten = true,
            (RejectReason::Cancelled, _) => {}
            _ => session.reluctant = true,
        }
    }

    fn stopped(&mut self, token: Hex, session: u64) {
        if self.held_attempt(token, session).is_some() {
            self.report.add(Count::Stopped, 1);
            self.gone(token, Evidence::STOPPED);
        }
    }

    fn outcome(&mut self, event: &Event, token: Hex, kind: OutcomeKind) {
        self.report.add(Count::OutcomesRead, 1);
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return;
        };
        let (instance, worker) = (session.instance(), session.worker().to_owned());
        session.owed.remove(&token);
        let fresh = Unanswered {
            kinds: Vec::new(),
            line: event.line,
            t: event.t,
        };
        let unanswered = session.unanswered.entry(token).or_insert(fresh);
        unanswered.kinds.push(kind);
        (unanswered.line, unanswered.t) = (event.line, event.t);
        let Some(attempt) = self.attempt(token).filter(|attempt| attempt.instance == instance) else {
            return;
        };
        let before = *attempt.reported.get_or_insert(kind);
        // What was handed out again in the meantime was handed out by what was known then.
        if attempt.is_live() {
            attempt.started |= matches!(
                kind,
                OutcomeKind::Success | OutcomeKind::Failure | OutcomeKind::Refused
            );
            attempt.released |= kind == OutcomeKind::Released;
        }
        if before != kind && !self.settings.careless_workers.contains(&worker) {
            let text = format!("it was reported as {before:?} before, and comes as {kind:?}");
            self.violate(Invariant::I7, event, Some(token), text);
        }
    }

    fn snapshot(&mut self, number: u64, n: u64, last_seq: u64, in_flight: &BTreeMap<Hex, Phase>) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if session.snapshot_asked.is_none() || session.snapshot_n != n {
            return;
        }
        session.snapshot_asked = None;
        self.report.add(Count::SnapshotAnswers, 1);
        for token in session.held.iter().copied().collect::<Vec<_>>() {
            let Some(attempt) = self.held_attempt(token, number) else {
                continue;
            };
            match in_flight.get(&token) {
                Some(Phase::Running | Phase::Finished) => attempt.started = true,
                Some(Phase::Received) => {}
                None if attempt.seq <= last_seq => self.gone(token, Evidence::SNAPSHOT_OMITS),
                None => {}
            }
        }
    }

    /// I7: what this session should have sent again.
    pub(super) fn judge_owed(&mut self, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let owed = std::mem::take(&mut session.owed);
        let (worker, line) = (session.worker().to_owned(), self.line());
        if self.settings.careless_workers.contains(&worker) {
            return;
        }
        for (token, reported_at) in owed {
            if self.attempt(token).is_none_or(|attempt| !attempt.answered) {
                let text =
                    format!("the outcome of line {reported_at} was not answered, and `{worker}` forgot it");
                self.violate_at(Invariant::I7, line, number, token, text);
            }
        }
    }

    /// I7: what the orchestrator should have answered.
    pub(super) fn judge_unanswered(&mut self, number: u64) {
        let (now, patience) = (self.now(), self.settings.answer_ms_max);
        let Some(session) = self.sessions.get(&number) else {
            return;
        };
        let is_due = |unanswered: &Unanswered| {
            !unanswered.kinds.is_empty() && now.saturating_sub(unanswered.t) > patience
        };
        let due: Vec<(Hex, usize)> = session
            .unanswered
            .iter()
            .filter(|(_, unanswered)| session.stage == Stage::Welcomed && is_due(unanswered))
            .map(|(token, unanswered)| (*token, unanswered.line))
            .collect();
        for (token, line) in due {
            let text = "the outcome was never answered".to_owned();
            self.violate_at(Invariant::I7, line, number, token, text);
        }
    }
}

/// What a message costs of the allowance, texts not counted: the journal does not have them all.
fn cost(message: &FromWorker) -> u64 {
    let n_entries = match message {
        FromWorker::Hello(hello) => hello.actions.len() + hello.in_flight.len(),
        FromWorker::RegisterActions { actions, .. } => actions.len(),
        FromWorker::Capacity(capacity) => capacity.per_action.len(),
        FromWorker::AttemptAcks {
            started,
            rejected,
            stopped,
        } => started.len() + rejected.len() + stopped.len(),
        FromWorker::Outcomes { items, .. } => items.len(),
        FromWorker::Snapshot { in_flight, .. } => in_flight.len(),
        FromWorker::Heartbeat { .. }
        | FromWorker::Drain {}
        | FromWorker::Goodbye {}
        | FromWorker::Unknown {} => 0,
    };
    1 + (n_entries / ENTRIES_PER_MESSAGE) as u64
}

/// Entries of a message's lists that cost as much as a message.
pub(super) const ENTRIES_PER_MESSAGE: usize = 16;
