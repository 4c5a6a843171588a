//! What the shell of a worker does: carries out the commands of the machine, encodes and decodes, runs bodies.

use crate::network::{Direction, Frame, Server, StreamId};
use crate::orchestrator::Call;
use crate::seat::{Body, Manner};
use crate::truth::{ProcessKey, Report};
use crate::world::{Ending, Happening, World};
use bytes::Bytes;
use escapement_contract::{Outcome, Reported};
use escapement_engine::{AttemptReport, Input};
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, Opaque};
use escapement_sdk::testing::machine::{Command, Machine, OrchestratorId, TaskEnd, TaskStart};
use escapement_sdk::{SessionEvent, StepError, WorkerError};
use escapement_wire::worker::v1::session_request::Message as Request;
use escapement_wire::worker::v1::session_response::Message as Response;
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use prost::Message as _;

const ORCHESTRATOR: OrchestratorId = OrchestratorId::CONFIGURED;

impl World {
    pub(crate) fn boot_worker(&mut self, seat: usize) {
        if self.seats[seat].process.is_some() {
            return;
        }
        self.seats[seat].begin_process(self.now_ms, &mut self.dice);
        self.tally().count("worker processes");
        self.with_machine(seat, |machine, clock_ms| machine.handle_timeout(clock_ms));
    }

    /// Calls the machine of a process and does everything that it then wants.
    pub(crate) fn with_machine(&mut self, seat: usize, call: impl FnOnce(&mut Machine, u64)) {
        let now_ms = self.now_ms;
        let Some(process) = &mut self.seats[seat].process else {
            return;
        };
        let clock_ms = process.clock_ms(now_ms);
        call(&mut process.machine, clock_ms);
        self.carry_out(seat);
    }

    /// As the shell does: what is to be sent, then one command, until neither is left.
    fn carry_out(&mut self, seat: usize) {
        loop {
            self.transmit(seat);
            let Some(process) = &mut self.seats[seat].process else {
                return;
            };
            let Some((_, command)) = process.machine.poll_command() else {
                break;
            };
            self.command(seat, command);
        }
        let Some(process) = &mut self.seats[seat].process else {
            return;
        };
        if let Some(end) = process.machine.poll_finished() {
            self.worker_finished(seat, end);
        }
    }

    fn transmit(&mut self, seat: usize) {
        loop {
            let now_ms = self.now_ms;
            let key = self.seats[seat].key(seat);
            let Some(process) = &mut self.seats[seat].process else {
                return;
            };
            let Some(stream) = process.stream.filter(|_| !process.is_half_closed) else {
                return;
            };
            if !process.machine.wants_to_transmit(ORCHESTRATOR) {
                return;
            }
            let clock_ms = process.clock_ms(now_ms);
            let Some(request) = process.machine.poll_transmit(clock_ms, ORCHESTRATOR) else {
                return;
            };
            let key = key.expect("it has a process");
            let request = self.look_at_request(key, request);
            let bytes = request.encode_to_vec();
            assert!(
                bytes.len() <= SESSION_MESSAGE_BYTES_MAX,
                "a worker sends {} bytes",
                bytes.len()
            );
            self.send(stream, Direction::Up, Frame::Bytes(bytes));
        }
    }

    /// Notes what a worker says. A worker that forgets to say something of it is one with a fault of its own.
    fn look_at_request(&mut self, by: ProcessKey, mut request: SessionRequest) -> SessionRequest {
        let name = format!("{by:?}");
        match request.message.as_mut() {
            Some(Request::Snapshot(_)) => self.truth.tally.count("snapshots"),
            Some(Request::Outcomes(outcomes)) => {
                for item in &outcomes.items {
                    let report = Report::of(item.outcome.as_ref().expect("a worker says how it ended"));
                    self.truth.reports(by, token(&item.attempt_token), report);
                }
            }
            Some(Request::AttemptAcks(acks)) if self.is_stormy => {
                if !acks.rejected.is_empty() && self.dice.percent(40) {
                    self.truth.tally.count("answers forgotten");
                    acks.rejected.clear();
                }
                if !acks.started.is_empty() && self.dice.percent(1) {
                    self.truth.tally.count("answers forgotten");
                    acks.started.clear();
                }
            }
            _ => {}
        }
        if !matches!(request.message, Some(Request::Heartbeat(_))) {
            self.trace.note(
                self.now_ms,
                format_args!("{name} says {}", short(&format!("{:?}", request.message))),
            );
        }
        request
    }

