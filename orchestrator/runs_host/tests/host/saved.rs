//! Runs of saved plans, requests that are repeated, and the documents that stay while a run refers to them.

use std::sync::Arc;

use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{Opaque, RunId};
use escapement_run::plan::{self, Plan, revision_text};
use escapement_run::presets::Preset;
use escapement_run::spec::{Policy, Spec};
use escapement_run::{Input, Keep, ShownState};
use escapement_runs::{Config, NewFork, NewRun};
use escapement_runs_host::{Create, Fork, Handled, Links, NotCreated, RunsHost};
use escapement_store::runs::{
    BatchOutcome, ClientRequest, DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite,
    ExpectedVersion, RunReader, RunStore, Scope,
};
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};

const START: i64 = 1_763_700_000_000;

fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

struct World {
    store: MemoryRuns,
    host: RunsHost,
}

impl World {
    fn new() -> Self {
        Self::over(MemoryRunsDisk::new().open())
    }

    fn over(store: MemoryRuns) -> Self {
        let config = Config {
            max_live_runs: 10,
            max_runs: 10,
        };
        let (host, damaged) = RunsHost::open(&store, config, START).unwrap();
        assert!(damaged.is_empty());
        Self { store, host }
    }

    fn restart(self) -> Self {
        Self::over(self.store.disk().crash())
    }

    fn write(&mut self) {
        if let Some(batch) = self.host.poll_batch() {
            assert_eq!(self.store.commit(&batch).unwrap(), BatchOutcome::Done);
            self.host.handle_committed(BatchOutcome::Done);
        }
    }

    fn reader(&self) -> Box<dyn RunReader> {
        self.store.reader().unwrap()
    }
}

/// Returns a plan that waits for a person, and runs another one if that is given.
fn plan(name: &str, below: Option<&[u8; 32]>) -> Arc<Plan> {
    let step = |key: &str, kind: &str, config: StructBuilder| {
        StructBuilder::new()
            .text("key", key)
            .text("type", kind)
            .object("config", config.build().as_encoded())
    };
    let ask = step(
        "ask",
        "user_input",
        StructBuilder::new().text("question", "Go on?"),
    );
    let mut steps = ListBuilder::new().object(ask.build().as_encoded());
    if let Some(below) = below {
        let config = StructBuilder::new().text("revision_digest", &revision_text(below));
        steps = steps.object(step("sub", "sub_plan", config).build().as_encoded());
    }
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", name)
        .list("steps", steps)
        .build();
    Arc::new(plan::read(&document).unwrap())
}

fn create(n: u8, plan: &Arc<Plan>, saved_plan: Option<&str>) -> Create {
    Create {
        run: NewRun {
            run_id: id(n),
            spec: Spec {
                limits: Preset::Standard.limits(1),
                policy: Policy {
                    quorum: 1,
                    ..Preset::Standard.policy()
                },
                autonomy_level: 4,
                priority: 5,
                user_id: "ada".to_owned(),
                llm_action: "llm.chat".to_owned(),
                ..Spec::default()
            },
            plan: Arc::clone(plan),
            profiles: Vec::new(),
        },
        request: None,
        saved_plan: saved_plan.map(str::to_owned),
    }
}

fn cancel() -> Input {
    Input::Cancel {
        reason: "user".to_owned(),
    }
}

#[test]
fn one_run_of_a_saved_plan_lives_at_a_time() {
    let mut world = World::new();
    let plan = plan("p", None);
    world.host.create(create(1, &plan, Some("a")), START).unwrap();
    let refused = |world: &mut World, n| world.host.create(create(n, &plan, Some("a")), START);
    let running = |n| Err(NotCreated::AlreadyRunning(id(n)));
    assert_eq!(refused(&mut world, 2), running(1), "before it is durable");
    world.host.create(create(3, &plan, Some("b")), START).unwrap();
    world.host.create(create(4, &plan, None), START).unwrap();
    world.write();
    assert_eq!(refused(&mut world, 2), running(1));
    let mut world = world.restart();
    assert_eq!(refused(&mut world, 2), running(1), "after a restart");
    world.host.handle(id(1), cancel(), START).unwrap();
    assert_eq!(refused(&mut world, 2), Ok(id(2)), "its end need not be durable");
    assert_eq!(refused(&mut world, 5), running(2));
    world.write();
    let newest = world.reader().newest_run_of("a").unwrap().unwrap();
    assert_eq!(newest.run_id, id(2));
}

#[test]
fn one_run_of_a_saved_plan_lives_although_another_one_ended_in_the_same_batch() {
    let mut world = World::new();
    let plan = plan("p", None);
    let mut make = |n| world.host.create(create(n, &plan, Some("a")), START);
    make(1).unwrap();
    world.host.handle(id(1), cancel(), START).unwrap();
    let mut make = |n| world.host.create(create(n, &plan, Some("a")), START);
    make(2).unwrap();
    assert_eq!(make(3), Err(NotCreated::AlreadyRunning(id(2))));
}

