//! A world around one engine: a store that answers at once and scripted workers. Only what the engine does is counted.

use crate::measured_by_callgrind;
use crate::plans::{ACTION, execution_id, spread};
use escapement_contract::{Moment, Outcome, Reported, Request};
use escapement_engine::{
    ActionSpec, Assignment, AttemptReport, CallerId, Effect, Ended, Engine, EngineConfig, FromWorker, Hello,
    InFlight, Input, LoadOutcome, NamespaceKey, Piece, Recovered, Reply, SessionKey, Submission, Submitted,
    Submitter, ToWorker, UntilDecided, Watch, Watched, WriteOutcome,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, BootId, ExecutionId, InstanceId, Opaque, SessionId};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

/// What workers do with an attempt, all of them the same.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Its handler starts and completes.
    Completes,
    /// Handler starts, and fails before this attempt, which completes.
    FailsBefore(u32),
    /// Its handler starts and goes on for ever.
    Holds,
}

pub(crate) struct World {
    engine: Engine,
    pub(crate) now_ms: u64,
    /// What the engine does from now on is counted.
    pub(crate) counts: bool,
    pub(crate) handler: Handler,
    /// What every worker offers.
    pub(crate) actions: Vec<String>,
    /// What the store holds of queued executions.
    pub(crate) stored: BTreeMap<ExecutionId, Recovered>,
    effects: Vec<Effect>,
    /// Number of the last message of each session.
    said: BTreeMap<SessionKey, u64>,
    output: Opaque,
    /// Attempts that handlers hold.
    pub(crate) held: Vec<(SessionKey, AttemptToken)>,
    pub(crate) n_accepted: u64,
    pub(crate) n_settled: u64,
    pub(crate) n_steps_completed: u64,
    pub(crate) n_attempts: u64,
    pub(crate) n_stopped: u64,
    pub(crate) n_welcomes: u64,
    pub(crate) n_heartbeats: u64,
    /// Entries that watchers saw.
    pub(crate) n_entries: u64,
    /// The last answer that is none of the above.
    pub(crate) reply: Option<Reply>,
}

impl World {
    pub(crate) fn new(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let mut config = EngineConfig::new(BootId::new([7; 16]), [9; 32]);
        // Nobody is lost here because a story took its time.
        config.lease_ms = 1_000_000_000;
        change(&mut config);
        let now_ms = 1;
        Self {
            engine: Engine::new(config, moment(now_ms)),
            now_ms,
            counts: false,
            handler: Handler::Completes,
            actions: ACTIONS.map(str::to_owned).to_vec(),
            stored: BTreeMap::new(),
            // Enough for any batch, so that its growth is not counted.
            effects: Vec::with_capacity(4096),
            said: BTreeMap::new(),
            output: StructBuilder::new().text("done", "yes").build(),
            held: Vec::new(),
            n_accepted: 0,
            n_settled: 0,
            n_steps_completed: 0,
            n_attempts: 0,
            n_stopped: 0,
            n_welcomes: 0,
            n_heartbeats: 0,
            n_entries: 0,
            reply: None,
        }
    }

