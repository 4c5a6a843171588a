//! What surrounds the orchestrator's host: a start and an end, frames of workers, and what the host wants done.

use crate::callers::{CallNumber, Told};
use crate::disk::End;
use crate::network::{Direction, Frame, Server, StreamId};
use crate::orchestrator::{Call, Orchestrator, Simulated};
use crate::truth::{ProcessKey, Report};
use crate::world::{Happening, World};
use bytes::Bytes;
use escapement_codec::execution;
use escapement_codec::session_in;
use escapement_codec::session_journal::Event;
use escapement_codec::session_out;
use escapement_engine::{
    AckVerdict, FromWorker, Input, Reply, SessionErrorCode, SessionKey, SessionState, ToWorker,
};
use escapement_host::Output;
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_model::{AttemptToken, ExecutionId, SessionId};
use escapement_tests::history::{Life, hash_of_result};
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use prost::Message as _;

impl World {
    /// A process starts: it opens what is on the disk, and has nothing else.
    pub(crate) fn boot_orchestrator(&mut self) {
        assert!(self.orchestrator.is_none(), "one orchestrator at a time");
        self.boots += 1;
        self.tally().count("boots");
        if self.is_stormy && self.dice.percent(4) {
            // The process or the machine is gone again while it reads its disk.
            self.storage.disk.break_off_next_open(&mut self.dice);
        }
        let in_memory_max = self.scenario.queued_in_memory_max;
        let recovered = match self.storage.open(self.now_ms, self.boots, in_memory_max) {
            Ok(recovered) => recovered,
            Err(why) => return self.cannot_open(&why),
        };
        self.history.life(Life::Began);
        let unix_ms = self.unix_ms();
        let mut process = Orchestrator::new(self.boots, self.now_ms, unix_ms, &self.scenario, &mut self.dice);
        let steady_unix_ms = self.scenario.is_steady.then_some(unix_ms);
        let line = self.judge.boot(process.boot_id, steady_unix_ms);
        self.trace.note(self.now_ms, line);
        let moment = process.moment(self.now_ms, unix_ms);
        self.truth.tally.add("recovered", recovered.len() as u64);
        let ids: Vec<ExecutionId> = recovered
            .whole
            .iter()
            .map(|recovered| recovered.execution_id)
            .collect();
        let shares = std::iter::once(self.storage.shares.input());
        process
            .host
            .handle_recovered(moment, shares.chain(recovered.into_inputs()));
        self.orchestrator = Some(process);
        self.run_outputs();
        for execution_id in ids {
            self.process().follow(execution_id);
        }
        self.run_engine();
        if self.is_stormy && self.boots > 1 && self.dice.percent(5) {
            // Soon enough to meet the writes of the recovery.
            let after_ms = self.dice.roll(10);
            self.plan(after_ms, Happening::OrchestratorDies);
        }
    }

    fn cannot_open(&mut self, why: &str) {
        assert!(self.is_stormy, "a store on a sound disk opens: {why}");
        self.tally().count("fault: start fails");
        self.trace
            .note(self.now_ms, format_args!("the store does not open: {why}"));
        let end = *self.dice.pick(&[End::Killed, End::PowerCut]);
        self.storage.disk.after(end, &mut self.dice);
        let after_ms = self.dice.between(50, 2_000);
        self.plan(after_ms, Happening::OrchestratorBoots);
    }

    /// The process is gone: with a word to everybody, or without one.
    pub(crate) fn end_orchestrator(&mut self, end: End) {
        let Some(process) = self.orchestrator.take() else {
            return;
        };
        let in_a_commit = self.dice.percent(60);
        if self.storage.end(end, in_a_commit, &mut self.dice) {
            self.tally().count("fault: end in a commit");
        }
        self.history.life(match end {
            End::Exits => Life::Drained,
            End::Killed => Life::Killed,
            End::PowerCut => Life::PowerCut,
        });
        // Where the whole machine stops, nobody is told.
        let is_silent = end == End::PowerCut || (end == End::Killed && self.dice.percent(10));
        self.streams_end(end != End::Exits, is_silent);
        let calls: Vec<CallNumber> = self
            .calls
            .iter()
            .filter(|(_, asked)| asked.boot == process.boot)
            .map(|(call, _)| *call)
            .collect();
        for call in calls {
            if !is_silent {
                self.tell(call, Told::Broken);
            }
        }
        self.tally().count("restarts");
        let after_ms = self.dice.between(50, 4_000);
        self.trace
            .note(self.now_ms, format_args!("orchestrator is gone: {end:?}"));
        self.plan(after_ms, Happening::OrchestratorBoots);
    }

    fn streams_end(&mut self, may_lose: bool, is_silent: bool) {
        let ids: Vec<StreamId> = self.network.streams.keys().copied().collect();
        for id in ids {
            let at_ms = self.now_ms + self.dice.roll(60);
            let loses = may_lose && self.dice.percent(50);
            let stream = self.network.streams.get_mut(&id).expect("it is listed");
            if stream.server == Server::Unseen {
                continue;
            }
            stream.server = Server::Over;
            stream.up.cut(true);
            stream.down.cut(loses);
            if !is_silent {
                stream.down.end_after_cut(at_ms);
            }
        }
    }