    fn command(&mut self, seat: usize, command: Command) {
        let key = self.seats[seat].key(seat).expect("it has a process");
        match &command {
            Command::Start(job) => {
                self.trace.note(
                    self.now_ms,
                    format_args!("{key:?} starts {:?} {}", job.token, job.assignment.step_id),
                );
            }
            other => self.trace.note(
                self.now_ms,
                format_args!("{key:?} {}", short(&format!("{other:?}"))),
            ),
        }
        match command {
            Command::Connect => self.connect(seat),
            Command::EndRequests => {
                let process = self.seats[seat].process.as_mut().expect("it has a process");
                process.is_half_closed = true;
                if let Some(stream) = process.stream {
                    self.send(stream, Direction::Up, Frame::End);
                }
            }
            Command::Close { .. } => {
                self.leave_stream(seat);
                self.machine_disconnected(seat, "closed on command");
            }
            Command::Start(job) => self.start(seat, *job),
            Command::Cancel(token) => self.cancel(seat, token),
            Command::Abort(token) => self.abort(seat, token),
            Command::Tell(SessionEvent::Drained { .. }) => {
                self.seats[seat]
                    .process
                    .as_mut()
                    .expect("it has a process")
                    .is_drained = true;
            }
            Command::Tell(SessionEvent::Connected { boot_id, .. }) => {
                // Another process of the orchestrator knows nothing of what an operator said to the one before.
                let process = self.seats[seat].process.as_mut().expect("it has a process");
                if process.seen_boot.replace(boot_id) != Some(boot_id) {
                    process.is_drained = false;
                }
            }
            Command::Tell(_) => {}
        }
    }

    fn connect(&mut self, seat: usize) {
        let (now_ms, stormy) = (self.now_ms, self.is_stormy);
        let process = self.seats[seat].process.as_mut().expect("it has a process");
        let id = self.network.open(seat, process.number);
        process.stream = Some(id);
        process.is_half_closed = false;
        self.tally().count("connects");
        if self.orchestrator.is_none() {
            let after_ms = self.dice.roll(30);
            return self.plan(after_ms, Happening::Refused { stream: id });
        }
        if stormy && self.dice.percent(6) {
            // What it says first takes seconds; by then it may have given up and said it again elsewhere.
            let late_ms = self.dice.between(500, 9_000);
            let stream = self.network.streams.get_mut(&id).expect("it was just opened");
            stream.up.stall(now_ms + late_ms);
            self.truth.tally.count("hellos held up");
            if self.dice.percent(60) {
                let at_ms = now_ms + self.dice.between(5, 1_000);
                stream.down.cut(true);
                stream.down.end_after_cut(at_ms);
            }
        }
    }

    /// Gives a stream up: what the worker has sent may still arrive, and the other side learns of it in time.
    pub(crate) fn leave_stream(&mut self, seat: usize) {
        let now_ms = self.now_ms;
        let Some(process) = &mut self.seats[seat].process else {
            return;
        };
        let Some(id) = process.stream.take() else { return };
        let Some(stream) = self.network.streams.get_mut(&id) else {
            return;
        };
        stream.client_open = false;
        stream.down.cut(true);
        if self.dice.percent(30) {
            stream.up.cut(true);
            stream.up.end_after_cut(now_ms + 1);
        } else {
            self.send(id, Direction::Up, Frame::End);
        }
    }

    fn machine_disconnected(&mut self, seat: usize, why: &str) {
        let (random, why) = (self.dice.any(), why.to_owned());
        self.with_machine(seat, |machine, clock_ms| {
            machine.handle_disconnected(clock_ms, ORCHESTRATOR, random, why);
        });
    }

    /// A frame has come to a worker.
    pub(crate) fn worker_receives(&mut self, id: StreamId, frame: Frame) {
        let Some(stream) = self
            .network
            .streams
            .get_mut(&id)
            .filter(|stream| stream.client_open)
        else {
            return;
        };
        let (seat, number) = (stream.seat, stream.process);
        let is_there = self.seats[seat]
            .process
            .as_ref()
            .is_some_and(|process| process.number == number && process.stream == Some(id));
        if !is_there {
            stream.client_open = false;
            return;
        }
        match frame {
            Frame::End => {
                stream.client_open = false;
                self.seats[seat].process.as_mut().expect("it is there").stream = None;
                self.machine_disconnected(seat, "the stream ended");
            }
            Frame::Bytes(bytes) => {
                let response = SessionResponse::decode(Bytes::from(bytes)).expect("what was encoded decodes");
                if let Some(Response::OutcomeAcks(acks)) = &response.message {
                    let by = ProcessKey {
                        seat,
                        process: number,
                    };
                    acks.items
                        .iter()
                        .for_each(|item| self.truth.is_answered(by, token(&item.attempt_token)));
                }
                self.with_machine(seat, |machine, clock_ms| {
                    machine.handle_message(clock_ms, ORCHESTRATOR, response);
                });
            }
        }
    }

