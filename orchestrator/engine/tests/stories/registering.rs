//! Which actions are registered though no worker offers them, and what the store and the log hear.

use crate::world::{WaitFor, World, action, plan};
use escapement_contract::Status;
use escapement_engine::{
    ActionMemory, ActionSpec, ActionView, FromWorker, Input, Notice, Refusal, ToWorker, WorkerSelector,
    WriteFailure, WriteOutcome,
};
use escapement_model::codes;

const HOUR_MS: u64 = 3_600_000;

/// Whether it was known, and how many queued executions began with it.
fn forget(world: &mut World, name: &str) -> Option<(bool, usize)> {
    let name = name.to_owned();
    let forgotten = world.ask(|caller| Input::ForgetAction { caller, name });
    let forgotten = forgotten.map(|forgotten| forgotten.expect("the store takes it"));
    forgotten.map(|forgotten| (forgotten.was_known, forgotten.n_queued))
}

fn written(world: &World, name: &str) -> Option<u64> {
    world.memories.get(name).copied().flatten()
}

/// Returns a world whose worker offered "a", had an execution of it, and left half a minute after the start.
fn left() -> World {
    let mut world = World::new();
    world.pass(30_000);
    world.worker(1, 1, &["a"]);
    world.run(1_000, plan(1_000, &["a"]));
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    world.close(1);
    world
}

//
#[test]
fn an_action_is_remembered_after_its_last_worker_left() {
    let mut world = left();
    world.run(1, plan(1, &["a"]));
    world.pass(HOUR_MS - 1);
    assert_eq!(world.actions()[0].registered_for_ms, Some(1));
    assert!(!world.replies.contains_key(&1));
    world.pass(1);
    assert_eq!(world.code(1), codes::ACTION_NOT_FOUND);
    assert!(world.actions().is_empty());
    assert_eq!(written(&world, "a"), None);
    world.run(2, plan(2, &["a"]));
    assert_eq!(world.code(2), codes::ACTION_NOT_FOUND);
}

//
#[test]
fn a_memory_lasts_over_a_restart_for_as_long_as_was_left_of_it() {
    let mut before = left();
    assert_eq!(
        written(&before, "a"),
        Some(HOUR_MS),
        "told as soon as an execution asked for it"
    );
    before.pass(600_000);
    let left_ms = written(&before, "a").unwrap();
    assert!(
        (HOUR_MS - 600_000..HOUR_MS - 500_000).contains(&left_ms),
        "{left_ms}"
    );
    let mut world = World::new();
    world.input(Input::RecoverAction(ActionMemory {
        name: "a".into(),
        left_ms: Some(left_ms),
    }));
    world.run(1, plan(1, &["a"]));
    world.pass(left_ms - 1);
    assert!(!world.replies.contains_key(&1));
    world.pass(1);
    assert_eq!(world.code(1), codes::ACTION_NOT_FOUND);
    assert_eq!(written(&world, "a"), None);
}

//
#[test]
fn a_time_in_which_the_orchestrator_stood_still_does_not_count() {
    let mut world = World::new();
    world.pass(5_000);
    // The grace after the start, for a name that no worker ever offered.
    world.run(1, plan(1, &["late"]));
    world.now_ms += 15_000;
    world.input(Input::Tick);
    assert!(!world.replies.contains_key(&1), "its worker could not come");
    world.worker(1, 1, &["late"]);
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    assert_eq!(world.status(1), Status::Success);
    world.close(1);
    world.now_ms += 3 * HOUR_MS;
    world.input(Input::Tick);
    world.run(2, plan(2, &["late"]));
    world.pass(HOUR_MS - 100_000);
    assert!(!world.replies.contains_key(&2));
    world.pass(160_000);
    assert_eq!(world.code(2), codes::ACTION_NOT_FOUND);
}

//
#[test]
fn a_memory_that_is_not_written_hurts_nothing_and_is_tried_again() {
    let mut world = World::new();
    world.memory_outcome = WriteOutcome::Failed(WriteFailure::Full);
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    assert_eq!(world.status(1), Status::Success);
    world.accept(2, plan(2, &["a"]));
    assert!(world.accepted(2).is_some(), "a full disk is not told by a memory");
    world.memories.clear();
    world.memory_outcome = WriteOutcome::Durable;
    world.heartbeat(1, &[]);
    world.pass(60_000);
    assert!(world.memories.contains_key("a"));
}

