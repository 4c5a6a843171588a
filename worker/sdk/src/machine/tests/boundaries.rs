//! A link that breaks after every possible message. The orchestrator here keeps honest books of its own and
//! judges the worker by them.

use super::stage::DRAIN_GRACE;
use crate::StepError;
use crate::machine::{Machine, OrchestratorId};
use crate::session::tests::spoken::{
    self, action, assignment, assignments, cancels, drain_started, heartbeat_ack, numbered, snapshot_request,
    success, token_bytes,
};
use crate::session::{Command, TaskEnd};
use bytes::Bytes;
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{
    AttemptOutcome, AttemptVerdict, Hello, InFlight, OutcomeAck, OutcomeAcks, SessionRequest,
    SessionResponse, Snapshot, Welcome, in_flight,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[test]
fn whichever_message_is_the_last_before_a_break_every_step_is_settled_once() {
    let unbroken = Simulation::new(&[]).run();
    assert!(unbroken > 15, "there is something to break: {unbroken} messages");
    for k in 1..=unbroken {
        Simulation::new(&[k]).run();
        // And again after as many messages, and so on.
        Simulation::new(&[k, 2 * k, 3 * k, 4 * k]).run();
    }
    for k in 1..=unbroken {
        for again in 1..=12 {
            Simulation::new(&[k, k + again]).run();
        }
    }
}

struct Simulation {
    machine: Machine,
    books: Books,
    now_ms: u64,
    /// Messages on their way, with the times at which they arrive.
    to_orchestrator: VecDeque<(u64, SessionRequest)>,
    to_worker: VecDeque<(u64, SessionResponse)>,
    is_open: bool,
    /// Ends of handler tasks, with the tokens; `None` for those that wait for a cancel.
    tasks: BTreeMap<AttemptToken, (Option<u64>, String)>,
    ever_started: BTreeSet<AttemptToken>,
    delivered: usize,
    breaks: Vec<usize>,
}

/// State of the orchestrator.
#[derive(Default)]
struct Books {
    seq: u64,
    seq_heard: u64,
    sessions: u8,
    last_hello: u64,
    is_up: bool,
    assigned_seq: BTreeMap<Bytes, u64>,
    /// Steps that no worker has.
    waiting: VecDeque<&'static str>,
    held: BTreeMap<Bytes, Held>,
    settled: BTreeMap<&'static str, &'static str>,
    /// Outcomes as first reported.
    outcomes: BTreeMap<Bytes, AttemptOutcome>,
    next_token: u8,
    out: Vec<Response>,
}

/// An attempt that the worker has, as far as the orchestrator knows.
struct Held {
    action: &'static str,
    started: bool,
    cancelled: bool,
}

const TO: OrchestratorId = OrchestratorId::CONFIGURED;
const LATENCY_MS: u64 = 5;
const ACTIONS: [&str; 4] = ["succeed", "fail", "linger", "last"];

impl Simulation {
    fn new(breaks: &[usize]) -> Self {
        let hello = Hello {
            max_in_flight: 3,
            actions: ACTIONS.map(|name| action(name, 0, false)).to_vec(),
            ..Hello::default()
        };
        Self {
            machine: Machine::new(0, "http://a:1", hello, DRAIN_GRACE),
            books: Books {
                waiting: VecDeque::from(ACTIONS),
                ..Books::default()
            },
            now_ms: 0,
            to_orchestrator: VecDeque::new(),
            to_worker: VecDeque::new(),
            is_open: false,
            tasks: BTreeMap::new(),
            ever_started: BTreeSet::new(),
            delivered: 0,
            breaks: breaks.to_vec(),
        }
    }

    /// Runs to the end of the worker, and says how many messages were delivered.
    fn run(mut self) -> usize {
        let mut stopped = false;
        while self.now_ms < 60_000 {
            self.machine.handle_timeout(self.now_ms);
            self.end_bodies();
            self.carry_out();
            self.deliver();
            self.carry_out();
            if self.now_ms.is_multiple_of(100) && self.is_open {
                self.books.repeat_cancels();
                self.post();
            }
            if let Some(end) = self.machine.poll_finished() {
                assert!(stopped && end.is_ok(), "breaks {:?}: {end:?}", self.breaks);
                let expected = [
                    ("fail", "outcome"),
                    ("last", "outcome"),
                    ("linger", "stopped"),
                    ("succeed", "outcome"),
                ];
                assert_eq!(
                    self.books.settled,
                    BTreeMap::from(expected),
                    "breaks {:?}",
                    self.breaks
                );
                assert!(self.tasks.is_empty() && self.machine.in_flight() == 0);
                return self.delivered;
            }
            if !stopped && self.books.settled.len() == ACTIONS.len() {
                stopped = true;
                self.machine.handle_stop(self.now_ms);
            }
            self.now_ms += 1;
        }
        panic!(
            "breaks {:?}: it does not end; settled {:?}",
            self.breaks, self.books.settled
        );
    }

    fn end_bodies(&mut self) {
        let due = |end: &Option<u64>| end.is_some_and(|at_ms| at_ms <= self.now_ms);
        let ended: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, (end, _))| due(end))
            .map(|(token, (_, action))| (*token, action.clone()))
            .collect();
        for (token, action) in ended {
            self.tasks.remove(&token);
            let end = match action.as_str() {
                "fail" => TaskEnd::Failure(StepError::new("BUSY", "later")),
                "linger" => TaskEnd::Aborted,
                _ => success(),
            };
            self.machine.handle_ended(self.now_ms, token, end);
        }
        assert_eq!(self.machine.tasks(), self.tasks.len());
        assert!(self.tasks.len() <= 3, "over the capacity");
    }

    fn carry_out(&mut self) {
        loop {
            while self.is_open
                && let Some(request) = self.machine.poll_transmit(self.now_ms, TO)
            {
                self.to_orchestrator
                    .push_back((self.now_ms + LATENCY_MS, request));
            }
            let Some((_, command)) = self.machine.poll_command() else {
                return;
            };
            match command {
                Command::Connect => {
                    self.is_open = true;
                    (self.books.seq, self.books.seq_heard) = (0, 0);
                }
                Command::EndRequests | Command::Tell(_) | Command::Abort(_) => {}
                Command::Close { .. } => self.cut(),
                Command::Start(job) => {
                    assert!(
                        self.ever_started.insert(job.token),
                        "{:?} was started twice",
                        job.token
                    );
                    let end = (job.assignment.action != "linger").then_some(self.now_ms + 40);
                    self.tasks.insert(job.token, (end, job.assignment.action));
                }
                Command::Cancel(token) => {
                    if let Some((end, action)) = self.tasks.get_mut(&token) {
                        assert_eq!(action, "linger", "only that one is cancelled");
                        *end = Some(self.now_ms + 10);
                    }
                }
            }
        }
    }

    fn deliver(&mut self) {
        let now_ms = self.now_ms;
        while let Some((_, request)) = self.to_orchestrator.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            self.books.seq_heard += 1;
            assert_eq!(
                request.seq, self.books.seq_heard,
                "requests are numbered without gaps"
            );
            let goodbye = matches!(request.message, Some(Request::Goodbye(_)));
            self.books.hear(request.message.unwrap());
            self.post();
            if self.counts() || goodbye {
                return self.cut();
            }
        }
        while let Some((_, response)) = self.to_worker.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            self.machine.handle_message(now_ms, TO, response);
            self.carry_out();
            if self.counts() {
                return self.cut();
            }
        }
    }

    /// Counts one more delivered message. Returns true if the link breaks after it.
    fn counts(&mut self) -> bool {
        self.delivered += 1;
        self.breaks.contains(&self.delivered)
    }

    fn post(&mut self) {
        for message in std::mem::take(&mut self.books.out) {
            if let Response::Assignments(assignments) = &message {
                let seq = self.books.seq + 1;
                let tokens = assignments
                    .items
                    .iter()
                    .map(|item| (item.attempt_token.clone(), seq));
                self.books.assigned_seq.extend(tokens);
            }
            let response = numbered(&mut self.books.seq, message);
            self.to_worker.push_back((self.now_ms + LATENCY_MS, response));
        }
    }

    /// Drops everything in transit.
    fn cut(&mut self) {
        self.to_orchestrator.clear();
        self.to_worker.clear();
        self.books.out.clear();
        self.books.is_up = false;
        self.is_open = false;
        let reason = "broken".to_owned();
        self.machine.handle_disconnected(self.now_ms, TO, 0, reason);
    }
}