    fn start(&mut self, seat: usize, job: TaskStart) {
        let TaskStart {
            token, assignment, ..
        } = job;
        let by = self.seats[seat].key(seat).expect("it has a process");
        let shape = self.seats[seat].shape.clone();
        let (name, _, waits) = *shape
            .actions
            .iter()
            .find(|(name, ..)| *name == assignment.action)
            .expect("only what it offers is started");
        let manner = match self.dice.roll(100) {
            0..=79 => Manner::Obedient,
            80..=95 => Manner::Deaf,
            _ => Manner::Stubborn,
        };
        let body = Body {
            action: name,
            waits,
            manner,
            is_ending: false,
        };
        self.truth
            .body_starts(self.now_ms, by, token, manner == Manner::Stubborn);
        let process = self.seats[seat].process.as_mut().expect("it has a process");
        assert!(
            !process.is_drained,
            "{by:?} was told that it is drained, and starts {token:?}"
        );
        process.check_capacity(&shape, &body);
        process.bodies.insert(token, body);
        let longest_ms = if name == "slow" { 8_000 } else { 900 };
        let end = match self.dice.roll(100) {
            0..=79 => Ending::Success,
            80..=89 => Ending::Failure,
            _ => Ending::NotHere,
        };
        // Some never end by themselves.
        if !self.dice.percent(3) {
            let after_ms = self.dice.roll(longest_ms);
            self.plan(
                after_ms,
                Happening::BodyEnds {
                    seat,
                    process: by.process,
                    token,
                    end,
                },
            );
        }
        if name == "wait" && self.is_stormy && self.dice.percent(30) {
            let parent = assignment.execution_id.parse().expect("an execution id");
            self.submit_plan(Some(parent));
        }
    }

    fn cancel(&mut self, seat: usize, token: AttemptToken) {
        let process = self.seats[seat].process.as_mut().expect("it has a process");
        let number = process.number;
        let Some(body) = process.bodies.get(&token) else {
            return;
        };
        if body.manner == Manner::Obedient {
            let after_ms = self.dice.roll(200);
            let end = *self.dice.pick(&[Ending::Failure, Ending::Success]);
            self.plan(
                after_ms,
                Happening::BodyEnds {
                    seat,
                    process: number,
                    token,
                    end,
                },
            );
        }
    }

    fn abort(&mut self, seat: usize, token: AttemptToken) {
        let process = self.seats[seat].process.as_mut().expect("it has a process");
        let number = process.number;
        let Some(body) = process.bodies.get_mut(&token) else {
            return;
        };
        body.is_ending = true;
        let after_ms = match body.manner {
            Manner::Obedient | Manner::Deaf => self.dice.roll(20),
            Manner::Stubborn => self.dice.between(2_000, 25_000),
        };
        self.plan(
            after_ms,
            Happening::BodyEnds {
                seat,
                process: number,
                token,
                end: Ending::Aborted,
            },
        );
    }

    pub(crate) fn body_ends(&mut self, seat: usize, number: u64, token: AttemptToken, end: Ending) {
        let now_ms = self.now_ms;
        let frozen_until_ms = self.seats[seat].frozen_until_ms;
        let Some(process) = self.seats[seat]
            .process
            .as_mut()
            .filter(|process| process.number == number)
        else {
            return;
        };
        if !process.bodies.contains_key(&token) {
            return;
        }
        if now_ms < frozen_until_ms {
            // A process that stands still runs nothing.
            return self.plan(
                frozen_until_ms - now_ms,
                Happening::BodyEnds {
                    seat,
                    process: number,
                    token,
                    end,
                },
            );
        }
        process.bodies.remove(&token);
        self.truth.body_ends(now_ms, token);
        let end = match end {
            Ending::Success => TaskEnd::Success {
                output: output(token),
                warnings: Vec::new(),
            },
            Ending::Failure => TaskEnd::Failure(StepError::new("FLAKY", "now and then")),
            Ending::NotHere => TaskEnd::Failure(StepError::new("NOT_HERE", "this worker may not").not_here()),
            Ending::Aborted => TaskEnd::Aborted,
        };
        self.with_machine(seat, |machine, clock_ms| {
            machine.handle_ended(clock_ms, token, end)
        });
    }

