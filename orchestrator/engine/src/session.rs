//! What workers say, and what it means. How a session ends stands in `session_end`.

use crate::effect::Effect;
use crate::engine::{Engine, Timer};
use crate::fleet::{Attempt, Session, SessionAction};
use crate::input::SessionKey;
use crate::worker::{
    AckVerdict, ActionRefusal, ActionSpec, AttemptReport, Cancel, CancelReason, FromWorker, RejectReason,
    SessionErrorCode, ToWorker,
};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_contract::{Evidence, Input as ContractInput, Outcome};
use escapement_model::{AttemptToken, SessionId, limits};

impl Engine {
    pub(crate) fn session_opened(&mut self, key: SessionKey, session_id: SessionId) {
        let now_ms = self.now.monotonic_ms;
        self.fleet.sessions.insert(key, Session::new(session_id, now_ms));
        // Until its hello it has no lease but this one.
        let due_ms = now_ms.saturating_add(limits::HELLO_TIMEOUT_MS);
        self.timers.set(Timer::Lease(key), Some(due_ms));
    }

    pub(crate) fn session_message(&mut self, key: SessionKey, seq: u64, message: FromWorker) {
        // A stream that was ended here may still deliver what was on its way.
        let Some(session) = self
            .fleet
            .sessions
            .get_mut(&key)
            .filter(|session| session.connected)
        else {
            return;
        };
        if seq != session.last_seq_in + 1 {
            let detail = format!("expected message {}, got {seq}", session.last_seq_in + 1);
            return self.refuse_session(key, SessionErrorCode::ProtocolViolation, &detail);
        }
        session.last_seq_in = seq;
        match (session.identity.is_some(), message) {
            (false, FromWorker::Hello(hello)) => self.hello(key, hello),
            (true, FromWorker::Hello(_)) => {
                self.refuse_session(key, SessionErrorCode::ProtocolViolation, "a second hello");
            }
            (_, FromWorker::Unknown) => {}
            (false, _) => {
                self.refuse_session(
                    key,
                    SessionErrorCode::ProtocolViolation,
                    "the first message must be hello",
                );
            }
            (true, FromWorker::RegisterActions { actions, .. })
                if actions.len() > limits::SESSION_ACTIONS_MAX =>
            {
                self.refuse_session(key, SessionErrorCode::LimitExceeded, "too many actions");
            }
            (true, FromWorker::RegisterActions { revision, actions }) => {
                self.register(key, revision, actions);
            }
            (
                true,
                FromWorker::Capacity {
                    revision,
                    max_in_flight,
                    per_action,
                },
            ) => {
                self.set_capacity(key, revision, max_in_flight, &per_action);
            }
            (true, FromWorker::Heartbeat { n }) => self.heartbeat(key, n),
            (
                true,
                FromWorker::AttemptAcks {
                    started,
                    rejected,
                    stopped,
                },
            ) => {
                started
                    .into_iter()
                    .for_each(|token| self.attempt_started(key, token));
                rejected
                    .into_iter()
                    .for_each(|(token, reason)| self.attempt_rejected(key, token, reason));
                stopped
                    .into_iter()
                    .for_each(|token| self.attempt_stopped(key, token));
            }
            (true, FromWorker::Outcomes(items)) => {
                items
                    .into_iter()
                    .for_each(|(token, report)| self.outcome(key, token, report));
            }
            // Nobody asked for one.
            (true, FromWorker::Snapshot { .. }) => {}
            (true, FromWorker::Drain) => self.worker_drain(key),
            (true, FromWorker::Goodbye) => self.goodbye(key),
        }
    }

    /// Takes the actions that a worker offers; an older revision changes nothing.
    pub(crate) fn register(
        &mut self,
        key: SessionKey,
        revision: u64,
        specs: Vec<ActionSpec>,
    ) -> Vec<ActionRefusal> {
        let session = self.session_mut(key);
        if revision < session.actions_revision {
            return Vec::new();
        }
        session.actions_revision = revision;
        self.drop_actions(key);
        let mut refused = Vec::new();
        let mut offered: BTreeMap<_, SessionAction> = BTreeMap::new();
        for spec in specs {
            if let Some(reason) = refusal_of(&spec) {
                refused.push(ActionRefusal {
                    name: spec.name,
                    reason,
                });
                continue;
            }
            let action = self.fleet.action_key(&spec.name);
            let state = self.fleet.action_mut(action);
            state.description = spec.description;
            state.input_schema = spec.input_schema;
            state.was_offered = true;
            let repeated = offered.insert(
                action,
                SessionAction {
                    max_in_flight: bounded(spec.max_in_flight),
                    waits: spec.waits,
                    in_flight: BTreeMap::new(),
                    listed_load: None,
                },
            );
            self.fleet.action_mut(action).holders += u32::from(repeated.is_none());
        }
        self.session_mut(key).actions = offered;
        self.recount(key);
        self.offer_actions(key);
        refused
    }

