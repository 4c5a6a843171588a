//! Plays the shell and several orchestrators to one worker, and keeps what it says and does.

use crate::machine::{Machine, OrchestratorId};
use crate::session::tests::spoken::{
    self, acknowledged, action, assignment, assignments, heartbeat_ack, numbered, success,
};
pub(super) use crate::session::tests::spoken::{token, token_bytes as bytes};
use crate::session::{Command, TaskEnd, TaskStart};
use crate::{SessionEvent, WorkerError};
use bytes::Bytes;
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{AttemptAcks, Hello, SessionError, Welcome, session_error};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const DRAIN_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Stage {
    pub(super) machine: Machine,
    pub(super) now_ms: u64,
    lines: BTreeMap<OrchestratorId, Line>,
    pub(super) started: Vec<TaskStart>,
    pub(super) cancelled: Vec<AttemptToken>,
    pub(super) aborted: Vec<AttemptToken>,
    pub(super) events: Vec<SessionEvent>,
    pub(super) end: Option<Result<(), WorkerError>>,
    /// Answers every heartbeat at once.
    pub(super) acknowledges_heartbeats: bool,
}

/// An orchestrator's side.
#[derive(Default)]
struct Line {
    is_open: bool,
    is_welcomed: bool,
    seq: u64,
    /// Requests that have not been read, without heartbeats.
    sent: Vec<Request>,
    connects: u8,
}

impl Stage {
    /// Creates a worker with two slots that has asked for its first stream.
    pub(super) fn begin() -> Self {
        let hello = Hello {
            instance_id: Bytes::from_static(&[7; 16]),
            max_in_flight: 2,
            actions: vec![action("work", 0, false)],
            ..Hello::default()
        };
        Self::of(hello)
    }

    pub(super) fn of(hello: Hello) -> Self {
        let mut stage = Self {
            machine: Machine::new(0, "http://a:1", hello, DRAIN_GRACE),
            now_ms: 0,
            lines: BTreeMap::new(),
            started: Vec::new(),
            cancelled: Vec::new(),
            aborted: Vec::new(),
            events: Vec::new(),
            end: None,
            acknowledges_heartbeats: true,
        };
        stage.pass(0);
        stage
    }

    /// Returns the orchestrator at this address.
    pub(super) fn id(&self, address: &str) -> OrchestratorId {
        self.find(address)
            .unwrap_or_else(|| panic!("no session with {address}"))
    }

    pub(super) fn find(&self, address: &str) -> Option<OrchestratorId> {
        self.machine
            .orchestrators()
            .find(|id| self.machine.address(*id) == Some(address))
    }

    pub(super) fn pass(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        self.drain();
        while let Some(wake_ms) = self.machine.poll_timeout().filter(|wake_ms| *wake_ms <= until_ms) {
            self.now_ms = self.now_ms.max(wake_ms);
            self.machine.handle_timeout(self.now_ms);
            self.drain();
            if self.end.is_some() {
                return;
            }
        }
        self.now_ms = until_ms;
        self.drain();
    }

    pub(super) fn say(&mut self, from: OrchestratorId, message: Response) {
        let line = self.lines.get_mut(&from).unwrap();
        assert!(line.is_open, "{from:?} has a stream");
        let response = numbered(&mut line.seq, message);
        self.machine.handle_message(self.now_ms, from, response);
        self.drain();
    }

    /// Welcomes the worker with the present process of this orchestrator, `boot`.
    pub(super) fn welcome(&mut self, from: OrchestratorId, boot: u8, peers: &[&str]) {
        let session_id = Bytes::from(vec![boot ^ self.lines[&from].connects; 16]);
        let welcome = Welcome {
            session_id,
            peers: peers.iter().map(|&peer| peer.to_owned()).collect(),
            ..spoken::welcome(0, boot)
        };
        self.lines.get_mut(&from).unwrap().is_welcomed = true;
        self.say(from, Response::Welcome(welcome));
    }

    pub(super) fn assign(&mut self, from: OrchestratorId, name: u8) {
        self.assign_action(from, name, "work", 500_000);
    }

    pub(super) fn assign_action(&mut self, from: OrchestratorId, name: u8, action: &str, timeout_ms: i64) {
        self.say(from, assignments([assignment(bytes(name), action, timeout_ms)]));
    }

    pub(super) fn acknowledge(&mut self, from: OrchestratorId, name: u8) {
        self.say(from, acknowledged(bytes(name)));
    }

    pub(super) fn refuse(&mut self, from: OrchestratorId, code: session_error::Code) {
        let error = SessionError {
            code: code.into(),
            ..SessionError::default()
        };
        self.say(from, Response::SessionError(error));
    }

