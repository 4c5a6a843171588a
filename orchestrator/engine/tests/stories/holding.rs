//! What no live worker could begin waits in the queue and holds up nothing else.

use crate::world::{START_UNIX_MS, WaitFor, World, plan};
use escapement_contract::Status;
use escapement_engine::{Input, NamespaceKey, RecoveredParked, WriteOutcome};
use escapement_model::codes;

/// A worker offered these actions, and has left.
fn left(world: &mut World, session: u64, actions: &[&str]) {
    world.worker(session, 1, actions);
    world.close(session);
}

/// Completes what is handed out to a session, one after the other; gives the names of the plans.
fn serve(world: &mut World, session: u64) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(assignment) = world.assignments(session).pop() {
        names.push(assignment.request.plan().name().to_owned());
        world.complete(session, assignment.token);
    }
    names
}

//
#[test]
fn what_no_worker_could_begin_takes_no_slot_and_no_time_and_others_pass_it() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    left(&mut world, 1, &["a"]);
    world.run(1, plan(1, &["a"]).priority(9));
    world.run(2, plan(2, &["a", "b"]));
    // Longer than the limits of the plans, which count from their starts.
    world.pass(600_000);
    assert!(!world.log_has("write start") && !world.log_has("write accept and start"));
    world.worker(2, 1, &["b"]);
    world.run(3, plan(3, &["b"]).priority(-9));
    assert_eq!(serve(&mut world, 2), ["plan 3"]);
    world.worker(3, 1, &["a", "b"]);
    assert_eq!(serve(&mut world, 3), ["plan 1", "plan 2"]);
    assert_eq!(serve(&mut world, 2), ["plan 2"], "its second step");
    assert!((1..=3).all(|caller| world.status(caller) == Status::Success));
}

//
#[test]
fn what_runs_and_lost_its_workers_keeps_its_slot_no_longer_than_they_are_remembered() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    left(&mut world, 1, &["a"]);
    world.worker(2, 1, &["b"]);
    let patient = plan(1, &["b", "a"]).plan_limit(7_200_000);
    world.run(1, patient);
    world.run(2, plan(2, &["b"]));
    assert_eq!(serve(&mut world, 2), ["plan 1"]);
    world.pass(3_599_999);
    world.worker(3, 1, &["b"]);
    assert!(world.assignments(3).is_empty(), "the slot is taken");
    world.pass(1);
    assert_eq!(world.code(1), codes::ACTION_NOT_FOUND);
    assert_eq!(serve(&mut world, 3), ["plan 2"]);
}

//
#[test]
fn one_of_the_steps_that_would_be_dispatched_at_once_is_enough() {
    let mut world = World::new();
    left(&mut world, 1, &["a"]);
    world.worker(2, 1, &["b"]);
    let wide = |n, concurrency| plan(n, &["a", "b"]).at_a_time(concurrency).build();
    world.submit(1, &wide(1, 1), WaitFor::Settled);
    assert!(
        world.assignments(2).is_empty(),
        "its first step is for another worker"
    );
    world.submit(2, &wide(2, 2), WaitFor::Settled);
    assert_eq!(serve(&mut world, 2), ["plan 2"]);
}

//
#[test]
fn a_deadline_bounds_what_is_held_back() {
    let mut world = World::new();
    left(&mut world, 1, &["a"]);
    world.run(1, plan(1, &["a"]).deadline(START_UNIX_MS + 70_000));
    world.pass(69_999);
    assert!(!world.replies.contains_key(&1));
    world.pass(1);
    assert_eq!(world.code(1), codes::DEADLINE_EXCEEDED);
}

//
#[test]
fn what_would_end_at_its_start_is_not_held_back() {
    let mut world = World::new();
    left(&mut world, 1, &["a"]);
    let lacking = plan(1, &["a"]).plan(|plan| plan.context_requirements = vec!["absent".into()]);
    world.run(1, lacking);
    let short = plan(2, &["a"]).deadline(START_UNIX_MS + 1_000);
    world.run(2, short);
    let code = |caller| world.settlement(caller).result.error.clone().unwrap().code;
    assert_eq!(
        (code(1), code(2)),
        (codes::CONTEXT_MISSING.into(), codes::DEADLINE_EXCEEDED.into())
    );
}

//
#[test]
fn what_is_held_back_gives_its_room_in_memory_to_what_may_start() {
    let mut world = World::with(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = 2;
    });
    left(&mut world, 1, &["a"]);
    world.worker(2, 1, &["b"]);
    for n in 1..=4 {
        world.run(n, plan(n, &["a"]).priority(5));
    }
    for n in 5..=9 {
        world.run(n, plan(n, &["b"]));
    }
    assert_eq!(
        serve(&mut world, 2),
        ["plan 5", "plan 6", "plan 7", "plan 8", "plan 9"]
    );
    let n_loads = world.loads.len();
    world.pass(60_000);
    assert_eq!(world.loads.len(), n_loads, "what is held back is not read");
    world.worker(3, 1, &["a"]);
    assert_eq!(serve(&mut world, 3), ["plan 1", "plan 2", "plan 3", "plan 4"]);
}

//
#[test]
fn after_a_restart_each_request_beyond_memory_is_read_once_to_learn_what_it_needs() {
    let mut before = World::with(|config| config.max_running_executions = 1);
    before.worker(1, 0, &["a"]);
    let ids: Vec<_> = (1..=600)
        .map(|n| {
            let action = if n == 600 { "b" } else { "a" };
            before.submit(n, &plan(n, &[action]).build(), WaitFor::Accepted)
        })
        .collect();
    let mut world = World::with(|config| config.queued_in_memory_max = 3);
    let parked = ids[1..].iter().map(|id| {
        let recovered = before.recovered(*id);
        Input::RecoverParked(RecoveredParked {
            namespace: NamespaceKey::default(),
            execution_id: *id,
            request_digest: *recovered.request.digest(),
            priority: 0,
            deadline_ms: recovered.deadline_ms,
        })
    });
    world.take_accepted(&before);
    world.inputs(parked.collect());
    assert_eq!(world.loads.len(), 599);
    world.worker(2, 1, &["b"]);
    assert_eq!(serve(&mut world, 2), ["plan 600"]);
    assert_eq!(world.engine.live_executions(), 598);
}

//
#[test]
fn an_arrival_overtakes_nothing_whose_accept_is_being_written() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]));
    let first = world.one_assignment(1);
    world.store_answers = false;
    world.writes.clear();
    world.complete(1, first.token);
    world.accept(2, plan(2, &["a"]).priority(100));
    let durable = |world: &mut World| {
        let (write, _) = world.writes.remove(0);
        let outcome = WriteOutcome::Durable;
        world.input(Input::Stored { write, outcome });
    };
    durable(&mut world);
    world.accept(3, plan(3, &["a"]).priority(-100));
    world.store_answers = true;
    durable(&mut world);
    durable(&mut world);
    assert_eq!(serve(&mut world, 1), ["plan 2", "plan 3"]);
}