    /// Counts again what the attempts of a session take, after its actions changed.
    fn recount(&mut self, key: SessionKey) {
        let session = self
            .fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there");
        let mut in_flight = 0;
        for token in &session.tokens {
            let attempt = &self.fleet.attempts[token];
            let ordinary = session.actions.get_mut(&attempt.action).is_none_or(|offered| {
                offered.take(attempt.depth);
                !offered.waits
            });
            in_flight += u32::from(ordinary);
        }
        session.in_flight = in_flight;
    }

    fn set_capacity(
        &mut self,
        key: SessionKey,
        revision: u64,
        max_in_flight: u32,
        per_action: &BTreeMap<String, u32>,
    ) {
        let session = self
            .fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there");
        if revision < session.capacity_revision {
            return;
        }
        session.capacity_revision = revision;
        session.max_in_flight = max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX);
        for (name, level) in per_action {
            let Some(action) = self.fleet.find_action(name) else {
                continue;
            };
            if let Some(offered) = self.session_mut(key).actions.get_mut(&action) {
                offered.max_in_flight = Some((*level).min(limits::SESSION_IN_FLIGHT_MAX));
            }
        }
        self.fleet.refresh_free(key);
    }

    fn heartbeat(&mut self, key: SessionKey, n: u64) {
        let now_ms = self.now.monotonic_ms;
        self.session_mut(key).heard_at_ms = now_ms;
        self.arm_lease(key);
        self.send(key, ToWorker::HeartbeatAck { n });
    }

    fn attempt_started(&mut self, key: SessionKey, token: AttemptToken) {
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

    fn attempt_rejected(&mut self, key: SessionKey, token: AttemptToken, reason: RejectReason) {
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
        self.release(
            token,
            if attempt.started {
                AckVerdict::AlreadyEnded
            } else {
                AckVerdict::Stale
            },
        );
        match (attempt.over.is_some(), attempt.started) {
            (true, _) => {}
            (false, true) => self.settle_lost(&attempt),
            (false, false) => self.hand_out_again(&attempt, Evidence::Rejected),
        }
    }

    fn attempt_stopped(&mut self, key: SessionKey, token: AttemptToken) {
        // A body that has ended had started, whether or not the worker said so.
        self.attempt_started(key, token);
        let Some(attempt) = self.attempt_of(key, token) else {
            return;
        };
        self.release(token, AckVerdict::AlreadyEnded);
        // Nobody asked for it to stop: its outcome is lost.
        if attempt.over.is_none() {
            self.settle_lost(&attempt);
        }
    }

    // one settlement per attempt; whoever comes later is answered and changes nothing.
    fn outcome(&mut self, key: SessionKey, token: AttemptToken, report: AttemptReport) {
        if matches!(report, AttemptReport::Released(_)) {
            self.attempt_started(key, token);
        }
        let verdict = match self.attempt_of(key, token) {
            None => self.fleet.ended.verdict(token),
            Some(attempt) => {
                let verdict = self.settle_attempt(token, &attempt, report);
                let later = if verdict == AckVerdict::AlreadyEnded {
                    verdict
                } else {
                    AckVerdict::Duplicate
                };
                self.release(token, later);
                verdict
            }
        };
        self.session_mut(key).outbox.outcome_acks.push((token, verdict));
        self.fleet.unflushed.insert(key);
    }

    fn settle_attempt(
        &mut self,
        token: AttemptToken,
        attempt: &Attempt,
        report: AttemptReport,
    ) -> AckVerdict {
        let Attempt {
            execution,
            step,
            number,
            ..
        } = *attempt;
        if attempt.over.is_some() {
            return AckVerdict::AlreadyEnded;
        }
        let (outcome, verdict) = match report {
            AttemptReport::Outcome(outcome @ Outcome::Undecodable { .. }) => (outcome, AckVerdict::Invalid),
            AttemptReport::Outcome(outcome) => (outcome, AckVerdict::Accepted),
            AttemptReport::Released(_) => (Outcome::Lost, AckVerdict::Accepted),
        };
        self.live.at_mut(execution).attempts.remove(&step);
        match self.act(
            execution,
            ContractInput::AttemptEnded {
                step,
                attempt: number,
                outcome,
            },
        ) {
            Ok(()) => verdict,
            Err(_late) => {
                self.fleet
                    .attempts
                    .get_mut(&token)
                    .expect("held until released")
                    .over = Some(CancelReason::ExecutionEnded);
                AckVerdict::AlreadyEnded
            }
        }
    }

    /// The attempt of that token, if this session has it. A token of somebody else's is as good as none.
    fn attempt_of(&self, key: SessionKey, token: AttemptToken) -> Option<Attempt> {
        self.fleet
            .attempts
            .get(&token)
            .filter(|attempt| attempt.session == key)
            .copied()
    }

    /// Tells the worker that an attempt is not wanted any more. It keeps its credit until the worker answers.
    pub(crate) fn cancel(&mut self, token: AttemptToken, reason: CancelReason) {
        let attempt = self
            .fleet
            .attempts
            .get_mut(&token)
            .expect("a live attempt is held by a session");
        attempt.over = Some(reason);
        let session = attempt.session;
        let grace_ms = self.config.cancel_grace_ms;
        self.session_mut(session).outbox.cancels.push(Cancel {
            token,
            reason,
            grace_ms,
        });
        self.fleet.unflushed.insert(session);
        let due_ms = self.now.monotonic_ms + self.config.cancel_repeat_ms;
        self.timers.set(Timer::Cancels(session), Some(due_ms));
    }

    pub(crate) fn repeat_cancels(&mut self, key: SessionKey) {
        let grace_ms = self.config.cancel_grace_ms;
        let Some(session) = self
            .fleet
            .sessions
            .get_mut(&key)
            .filter(|session| session.connected)
        else {
            return;
        };
        let unanswered: Vec<Cancel> = session
            .tokens
            .iter()
            .filter_map(|token| self.fleet.attempts[token].over.map(|reason| (*token, reason)))
            .map(|(token, reason)| Cancel {
                token,
                reason,
                grace_ms,
            })
            .collect();
        if unanswered.is_empty() {
            return;
        }
        session.outbox.cancels = unanswered;
        self.fleet.unflushed.insert(key);
        let due_ms = self.now.monotonic_ms + self.config.cancel_repeat_ms;
        self.timers.set(Timer::Cancels(key), Some(due_ms));
    }

    /// Gives an attempt's credit back and remembers what a repeated outcome is told.
    pub(crate) fn release(&mut self, token: AttemptToken, later: AckVerdict) {
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
        session.tokens.remove(&token);
        let ordinary = session.actions.get_mut(&attempt.action).is_none_or(|offered| {
            offered.give_back(attempt.depth);
            !offered.waits
        });
        session.in_flight -= u32::from(ordinary);
        self.fleet.action_mut(attempt.action).in_flight -= 1;
        self.fleet
            .ended
            .remember(token, later, self.config.ended_attempts_max);
        self.fleet.refresh_free(attempt.session);
        self.fleet
            .forget_action_if_unused(attempt.action, self.now.monotonic_ms);
    }

    /// A worker without room is left alone for a moment, or it would be asked again at once, for ever.
    fn pause_session(&mut self, key: SessionKey) {
        let until_ms = self.now.monotonic_ms + self.config.rejection_pause_ms.max(1);
        self.session_mut(key).paused_until_ms = until_ms;
        self.timers.set(Timer::Pause(key), Some(until_ms));
        self.fleet.refresh_free(key);
    }

    pub(crate) fn pause_over(&mut self, key: SessionKey) {
        if let Some(session) = self.fleet.sessions.get_mut(&key) {
            session.paused_until_ms = 0;
            self.fleet.refresh_free(key);
        }
    }

    pub(crate) fn session_mut(&mut self, key: SessionKey) -> &mut Session {
        self.fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there")
    }

    pub(crate) fn refuse_session(&mut self, key: SessionKey, code: SessionErrorCode, detail: &str) {
        let retry_after_ms = 1_000;
        self.send(
            key,
            ToWorker::SessionError {
                code,
                detail: detail.into(),
                retry_after_ms,
            },
        );
        self.effects.push_back(Effect::CloseSession(key));
        self.stream_ended(key);
    }
}

/// The level that an action has of its own; in a registration 0 means that it has none.
fn bounded(max_in_flight: u32) -> Option<u32> {
    (max_in_flight > 0).then_some(max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX))
}

fn refusal_of(spec: &ActionSpec) -> Option<&'static str> {
    let n_chars = spec.name.chars().count();
    if n_chars == 0 || n_chars > limits::ACTION_CHARS_MAX {
        return Some("name must have 1 to 100 code points");
    }
    if spec.input_schema.len() > limits::INPUT_SCHEMA_BYTES_MAX {
        return Some("input_schema exceeds 64 KiB");
    }
    if spec.waits && spec.max_in_flight == 0 {
        return Some("an action that waits needs a max_in_flight of its own");
    }
    None
}
