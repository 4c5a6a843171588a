//! What the shell of the orchestrator does: inputs in batches, effects carried out, messages converted, callers told.

use crate::judge::Judge;
use crate::network::{Direction, Frame, Server, StreamId};
use crate::orchestrator::{Call, Orchestrator};
use crate::plans;
use crate::trace::Trace;
use crate::truth::ProcessKey;
use crate::world::{Happening, World};
use bytes::Bytes;
use escapement_engine::{
    CallerId, Effect, FromWorker, Input, Refusal, Reply, SessionErrorCode, SessionKey, SessionState,
    Submission, ToWorker, WaitFor,
};
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_model::{ExecutionId, SessionId};
use escapement_orchestrator::convert::{session_in, session_out};
use escapement_orchestrator::journal::Event;
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use prost::Message as _;

impl World {
    pub(crate) fn boot_orchestrator(&mut self) {
        assert!(self.orchestrator.is_none(), "one orchestrator at a time");
        self.boots += 1;
        let unix_ms = self.unix_ms();
        let mut process = Orchestrator::new(self.boots, self.now_ms, unix_ms, &self.scenario, &mut self.dice);
        let steady_unix_ms = self.scenario.is_steady.then_some(unix_ms);
        let line = self.judge.boot(process.boot_id, steady_unix_ms);
        self.trace.note(self.now_ms, line);
        let moment = process.moment(self.now_ms, unix_ms);
        for recovered in self.store.unsettled() {
            let execution_id = recovered.execution_id;
            process.engine.handle(moment, Input::Recover(recovered));
            process.watch(execution_id);
        }
        self.orchestrator = Some(process);
        self.tally().count("boots");
        self.run_engine();
    }