    /// A frame has come to the orchestrator. The engine hears of a stream with its first message, as in the shell.
    pub(crate) fn orchestrator_receives(&mut self, id: StreamId, frame: Frame) {
        let session_id = SessionId::new(self.dice.bytes());
        let now_ms = self.now_ms;
        let Some(stream) = self.network.streams.get_mut(&id) else {
            return;
        };
        let Some(process) = &mut self.orchestrator else {
            return self.plan(0, Happening::Refused { stream: id });
        };
        match (frame, stream.server) {
            (Frame::End, Server::Open(session)) => {
                stream.server = Server::Over;
                self.storage.turns_judge.session_leaves(session);
                stream.down.end_after_cut(now_ms);
                process.happened(Input::SessionClosed(session));
            }
            (Frame::End, Server::Unseen | Server::Over) => {
                stream.server = Server::Over;
                stream.down.end_after_cut(now_ms);
            }
            (Frame::Bytes(bytes), server) => {
                let session = match server {
                    Server::Open(session) => session,
                    Server::Unseen | Server::Over => {
                        let by = ProcessKey {
                            seat: stream.seat,
                            process: stream.process,
                        };
                        let session = process.open_session(session_id, by);
                        stream.server = Server::Open(session);
                        session
                    }
                };
                let request = SessionRequest::decode(Bytes::from(bytes)).expect("what was encoded decodes");
                self.judge.arrived(session.0, &request);
                let seq = request.seq;
                let incoming = session_in::incoming(request).expect("a worker's messages are well formed");
                assert_eq!(incoming.dropped_items, 0, "a worker sends tokens only");
                let message = incoming.message;
                self.storage.turns_judge.heard(session, &message);
                if let FromWorker::Hello(hello) = &message
                    && !hello.in_flight.is_empty()
                {
                    self.truth.tally.count("resumes with attempts");
                }
                process.happened(Input::SessionMessage {
                    session,
                    seq,
                    message,
                });
            }
        }
    }