    /// Says that the instance is of other credentials.
    pub(super) fn refuse_as_another(&mut self, from: OrchestratorId) {
        let error = SessionError {
            code: session_error::Code::Unauthorized.into(),
            new_instance: true,
            ..SessionError::default()
        };
        self.say(from, Response::SessionError(error));
    }

    pub(super) fn body_succeeds(&mut self, name: u8) {
        self.task_ends(name, success());
    }

    pub(super) fn task_ends(&mut self, name: u8, end: TaskEnd) {
        self.machine.handle_ended(self.now_ms, token(name), end);
        self.drain();
    }

    pub(super) fn disconnect(&mut self, from: OrchestratorId) {
        self.lines.get_mut(&from).unwrap().is_open = false;
        self.machine
            .handle_disconnected(self.now_ms, from, 0, "broken".to_owned());
        self.drain();
    }

    pub(super) fn stop(&mut self) {
        self.machine.handle_stop(self.now_ms);
        self.drain();
    }

    pub(super) fn is_open(&self, orchestrator: OrchestratorId) -> bool {
        self.lines.get(&orchestrator).is_some_and(|line| line.is_open)
    }

    pub(super) fn is_welcomed(&self, orchestrator: OrchestratorId) -> bool {
        self.is_open(orchestrator) && self.lines[&orchestrator].is_welcomed
    }

    pub(super) fn is_greeting(&self, orchestrator: OrchestratorId) -> bool {
        self.is_open(orchestrator) && !self.lines[&orchestrator].is_welcomed
    }

    pub(super) fn heard(&mut self, orchestrator: OrchestratorId) -> Vec<Request> {
        std::mem::take(&mut self.lines.get_mut(&orchestrator).unwrap().sent)
    }

    pub(super) fn heard_hello(&mut self, orchestrator: OrchestratorId) -> Hello {
        let heard = self.heard(orchestrator);
        match heard.into_iter().next_back() {
            Some(Request::Hello(hello)) => hello,
            other => panic!("a Hello was expected, not {other:?}"),
        }
    }

    pub(super) fn heard_acks(&mut self, orchestrator: OrchestratorId) -> AttemptAcks {
        let heard = self.heard(orchestrator);
        match heard.into_iter().next_back() {
            Some(Request::AttemptAcks(acks)) => acks,
            other => panic!("acknowledgements were expected, not {other:?}"),
        }
    }

    /// Acts as the shell.
    fn drain(&mut self) {
        self.machine.handle_timeout(self.now_ms);
        loop {
            let open: Vec<_> = self
                .lines
                .iter()
                .filter(|(_, line)| line.is_open)
                .map(|(id, _)| *id)
                .collect();
            let mut heartbeats = Vec::new();
            for id in open {
                while let Some(request) = self.machine.poll_transmit(self.now_ms, id) {
                    match request.message.unwrap() {
                        Request::Heartbeat(heartbeat) => {
                            let tokens = self.machine.members[&id].session.attempts();
                            let hash =
                                tokens.fold(0, |hash, token| hash ^ u128::from_be_bytes(*token.as_bytes()));
                            assert_eq!(heartbeat.in_flight_hash, hash.to_be_bytes()[..]);
                            heartbeats.push((id, heartbeat.n));
                        }
                        message => self.lines.get_mut(&id).unwrap().sent.push(message),
                    }
                }
            }
            for (id, n) in heartbeats.into_iter().filter(|_| self.acknowledges_heartbeats) {
                let line = self.lines.get_mut(&id).unwrap();
                let response = numbered(&mut line.seq, heartbeat_ack(n, &[]));
                self.machine.handle_message(self.now_ms, id, response);
            }
            let Some((id, command)) = self.machine.poll_command() else {
                break;
            };
            self.obey(id, command);
        }
        if self.end.is_none() {
            self.end = self.machine.poll_finished();
        }
    }

    fn obey(&mut self, id: OrchestratorId, command: Command) {
        let line = self.lines.entry(id).or_default();
        match command {
            Command::Connect => {
                (line.is_open, line.is_welcomed, line.seq) = (true, false, 0);
                line.connects += 1;
            }
            Command::EndRequests => {}
            Command::Close { reason } => {
                line.is_open = false;
                self.machine.handle_disconnected(self.now_ms, id, 0, reason);
            }
            Command::Start(job) => self.started.push(*job),
            Command::Cancel(token) => self.cancelled.push(token),
            Command::Abort(token) => self.aborted.push(token),
            Command::Tell(event) => self.events.push(event),
        }
    }
}
