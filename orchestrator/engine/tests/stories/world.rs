//! A little world around one engine: a clock that stands still until told, a store that answers when told, scripted workers.

mod workers;

use crate::auditor::Auditor;
use crate::plans::PlanBuilder;
pub use crate::plans::plan;
use escapement_contract::{AuditKind, Moment, Request, Settlement, Status};
use escapement_engine::{
    ActionView, Answer, Assignment, Caller, CallerId, Effect, Ended, Engine, EngineConfig, ExecutionView,
    ExplainAnswer, Input, LoadOutcome, NamespaceKey, Notice, Piece, Recovered, Refusal, Reply, StoreWrite,
    Submission, Submitted, Submitter, ToWorker, UntilDecided, Watch, Watched, WorkerView, WriteId,
    WriteOutcome,
};
use escapement_model::{BootId, ExecutionId, InstanceId, SessionId};
use std::collections::BTreeMap;
use std::sync::Arc;
pub use workers::{action, hello_of, in_flight, session_id, success, token_of};

pub const START_UNIX_MS: i64 = 1_700_000_000_000;

pub struct World {
    pub engine: Engine,
    pub now_ms: u64,
    /// How far the wall clock was set forward, or back.
    pub wall_shift_ms: i64,
    /// The store answers "durable" at once.
    pub store_answers: bool,
    pub writes: Vec<(WriteId, StoreWrite)>,
    /// Loads are answered at once, from what was accepted.
    pub loader_answers: bool,
    /// What was asked for.
    pub loads: Vec<ExecutionId>,
    /// What the store holds of everything that was accepted.
    accepted: BTreeMap<ExecutionId, Recovered>,
    /// To which namespace the plans belong that are handed in from now on.
    pub namespace: NamespaceKey,
    /// Of every execution that was handed in.
    namespaces: BTreeMap<ExecutionId, NamespaceKey>,
    pub replies: BTreeMap<u64, Reply>,
    pub sent: Vec<(u64, ToWorker)>,
    pub closed: Vec<u64>,
    /// What the store was told of actions, by name.
    pub memories: BTreeMap<Arc<str>, Option<u64>>,
    /// What becomes of that.
    pub memory_outcome: WriteOutcome,
    pub notices: Vec<Notice>,
    pub auditor: Auditor,
    /// Everything that left, in order, by name.
    pub log: Vec<String>,
    seq_in: BTreeMap<u64, u64>,
    /// The session of the last welcome of each instance that reads what it is sent.
    welcomed: BTreeMap<InstanceId, SessionId>,
    last_id: u64,
    watching: BTreeMap<CallerId, Watching>,
    last_watch: u64,
}

/// What a submission waits for.
#[derive(Clone, Copy)]
pub enum WaitFor {
    Accepted,
    Settled,
}

