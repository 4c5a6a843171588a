//! Every attempt that the worker has not been released from. Messages go to the outbox.

use crate::event::SessionEvent;
use crate::session::attempt::{Input, Next, State, next};
use crate::session::outbox::Effects;
use crate::session::{Command, LEASE_STOP_MS, STOP_GRACE_MS, TaskEnd, report, token_bytes};
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::{AttemptOutcome, InFlight, Outcomes, SessionLimits, in_flight};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Attempts {
    attempts: BTreeMap<AttemptToken, Attempt>,
    /// Times at which attempts need attention: the limit of a running one, the abortion of a cancelled one.
    wakes: BTreeSet<(u64, AttemptToken)>,
    /// Number of outcomes that wait for their acknowledgements.
    n_finished: usize,
    hash: [u8; 16],
}

#[derive(Debug)]
struct Attempt {
    names: Names,
    started_at_ms: u64,
    state: State,
    abortion: Option<Abortion>,
    wake_at_ms: Option<u64>,
    outcome: Option<AttemptOutcome>,
}

/// Names of an attempt for people: its action, its execution and its step, in one piece of memory.
#[derive(Debug)]
pub(super) struct Names {
    text: String,
    execution_at: usize,
    step_at: usize,
}

impl Names {
    pub(super) fn new(action: &str, execution_id: &str, step_id: &str) -> Self {
        Self {
            text: [action, execution_id, step_id].concat(),
            execution_at: action.len(),
            step_at: action.len() + execution_id.len(),
        }
    }

    fn stuck(&self, aborted_for: Duration) -> SessionEvent {
        SessionEvent::Stuck {
            action: self.text[..self.execution_at].to_owned(),
            execution_id: self.text[self.execution_at..self.step_at].to_owned(),
            step_id: self.text[self.step_at..].to_owned(),
            aborted_for,
        }
    }
}

/// Abortion of a handler task, which may ignore it.
#[derive(Clone, Copy, Debug)]
struct Abortion {
    at_ms: u64,
    /// Milliseconds until the next report that the handler task still runs.
    next_report_ms: u64,
}

impl Attempts {
    pub(super) fn contains(&self, token: AttemptToken) -> bool {
        self.attempts.contains_key(&token)
    }

    /// Enters an attempt whose handler task starts now.
    pub(super) fn start(&mut self, now_ms: u64, token: AttemptToken, names: Names, deadline_at_ms: u64) {
        let attempt = Attempt {
            names,
            started_at_ms: now_ms,
            state: State::Running,
            abortion: None,
            wake_at_ms: Some(deadline_at_ms),
            outcome: None,
        };
        let before = self.attempts.insert(token, attempt);
        assert!(before.is_none(), "attempt {token:?} is started once");
        self.wakes.insert((deadline_at_ms, token));
        self.toggle_hash(token);
    }

    /// Handles the end of a handler task.
    pub(super) fn ended(
        &mut self,
        now_ms: u64,
        token: AttemptToken,
        end: TaskEnd,
        limits: &SessionLimits,
        effects: &mut Effects,
    ) {
        self.apply(now_ms, token, Input::Ended, 0, Some((end, limits)), effects);
    }

    /// Cancels an attempt. Returns false if the session does not have it.
    pub(super) fn unwanted(
        &mut self,
        now_ms: u64,
        token: AttemptToken,
        grace_ms: u64,
        effects: &mut Effects,
    ) -> bool {
        let known = self.contains(token);
        self.apply(now_ms, token, Input::Unwanted, grace_ms, None, effects);
        known
    }

    /// Applies the same event to every attempt.
    pub(super) fn apply_to_all(&mut self, now_ms: u64, input: Input, effects: &mut Effects) {
        let grace_ms = if input == Input::LeaseExpired {
            LEASE_STOP_MS
        } else {
            STOP_GRACE_MS
        };
        for token in self.attempts.keys().copied().collect::<Vec<_>>() {
            self.apply(now_ms, token, input, grace_ms, None, effects);
        }
    }