impl Books {
    fn hear(&mut self, message: Request) {
        assert!(
            self.is_up != matches!(message, Request::Hello(_)),
            "Hello is first, and once"
        );
        match message {
            Request::Hello(hello) => self.greet(&hello),
            Request::Heartbeat(heartbeat) => self.out.push(heartbeat_ack(heartbeat.n, &[])),
            Request::AttemptAcks(acks) => {
                for token in acks.started {
                    self.started(&token);
                }
                for token in acks.stopped {
                    if let Some(held) = self.held.remove(&token) {
                        assert!(held.cancelled, "{} was not asked to stop", held.action);
                        self.settle(held.action, "stopped");
                    }
                }
                for rejected in acks.rejected {
                    // Three of four fit.
                    let held = self
                        .held
                        .remove(&rejected.attempt_token)
                        .expect("it was handed out");
                    assert!(!held.started);
                    self.waiting.push_back(held.action);
                }
            }
            Request::Outcomes(outcomes) => {
                let acks = outcomes
                    .items
                    .into_iter()
                    .map(|item| self.outcome(item))
                    .collect();
                self.out.push(Response::OutcomeAcks(OutcomeAcks { items: acks }));
                self.offer();
            }
            Request::Snapshot(snapshot) => self.check(&snapshot),
            Request::Drain(_) => {
                self.out.push(drain_started());
            }
            Request::Goodbye(_) => assert!(self.held.is_empty(), "no goodbye with anything in flight"),
            other => panic!("{other:?} has no place here"),
        }
    }