/// A watch under a name, between one piece and the next.
#[derive(Clone, Copy)]
struct Watching {
    name: u64,
    execution_id: ExecutionId,
    next_sequence: u64,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        crate::planting::plant_what_the_environment_names();
        let mut config = EngineConfig::new(BootId::new([7; 16]), [9; 32]);
        change(&mut config);
        Self {
            engine: Engine::new(
                config,
                Moment {
                    monotonic_ms: 0,
                    unix_ms: START_UNIX_MS,
                },
            ),
            now_ms: 0,
            wall_shift_ms: 0,
            store_answers: true,
            writes: Vec::new(),
            loader_answers: true,
            loads: Vec::new(),
            accepted: BTreeMap::new(),
            namespace: NamespaceKey::default(),
            namespaces: BTreeMap::new(),
            replies: BTreeMap::new(),
            sent: Vec::new(),
            closed: Vec::new(),
            memories: BTreeMap::new(),
            memory_outcome: WriteOutcome::Durable,
            notices: Vec::new(),
            auditor: Auditor::default(),
            log: Vec::new(),
            seq_in: BTreeMap::new(),
            welcomed: BTreeMap::new(),
            last_id: 0,
            watching: BTreeMap::new(),
            last_watch: 0,
        }
    }

    /// Returns a worker with so many slots, and the attempt that it has of an execution of one step; the caller is 1.
    pub fn with_one(max_in_flight: u32) -> (Self, Assignment) {
        let mut world = Self::new();
        world.worker(1, max_in_flight, &["a"]);
        world.run(1, plan(1, &["a"]));
        let assignment = world.one_assignment(1);
        (world, assignment)
    }

    pub fn now(&self) -> Moment {
        Moment {
            monotonic_ms: self.now_ms,
            unix_ms: START_UNIX_MS + self.now_ms as i64 + self.wall_shift_ms,
        }
    }

    pub fn input(&mut self, input: Input) {
        self.inputs(vec![input]);
    }

    /// One batch, and everything that follows from it.
    pub fn inputs(&mut self, mut batch: Vec<Input>) {
        while !batch.is_empty() {
            let now = self.now();
            for input in batch.drain(..) {
                self.engine.handle(now, input);
            }
            self.engine.finish_batch(now);
            while let Some(effect) = self.engine.poll_effect() {
                batch.extend(self.carry_out(effect));
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Write {
                write,
                content: StoreWrite::RememberActions { memories },
            } => {
                let memories = memories.into_iter();
                self.memories
                    .extend(memories.map(|memory| (memory.name, memory.left_ms)));
                return Some(Input::Stored {
                    write,
                    outcome: self.memory_outcome,
                });
            }
            Effect::Write { write, content } => {
                self.keep(&content);
                self.log.push(match content {
                    StoreWrite::Accept { started_at: None, .. } => "write accept".into(),
                    StoreWrite::Accept { .. } => "write accept and start".into(),
                    StoreWrite::Start { .. } => "write start".into(),
                    StoreWrite::Settle { .. } => "write settle".into(),
                    StoreWrite::RememberActions { .. } => unreachable!("it is answered above"),
                });
                self.writes.push((write, content));
                return self.store_answers.then_some(Input::Stored {
                    write,
                    outcome: WriteOutcome::Durable,
                });
            }
            Effect::Load { execution_id } => {
                self.log.push("load".into());
                self.loads.push(execution_id);
                return self.loader_answers.then(|| self.loaded(execution_id));
            }
            Effect::Reply { caller, reply } => {
                if let Some(watching) = self.watching.remove(&caller) {
                    return self.watched(watching, reply);
                }
                self.log.push(format!("reply {}", caller.0));
                let before = self.replies.insert(caller.0, reply);
                assert!(before.is_none(), "a caller is answered once");
            }
            Effect::Send {
                session,
                seq,
                message,
            } => {
                self.auditor.sent(session.0, seq, &message);
                self.log
                    .push(format!("send {} {}", session.0, message_name(&message)));
                self.sent.push((session.0, message));
            }
            Effect::CloseSession(session) => {
                self.auditor.closed(session.0);
                self.log.push(format!("close {}", session.0));
                self.closed.push(session.0);
            }
            Effect::EmitEvent(_) => self.log.push("emit event".into()),
            Effect::NotifyErrorHandler(_) => self.log.push("notify error handler".into()),
            // Its attempts tell the same, each for itself.
            Effect::WorkerLost { .. } => {}
            Effect::Note(notice) => self.notices.push(notice),
            Effect::Drained { n_unfinished } => self.log.push(format!("drained, {n_unfinished} left")),
            Effect::GiveUp { .. } => self.log.push("give up".into()),
        }
        None
    }

    /// What the loader finds in the store.
    pub fn loaded(&self, execution_id: ExecutionId) -> Input {
        let outcome = LoadOutcome::Loaded(self.accepted[&execution_id].clone());
        Input::Loaded {
            execution_id,
            outcome,
        }
    }

    /// What a restart finds of an execution that was accepted and has not started.
    pub fn recovered(&self, execution_id: ExecutionId) -> Recovered {
        self.accepted[&execution_id].clone()
    }

    /// The store of another world is this one's.
    pub fn take_accepted(&mut self, other: &World) {
        self.accepted.clone_from(&other.accepted);
    }

    /// One of the executions that were accepted and did not start at once.
    pub fn any_accepted(&self, dice: u64) -> Option<ExecutionId> {
        let n = u64::try_from(self.accepted.len()).unwrap();
        let which = dice.checked_rem(n)? as usize;
        self.accepted.keys().nth(which).copied()
    }

    fn keep(&mut self, content: &StoreWrite) {
        if let StoreWrite::Accept {
            execution_id,
            request,
            accepted_at,
            deadline_ms,
            started_at: None,
        } = content
        {
            let recovered = Recovered {
                namespace: self.namespaces.get(execution_id).copied().unwrap_or_default(),
                execution_id: *execution_id,
                request: Arc::clone(request),
                accepted_at: *accepted_at,
                deadline_ms: *deadline_ms,
                interruption: None,
            };
            self.accepted.insert(*execution_id, recovered);
        }
    }

    /// Watches under a name: asks for a piece after the other, and for the rest when it is told of the end.
    pub fn watch(&mut self, name: u64, execution_id: ExecutionId, from_sequence: u64) {
        let watching = Watching {
            name,
            execution_id,
            next_sequence: from_sequence.max(1),
        };
        let input = self.watch_on(watching);
        self.input(input);
    }

    fn watch_on(&mut self, watching: Watching) -> Input {
        self.last_watch += 1;
        let caller = CallerId(u64::MAX / 2 + self.last_watch);
        self.watching.insert(caller, watching);
        Input::Watch(watch_of(
            caller.0,
            watching.execution_id,
            watching.next_sequence,
            true,
        ))
    }

    fn watched(&mut self, mut watching: Watching, reply: Reply) -> Option<Input> {
        let (entries, settled) = match reply {
            Reply::Watched(Watched::Entries(entries, _)) => (entries.to_vec(), false),
            Reply::Watched(Watched::Settled(persisted)) => {
                let rest = persisted.audit[watching.next_sequence as usize - 1..].to_vec();
                (rest, true)
            }
            other => panic!("a watcher got {other:?}"),
        };
        let sequences: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
        self.log.push(format!(
            "entries {} {sequences:?} settled {settled}",
            watching.name
        ));
        watching.next_sequence += entries.len() as u64;
        (!settled).then(|| self.watch_on(watching))
    }

    /// Lets time pass, stopping at every timer on the way.
    pub fn pass(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while let Some(due) = self.engine.next_due_ms().filter(|due| *due <= until) {
            self.now_ms = self.now_ms.max(due);
            self.input(Input::Tick);
        }
        self.now_ms = until;
        self.input(Input::Tick);
    }

    pub fn id(&mut self) -> ExecutionId {
        self.last_id += 1;
        ExecutionId::from_random((u128::from(self.last_id) << 96 | 0xe).to_be_bytes())
    }

    pub fn submit(&mut self, caller: u64, request: &Arc<Request>, wait_for: WaitFor) -> ExecutionId {
        self.submit_as(caller, request, wait_for, true)
    }

    /// Submits a plan; without `may_nest` for a caller who may not know of the parent that it names.
    pub fn submit_as(
        &mut self,
        caller: u64,
        request: &Arc<Request>,
        wait_for: WaitFor,
        may_nest: bool,
    ) -> ExecutionId {
        let fresh_id = self.id();
        let execution_id = request.execution_id().unwrap_or(fresh_id);
        self.namespaces.entry(execution_id).or_insert(self.namespace);
        self.input(Input::Submit(Submission {
            namespace: self.namespace,
            submitter: submitter(caller, wait_for),
            request: Arc::clone(request),
            fresh_id,
            may_nest,
            until_decided: UntilDecided::default(),
        }));
        execution_id
    }

    /// Submits a plan and waits for its end.
    pub fn run(&mut self, caller: u64, plan: PlanBuilder) -> ExecutionId {
        self.submit(caller, &plan.build(), WaitFor::Settled)
    }

    /// Submits a plan and waits until it is accepted.
    pub fn accept(&mut self, caller: u64, plan: PlanBuilder) -> ExecutionId {
        self.submit(caller, &plan.build(), WaitFor::Accepted)
    }

    pub fn wait(&mut self, caller: u64, execution_id: ExecutionId) {
        let caller = CallerId(caller).into();
        self.input(Input::Wait { caller, execution_id });
    }

    /// `None` for one that is not live, or not in memory.
    pub fn describe(&mut self, execution_id: ExecutionId) -> Option<ExecutionView> {
        self.ask(|caller| Input::Describe { caller, execution_id })
    }

    /// The store answers the newest write that it was asked for.
    pub fn answer_last(&mut self, outcome: WriteOutcome) {
        let (write, _) = self.writes.pop().expect("the store was asked for a write");
        self.input(Input::Stored { write, outcome });
    }

    /// The store answers every write that it was asked for so far.
    pub fn answer_all(&mut self, outcome: WriteOutcome) {
        for (write, _) in std::mem::take(&mut self.writes) {
            self.input(Input::Stored { write, outcome });
        }
    }

    /// Asks what is answered at once.
    pub fn ask<A: Answer>(&mut self, input: impl FnOnce(Caller<A>) -> Input) -> A {
        let caller = CallerId(u64::MAX);
        self.input(input(caller.into()));
        let reply = self.replies.remove(&caller.0).expect("it is answered at once");
        A::from_reply(reply).expect("a question has its answer")
    }

    pub fn workers(&mut self) -> Vec<WorkerView> {
        self.ask(Input::ListWorkers)
    }

    pub fn actions(&mut self) -> Vec<ActionView> {
        self.ask(Input::ListActions)
    }

    /// Evidence of everything that was handed out again, in the record of a settled execution.
    pub fn evidence(&self, caller: u64) -> Vec<&'static str> {
        let settlement = self.settlement(caller);
        let returned = settlement.audit.iter().filter_map(|entry| match &entry.kind {
            AuditKind::AttemptReturned { evidence, .. } => Some(evidence.as_str()),
            _ => None,
        });
        returned.collect()
    }

    pub fn settlement(&self, caller: u64) -> Arc<Settlement> {
        match self.replies.get(&caller) {
            Some(Reply::Ended(Ended::Settled(persisted))) => persisted.clone().into_settlement(),
            other => panic!("caller {caller} got {other:?}, log: {:#?}", self.log),
        }
    }

    /// How the execution of an accepted submission stood.
    pub fn accepted(&self, caller: u64) -> Option<&ExecutionView> {
        match &self.replies[&caller] {
            Reply::Submitted(Submitted::Accepted(view)) => Some(view),
            _ => None,
        }
    }

    pub fn refusal(&self, caller: u64) -> Option<Refusal> {
        match &self.replies[&caller] {
            Reply::Submitted(Submitted::Refused(refusal)) | Reply::Ended(Ended::Refused(refusal)) => {
                Some(*refusal)
            }
            _ => None,
        }
    }

    pub fn is_not_live(&self, caller: u64) -> bool {
        is_not_live(&self.replies[&caller])
    }

    pub fn status(&self, caller: u64) -> Status {
        self.settlement(caller).result.status
    }

    /// Returns the code of the error of a settled execution.
    pub fn code(&self, caller: u64) -> String {
        let error = self.settlement(caller).result.error.clone();
        error.expect("it has an error").code.to_string()
    }

    /// An execution that never began has failed with this code.
    pub fn assert_never_ran(&self, caller: u64, code: &str) {
        let result = &self.settlement(caller).result;
        assert_eq!(self.code(caller), code);
        assert_eq!((result.status, result.steps_executed), (Status::Failure, 0));
    }

    pub fn log_has(&self, line: &str) -> bool {
        self.log.iter().any(|entry| entry == line)
    }
}