    /// Acts on every limit that has come.
    pub(super) fn handle_timeout(&mut self, now_ms: u64, effects: &mut Effects) {
        while let Some(&(at_ms, token)) = self.wakes.first()
            && at_ms <= now_ms
        {
            let attempt = self.attempts.get(&token).expect("a wake belongs to an attempt");
            match attempt.state {
                State::Running => self.apply(now_ms, token, Input::TimeUp, STOP_GRACE_MS, None, effects),
                State::Stopping(_) => self.insist(now_ms, token, effects),
                State::Overdue | State::Finished => self.set_wake(token, None),
            }
        }
    }

    pub(super) fn next_wake_ms(&self) -> Option<u64> {
        self.wakes.first().map(|(at_ms, _)| *at_ms)
    }

    /// Forgets an attempt whose outcome was answered. False if none was recorded.
    pub(super) fn acknowledged(&mut self, token: AttemptToken) -> bool {
        match self.attempts.entry(token) {
            Entry::Occupied(entry) if entry.get().state == State::Finished => {
                // A finished attempt has no wake.
                entry.remove();
                self.n_finished -= 1;
                self.toggle_hash(token);
                true
            }
            Entry::Occupied(_) | Entry::Vacant(_) => false,
        }
    }

    /// Returns the next message of outcomes, as many as fit into one.
    pub(super) fn take_outcomes(&mut self, effects: &mut Effects, limits: &SessionLimits) -> Option<Request> {
        // A message that takes long to transmit would delay the next heartbeat.
        let bytes_max = report::item_bytes_max(limits).min(OUTCOMES_BYTES_AIM);
        let mut items = Vec::new();
        let mut bytes = 0;
        while let Some(token) = effects.first_outcome() {
            // An outcome that was answered in the meantime needs no second message.
            if let Some(outcome) = self.outcome_mut(token) {
                bytes += report::fit(outcome, limits) + ITEM_OVERHEAD_BYTES;
                let full = bytes > bytes_max || items.len() == OUTCOMES_PER_MESSAGE_MAX;
                if full && !items.is_empty() {
                    break;
                }
                items.push(outcome.clone());
            }
            effects.drop_first_outcome();
        }
        (!items.is_empty()).then_some(Request::Outcomes(Outcomes { items }))
    }

    pub(super) fn outcome_mut(&mut self, token: AttemptToken) -> Option<&mut AttemptOutcome> {
        self.attempts.get_mut(&token)?.outcome.as_mut()
    }

