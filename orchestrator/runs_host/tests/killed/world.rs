//! Runs on a disk that fails on demand, and what outlives their process. Knows no plan.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use escapement_model::{ExecutionId, InputRequestId, RunId};
use escapement_run::journal::{Entry, Event, InputRequest, OutcomeClass, RequestKind, Responder, Stored};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::{Answer, Effect, Input};
use escapement_runs::Config;
use escapement_runs_host::{NotCreated, RunsHost};
use escapement_store::runs::{RunReader, RunStore, RunSummary};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};
use prost::Message;

use crate::plans::{self, Wanted};

pub(crate) const START: i64 = 1_763_700_000_000;

pub(crate) fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

/// What becomes of executions when the process of the runs dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Contract {
    /// They go on elsewhere.
    Apart,
    /// They die with it: what ran has an unknown outcome.
    Together,
}

/// Executions by their ids, and what handlers really did: both outlive the process.
#[derive(Default)]
pub(crate) struct Outside {
    requests: BTreeMap<ExecutionId, Bytes>,
    settled: BTreeMap<ExecutionId, AttemptOutcome>,
    running: Vec<(RunId, ExecutionId)>,
    pub(crate) calls: BTreeMap<ExecutionId, u32>,
}

pub(crate) struct World {
    pub(crate) disk: MemoryRunsDisk,
    pub(crate) store: MemoryRuns,
    pub(crate) host: RunsHost,
    pub(crate) outside: Outside,
    wanted: Wanted,
    contract: Contract,
    /// What reaches the host next; gone when the process dies.
    coming: VecDeque<(RunId, Input)>,
    /// Number of verbs that are durable.
    n_verbs: usize,
    /// The number of the next entry when the verb was sent that is on its way.
    sent: Option<u64>,
    now: i64,
    pub(crate) n_crashes: usize,
}

fn config() -> Config {
    Config {
        max_live_runs: 1,
        max_runs: 10,
    }
}

impl World {
    pub(crate) fn new(wanted: Wanted, contract: Contract) -> Self {
        let disk = MemoryRunsDisk::new();
        let store = disk.open();
        let (host, damaged) = RunsHost::open(&store, config(), START).unwrap();
        assert!(damaged.is_empty());
        Self {
            disk,
            store,
            host,
            outside: Outside::default(),
            wanted,
            contract,
            coming: VecDeque::new(),
            n_verbs: 0,
            sent: None,
            now: START,
            n_crashes: 0,
        }
    }

    /// Runs what is wanted to its end. The caller repeats its request until it has the run.
    pub(crate) fn run(&mut self) {
        loop {
            match self.host.create(self.wanted.create(), self.now) {
                Ok(run_id) | Err(NotCreated::Exists(run_id, _)) => assert_eq!(run_id, id(1)),
                Err(
                    why @ (NotCreated::Full
                    | NotCreated::AlreadyRunning(_)
                    | NotCreated::Damaged(_)
                    | NotCreated::TooLarge(_)),
                ) => {
                    panic!("{why:?}")
                }
            }
            if self.write() {
                break;
            }
        }
        while self.summary().progress.ended_at.is_none() {
            if !self.write() {
                continue;
            }
            let effects = self.host.poll_effects();
            if !effects.is_empty() {
                for (run_id, effect) in effects {
                    self.perform(run_id, effect);
                }
                continue;
            }
            self.tell_parents();
            if let Some((run_id, input)) = self.coming.pop_front() {
                // A run that ended meanwhile is not live any more.
                let _ = self.host.handle(run_id, input, self.now);
            } else if !self.work()
                && !self.verb()
                && !self.answer()
                && let Some(due) = self.host.due_at()
            {
                self.now = self.now.max(due);
                self.host.time(self.now);
            }
        }
    }

    /// Commits what there is; false if the process died of it and was started anew.
    fn write(&mut self) -> bool {
        let Some(batch) = self.host.poll_batch() else {
            return true;
        };
        match self.store.commit(&batch) {
            Ok(outcome) => {
                self.host.handle_committed(outcome);
                self.n_verbs += usize::from(self.sent.take().is_some());
            }
            Err(_) => {
                self.n_crashes += 1;
                self.store = self.disk.crash();
                // A caller that repeats its request finds that it was done.
                let done = self.sent.take().is_some_and(|seq| self.summary().next_seq > seq);
                self.n_verbs += usize::from(done);
                let (host, damaged) = RunsHost::open(&self.store, config(), self.now).unwrap();
                assert!(damaged.is_empty(), "{damaged:?}");
                self.host = host;
                self.coming.clear();
                for (_, execution_id) in std::mem::take(&mut self.outside.running) {
                    if self.contract == Contract::Together {
                        self.outside.settled.insert(execution_id, unknown());
                    }
                }
                return false;
            }
        }
        true
    }

