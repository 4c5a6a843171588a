//! How a session begins, and how the same instance goes on after a break. Nothing is assigned before `Welcome`.

use super::session::Identity;
use super::{Fleet, Told};
use crate::keys::SessionKey;
use crate::limits::{MESSAGES_PER_ASSIGNMENT, RECONNECT_JITTER_MS, WORKER_LIST_MAX};
use crate::turn::Turn;
use crate::worker::{
    ActionRefusal, Hello, InFlight, InFlightPhase, KeepOrStop, SessionErrorCode, ToWorker, Welcome,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use escapement_model::{AttemptToken, limits};

/// A session whose hello is taken.
#[derive(Debug)]
pub(crate) struct Greeted {
    /// The session of the same instance that came before, if it is still there.
    pub(crate) previous: Option<SessionKey>,
    pub(crate) refused_actions: Vec<ActionRefusal>,
}

/// What becomes of an attempt of the session before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TakeOver {
    /// It moves to the new session.
    Move,
    /// The worker does not list it.
    Omitted,
    //
    /// The worker has been deaf for long, and lists it as finished or not as running: it is settled by evidence.
    Unheard {
        /// Its body has ended, so it had started, whether or not the worker said so.
        has_ended: bool,
    },
}

impl Fleet {
    /// Takes a hello; `None` if it is refused, and with it the session.
    pub(crate) fn greet(
        &mut self,
        key: SessionKey,
        hello: Hello,
        turn: &mut Turn,
    ) -> Option<(Greeted, Vec<InFlight>)> {
        if let Err((code, detail)) = self.check_hello(&hello) {
            self.refuse_session(key, code, detail, turn);
            return None;
        }
        let deaf_since_ms = self.deaf_since(&hello);
        let previous = self.instances.insert(hello.instance_id, key);
        let is_drained = self.drained.recall(hello.instance_id).is_some();
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
            owner: hello.owner,
        });
        let refused_actions = self.register(key, 0, hello.actions, turn);
        let previous = previous.filter(|previous| *previous != key);
        if let Some(previous) = previous.filter(|previous| self.sessions[previous].connected) {
            let detail = "the same instance opened a new session";
            self.refuse_session(previous, SessionErrorCode::Superseded, detail, turn);
        }
        let greeted = Greeted {
            // A session with nothing left is forgotten as soon as its stream ends.
            previous: previous.filter(|previous| self.sessions.contains_key(previous)),
            refused_actions,
        };
        Some((greeted, hello.in_flight))
    }

    /// Says what becomes of the attempts of the session before. The caller sees to it, one at a time, and forgets the session.
    pub(crate) fn take_over(
        &mut self,
        previous: SessionKey,
        key: SessionKey,
        in_flight: &[InFlight],
        turn: &Turn,
    ) -> Vec<(AttemptToken, TakeOver)> {
        let listed: BTreeMap<AttemptToken, InFlightPhase> =
            in_flight.iter().map(|item| (item.token, item.phase)).collect();
        let is_long_deaf = self.is_long_deaf(key, turn);
        let tokens = self.sessions[&previous].tokens().iter();
        let taken_over = tokens.map(|token| match listed.get(token) {
            Some(phase) if is_long_deaf && *phase != InFlightPhase::Running => {
                let has_ended = *phase == InFlightPhase::Finished;
                (*token, TakeOver::Unheard { has_ended })
            }
            Some(_) => (*token, TakeOver::Move),
            None => (*token, TakeOver::Omitted),
        });
        taken_over.collect()
    }

    /// Ends the greeting.
    pub(crate) fn welcome(
        &mut self,
        key: SessionKey,
        refused_actions: Vec<ActionRefusal>,
        verdicts: Vec<(AttemptToken, KeepOrStop)>,
        reconnect_within_ms: Option<u64>,
        turn: &mut Turn,
    ) {
        let session = self.session_mut(key);
        let (session_id, is_drained) = (session.session_id, session.draining);
        let welcome = Welcome {
            session_id,
            refused_actions,
            verdicts,
        };
        self.send(key, ToWorker::Welcome(welcome), turn);
        if is_drained {
            self.tell_drain_started(key, turn);
        }
        if let Some(deadline_ms) = reconnect_within_ms {
            self.tell_reconnect(key, deadline_ms, turn);
        }
        self.renew_lease(key, turn);
        self.repeat_cancels(key, turn);
    }

    /// Tells every worker how long the drain leaves it.
    pub(crate) fn tell_all_reconnect(&mut self, deadline_ms: u64, turn: &mut Turn) {
        for key in self.greeted() {
            self.tell_reconnect(key, deadline_ms, turn);
        }
    }

    fn tell_reconnect(&mut self, key: SessionKey, deadline_ms: u64, turn: &mut Turn) {
        let reconnect = ToWorker::Reconnect {
            jitter_ms: RECONNECT_JITTER_MS,
            deadline_ms,
        };
        self.send(key, reconnect, turn);
    }

    pub(super) fn greeted(&self) -> Vec<SessionKey> {
        let sessions = self.sessions.iter();
        let greeted = sessions.filter(|(_, session)| session.identity.is_some());
        greeted.map(|(key, _)| *key).collect()
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
        match self.instances.get(&hello.instance_id) {
            // A worker that comes back replaces its own session and so needs no room.
            Some(_) => Ok(()),
            None if self.instances.len() >= self.config.max_sessions => {
                Err((SessionErrorCode::Unavailable, "too many worker sessions"))
            }
            None => Ok(()),
        }
    }

    /// The attempt stays what it is; only the session that holds it changes.
    pub(crate) fn move_attempt(&mut self, token: AttemptToken, to: SessionKey, turn: &Turn) {
        let attempt = self.attempts.get_mut(&token).expect("its session holds it");
        let from = core::mem::replace(&mut attempt.session, to);
        // Its message was one of another stream; the hello has said that the worker has it.
        attempt.assignment_seq = 0;
        let attempt = *attempt;
        self.session_mut(from).strike_out(token);
        self.take_credit(token, &attempt);
        self.session_mut(to).allowance.entitle(MESSAGES_PER_ASSIGNMENT);
        self.expect_answers(to, turn);
    }

    /// Judges an attempt that a hello lists.
    pub(crate) fn verdict_of(&mut self, key: SessionKey, item: &InFlight) -> (KeepOrStop, Option<Told>) {
        let attempt = self.attempts.get_mut(&item.token);
        let Some(attempt) = attempt.filter(|attempt| attempt.session == key && attempt.over.is_none()) else {
            return (KeepOrStop::Stop, None);
        };
        let runs = matches!(item.phase, InFlightPhase::Running | InFlightPhase::Finished);
        let has_started = runs && !attempt.started;
        attempt.started |= runs;
        (KeepOrStop::Keep, has_started.then(|| attempt.is_told_started()))
    }
}