//
#[test]
fn names_that_come_and_go_and_that_no_execution_asked_for_are_not_remembered() {
    let mut world = World::new();
    world.pass(60_000);
    for session in 1..=20 {
        let specs = (0..500)
            .map(|n| action(&format!("invented-{session}-{n}")))
            .collect();
        world.hello(session, session as u8, 1, specs, Vec::new());
        world.say(session, FromWorker::Goodbye);
    }
    world.pass(10_000);
    assert!(world.actions().is_empty());
    assert!(world.memories.is_empty());
    // Offered for longer: half of the room and no more.
    for session in 21..=30 {
        let specs = (0..500)
            .map(|n| action(&format!("lasting-{session}-{n}")))
            .collect();
        world.hello(session, session as u8, 1, specs, Vec::new());
    }
    world.pass(10_000);
    (21..=30).for_each(|session| world.say(session, FromWorker::Goodbye));
    world.pass(60_000);
    assert_eq!(world.actions().len(), 2_048);
    assert_eq!(
        world
            .memories
            .values()
            .filter(|left_ms| left_ms.is_some())
            .count(),
        2_048
    );
}

//
#[test]
fn a_declared_action_is_registered_without_a_worker() {
    let mut world = World::with(|config| config.declared_actions = vec!["exact".into(), "some.*".into()]);
    world.pass(10_000);
    let listed = world.actions();
    assert_eq!(
        (listed.len(), &*listed[0].name, listed[0].is_declared),
        (1, "exact", true)
    );
    for (n, name) in [(1, "exact"), (2, "some.thing"), (3, "something")] {
        world.run(n, plan(n, &[name]));
    }
    world.pass(600_000);
    let demand = |world: &mut World| {
        let actions = world.actions();
        let of = |action: &ActionView| {
            (
                action.name.to_string(),
                action.waiting,
                action.held_back,
                action.demand(),
            )
        };
        actions.iter().map(of).collect::<Vec<_>>()
    };
    let held = |name: &str| (name.to_owned(), 0, 1, 1);
    assert_eq!(demand(&mut world), [held("exact"), held("some.thing")]);
    assert!(!world.replies.contains_key(&1) && !world.replies.contains_key(&2));
    assert_eq!(world.code(3), codes::ACTION_NOT_FOUND);
    assert_eq!(forget(&mut world, "exact"), None);
    world.worker(1, 2, &["exact", "some.thing"]);
    assert_eq!(world.assignments(1).len(), 2);
    let runs = |name: &str| (name.to_owned(), 0, 0, 1);
    assert_eq!(demand(&mut world), [runs("exact"), runs("some.thing")]);
}

//
#[test]
fn an_operator_ends_a_memory_at_once() {
    let mut world = left();
    for n in 1..=3 {
        world.run(n, plan(n, &["a"]));
    }
    assert_eq!(forget(&mut world, "a"), Some((true, 3)));
    assert!((1..=3).all(|caller| world.code(caller) == codes::ACTION_NOT_FOUND));
    assert_eq!(written(&world, "a"), None);
    assert_eq!(forget(&mut world, "a"), Some((false, 0)));
    world.worker(2, 1, &["a"]);
    assert_eq!(forget(&mut world, "a"), None);
}

//
#[test]
fn a_drain_says_which_actions_it_leaves_without_a_worker() {
    let mut world = World::new();
    world.worker(1, 1, &["a", "b"]);
    world.worker(2, 1, &["b"]);
    let worker = WorkerSelector::WorkerId("worker-1".into());
    let drained = world.ask(|caller| Input::DrainWorker { caller, worker });
    let without_worker = drained.unwrap().actions_without_worker;
    assert_eq!(without_worker, ["a".into()]);
}

//
#[test]
fn the_log_hears_once_of_each_absence_and_of_steps_that_end_for_it() {
    let mut world = left();
    assert!(world.notices.is_empty(), "no execution waits for it");
    world.run(1, plan(1, &["a"]));
    world.run(2, plan(2, &["a"]));
    world.pass(120_000);
    let action = || "a".into();
    assert_eq!(world.notices, [Notice::HeldBack { action: action() }]);
    world.worker(2, 1, &["a"]);
    assert_eq!(world.notices[1..], [Notice::Offered { action: action() }]);
    for n in 3..=5 {
        world.run(n, plan(n, &["nobody"]));
    }
    world.pass(60_000);
    let not_found = |n_steps| Notice::NotFound {
        action: "nobody".into(),
        n_steps,
    };
    let told = world
        .notices
        .iter()
        .filter(|notice| matches!(notice, Notice::NotFound { .. }));
    assert_eq!(told.cloned().collect::<Vec<_>>(), [not_found(1), not_found(2)]);
}

