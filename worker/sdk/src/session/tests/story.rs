//! The narrator: plays the orchestrator and the shell to one session, and keeps what it says and does.

pub(super) use super::spoken::{HEARTBEAT_MS, LEASE_MS, token, token_bytes};
use super::spoken::{
    acknowledged, action, assignment, assignments, cancels, heartbeat_ack, numbered, success, welcome,
};
use crate::event::SessionEvent;
use crate::session::worker_state::WorkerState;
use crate::session::{Command, Session, TaskEnd, TaskStart};
use crate::{StepError, WorkerError};
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{
    AttemptAcks, AttemptOutcome, Hello, SessionResponse, Welcome, attempt_outcome,
};

pub(super) const MARGIN_MS: u64 = 1_000;
pub(super) const DRAIN_GRACE_MS: u64 = 20_000;

pub(super) struct Story {
    pub(super) session: Session,
    pub(super) worker_state: WorkerState,
    pub(super) now_ms: u64,
    pub(super) sent: Vec<Request>,
    pub(super) started: Vec<TaskStart>,
    pub(super) cancelled: Vec<AttemptToken>,
    /// With the time of each.
    pub(super) aborted: Vec<(AttemptToken, u64)>,
    pub(super) disconnects: Vec<String>,
    /// Other events for the program.
    pub(super) events: Vec<SessionEvent>,
    pub(super) connects: usize,
    pub(super) requests_ended: bool,
    pub(super) end: Option<Result<(), WorkerError>>,
    /// Answers every heartbeat at once.
    pub(super) acknowledges_heartbeats: bool,
    pub(super) boot: u8,
    /// True if its transport takes nothing: messages of the worker queue up.
    pub(super) is_clogged: bool,
    is_open: bool,
    seq: u64,
    seq_seen: u64,
}

impl Story {
    /// Creates a worker for `work`, with two slots, that has just asked for its first stream.
    pub(super) fn begin() -> Self {
        let hello = Hello {
            worker_id: "story".to_owned(),
            max_in_flight: 2,
            actions: vec![
                action("work", 0, false),
                action("single", 1, false),
                action("wait", 3, true),
            ],
            ..Hello::default()
        };
        Self::of(hello)
    }

    /// Creates a worker that has just asked for its first stream.
    pub(super) fn of(hello: Hello) -> Self {
        let mut story = Self {
            session: Session::new(0, "http://story".to_owned(), DRAIN_GRACE_MS),
            worker_state: WorkerState::new(hello),
            events: Vec::new(),
            now_ms: 0,
            sent: Vec::new(),
            started: Vec::new(),
            cancelled: Vec::new(),
            aborted: Vec::new(),
            disconnects: Vec::new(),
            connects: 0,
            requests_ended: false,
            end: None,
            acknowledges_heartbeats: true,
            boot: 1,
            is_clogged: false,
            is_open: false,
            seq: 0,
            seq_seen: 0,
        };
        story.pass(0);
        story
    }

    /// Creates the same worker, welcomed.
    pub(super) fn welcomed() -> Self {
        let mut story = Self::begin();
        story.welcome();
        story
    }

    /// Lets time pass, one wake-up after another.
    pub(super) fn pass(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        while let Some(wake_ms) = self.session.poll_timeout().filter(|wake_ms| *wake_ms <= until_ms) {
            self.now_ms = self.now_ms.max(wake_ms);
            self.session.handle_timeout(self.now_ms);
            self.drain();
            if self.end.is_some() {
                return;
            }
        }
        self.now_ms = until_ms;
        self.session.handle_timeout(until_ms);
        self.drain();
    }

    pub(super) fn say(&mut self, message: Response) {
        let response = numbered(&mut self.seq, message);
        self.say_raw(response);
    }

    pub(super) fn say_raw(&mut self, response: SessionResponse) {
        self.session
            .handle_message(self.now_ms, response, &mut self.worker_state);
        self.drain();
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn welcome(&mut self) {
        let welcome = self.welcome_message();
        self.say(Response::Welcome(welcome));
    }

    pub(super) fn welcome_message(&self) -> Welcome {
        welcome(u8::try_from(self.connects).unwrap(), self.boot)
    }

    pub(super) fn assign(&mut self, name: u8, action: &str, timeout_ms: i64) {
        self.say(assignments([assignment(token_bytes(name), action, timeout_ms)]));
    }

    pub(super) fn cancel(&mut self, name: u8, grace_ms: i64) {
        self.say(cancels([token_bytes(name)], grace_ms));
    }

    pub(super) fn acknowledge(&mut self, name: u8) {
        self.say(acknowledged(token_bytes(name)));
    }

    pub(super) fn body_ends(&mut self, name: u8, end: TaskEnd) {
        self.worker_state.release(token(name));
        self.session.handle_ended(self.now_ms, token(name), end);
        self.drain();
    }

    pub(super) fn body_succeeds(&mut self, name: u8) {
        self.body_ends(name, success());
    }

    pub(super) fn body_fails(&mut self, name: u8, error: StepError) {
        self.body_ends(name, TaskEnd::Failure(error));
    }

    pub(super) fn disconnect(&mut self) {
        self.is_open = false;
        self.session
            .handle_disconnected(self.now_ms, 0, "broken".to_owned());
        self.drain();
    }

    pub(super) fn stop(&mut self) {
        self.session.handle_stop(self.now_ms);
        self.drain();
    }

    /// Makes a change by the program.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut WorkerState)) {
        change(&mut self.worker_state);
        self.drain();
    }

