//! How a session begins, and how the same instance goes on after a break. Nothing is assigned before `Welcome`.

use crate::engine::Engine;
use crate::fleet::{Attempt, Identity};
use crate::input::SessionKey;
use crate::limits::{MESSAGES_PER_ASSIGNMENT, WORKER_LIST_MAX};
use crate::worker::{Hello, InFlight, InFlightPhase, KeepOrStop, SessionErrorCode, ToWorker, Welcome};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use escapement_contract::{Evidence, Input as ContractInput};
use escapement_model::{AttemptToken, limits};

impl Engine {
    pub(crate) fn hello(&mut self, key: SessionKey, hello: Hello) {
        if let Err((code, detail)) = self.check_hello(&hello) {
            return self.refuse_session(key, code, detail);
        }
        let deaf_since_ms = self.deaf_since(&hello);
        let previous = self.fleet.instances.insert(hello.instance_id, key);
        let is_drained = self.fleet.drained.recall(hello.instance_id).is_some();
        let session = self.session_mut(key);
        session.max_in_flight = hello.max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX);
        session.draining = is_drained;
        session.deaf_since_ms = deaf_since_ms;
        session.held_back = deaf_since_ms.is_some();
        session.identity = Some(Identity {
            worker_id: hello.worker_id,
            instance_id: hello.instance_id,
            labels: hello.labels,
            build: hello.build,
            hello_number: hello.hello_number,
        });
        let session_id = session.session_id;
        let refused_actions = self.register(key, 0, hello.actions);
        if let Some(previous) = previous.filter(|previous| *previous != key) {
            self.take_over(previous, key, &hello.in_flight);
        }
        let verdicts = hello
            .in_flight
            .iter()
            .map(|item| (item.token, self.verdict_of(key, item)))
            .collect();
        self.send(
            key,
            ToWorker::Welcome(Welcome {
                session_id,
                refused_actions,
                verdicts,
            }),
        );
        if is_drained {
            self.tell_drain_started(key);
        }
        if self.drain.is_some() {
            self.tell_reconnect(key);
        }
        self.renew_lease(key);
        self.repeat_cancels(key);
    }

    fn check_hello(&self, hello: &Hello) -> Result<(), (SessionErrorCode, &'static str)> {
        let speaks =
            hello.protocol_min <= limits::WORKER_PROTOCOL && limits::WORKER_PROTOCOL <= hello.protocol_max;
        if !speaks {
            return Err((
                SessionErrorCode::UnsupportedProtocol,
                "this orchestrator speaks revision 1",
            ));
        }
        if hello.actions.len() > limits::SESSION_ACTIONS_MAX || hello.labels.len() > limits::WORKER_LABELS_MAX
        {
            return Err((SessionErrorCode::LimitExceeded, "too many actions or labels"));
        }
        if hello.in_flight.len() > WORKER_LIST_MAX {
            return Err((SessionErrorCode::LimitExceeded, "too many attempts"));
        }
        let n_chars = hello.worker_id.chars().count();
        if n_chars == 0 || n_chars > limits::LABEL_CHARS_MAX {
            let detail = "worker_id must have 1 to 255 code points";
            return Err((SessionErrorCode::LimitExceeded, detail));
        }
        // One that was held up on its way must not end the session that came after it, nor follow it.
        let last = self.last_hello(hello.instance_id);
        if hello.hello_number > 0 && last.is_some_and(|last| hello.hello_number < last.number) {
            return Err((
                SessionErrorCode::Superseded,
                "the same instance has said a later hello",
            ));
        }
        match self.fleet.instances.get(&hello.instance_id) {
            // A worker that comes back replaces its own session and so needs no room.
            Some(_) => Ok(()),
            None if self.fleet.instances.len() >= self.config.max_sessions => {
                Err((SessionErrorCode::Unavailable, "too many worker sessions"))
            }
            None => Ok(()),
        }
    }

    /// The same instance is back: what it still has moves to the new session, what it does not have is settled.
    fn take_over(&mut self, previous: SessionKey, key: SessionKey, in_flight: &[InFlight]) {
        if self.session_mut(previous).connected {
            self.refuse_session(
                previous,
                SessionErrorCode::Superseded,
                "the same instance opened a new session",
            );
        }
        // A session with nothing left is forgotten as soon as its stream ends.
        if !self.fleet.sessions.contains_key(&previous) {
            return;
        }
        let reported: BTreeMap<AttemptToken, InFlightPhase> =
            in_flight.iter().map(|item| (item.token, item.phase)).collect();
        let tokens: Vec<AttemptToken> = self.session_mut(previous).tokens().iter().copied().collect();
        let is_long_deaf = self.is_long_deaf(key);
        for token in tokens {
            match reported.get(&token) {
                Some(phase) if is_long_deaf && *phase != InFlightPhase::Running => {
                    self.settle_unheard(previous, token, *phase);
                }
                Some(_) => self.move_attempt(token, key),
                None => {
                    self.settle_gone(token, Evidence::ResumeOmits);
                }
            }
        }
        self.forget_session(previous);
    }

    /// The attempt stays what it is; only the session that holds it changes.
    fn move_attempt(&mut self, token: AttemptToken, to: SessionKey) {
        let attempt = self.fleet.attempts.get_mut(&token).expect("its session holds it");
        let from = core::mem::replace(&mut attempt.session, to);
        // Its message was one of another stream; the hello has said that the worker has it.
        attempt.assignment_seq = 0;
        let attempt = *attempt;
        self.session_mut(from).strike_out(token);
        self.take_credit(token, &attempt);
        self.session_mut(to).allowance.entitle(MESSAGES_PER_ASSIGNMENT);
        self.expect_answers(to);
    }

    fn verdict_of(&mut self, key: SessionKey, item: &InFlight) -> KeepOrStop {
        let Some(attempt) = self
            .fleet
            .attempts
            .get(&item.token)
            .filter(|attempt| attempt.session == key)
        else {
            return KeepOrStop::Stop;
        };
        let Attempt {
            execution,
            step,
            number,
            started,
            over,
            ..
        } = *attempt;
        if over.is_some() {
            return KeepOrStop::Stop;
        }
        let runs = matches!(item.phase, InFlightPhase::Running | InFlightPhase::Finished);
        if runs && !started {
            self.fleet
                .attempts
                .get_mut(&item.token)
                .expect("it was there a line ago")
                .started = true;
            let _already_over = self.act(
                execution,
                ContractInput::AttemptStarted {
                    step,
                    attempt: number,
                },
            );
        }
        KeepOrStop::Keep
    }
}
