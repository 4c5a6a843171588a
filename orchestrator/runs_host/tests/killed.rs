//! A run that uses every type of step, killed at every write: nothing is repeated, nothing is lost, it ends as it would have.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView};
use escapement_model::{ExecutionId, Opaque, RunId};
use escapement_run::journal::{Decision, Entry, Event, OutcomeClass, Responder, Stored};
use escapement_run::outcome::{AttemptOutcome, encoded, value_of_object};
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::record;
use escapement_run::spec::{ActionProfile, EffectClass, Risk, Spec};
use escapement_run::{Answer, Effect, Input};
use escapement_runs::{Config, NewRun};
use escapement_runs_host::{Create, NotCreated, PIECE_BYTES_MAX, RunExport, RunsHost};
use escapement_store::MemoryFault;
use escapement_store::runs::{ClientRequest, MemoryRuns, MemoryRunsDisk, RunReader, RunStore};
use prost::Message;

const START: i64 = 1_763_700_000_000;

fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

/// What becomes of executions when the process of the runs dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Contract {
    /// They go on elsewhere.
    Apart,
    /// They die with it: what ran has an unknown outcome.
    Together,
}

/// Executions by their ids, and what handlers really did: both outlive the process.
#[derive(Default)]
struct Outside {
    requests: BTreeMap<ExecutionId, Bytes>,
    settled: BTreeMap<ExecutionId, AttemptOutcome>,
    running: Vec<(RunId, ExecutionId)>,
    calls: BTreeMap<ExecutionId, u32>,
}

struct World {
    disk: MemoryRunsDisk,
    store: MemoryRuns,
    host: RunsHost,
    outside: Outside,
    contract: Contract,
    /// What reaches the host next; gone when the process dies.
    coming: VecDeque<(RunId, Input)>,
    now: i64,
    n_crashes: usize,
}

fn config() -> Config {
    Config {
        max_live_runs: 1,
        max_runs: 10,
    }
}

fn step(key: &str, kind: &str, config: StructBuilder) -> StructBuilder {
    StructBuilder::new()
        .text("key", key)
        .text("type", kind)
        .object("config", config.build().as_encoded())
}

fn call(action: &str) -> StructBuilder {
    StructBuilder::new().text("tool_name", action)
}

fn list(items: impl IntoIterator<Item = StructBuilder>) -> ListBuilder {
    items.into_iter().fold(ListBuilder::new(), |list, item| {
        list.object(item.build().as_encoded())
    })
}

const CHILD_PLAN: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

/// Every type of step.
fn every_type() -> Opaque {
    let items = list([call("pure.a"), call("mail.b"), call("pure.c")]);
    let choices = ListBuilder::new().text("yes").text("no");
    let steps = [
        step("first", "tool_call", call("mail.send")),
        step(
            "if",
            "condition",
            StructBuilder::new()
                .text("condition", "input.x > 0")
                .text("true_step", "all"),
        ),
        step("never", "tool_call", call("mail.never")),
        step(
            "all",
            "parallel",
            StructBuilder::new()
                .list("steps", items)
                .number("batch_size", 2.0),
        ),
        step("again", "loop", call("mail.loop").number("max_iterations", 3.0)),
        step(
            "decide",
            "llm_decision",
            StructBuilder::new().text("prompt", "?").list("choices", choices),
        ),
        step(
            "ask",
            "user_input",
            StructBuilder::new().text("question", "Go on?"),
        ),
        step(
            "sub",
            "sub_plan",
            StructBuilder::new().text("plan_id", CHILD_PLAN),
        ),
        step(
            "last",
            "tool_call",
            call("mail.last").object(
                "tool_args",
                StructBuilder::new().text("a", "${again:/2}").build().as_encoded(),
            ),
        ),
    ];
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Every type");
    document.list("steps", list(steps)).build()
}

fn one_call() -> Opaque {
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Child");
    document
        .list("steps", list([step("only", "tool_call", call("mail.child"))]))
        .build()
}