    /// One batch, where there is anything to do.
    pub(crate) fn run_engine(&mut self) {
        let (now_ms, unix_ms) = (self.now_ms, self.unix_ms());
        let Some(process) = &mut self.orchestrator else {
            return;
        };
        if process.due_at_ms(now_ms).is_none_or(|due_ms| due_ms > now_ms) {
            return;
        }
        let moment = process.moment(now_ms, unix_ms);
        let (judge, trace) = (&mut self.judge, &mut self.trace);
        let mut note = |event: Event<'_>| {
            if let Some(line) = judge.note(moment.monotonic_ms, event) {
                trace.note(now_ms, line);
            }
        };
        process.host.handle_batch(moment, &mut process.batch, &mut note);
        self.run_outputs();
        self.storage.turns_judge.batch_ended();
        self.truth.judge_entries(now_ms);
    }

    fn run_outputs(&mut self) {
        while let Some(output) = self.process().host.poll_output() {
            self.output(output);
        }
    }

    pub(crate) fn process(&mut self) -> &mut Orchestrator {
        self.orchestrator.as_mut().expect("it runs")
    }

    fn output(&mut self, output: Output<Simulated>) {
        match output {
            Output::Write(jobs) => self.storage.write(jobs),
            Output::Load(wanted) => {
                let boot = self.process().boot;
                for execution_id in wanted {
                    let after_ms = self.dice.roll(4);
                    self.plan(after_ms, Happening::Loads { boot, execution_id });
                }
            }
            Output::Answer(call, reply) => self.answer(call, reply),
            Output::Send {
                session,
                seq,
                message,
            } => self.send_to_worker(session, seq, message),
            Output::EndSession { session, .. } => {
                self.storage.turns_judge.session_leaves(session);
                let Some(id) = self.network.of_session(session) else {
                    return;
                };
                self.send(id, Direction::Down, Frame::End);
                let stream = self.network.streams.get_mut(&id).expect("it was found");
                stream.server = Server::Over;
                stream.up.cut(true);
                self.process().happened(Input::SessionClosed(session));
            }
            Output::EmitEvent(settled) => {
                self.check_settled(&settled);
                let result = hash_of_result(&execution::result(&settled.result));
                self.history.event(settled.result.execution_id, result);
                self.tally().count("events");
            }
            Output::NotifyErrorHandler(_) | Output::WorkerLost { .. } => {}
            Output::Note(_) => self.tally().count("notices"),
            Output::Drained { .. } => {
                self.process().is_drained = true;
                let (boot, after_ms) = (self.process().boot, self.dice.roll(1_500));
                self.plan(after_ms, Happening::OrchestratorExits { boot });
            }
            Output::GiveUp { .. } => {
                self.tally().count("gave up");
                self.plan(0, Happening::OrchestratorDies);
            }
        }
    }

    fn outcome_answered(&mut self, token: AttemptToken, verdict: AckVerdict, called: Option<Report>) {
        self.truth.verdict(token, verdict, called);
        // What a worker may not do is no outcome yet: another worker may get the attempt.
        if verdict == AckVerdict::Accepted && !self.truth.is_refused(token) {
            self.history.outcome_accepted(token);
        }
    }

    fn send_to_worker(&mut self, session: SessionKey, seq: u64, message: ToWorker) {
        let by = *self.process().host.session(session).expect("its stream is open");
        self.storage.turns_judge.said(session, &message);
        match &message {
            ToWorker::Assignments(items) => {
                assert!(
                    !self.process().is_drained,
                    "something is handed out after the drain is over"
                );
                let boot = self.process().boot;
                for item in items {
                    self.process().follow(item.execution_id);
                    self.truth.handed_out(by, boot, item);
                    let step = item.request.plan().step(item.step).id();
                    self.history
                        .handed_out(item.execution_id, step, item.attempt, item.token);
                }
            }
            ToWorker::OutcomeAcks(items) => {
                for (token, verdict) in items {
                    self.outcome_answered(*token, *verdict, None);
                }
            }
            ToWorker::Cancels(items) => self.tally().add("cancels", items.len() as u64),
            ToWorker::SnapshotRequest { .. } => self.tally().count("snapshot requests"),
            ToWorker::SessionError { code, .. } => {
                self.tally().count(&format!("session error {code:?}"));
                // The first message on a stream: its hello came after a later one.
                if (*code, seq) == (SessionErrorCode::Superseded, 1) {
                    self.tally().count("hellos refused as held up");
                }
                assert!(
                    !matches!(
                        code,
                        SessionErrorCode::ProtocolViolation | SessionErrorCode::LimitExceeded
                    ) || seq == 1,
                    "{by:?} is accused of {message:?}"
                );
            }
            ToWorker::DrainStarted { .. } => self.tally().count("drains of workers"),
            ToWorker::Reconnect { .. } => self.tally().count("reconnects asked for"),
            ToWorker::Welcome(welcome) => {
                self.tally().count("welcomes");
                let stops = welcome
                    .verdicts
                    .iter()
                    .filter(|(_, v)| *v == escapement_engine::KeepOrStop::Stop);
                let n_stops = stops.count() as u64;
                self.truth.tally.add("verdicts: stop", n_stops);
                self.truth
                    .tally
                    .add("verdicts: keep", welcome.verdicts.len() as u64 - n_stops);
            }
            ToWorker::HeartbeatAck { .. } | ToWorker::UnknownOutcomes(_) => {}
        }
        let message = session_out::message(message, &self.process().greeting);
        let response = SessionResponse {
            seq,
            message: Some(message),
        };
        self.judge.sent(session.0, &response);
        let bytes = response.encode_to_vec();
        assert!(
            bytes.len() <= SESSION_MESSAGE_BYTES_MAX,
            "the engine sends {} bytes",
            bytes.len()
        );
        if bytes.len() > SESSION_MESSAGE_BYTES_MAX / 2 {
            self.tally().count("large messages");
        }
        // Where the stream is gone, so is the message.
        if let Some(id) = self.network.of_session(session) {
            self.send(id, Direction::Down, Frame::Bytes(bytes));
        }
    }

    fn answer(&mut self, call: Call, reply: Reply) {
        match (call, reply) {
            (Call::Asked(call, question), reply) => self.answered(call, question, reply),
            (Call::Follow(id, from), Reply::Watched(reply)) => self.followed(id, from, reply),
            (Call::Report(reports), Reply::OutcomeAcks(acks)) => {
                assert_eq!(acks.len(), reports.len(), "an answer for each item");
                for ((token, verdict), (asked, report)) in acks.into_iter().zip(reports) {
                    assert_eq!(token, asked, "answers in the order of the items");
                    self.outcome_answered(token, verdict, Some(report));
                }
            }
            (Call::Operate, Reply::WorkersDrain(_) | Reply::DeclaredDead(None)) => {}
            (Call::Operate, Reply::DeclaredDead(Some(_))) => self.tally().count("declared dead"),
            (Call::Workers, Reply::Workers(views)) => {
                let rest = views.len() == self.seats.len()
                    && views.iter().all(|view| {
                        view.state == SessionState::Active && view.in_flight == 0 && view.stopping == 0
                    });
                self.workers_at_rest = Some(rest);
                self.trace.note(self.now_ms, format_args!("workers: {views:?}"));
            }
            (Call::Actions, Reply::Actions(views)) => {
                let rest = views.iter().all(|view| view.in_flight == 0 && view.waiting == 0);
                self.actions_at_rest = Some(rest);
                self.trace.note(self.now_ms, format_args!("actions: {views:?}"));
            }
            (call, reply) => panic!("{call:?} is answered by {reply:?}"),
        }
    }
}