    /// Returns the messages since the last call.
    pub(super) fn heard(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.sent)
    }

    /// Returns the same without heartbeats.
    pub(super) fn heard_work(&mut self) -> Vec<Request> {
        let mut heard = self.heard();
        heard.retain(|request| !matches!(request, Request::Heartbeat(_)));
        heard
    }

    pub(super) fn heard_acks(&mut self) -> AttemptAcks {
        let mut all = AttemptAcks::default();
        for request in self.heard() {
            if let Request::AttemptAcks(acks) = request {
                all.started.extend(acks.started);
                all.rejected.extend(acks.rejected);
                all.stopped.extend(acks.stopped);
            }
        }
        all
    }

    pub(super) fn heard_outcomes(&mut self) -> Vec<AttemptOutcome> {
        self.heard()
            .into_iter()
            .filter_map(|request| match request {
                Request::Outcomes(outcomes) => Some(outcomes.items),
                _ => None,
            })
            .flatten()
            .collect()
    }

    pub(super) fn heard_hello(&mut self) -> Hello {
        let hello = self.heard().into_iter().rev().find_map(|request| match request {
            Request::Hello(hello) => Some(hello),
            _ => None,
        });
        hello.expect("a Hello was sent")
    }

    /// Acts as the shell, and checks what holds for every message.
    fn drain(&mut self) {
        self.session.handle_timeout(self.now_ms);
        loop {
            // Before the shell has opened a stream there is nothing to write to.
            while let Some(request) = self
                .is_writable()
                .then(|| self.session.poll_transmit(self.now_ms, &mut self.worker_state))
                .flatten()
            {
                self.seq_seen += 1;
                assert_eq!(request.seq, self.seq_seen, "requests are numbered without gaps");
                let message = request.message.unwrap();
                assert_eq!(
                    request.seq == 1,
                    matches!(message, Request::Hello(_)),
                    "Hello is first, and once"
                );
                assert!(!self.requests_ended, "nothing follows Goodbye");
                let heartbeat = match &message {
                    Request::Heartbeat(heartbeat) => Some(heartbeat.n),
                    _ => None,
                };
                self.sent.push(message);
                if let Some(n) = heartbeat.filter(|_| self.acknowledges_heartbeats) {
                    let ack = numbered(&mut self.seq, heartbeat_ack(n, &[]));
                    self.session
                        .handle_message(self.now_ms, ack, &mut self.worker_state);
                }
            }
            assert!(
                !self.is_writable() || !self.session.wants_to_transmit(&self.worker_state),
                "what it wants to say it says"
            );
            let Some(command) = self.session.poll_command() else {
                break;
            };
            self.obey(command);
        }
        if self.end.is_none() {
            self.end = self.session.poll_finished();
        }
        let wake_ms = self.session.poll_timeout();
        let is_later = wake_ms.is_none_or(|wake_ms| wake_ms > self.now_ms);
        assert!(
            self.end.is_some() || self.is_clogged || is_later,
            "it never asks to be woken in the past"
        );
    }

    fn is_writable(&self) -> bool {
        self.is_open && !self.is_clogged
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Connect => {
                self.connects += 1;
                self.is_open = true;
                (self.seq, self.seq_seen, self.requests_ended) = (0, 0, false);
            }
            Command::EndRequests => self.requests_ended = true,
            Command::Close { reason } => {
                self.is_open = false;
                self.session.handle_disconnected(self.now_ms, 0, reason);
            }
            Command::Start(job) => self.started.push(*job),
            Command::Cancel(token) => self.cancelled.push(token),
            Command::Abort(token) => self.aborted.push((token, self.now_ms)),
            Command::Tell(SessionEvent::Disconnected { reason, .. }) => self.disconnects.push(reason),
            Command::Tell(SessionEvent::Connected { .. }) => {}
            Command::Tell(event) => self.events.push(event),
        }
    }
}

pub(super) fn is_released(outcome: &AttemptOutcome, name: u8) -> bool {
    outcome.attempt_token == token_bytes(name)
        && matches!(outcome.outcome, Some(attempt_outcome::Outcome::Released(_)))
}