    fn perform(&mut self, run_id: RunId, effect: Effect) {
        match effect {
            Effect::Submit {
                execution_id,
                request,
                ..
            } => {
                let known = self
                    .outside
                    .requests
                    .entry(execution_id)
                    .or_insert_with(|| request.clone());
                assert_eq!(*known, request, "an attempt is sent again byte for byte");
                if let Some(outcome) = self.outside.settled.get(&execution_id).cloned() {
                    self.coming.push_back((
                        run_id,
                        Input::Settled {
                            execution_id,
                            outcome,
                        },
                    ));
                } else if !self.outside.running.contains(&(run_id, execution_id)) {
                    self.outside.running.push((run_id, execution_id));
                }
            }
            Effect::Evaluate { evaluation, .. } => {
                self.coming.push_back((
                    run_id,
                    Input::Evaluated {
                        evaluation,
                        result: Ok(true),
                    },
                ));
            }
            Effect::StartChild { run_id: child, .. } => {
                match self
                    .host
                    .create(plans::create(child, &plans::one_call(), Some(run_id)), self.now)
                {
                    Ok(_) | Err(NotCreated::Exists(..)) => {}
                    Err(
                        why @ (NotCreated::Full
                        | NotCreated::AlreadyRunning(_)
                        | NotCreated::Damaged(_)
                        | NotCreated::TooLarge(_)),
                    ) => panic!("{why:?}"),
                }
            }
            Effect::Catalogue { generation, .. } => {
                let (catalogue, own) = plans::offered();
                let listed = Input::Catalogue {
                    generation,
                    catalogue,
                    own,
                };
                self.coming.push_back((run_id, listed));
            }
            Effect::Actions { .. } => panic!("all actions are known"),
            Effect::CancelChild { .. } => panic!("every child is waited for"),
        }
    }

    /// Tells parents of children that have ended durably.
    fn tell_parents(&mut self) {
        let reader = self.store.reader().unwrap();
        for run_id in self.host.runs().ids().collect::<Vec<_>>() {
            let state = self.host.run(run_id).unwrap().0.state();
            let children = state
                .steps
                .iter()
                .flat_map(|step| &step.units)
                .filter(|unit| !unit.child.is_empty());
            for unit in children {
                let child = RunId::from_bytes(unit.child[..].try_into().unwrap()).unwrap();
                if let Some(output) = output(&*reader, child) {
                    self.coming.push_back((
                        run_id,
                        Input::ChildEnded {
                            run_id: child,
                            result: Ok(output),
                            used: None,
                            doubts: None,
                        },
                    ));
                }
            }
        }
    }

    /// A handler does the next execution that runs.
    fn work(&mut self) -> bool {
        if self.outside.running.is_empty() {
            return false;
        }
        let (run_id, execution_id) = self.outside.running.remove(0);
        *self.outside.calls.entry(execution_id).or_default() += 1;
        let generation = self.generation(run_id);
        let outcome = plans::handled(&self.outside.requests[&execution_id], generation);
        self.outside.settled.insert(execution_id, outcome.clone());
        self.coming.push_back((
            run_id,
            Input::Settled {
                execution_id,
                outcome,
            },
        ));
        true
    }

    /// The caller asks for what comes next, while the run asks a question or is paused.
    fn verb(&mut self) -> bool {
        let Some(verb) = self.wanted.verbs().into_iter().nth(self.n_verbs) else {
            return false;
        };
        let next_seq = self.summary().next_seq;
        let Some((run, _)) = self.host.run(id(1)) else {
            return false;
        };
        let asks = |request: &InputRequest| request.kind() == RequestKind::Question;
        if run.state().paused_at == 0 && !run.state().open_requests().any(asks) {
            return false;
        }
        let handled = self.host.handle(id(1), verb.clone(), self.now);
        assert!(handled.is_ok(), "{verb:?}: {:?}", handled.err());
        self.sent = Some(next_seq);
        true
    }

    fn summary(&self) -> RunSummary {
        self.store.reader().unwrap().summary(id(1)).unwrap().unwrap()
    }

    /// A person answers what is asked.
    fn answer(&mut self) -> bool {
        let ids: Vec<RunId> = self.host.runs().ids().collect();
        let open = ids.into_iter().find_map(|run_id| {
            let state = self.host.run(run_id).unwrap().0.state();
            state
                .open_requests()
                .next()
                .map(|request| (run_id, request.clone()))
        });
        let Some((run_id, request)) = open else {
            return false;
        };
        let (decision, value) = plans::said(&request, self.generation(run_id));
        let answer = Answer {
            request_id: InputRequestId::from_bytes(request.id[..].try_into().unwrap()).unwrap(),
            subject_digest: request.subject_digest,
            responder: Responder {
                id: "bob".to_owned(),
                ..Responder::default()
            },
            decision,
            value,
            comment: String::new(),
        };
        self.coming.push_back((run_id, Input::Answer(answer)));
        true
    }

    /// Returns the newest generation of a live run, 0 without a planner; of a run that is not live it does not matter.
    fn generation(&mut self, run_id: RunId) -> u32 {
        let run = self.host.run(run_id);
        let planning = run.and_then(|(run, _)| run.state().planning.clone());
        planning.map_or(0, |planning| planning.generation)
    }

    pub(crate) fn journal(&self, run_id: RunId) -> Vec<Entry> {
        let reader = self.store.reader().unwrap();
        let page = reader.journal(run_id, 1, 1 << 30).unwrap().unwrap();
        page.entries
            .iter()
            .map(|entry| Entry::decode(entry.bytes.clone()).unwrap())
            .collect()
    }
}

fn unknown() -> AttemptOutcome {
    AttemptOutcome {
        class: OutcomeClass::Unknown,
        output: None,
        code: "UNKNOWN_ERROR".to_owned(),
        message: "the orchestrator was restarted".to_owned(),
        pause: false,
        ..AttemptOutcome::default()
    }
}

/// Returns the output of a run that completed durably.
fn output(reader: &dyn RunReader, run_id: RunId) -> Option<Bytes> {
    let summary = reader.summary(run_id).unwrap()?;
    summary.progress.ended_at?;
    let page = reader.journal(run_id, summary.next_seq - 1, 1 << 20).unwrap()?;
    match Entry::decode(page.entries[0].bytes.clone()).unwrap().event? {
        Event::RunCompleted(end) => end.output.map(|output: Stored| output.inline),
        other => panic!("{other:?}"),
    }
}