    fn greet(&mut self, hello: &Hello) {
        assert!(hello.hello_number > self.last_hello, "Hellos are numbered");
        self.last_hello = hello.hello_number;
        self.sessions += 1;
        self.is_up = true;
        let listed: BTreeMap<&Bytes, in_flight::Phase> = hello
            .in_flight
            .iter()
            .map(|entry| (&entry.attempt_token, entry.phase()))
            .collect();
        // What the worker does not list it does not have, so it never ran, or it has been answered.
        for token in self.held.keys().cloned().collect::<Vec<_>>() {
            if listed.contains_key(&token) {
                self.started(&token);
                continue;
            }
            let held = self.held.remove(&token).expect("it is listed in the books");
            if held.cancelled {
                self.settle(held.action, "stopped");
            } else {
                assert!(!held.started, "{} was started and is lost", held.action);
                self.waiting.push_back(held.action);
            }
        }
        let verdict = |entry: &InFlight| AttemptVerdict {
            attempt_token: entry.attempt_token.clone(),
            verdict: if self.held.contains_key(&entry.attempt_token)
                || entry.phase() == in_flight::Phase::Finished
            {
                Verdict::Keep.into()
            } else {
                Verdict::Stop.into()
            },
        };
        let verdicts = hello.in_flight.iter().map(verdict).collect();
        self.out.push(Response::Welcome(Welcome {
            verdicts,
            ..spoken::welcome(self.sessions, 9)
        }));
        self.assigned_seq.clear();
        if hello.max_in_flight > 0 {
            self.offer();
        }
        self.out.push(snapshot_request(1));
    }

    /// Assigns all waiting steps; all except `last` one message after the other.
    fn offer(&mut self) {
        for action in std::mem::take(&mut self.waiting) {
            let running = self.held.len();
            if running == 3 {
                self.waiting.push_back(action);
                continue;
            }
            self.next_token += 1;
            let token = token_bytes(self.next_token);
            let held = Held {
                action,
                started: false,
                cancelled: false,
            };
            self.held.insert(token.clone(), held);
            self.out.push(assignments([assignment(token, action, 500_000)]));
        }
    }

    fn started(&mut self, token: &Bytes) {
        if let Some(held) = self.held.get_mut(token) {
            held.started = true;
            if held.action == "linger" && !held.cancelled {
                held.cancelled = true;
                self.out.push(cancel(token));
            }
        }
    }

    fn repeat_cancels(&mut self) {
        if self.is_up {
            let cancelled = self.held.iter().filter(|(_, held)| held.cancelled);
            self.out.extend(cancelled.map(|(token, _)| cancel(token)));
        }
    }

    fn outcome(&mut self, outcome: AttemptOutcome) -> OutcomeAck {
        let token = outcome.attempt_token.clone();
        let first = self
            .outcomes
            .entry(token.clone())
            .or_insert_with(|| outcome.clone());
        assert_eq!(*first, outcome, "it is sent again unchanged");
        let verdict = match self.held.remove(&token) {
            Some(held) => {
                self.settle(held.action, "outcome");
                1
            }
            None => 2,
        };
        OutcomeAck {
            attempt_token: token,
            verdict,
        }
    }

    fn settle(&mut self, action: &'static str, how: &'static str) {
        let before = self.settled.insert(action, how);
        assert_eq!(before, None, "{action} is settled once");
    }

    /// Checks that a snapshot lists every assignment that the worker had read.
    fn check(&self, snapshot: &Snapshot) {
        let listed: BTreeSet<&Bytes> = snapshot
            .in_flight
            .iter()
            .map(|entry| &entry.attempt_token)
            .collect();
        for token in self.held.keys() {
            let read = self
                .assigned_seq
                .get(token)
                .is_none_or(|seq| *seq <= snapshot.last_assignment_seq);
            assert!(
                !read || listed.contains(token),
                "the snapshot omits what the worker has"
            );
        }
    }
}

fn cancel(token: &Bytes) -> Response {
    cancels([token.clone()], 100)
}