    /// One batch, and everything that follows from it without time passing.
    pub(crate) fn inputs(&mut self, mut batch: Vec<Input>) {
        while !batch.is_empty() {
            self.handle(&mut batch);
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                self.carry_out(effect, &mut batch);
            }
            self.effects = effects;
        }
    }

    /// What a start finds in the store, before the first batch. Counted.
    pub(crate) fn recovers(&mut self, inputs: Vec<Input>) {
        let (engine, now, mut inputs) = (&mut self.engine, moment(self.now_ms), inputs.into_iter());
        measured_by_callgrind(&mut || {
            inputs.by_ref().for_each(|input| engine.handle(now, input));
            engine.live_executions() as u64
        });
    }

    fn handle(&mut self, batch: &mut Vec<Input>) {
        let (engine, effects, now) = (&mut self.engine, &mut self.effects, moment(self.now_ms));
        let mut work = || {
            for input in batch.drain(..) {
                engine.handle(now, input);
            }
            engine.finish_batch(now);
            while let Some(effect) = engine.poll_effect() {
                effects.push(effect);
            }
            black_box(engine.next_due_ms()).unwrap_or_default()
        };
        if self.counts {
            measured_by_callgrind(&mut work);
        } else {
            work();
        }
    }

    fn carry_out(&mut self, effect: Effect, batch: &mut Vec<Input>) {
        match effect {
            Effect::Write { write, .. } => batch.push(Input::Stored {
                write,
                outcome: WriteOutcome::Durable,
            }),
            Effect::Load { execution_id } => batch.push(Input::Loaded {
                execution_id,
                outcome: LoadOutcome::Loaded(self.stored[&execution_id].clone()),
            }),
            Effect::Reply { reply, .. } => match reply {
                Reply::Submitted(Submitted::Accepted(_)) => self.n_accepted += 1,
                Reply::Ended(Ended::Settled(_)) => {}
                Reply::Watched(Watched::Entries(entries, _)) => {
                    self.n_entries += entries.len() as u64;
                    batch.push(watch(self.n_entries + 1));
                }
                Reply::Submitted(Submitted::Refused(refusal)) | Reply::Ended(Ended::Refused(refusal)) => {
                    panic!("nothing here is refused: {refusal:?}")
                }
                reply => self.reply = Some(reply),
            },
            Effect::Send { session, message, .. } => self.sent(session, message, batch),
            Effect::EmitEvent(persisted) => {
                self.n_settled += 1;
                self.n_steps_completed += u64::from(persisted.result.steps_executed);
            }
            Effect::CloseSession(_) => {}
            Effect::NotifyErrorHandler(_) | Effect::WorkerLost { .. } | Effect::Note(_) => {}
            Effect::Drained { .. } | Effect::GiveUp { .. } => panic!("nothing ends here"),
        }
    }

    fn sent(&mut self, session: SessionKey, message: ToWorker, batch: &mut Vec<Input>) {
        match message {
            ToWorker::Assignments(items) => {
                self.n_attempts += items.len() as u64;
                let tokens: Vec<_> = items.iter().map(|item| item.token).collect();
                batch.push(self.says(session, answers(tokens.clone(), Vec::new())));
                if matches!(self.handler, Handler::Holds) {
                    return self.held.extend(tokens.into_iter().map(|token| (session, token)));
                }
                let reports = items.iter().map(|item| (item.token, self.report(item))).collect();
                batch.push(self.says(
                    session,
                    FromWorker::Outcomes {
                        items: reports,
                        unreadable: Vec::new(),
                    },
                ));
            }
            ToWorker::Cancels(items) => {
                self.n_stopped += items.len() as u64;
                let tokens = items.iter().map(|item| item.token).collect();
                batch.push(self.says(session, answers(Vec::new(), tokens)));
            }
            ToWorker::Welcome(_) => self.n_welcomes += 1,
            ToWorker::HeartbeatAck { .. } => self.n_heartbeats += 1,
            ToWorker::OutcomeAcks(_) => {}
            other => panic!("no worker here is told {other:?}"),
        }
    }

    /// A handler that holds an attempt completes it.
    pub(crate) fn complete(&mut self, session: SessionKey, token: AttemptToken) {
        let outcomes = FromWorker::Outcomes {
            items: vec![(token, self.completed())],
            unreadable: Vec::new(),
        };
        let said = self.says(session, outcomes);
        self.inputs(vec![said]);
    }

    fn report(&self, assignment: &Assignment) -> AttemptReport {
        let fails = matches!(self.handler, Handler::FailsBefore(last) if assignment.attempt < last);
        if !fails {
            return self.completed();
        }
        AttemptReport::Outcome(Outcome::Failed(Reported {
            code: "BUSY".into(),
            message: "come back later".into(),
            ..Reported::default()
        }))
    }

    fn completed(&self) -> AttemptReport {
        AttemptReport::Outcome(Outcome::completed(self.output.clone()))
    }

    /// Returns the next message of a session.
    pub(crate) fn says(&mut self, session: SessionKey, message: FromWorker) -> Input {
        let seq = self.said.entry(session).or_default();
        *seq += 1;
        Input::SessionMessage {
            session,
            seq: *seq,
            message,
        }
    }

    /// Lets time pass to the engine's next timer.
    pub(crate) fn pass(&mut self) {
        let due_ms = self.engine.next_due_ms().expect("something is due some day");
        self.now_ms = self.now_ms.max(due_ms);
        self.inputs(vec![Input::Tick]);
    }

    /// A worker opens a stream and says hello.
    pub(crate) fn worker(&mut self, session: u64, instance: u64, max_in_flight: u32) {
        let inputs = self.hello(session, instance, max_in_flight, Vec::new());
        self.inputs(inputs);
    }

    pub(crate) fn hello(
        &mut self,
        session: u64,
        instance: u64,
        max_in_flight: u32,
        in_flight: Vec<InFlight>,
    ) -> Vec<Input> {
        let action = |name: &str| ActionSpec {
            name: name.into(),
            max_in_flight: 0,
            description: "Does what its name says.".into(),
            input_schema: String::new(),
            waits: false,
            traits: bytes::Bytes::new(),
        };
        let previous_session_id = (!in_flight.is_empty()).then(|| session_id(session - 1));
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: format!("worker-{instance}").into(),
            instance_id: InstanceId::new(spread(instance)),
            actions: self.actions.iter().map(|name| action(name)).collect(),
            max_in_flight,
            in_flight,
            labels: BTreeMap::from([("zone".into(), "north-1".into())]),
            build: "worker 1.0.0".into(),
            hello_number: session,
            previous_session_id,
            owner: "".into(),
        };
        let key = SessionKey(session);
        vec![
            Input::SessionOpened {
                session: key,
                session_id: session_id(session),
            },
            self.says(key, FromWorker::Hello(hello)),
        ]
    }
}