    /// The process is gone: with a word to everybody, or without one.
    pub(crate) fn end_orchestrator(&mut self, is_crash: bool) {
        let Some(process) = self.orchestrator.take() else {
            return;
        };
        let n_applied = self.dice.index(self.store.n_pending() + 1);
        self.store
            .lose_pending(process.boot, if is_crash { n_applied } else { usize::MAX });
        let ids: Vec<StreamId> = self.network.streams.keys().copied().collect();
        // Where the whole machine stops, nobody is told.
        let is_silent = is_crash && self.dice.percent(25);
        for id in ids {
            let at_ms = self.now_ms + self.dice.roll(60);
            let loses = is_crash && self.dice.percent(50);
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
        self.tally().count("restarts");
        let after_ms = self.dice.between(50, 4_000);
        self.trace.note(self.now_ms, "orchestrator is gone");
        self.plan(after_ms, Happening::OrchestratorBoots);
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
                stream.down.end_after_cut(now_ms);
                process.inbox.push(Input::SessionClosed(session));
            }
            (Frame::End, Server::Unseen | Server::Over) => {
                stream.server = Server::Over;
                stream.down.end_after_cut(now_ms);
            }
            (Frame::Bytes(bytes), server) => {
                let session = match server {
                    Server::Open(session) => session,
                    Server::Unseen | Server::Over => {
                        let session = process.new_session();
                        let by = ProcessKey {
                            seat: stream.seat,
                            process: stream.process,
                        };
                        process.sessions.insert(session, by);
                        process.inbox.push(Input::SessionOpened { session, session_id });
                        stream.server = Server::Open(session);
                        session
                    }
                };
                let request = SessionRequest::decode(Bytes::from(bytes)).expect("what was encoded decodes");
                let seq = request.seq;
                let incoming = session_in::incoming(request).expect("a worker's messages are well formed");
                assert_eq!(incoming.dropped_items, 0, "a worker sends tokens only");
                let message = incoming.message;
                process.inbox.push(Input::SessionMessage {
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
        let mut effects = Vec::new();
        // As the shell does: the journal has every input and effect in the order in which the engine has them, and what
        // time alone has brought comes first.
        for input in [Input::Tick]
            .into_iter()
            .chain(std::mem::take(&mut process.inbox))
        {
            if let Some(line) = self.judge.note(moment.monotonic_ms, Event::Input(&input)) {
                self.trace.note(now_ms, line);
            }
            if let Input::SessionMessage {
                message: FromWorker::Hello(hello),
                ..
            } = &input
                && !hello.in_flight.is_empty()
            {
                self.truth.tally.count("resumes with attempts");
            }
            process.engine.handle(moment, input);
            while let Some(effect) = process.engine.poll_effect() {
                effects.push(note(
                    &mut self.judge,
                    &mut self.trace,
                    (now_ms, moment.monotonic_ms),
                    effect,
                ));
            }
        }
        process.engine.finish_batch(moment);
        while let Some(effect) = process.engine.poll_effect() {
            effects.push(note(
                &mut self.judge,
                &mut self.trace,
                (now_ms, moment.monotonic_ms),
                effect,
            ));
        }
        effects.into_iter().for_each(|effect| self.effect(effect));
        self.truth.judge_entries(now_ms);
    }

    fn process(&mut self) -> &mut Orchestrator {
        self.orchestrator.as_mut().expect("it runs")
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Write { write, content } => {
                let at_ms = self.now_ms + self.dice.roll(self.scenario.store_ms_max + 1);
                self.store.write(at_ms, write, content);
            }
            Effect::Reply { caller, reply } => self.reply(caller, reply),
            Effect::Entries {
                caller,
                entries,
                settled,
            } => {
                let Some(Call::Watch(execution)) = self.process().callers.get(&caller).cloned() else {
                    panic!("entries for somebody who does not watch");
                };
                if let Some(settled) = settled {
                    let id = settled.result.execution_id;
                    assert!(
                        self.store.is_settled(id),
                        "{id} is told to have settled before it is durable"
                    );
                }
                self.truth.told(execution, entries);
            }
            Effect::Send {
                session,
                seq,
                message,
            } => self.send_to_worker(session, seq, message),
            Effect::CloseSession(session) => {
                let Some(id) = self.network.of_session(session) else {
                    return;
                };
                self.send(id, Direction::Down, Frame::End);
                let stream = self.network.streams.get_mut(&id).expect("it was found");
                stream.server = Server::Over;
                stream.up.cut(true);
                self.process().inbox.push(Input::SessionClosed(session));
            }
            Effect::EmitEvent(settled) => {
                let id = settled.result.execution_id;
                assert!(self.store.is_settled(id), "{id} is told before it is durable");
            }
            Effect::NotifyErrorHandler(_) => {}
            Effect::Drained { .. } => {
                self.process().is_drained = true;
                let (boot, after_ms) = (self.process().boot, self.dice.roll(1_500));
                self.plan(after_ms, Happening::OrchestratorExits { boot });
            }
            Effect::GiveUp { .. } => {
                let boot = self.process().boot;
                self.plan(0, Happening::OrchestratorExits { boot });
            }
        }
    }

    fn send_to_worker(&mut self, session: SessionKey, seq: u64, message: ToWorker) {
        let by = self.process().sessions[&session];
        match &message {
            ToWorker::Assignments(items) => {
                assert!(
                    !self.process().is_drained,
                    "something is handed out after the drain is over"
                );
                let boot = self.process().boot;
                items
                    .iter()
                    .for_each(|item| self.truth.handed_out(by, boot, item));
            }
            ToWorker::OutcomeAcks(items) => {
                items
                    .iter()
                    .for_each(|(token, verdict)| self.truth.verdict(*token, *verdict, None));
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
        let bytes = SessionResponse {
            seq,
            message: Some(message),
        }
        .encode_to_vec();
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

    fn reply(&mut self, caller: CallerId, reply: Reply) {
        let call = self
            .process()
            .callers
            .get(&caller)
            .cloned()
            .expect("each caller is answered once");
        // A watcher goes on to get entries.
        if !matches!(reply, Reply::Watching) {
            self.process().callers.remove(&caller);
        }
        let of_execution = matches!(call, Call::Submit(_) | Call::Wait(_));
        if of_execution {
            let text: String = format!("{reply:?}").chars().take(40).collect();
            self.trace
                .note(self.now_ms, format_args!("{caller:?} {call:?} is told {text}"));
        }
        match (call, reply) {
            (Call::Submit(id), Reply::Accepted(view)) => {
                assert_eq!(view.execution_id, id);
                assert!(
                    self.store.find(id).is_some(),
                    "{id} is told to be accepted before it is durable"
                );
                self.process().watch(id);
                if self.dice.percent(50) {
                    let wait = |caller| Input::Wait {
                        caller,
                        execution_id: id,
                    };
                    self.process().call(Call::Wait(id), wait);
                }
            }
            (Call::Submit(id) | Call::Wait(id), Reply::Settled(settled)) => {
                assert_eq!(settled.result.execution_id, id);
                assert!(self.store.is_settled(id), "{id} is told before it is durable");
                self.tally().count("results told");
            }
            (Call::Submit(_), Reply::Refused(refusal)) => {
                assert!(
                    matches!(
                        refusal,
                        Refusal::Draining | Refusal::StoreFailed | Refusal::NestedTooDeep
                    ),
                    "{refusal:?}"
                );
                self.tally().count(&format!("refused {refusal:?}"));
            }
            (Call::Wait(_), Reply::Refused(Refusal::StoreFailed)) => {
                self.tally().count("refused StoreFailed")
            }
            (Call::Submit(id) | Call::Wait(id) | Call::Watch(id), Reply::NotLive) => {
                assert!(self.store.is_settled(id), "{id} is nowhere");
            }
            (Call::Watch(_), Reply::Watching) => {}
            (Call::Report(reports), Reply::OutcomeAcks(acks)) => {
                assert_eq!(acks.len(), reports.len(), "an answer for each item");
                for ((token, verdict), (asked, report)) in acks.into_iter().zip(reports) {
                    assert_eq!(token, asked, "answers in the order of the items");
                    self.truth.verdict(token, verdict, Some(report));
                }
            }
            (Call::Operate, Reply::Workers(_) | Reply::NoSuchWorker) => {}
            (Call::Operate, Reply::DeclaredDead { .. }) => self.tally().count("declared dead"),
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

    // ---- callers ----

    pub(crate) fn submit_some(&mut self) {
        if !self.is_stormy {
            return;
        }
        self.submit_plan(None);
        if self.dice.percent(5) && !self.requests.is_empty() {
            // The same once more: it attaches, or has its result already.
            let again = self.dice.index(self.requests.len());
            self.submit_again(again);
        }
        let after_ms = self.dice.roll(self.scenario.plan_every_ms * 2);
        self.plan(after_ms, Happening::Submit);
    }

    pub(crate) fn submit_plan(&mut self, parent: Option<ExecutionId>) {
        let unix_ms = self.unix_ms();
        let request = plans::request(&mut self.dice, unix_ms, self.scenario.large_payloads, parent);
        self.requests.push(request);
        self.submit_again(self.requests.len() - 1);
    }

    fn submit_again(&mut self, nth: usize) {
        let request = self.requests[nth].clone();
        let wait_for = if self.dice.percent(75) {
            WaitFor::Accepted
        } else {
            WaitFor::Settled
        };
        let id = request.execution_id().expect("simulated requests name it");
        let is_again = self.store.find(id).is_some();
        let wait_for = if is_again { WaitFor::Settled } else { wait_for };
        let Some(process) = &mut self.orchestrator else {
            return;
        };
        self.truth.tally.count("plans submitted");
        self.trace
            .note(self.now_ms, format_args!("{id} is submitted, {wait_for:?}"));
        let submit = |caller| {
            Input::Submit(Submission {
                caller,
                request,
                fresh_id: id,
                wait_for,
            })
        };
        process.call(Call::Submit(id), submit);
    }
}

fn note(judge: &mut Judge, trace: &mut Trace, (now_ms, at_ms): (u64, u64), effect: Effect) -> Effect {
    if let Some(line) = judge.note(at_ms, Event::Effect(&effect)) {
        trace.note(now_ms, line);
    }
    effect
}