#[test]
fn a_fork_of_a_run_that_lives_is_found_by_its_links_and_is_no_run_of_its_saved_plan() {
    let mut world = World::new();
    let links = Links {
        goal: Some("g".to_owned()),
        trigger: Some("t".to_owned()),
    };
    let first = create(1, &plan("p", None), Some("a"));
    let spec = first.run.spec.clone();
    world.host.create_linked(first, links, START).unwrap();
    world.write();
    let run = NewFork {
        run_id: id(2),
        ended: None,
        from: id(1),
        spec,
        keep: Keep::Completed,
        edited: None,
        allow_repeat_effects: false,
        doubts_of_children: Vec::new(),
    };
    let fork = Fork { run, request: None };
    world.host.fork(fork, START).unwrap();
    world.write();
    let made = world.reader().summary(id(2)).unwrap().unwrap().created;
    assert_eq!(
        (made.goal.as_deref(), made.trigger.as_deref(), made.plan),
        (Some("g"), Some("t"), None)
    );
}

#[test]
fn a_request_about_a_run_has_one_effect_also_after_a_restart() {
    let mut world = World::new();
    world
        .host
        .create(create(1, &plan("p", None), None), START)
        .unwrap();
    let request = |digest| ClientRequest {
        key: "pause 1".to_owned(),
        digest: [digest; 32],
    };
    let pause = || Input::Pause {
        reason: String::new(),
    };
    let before = Ok(Handled::Before(id(1), [1; 32]));
    let once = |world: &mut World, digest| {
        let input = pause();
        world.host.handle_once(id(1), input, request(digest), START)
    };
    assert_eq!(once(&mut world, 1), Ok(Handled::Done));
    assert_eq!(once(&mut world, 1), before, "before it is durable");
    world.write();
    world
        .host
        .handle(
            id(1),
            Input::Resume {
                reason: String::new(),
            },
            START,
        )
        .unwrap();
    world.write();
    let mut world = world.restart();
    assert_eq!(once(&mut world, 1), before);
    assert_eq!(
        once(&mut world, 2),
        before,
        "with the digest of the one that was answered"
    );
    let shown = world.host.run(id(1)).unwrap().0.shown();
    assert_eq!(shown, ShownState::Waiting, "it was not paused again");
    // What is refused is not remembered.
    let other = ClientRequest {
        key: "resume 1".to_owned(),
        digest: [1; 32],
    };
    let resume = Input::Resume {
        reason: String::new(),
    };
    assert!(
        world
            .host
            .handle_once(id(1), resume.clone(), other.clone(), START)
            .is_err()
    );
    world.host.handle(id(1), pause(), START).unwrap();
    assert_eq!(
        world.host.handle_once(id(1), resume, other, START),
        Ok(Handled::Done)
    );
}

fn document(reader: &dyn RunReader, plan: &Plan) -> Option<Opaque> {
    let stored = reader.revision(&plan.digest, &[Scope::EVERYTHING]).unwrap()?;
    Some(Opaque::from_encoded(stored.document))
}

#[test]
fn documents_stay_as_long_as_a_run_refers_to_them() {
    let long = "x".repeat(200);
    let lowest = plan(&long, None);
    let middle = plan("middle", Some(&lowest.digest));
    let highest = plan("highest", Some(&middle.digest));
    let mut world = World::new();
    // A saved plan of each of the lower ones, so that they can be named.
    let define = |world: &mut World, plan: &Arc<Plan>, change: Option<()>| {
        let content =
            escapement_store::runs::Content::of_revision(plan.document.as_encoded().clone(), plan.digest);
        let put = DefinitionPut {
            namespace: escapement_model::Namespace::default(),
            owner: Some("ada".to_owned()),
            priority: 5,
            at: START,
            record: bytes::Bytes::new(),
            contents: vec![content],
            pinned: Vec::new(),
        };
        let write = DefinitionWrite {
            kind: DefinitionKind::SavedPlan,
            name: plan.name.clone(),
            expected: ExpectedVersion::Any,
            change: change.map_or(DefinitionChange::Delete, |()| DefinitionChange::Put(put)),
        };
        world.store.define(&write).unwrap();
    };
    for plan in [&lowest, &middle] {
        define(&mut world, plan, Some(()));
    }
    world.host.create(create(1, &highest, None), START).unwrap();
    world.write();
    for plan in [&lowest, &middle] {
        define(&mut world, plan, None);
    }
    for plan in [&lowest, &middle, &highest] {
        let found = document(&*world.reader(), plan);
        assert_eq!(found.as_ref(), Some(&plan.document), "{}", plan.name);
    }
    world.host.handle(id(1), cancel(), START).unwrap();
    world.write();
    world.store.remove_run(id(1), START).unwrap();
    for plan in [&lowest, &middle, &highest] {
        assert_eq!(document(&*world.reader(), plan), None, "{}", plan.name);
    }
}