    /// Returns the attempts whose outcomes wait for their acknowledgements.
    pub(super) fn finished(&self) -> impl Iterator<Item = AttemptToken> {
        self.attempts
            .iter()
            .filter(|(_, attempt)| attempt.state == State::Finished)
            .map(|(token, _)| *token)
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = AttemptToken> {
        self.attempts.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Returns the number of outcomes that wait for their acknowledgements.
    pub(super) fn n_finished(&self) -> usize {
        self.n_finished
    }

    /// Returns the XOR of all tokens.
    pub(super) fn hash(&self) -> [u8; 16] {
        self.hash
    }

    pub(super) fn in_flight(&self) -> Vec<InFlight> {
        let entry = |(token, attempt): (&AttemptToken, &Attempt)| {
            let phase = match attempt.state {
                // An overdue attempt waits for its cancel like one that runs.
                State::Running | State::Stopping(_) | State::Overdue => in_flight::Phase::Running,
                State::Finished => in_flight::Phase::Finished,
            };
            InFlight {
                attempt_token: token_bytes(*token),
                phase: phase.into(),
            }
        };
        self.attempts.iter().map(entry).collect()
    }

    fn apply(
        &mut self,
        now_ms: u64,
        token: AttemptToken,
        input: Input,
        grace_ms: u64,
        end: Option<(TaskEnd, &SessionLimits)>,
        effects: &mut Effects,
    ) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        let run_time_ms = now_ms.saturating_sub(attempt.started_at_ms);
        match next(attempt.state, input) {
            Next::Stay => {
                if matches!(attempt.state, State::Stopping(_)) && input != Input::Ended {
                    self.abort_by(token, now_ms.saturating_add(grace_ms));
                }
            }
            Next::Stop(why) => {
                if attempt.state == State::Running {
                    effects.command(Command::Cancel(token));
                    self.set_wake(token, Some(now_ms.saturating_add(grace_ms)));
                } else {
                    self.abort_by(token, now_ms.saturating_add(grace_ms));
                }
                self.set_state(token, State::Stopping(why));
            }
            Next::Wait => {
                self.set_state(token, State::Overdue);
                self.set_wake(token, None);
            }
            Next::Report => {
                let (end, limits) = end.expect("only the end of a body is reported");
                self.finish(
                    token,
                    report::outcome_of(token, run_time_ms, end, limits),
                    effects,
                );
            }
            Next::Release(reason) => {
                self.finish(token, report::release_of(token, run_time_ms, reason), effects);
            }
            Next::Forget => {
                self.forget(token);
                effects.stopped(token);
            }
        }
    }

    /// Aborts a handler task that was cancelled, or reports one that is still there after its abortion.
    fn insist(&mut self, now_ms: u64, token: AttemptToken, effects: &mut Effects) {
        let attempt = self.attempts.get_mut(&token).expect("a body that stops is here");
        let abortion = match attempt.abortion {
            None => {
                effects.command(Command::Abort(token));
                Abortion {
                    at_ms: now_ms,
                    next_report_ms: STUCK_REPORT_MS_MIN,
                }
            }
            Some(before) => {
                let aborted_for = Duration::from_millis(now_ms.saturating_sub(before.at_ms));
                effects.command(Command::Tell(attempt.names.stuck(aborted_for)));
                Abortion {
                    next_report_ms: (before.next_report_ms * 2).min(STUCK_REPORT_MS_MAX),
                    ..before
                }
            }
        };
        attempt.abortion = Some(abortion);
        self.set_wake(token, Some(now_ms + abortion.next_report_ms));
    }

    /// Brings an abortion forward; one that has happened stays.
    fn abort_by(&mut self, token: AttemptToken, at_ms: u64) {
        let not_aborted = |attempt: &&Attempt| attempt.abortion.is_none();
        let attempt = self.attempts.get(&token).filter(not_aborted);
        let wake_at_ms = attempt.and_then(|attempt| attempt.wake_at_ms);
        if wake_at_ms.is_some_and(|planned_ms| at_ms < planned_ms) {
            self.set_wake(token, Some(at_ms));
        }
    }

    fn finish(&mut self, token: AttemptToken, outcome: AttemptOutcome, effects: &mut Effects) {
        let attempt = self.attempts.get_mut(&token).expect("a finished attempt is here");
        attempt.state = State::Finished;
        attempt.outcome = Some(outcome);
        self.n_finished += 1;
        if let Some(at_ms) = attempt.wake_at_ms.take() {
            self.wakes.remove(&(at_ms, token));
        }
        effects.outcome(token);
    }

    fn forget(&mut self, token: AttemptToken) {
        self.set_wake(token, None);
        self.attempts
            .remove(&token)
            .expect("a forgotten attempt was here");
        self.toggle_hash(token);
    }

    fn set_state(&mut self, token: AttemptToken, state: State) {
        self.attempts
            .get_mut(&token)
            .expect("an attempt that changes is here")
            .state = state;
    }

    fn set_wake(&mut self, token: AttemptToken, at_ms: Option<u64>) {
        let attempt = self
            .attempts
            .get_mut(&token)
            .expect("an attempt that is timed is here");
        if let Some(before_ms) = std::mem::replace(&mut attempt.wake_at_ms, at_ms) {
            self.wakes.remove(&(before_ms, token));
        }
        if let Some(at_ms) = at_ms {
            self.wakes.insert((at_ms, token));
        }
    }

    fn toggle_hash(&mut self, token: AttemptToken) {
        self.hash
            .iter_mut()
            .zip(token.as_bytes())
            .for_each(|(sum, byte)| *sum ^= byte);
    }
}

/// Milliseconds from an abortion to the first report that the handler task still runs; the intervals double.
const STUCK_REPORT_MS_MIN: u64 = 10_000;
/// The longest distance between two reports.
const STUCK_REPORT_MS_MAX: u64 = 600_000;

/// Bytes of one message of several outcomes; one that is larger goes alone.
const OUTCOMES_BYTES_AIM: usize = 256 << 10;
/// Outcomes in one message.
const OUTCOMES_PER_MESSAGE_MAX: usize = 1024;
/// Key and length of one item of `Outcomes`.
const ITEM_OVERHEAD_BYTES: usize = 6;