    /// Somebody who knows a token says how the attempt ended.
    pub(crate) fn report_by_call(&mut self) {
        let n_items = self.dice.between(1, 3);
        let mut items: Vec<(AttemptToken, AttemptReport)> = Vec::new();
        let mut reports: Vec<(AttemptToken, Report)> = Vec::new();
        for _ in 0..n_items {
            let nth = self.dice.index(1_000_000);
            let token = self
                .truth
                .known_token(nth)
                .unwrap_or_else(|| AttemptToken::new([7; 16]));
            if items.iter().any(|(before, _)| *before == token) {
                continue;
            }
            let (report, outcome) = if self.dice.percent(70) {
                (
                    Report::Success,
                    Outcome::Completed {
                        output: output(token),
                        warnings: Vec::new(),
                    },
                )
            } else {
                let reported = Reported {
                    code: "CALLED".to_owned(),
                    message: String::new(),
                    severity: None,
                    context: Opaque::default(),
                };
                (Report::Failure("CALLED".to_owned()), Outcome::Failed(reported))
            };
            self.truth.calls(token);
            reports.push((token, report));
            items.push((token, AttemptReport::Outcome(outcome)));
        }
        let Some(process) = &mut self.orchestrator else {
            return;
        };
        process.call(Call::Report(reports), |caller| Input::ReportOutcomes {
            caller,
            items,
        });
    }

    fn worker_finished(&mut self, seat: usize, end: Result<(), WorkerError>) {
        let by = self.seats[seat].key(seat).expect("it has a process");
        self.trace
            .note(self.now_ms, format_args!("{by:?} has ended: {end:?}"));
        let clean = matches!(end, Ok(()) | Err(WorkerError::DrainIncomplete { .. }));
        assert!(clean, "{by:?} ends with {end:?}");
        let process = self.seats[seat].process.as_ref().expect("it has a process");
        assert!(process.is_stopping, "{by:?} ends by itself");
        if end.is_ok() {
            assert_eq!(
                self.truth.unanswered(by),
                0,
                "{by:?} ends well with outcomes that nobody answered"
            );
        }
        self.end_process(seat);
        let after_ms = self.dice.between(10, 3_000);
        self.plan(after_ms, Happening::WorkerBoots { seat });
    }

    /// The process is gone, and what it ran with it.
    pub(crate) fn end_process(&mut self, seat: usize) {
        self.leave_stream(seat);
        if let Some(process) = self.seats[seat].process.take() {
            let now_ms = self.now_ms;
            process
                .bodies
                .keys()
                .for_each(|token| self.truth.body_ends(now_ms, *token));
        }
        self.seats[seat].frozen_until_ms = 0;
    }

    /// Hands a frame to the network, under the conditions that it has now.
    pub(crate) fn send(&mut self, id: StreamId, direction: Direction, frame: Frame) {
        let late_ms = self.dice.roll(self.scenario.latency_ms_max + 1);
        let Some(stream) = self.network.streams.get_mut(&id) else {
            return;
        };
        let seat = &self.seats[stream.seat];
        let (pipe, stalled_until_ms) = match direction {
            Direction::Up => (&mut stream.up, seat.up_stalled_until_ms),
            Direction::Down => (&mut stream.down, seat.down_stalled_until_ms),
        };
        pipe.stall(stalled_until_ms);
        pipe.send(self.now_ms + late_ms, frame);
    }

    pub(crate) fn deliver(&mut self, id: StreamId) {
        loop {
            let now_ms = self.now_ms;
            let Some(stream) = self.network.streams.get_mut(&id) else {
                return;
            };
            let worker_reads = !self.seats[stream.seat].is_frozen(now_ms);
            if let Some(frame) = worker_reads.then(|| stream.down.receive(now_ms)).flatten() {
                self.worker_receives(id, frame);
                continue;
            }
            if now_ms < self.orchestrator_frozen_until_ms() {
                return;
            }
            let Some(stream) = self.network.streams.get_mut(&id) else {
                return;
            };
            match stream.up.receive(now_ms) {
                Some(frame) if stream.server != Server::Over => self.orchestrator_receives(id, frame),
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// The output of an attempt names it.
fn output(token: AttemptToken) -> Opaque {
    StructBuilder::new().text("token", &token.to_hex()).build()
}

fn token(bytes: &Bytes) -> AttemptToken {
    AttemptToken::from_slice(bytes).expect("both sides send tokens only")
}

fn short(text: &str) -> String {
    text.chars().take(400).collect()
}