pub fn is_not_live(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Submitted(Submitted::NotLive)
            | Reply::Ended(Ended::NotLive)
            | Reply::Described(None)
            | Reply::Explained(ExplainAnswer::NotLive)
            | Reply::Watched(Watched::NotLive)
    )
}

pub fn submitter(caller: u64, wait_for: WaitFor) -> Submitter {
    let caller = CallerId(caller);
    match wait_for {
        WaitFor::Accepted => Submitter::ForAccept(caller.into()),
        WaitFor::Settled => Submitter::ForEnd(caller.into()),
    }
}

/// Returns a plan of so many steps, all at a time.
pub fn wide(n: u64, n_steps: usize) -> PlanBuilder {
    plan(n, &vec!["a"; n_steps]).at_a_time(n_steps as i32)
}

/// Returns a watch for the entries from this one on, at most three at a time.
pub fn watch_of(caller: u64, execution_id: ExecutionId, from_sequence: u64, waits: bool) -> Watch {
    Watch {
        caller: CallerId(caller).into(),
        execution_id,
        from_sequence,
        after_hash: None,
        piece: Piece {
            entries_max: 3,
            bytes_max: 1 << 16,
        },
        waits,
    }
}

fn message_name(message: &ToWorker) -> &'static str {
    match message {
        ToWorker::Welcome(_) => "welcome",
        ToWorker::HeartbeatAck { .. } => "heartbeat_ack",
        ToWorker::Assignments(_) => "assignments",
        ToWorker::OutcomeAcks(_) => "outcome_acks",
        ToWorker::UnknownOutcomes(_) => "unknown_outcomes",
        ToWorker::Cancels(_) => "cancels",
        ToWorker::SnapshotRequest { .. } => "snapshot_request",
        ToWorker::DrainStarted { .. } => "drain_started",
        ToWorker::Reconnect { .. } => "reconnect",
        ToWorker::SessionError { .. } => "session_error",
    }
}