fn create(run_id: RunId, document: &Opaque, parent: Option<RunId>) -> Create {
    let profile = |action: &str| ActionProfile {
        action: action.to_owned(),
        effect: if action.starts_with("mail") {
            EffectClass::SideEffect
        } else {
            EffectClass::Pure
        }
        .into(),
        risk: Risk::Safe.into(),
        seen: true,
        ..ActionProfile::default()
    };
    let mut policy = Preset::Autonomous.policy();
    // What was in doubt is told by a person, who looks at what the handlers really did.
    policy.set_ambiguity(escapement_run::spec::InDoubt::Ask);
    let actions = [
        "llm.chat",
        "mail.b",
        "mail.child",
        "mail.last",
        "mail.loop",
        "mail.never",
        "mail.send",
        "pure.a",
        "pure.c",
    ];
    Create {
        run: NewRun {
            run_id,
            spec: Spec {
                limits: Preset::Autonomous.limits(1),
                policy,
                autonomy_level: 4,
                priority: 5,
                user_id: "ada".to_owned(),
                llm_action: "llm.chat".to_owned(),
                parent_run_id: parent
                    .map(|parent| Bytes::copy_from_slice(parent.as_bytes()))
                    .unwrap_or_default(),
                ..Spec::default()
            },
            plan: Arc::new(plan::read(document).unwrap()),
            profiles: actions.map(profile).into(),
        },
        request: parent.is_none().then(|| ClientRequest {
            key: "request 1".to_owned(),
            digest: [1; 32],
        }),
        saved_plan: None,
    }
}

impl World {
    fn new(contract: Contract) -> Self {
        let disk = MemoryRunsDisk::new();
        let store = disk.open();
        let (host, damaged) = RunsHost::open(&store, config(), START).unwrap();
        assert!(damaged.is_empty());
        Self {
            disk,
            store,
            host,
            outside: Outside::default(),
            contract,
            coming: VecDeque::new(),
            now: START,
            n_crashes: 0,
        }
    }