/// After a restart workers are expected to come back: what waits for them is told once they should have.
//
#[test]
fn nothing_is_said_of_an_absence_before_the_grace_after_the_start_is_over() {
    let mut world = World::new();
    world.input(Input::RecoverAction(ActionMemory {
        name: "a".into(),
        left_ms: Some(HOUR_MS),
    }));
    world.run(1, plan(1, &["a"]));
    world.pass(9_999);
    assert!(world.notices.is_empty());
    world.pass(1);
    assert_eq!(world.notices, [Notice::HeldBack { action: "a".into() }]);
}

/// Names that no worker ever offered are held back during the grace after the start, and end when it does.
//
#[test]
fn invented_names_end_when_the_grace_after_the_start_does() {
    const N: u64 = 1_000;
    let mut world = World::with(|config| config.max_running_executions = 8);
    for n in 1..=N {
        world.submit(n, &plan(n, &[&format!("invented-{n}")]).build(), WaitFor::Settled);
    }
    world.worker(1, 1, &["a"]);
    world.pass(10_000);
    assert!((1..=N).all(|caller| world.code(caller) == codes::ACTION_NOT_FOUND));
    assert_eq!(world.actions().len(), 1);
    let told = world
        .notices
        .iter()
        .filter(|notice| matches!(notice, Notice::NotFound { .. }));
    assert_eq!(told.count(), 100);
}

#[test]
fn what_workers_say_of_an_action_is_kept_once_for_as_long_as_one_of_them_says_it() {
    let mut world = World::new();
    let said = |text: &str| ActionSpec {
        traits: text.to_owned().into(),
        ..action("a")
    };
    let shown = |world: &mut World| -> Vec<String> {
        let actions = world.actions();
        let traits = actions
            .iter()
            .find(|shown| &*shown.name == "a")
            .map(|shown| &shown.traits);
        let texts = traits.into_iter().flatten();
        texts
            .map(|text| String::from_utf8(text.to_vec()).unwrap())
            .collect()
    };
    world.hello(1, 1, 1, vec![said("safe")], vec![]);
    world.hello(2, 2, 1, vec![said("")], vec![]);
    world.hello(3, 3, 1, vec![said("safe"), said("unsafe")], vec![]);
    assert_eq!(shown(&mut world), ["", "safe", "unsafe"]);
    world.register(3, 1, vec![said("safe")]);
    assert_eq!(shown(&mut world), ["", "safe"]);
    world.register(2, 1, vec![said("safe")]);
    world.say(1, FromWorker::Goodbye);
    world.register(3, 2, vec![]);
    assert_eq!(shown(&mut world), ["safe"]);
    world.register(2, 2, vec![]);
    assert_eq!(shown(&mut world), [""; 0]);
    // One action may be many things to many workers, but not to any number of them.
    for session in 10..40 {
        world.hello(
            session,
            session as u8,
            1,
            vec![said(&format!("{session}"))],
            vec![],
        );
    }
    assert_eq!(shown(&mut world).len(), 16);
    let shown = world.actions();
    let offered = shown.iter().find(|shown| &*shown.name == "a").unwrap();
    assert_eq!(offered.workers, 16, "the others are refused");
    // And nothing of any size.
    world.hello(50, 50, 1, vec![said(&"x".repeat((64 << 10) + 1))], vec![]);
    let sent = world.take_sent(50);
    let refused = sent.iter().find_map(|message| match message {
        ToWorker::Welcome(welcome) => welcome.refused_actions.first().map(|refused| refused.reason),
        _ => None,
    });
    assert_eq!(refused, Some("traits exceed 64 KiB"));
}

//
#[test]
fn an_operator_is_told_that_an_action_is_forgotten_once_the_store_has_forgotten_it() {
    let mut world = left();
    assert_eq!(written(&world, "a"), Some(HOUR_MS));
    world.memory_outcome = WriteOutcome::Failed(WriteFailure::Full);
    let name = || "a".to_owned();
    let refused = world.ask(|caller| Input::ForgetAction { caller, name: name() });
    assert_eq!(
        refused,
        Some(Err(Refusal::StoreFull)),
        "a crash would bring it back"
    );
    world.memory_outcome = WriteOutcome::Failed(WriteFailure::Busy);
    let refused = world.ask(|caller| Input::ForgetAction { caller, name: name() });
    assert_eq!(
        refused,
        Some(Err(Refusal::StoreFailed)),
        "it is not known, and not forgotten"
    );
    world.memories.clear();
    world.memory_outcome = WriteOutcome::Durable;
    assert_eq!(forget(&mut world, "a"), Some((false, 0)));
    assert_eq!(
        world.memories.get("a"),
        Some(&None),
        "asking again writes it at once"
    );
    world.memories.clear();
    assert_eq!(forget(&mut world, "a"), Some((false, 0)));
    assert!(world.memories.is_empty(), "there is nothing to write");
}