/// What a submission waits for.
#[derive(Clone, Copy)]
pub(crate) enum WaitFor {
    Accepted,
    Settled,
}

/// Returns the submission of the `n`th execution, by a caller of its own.
pub(crate) fn submission(n: u64, request: &Arc<Request>, wait_for: WaitFor) -> Input {
    let caller = CallerId(n);
    Input::Submit(Submission {
        namespace: NamespaceKey::default(),
        submitter: match wait_for {
            WaitFor::Accepted => Submitter::ForAccept(caller.into()),
            WaitFor::Settled => Submitter::ForEnd(caller.into()),
        },
        request: Arc::clone(request),
        fresh_id: execution_id(n),
        may_nest: true,
        until_decided: UntilDecided::default(),
    })
}

/// The question of the one watcher for what follows in the record of the first execution, as the shell asks it.
pub(crate) fn watch(from_sequence: u64) -> Input {
    Input::Watch(Watch {
        // One that no submission has.
        caller: CallerId(u64::MAX - from_sequence).into(),
        execution_id: execution_id(1),
        from_sequence,
        after_hash: None,
        piece: Piece {
            entries_max: 256,
            bytes_max: 256 << 10,
        },
        waits: true,
    })
}

/// What the store holds of the `n`th execution while it is queued.
pub(crate) fn recovered(n: u64, request: Arc<Request>) -> Recovered {
    Recovered {
        namespace: NamespaceKey::default(),
        execution_id: execution_id(n),
        request,
        accepted_at: START_UNIX_MS,
        deadline_ms: START_UNIX_MS + 3_600_000,
        interruption: None,
    }
}

fn answers(started: Vec<AttemptToken>, stopped: Vec<AttemptToken>) -> FromWorker {
    FromWorker::AttemptAcks {
        started,
        rejected: Vec::new(),
        stopped,
    }
}

fn session_id(session: u64) -> SessionId {
    SessionId::new(spread(session))
}

fn moment(now_ms: u64) -> Moment {
    Moment {
        monotonic_ms: now_ms,
        unix_ms: START_UNIX_MS + now_ms.cast_signed(),
    }
}

const ACTIONS: [&str; 8] = [
    "deploy",
    "fetch",
    "notify",
    "query",
    "scan",
    "transform",
    "verify",
    ACTION,
];
const START_UNIX_MS: i64 = 1_700_000_000_000;