    /// Runs the plan with every type of step to its end. The caller repeats its request until it has the run.
    fn run(&mut self) {
        loop {
            match self.host.create(create(id(1), &every_type(), None), self.now) {
                Ok(run_id) | Err(NotCreated::Exists(run_id, _)) => assert_eq!(run_id, id(1)),
                Err(why @ (NotCreated::Full | NotCreated::AlreadyRunning(_) | NotCreated::Damaged(_))) => {
                    panic!("{why:?}")
                }
            }
            if self.write() {
                break;
            }
        }
        while self
            .store
            .reader()
            .unwrap()
            .summary(id(1))
            .unwrap()
            .unwrap()
            .progress
            .ended_at
            .is_none()
        {
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
            Ok(outcome) => self.host.handle_committed(outcome),
            Err(_) => {
                self.n_crashes += 1;
                self.store = self.disk.crash();
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
                    .create(create(child, &one_call(), Some(run_id)), self.now)
                {
                    Ok(_) | Err(NotCreated::Exists(..)) => {}
                    Err(
                        why @ (NotCreated::Full | NotCreated::AlreadyRunning(_) | NotCreated::Damaged(_)),
                    ) => panic!("{why:?}"),
                }
            }
            Effect::Catalogue { .. } => panic!("the run was given its plan"),
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
        let output = StructBuilder::new().text("content", "yes").build();
        let outcome = AttemptOutcome {
            class: OutcomeClass::Completed,
            output: Some(value_of_object(&output)),
            code: String::new(),
            message: String::new(),
            pause: false,
        };
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
        let (decision, value) = match request.error {
            // It was interrupted before a handler had it.
            Some(_) => (Decision::DidNot, Bytes::new()),
            None => (Decision::Answer, encoded(ValueView::Text("go"))),
        };
        let answer = Answer {
            request_id: escapement_model::InputRequestId::from_bytes(request.id[..].try_into().unwrap())
                .unwrap(),
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

    fn journal(&self, run_id: RunId) -> Vec<Entry> {
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
    }
}

/// The output of a run that completed durably.
fn output(reader: &dyn RunReader, run_id: RunId) -> Option<Bytes> {
    let summary = reader.summary(run_id).unwrap()?;
    summary.progress.ended_at?;
    let page = reader.journal(run_id, summary.next_seq - 1, 1 << 20).unwrap()?;
    match Entry::decode(page.entries[0].bytes.clone()).unwrap().event? {
        Event::RunCompleted(end) => end.output.map(|output: Stored| output.inline),
        other => panic!("{other:?}"),
    }
}

fn names(journal: &[Entry]) -> Vec<&'static str> {
    journal
        .iter()
        .map(|entry| entry.event.as_ref().unwrap().name())
        .collect()
}

/// Without what a restart adds.
fn undisturbed(names: Vec<&'static str>) -> Vec<&'static str> {
    names
        .into_iter()
        .filter(|name| *name != "run_recovered")
        .collect()
}

// RUN-9.3, RUN-9.4, RUN-4.2, RUN-4.4
#[test]
fn a_kill_at_every_write_repeats_nothing_and_loses_nothing() {
    let mut calm = World::new(Contract::Apart);
    calm.run();
    let expected = names(&calm.journal(id(1)));
    assert_eq!(expected.last(), Some(&"run_completed"));
    let n_writes = calm.disk.n_commits();
    assert!(n_writes > 12, "{n_writes}");
    let calls = calm.outside.calls.len();
    for write in 0..n_writes {
        for fault in [MemoryFault::WrittenNotSynced, MemoryFault::SyncedNotAcknowledged] {
            let mut world = World::new(Contract::Apart);
            (0..write).for_each(|_| world.disk.pass_next_commit());
            world.disk.fail_next_commit(fault);
            world.run();
            assert_eq!(world.n_crashes, 1, "write {write}, {fault:?}");
            let found = undisturbed(names(&world.journal(id(1))));
            assert_eq!(found, expected, "write {write}, {fault:?}");
            assert!(
                world.outside.calls.values().all(|n| *n == 1),
                "write {write}, {fault:?}"
            );
            assert_eq!(world.outside.calls.len(), calls, "write {write}, {fault:?}");
        }
    }
}

// RUN-5.2, RUN-9.4
#[test]
fn a_kill_of_runs_and_contract_together_repeats_only_what_nobody_had_done() {
    let mut calm = World::new(Contract::Together);
    calm.run();
    let n_writes = calm.disk.n_commits();
    let mut doubts = 0;
    for write in 0..n_writes {
        for fault in [MemoryFault::WrittenNotSynced, MemoryFault::SyncedNotAcknowledged] {
            let mut world = World::new(Contract::Together);
            (0..write).for_each(|_| world.disk.pass_next_commit());
            world.disk.fail_next_commit(fault);
            world.run();
            let journal = world.journal(id(1));
            assert_eq!(
                names(&journal).last(),
                Some(&"run_completed"),
                "write {write}, {fault:?}"
            );
            // Whatever was tried again, each handler did its work once.
            assert!(world.outside.calls.values().all(|n| *n == 1));
            assert_eq!(
                world.outside.calls.len(),
                calm.outside.calls.len(),
                "write {write}, {fault:?}"
            );
            doubts += names(&journal)
                .iter()
                .filter(|name| **name == "input_requested")
                .count()
                - 1;
        }
    }
    assert!(
        doubts > 0,
        "at least one effect was in doubt, and a person was asked"
    );
}

// RUN-9.3
#[test]
fn what_is_not_durable_is_not_sent() {
    let mut world = World::new(Contract::Apart);
    world
        .host
        .create(create(id(1), &every_type(), None), START)
        .unwrap();
    assert!(world.host.poll_effects().is_empty());
    let batch = world.host.poll_batch().unwrap();
    assert!(world.host.poll_effects().is_empty());
    let outcome = world.store.commit(&batch).unwrap();
    world.host.handle_committed(outcome);
    assert_eq!(world.host.poll_effects().len(), 1);
}

#[test]
fn the_record_of_a_run_is_its_journal_with_all_that_it_refers_to() {
    let mut world = World::new(Contract::Apart);
    world.run();
    let reader = world.store.reader().unwrap();
    let mut export = RunExport::begin(&*reader, id(1)).unwrap().unwrap();
    let mut file = Vec::new();
    while let Some(piece) = export.next_piece(&*reader).unwrap() {
        assert!(piece.len() <= PIECE_BYTES_MAX);
        file.extend_from_slice(&piece);
    }
    let (record, faults) = record::read(&Bytes::from(file)).unwrap();
    assert_eq!((record.run_id, faults), (id(1), Vec::new()));
    let entries: Vec<Entry> = record.entries.iter().map(|entry| entry.entry.clone()).collect();
    assert_eq!(entries, world.journal(id(1)));
    assert!(RunExport::begin(&*reader, id(9)).unwrap().is_none());
}

#[test]
fn a_request_that_is_repeated_has_the_run_that_it_made() {
    let mut world = World::new(Contract::Apart);
    world
        .host
        .create(create(id(1), &every_type(), None), START)
        .unwrap();
    let again = |world: &mut World| {
        world
            .host
            .create(create(id(2), &every_type(), None), START)
            .unwrap_err()
    };
    assert_eq!(again(&mut world), NotCreated::Exists(id(1), Some([1; 32])));
    let batch = world.host.poll_batch().unwrap();
    assert_eq!(
        again(&mut world),
        NotCreated::Exists(id(1), Some([1; 32])),
        "on its way"
    );
    let outcome = world.store.commit(&batch).unwrap();
    world.host.handle_committed(outcome);
    assert_eq!(again(&mut world), NotCreated::Exists(id(1), Some([1; 32])));
}
