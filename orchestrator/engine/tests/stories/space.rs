//! A full disk: what was accepted waits for space, nothing else is accepted, and what can be read is shown.

use crate::world::{World, plan};
use escapement_contract::Status;
use escapement_engine::{Input, Refusal, StoreWrite, WriteFailure, WriteOutcome};
use escapement_model::codes;

/// The store has no space for anything that it was asked for.
fn refuse_all(world: &mut World) {
    world.answer_all(WriteOutcome::Failed(WriteFailure::Full));
}

/// Time passes on a full disk.
fn pass_without_space(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        refuse_all(world);
        world.pass(1_000);
    }
    refuse_all(world);
}

/// Returns an execution whose result finds no space.
fn settling_without_space() -> World {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    world.run(1, plan(1, &["a"]).id(1));
    let assignment = world.one_assignment(1);
    world.store_answers = false;
    world.writes.clear();
    world.complete(1, assignment.token);
    refuse_all(&mut world);
    world
}

//
#[test]
fn a_result_waits_for_space_for_as_long_as_it_takes() {
    let mut world = settling_without_space();
    assert_eq!(world.refusal(1), Some(Refusal::StoreFailed));
    pass_without_space(&mut world, 3_600);
    assert!(!world.log_has("give up"));
    assert!(!world.log_has("emit event"));
    let execution_id = plan(1, &["a"]).id(1).build().execution_id().unwrap();
    world.wait(2, execution_id);
    world.store_answers = true;
    world.pass(5_000);
    assert_eq!(world.status(2), Status::Success);
    assert_eq!(world.log.iter().filter(|line| *line == "emit event").count(), 1);
}

//
#[test]
fn the_pause_between_two_tries_is_bounded() {
    let mut world = settling_without_space();
    pass_without_space(&mut world, 100);
    let before = world.log.iter().filter(|line| *line == "write settle").count();
    pass_without_space(&mut world, 50);
    let after = world.log.iter().filter(|line| *line == "write settle").count();
    assert_eq!(after - before, 10, "one in five seconds");
}

//
#[test]
fn nothing_is_accepted_while_something_waits_for_space() {
    let mut world = settling_without_space();
    let n_writes = world.log.iter().filter(|line| line.starts_with("write")).count();
    world.run(3, plan(3, &["a"]));
    assert_eq!(world.refusal(3), Some(Refusal::StoreFull));
    let n_writes_after = world.log.iter().filter(|line| line.starts_with("write")).count();
    assert_eq!(n_writes, n_writes_after, "the store is not even asked");
    world.run(4, plan(1, &["a"]).id(1));
    assert!(!world.replies.contains_key(&4), "the same request attaches");
    world.store_answers = true;
    world.pass(5_000);
    assert_eq!(world.status(4), Status::Success);
    world.accept(5, plan(3, &["a"]));
    assert!(world.accepted(5).is_some());
}

//
#[test]
fn an_accept_that_failed_leaves_nothing_behind_and_can_be_repeated() {
    for (failure, refusal) in [
        (WriteFailure::Full, Refusal::StoreFull),
        (WriteFailure::Busy, Refusal::StoreFailed),
    ] {
        let mut world = World::new();
        world.store_answers = false;
        world.accept(1, plan(1, &["a"]).id(1));
        world.run(2, plan(1, &["a"]).id(1));
        world.answer_all(WriteOutcome::Failed(failure));
        for caller in [1, 2] {
            assert_eq!(world.refusal(caller), Some(refusal));
        }
        assert_eq!(world.engine.live_executions(), 0);
        let grace_ms = Some(10_000);
        assert_eq!(world.engine.next_due_ms(), grace_ms, "nothing waits");
        world.store_answers = true;
        world.accept(3, plan(1, &["a"]).id(1));
        assert!(world.accepted(3).is_some());
    }
}

//
#[test]
fn a_plan_whose_limit_passes_while_its_start_waits_for_space_never_runs() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 2, &["a"]);
    world.run(1, plan(1, &["a"]));
    let id = world.accept(2, plan(2, &["a"]));
    let first = world.one_assignment(1);
    world.complete(1, first.token);
    // Its start is durable here; the next one's is not.
    let second = world.one_assignment(1);
    let third = world.accept(3, plan(3, &["a"]));
    world.store_answers = false;
    world.writes.clear();
    world.complete(1, second.token);
    let (settle, _) = world.writes.pop().unwrap();
    let outcome = WriteOutcome::Durable;
    world.input(Input::Stored {
        write: settle,
        outcome,
    });
    assert!(matches!(
        world.writes.last(),
        Some((_, StoreWrite::Start { execution_id, .. })) if *execution_id == third
    ));
    pass_without_space(&mut world, 61);
    assert!(
        world.assignments(1).is_empty(),
        "nothing runs before its start is durable"
    );
    assert!(
        world.log.iter().rev().take(40).any(|line| line == "write settle"),
        "its limit has passed: {:#?}",
        world.log
    );
    for (caller, execution_id) in [(10, third), (11, id)] {
        world.wait(caller, execution_id);
    }
    assert!(world.is_not_live(11));
    world.store_answers = true;
    world.pass(5_000);
    let result = &world.settlement(10).result;
    assert_eq!(result.error.as_ref().unwrap().code, codes::PLAN_TIMEOUT);
    assert_eq!(
        result.completed_at - result.duration_ms + 60_000,
        result.completed_at
    );
    assert_eq!(world.engine.live_executions(), 0);
    assert!(world.assignments(1).is_empty());
}

//
#[test]
fn what_can_be_read_is_shown_while_a_result_waits_for_space() {
    let mut world = settling_without_space();
    let execution_id = plan(1, &["a"]).id(1).build().execution_id().unwrap();
    let view = world.describe(execution_id);
    assert!(view.unwrap().started_at.is_some());
    world.watch(8, execution_id, 1);
    let shown: Vec<&String> = world
        .log
        .iter()
        .filter(|line| line.starts_with("entries 8"))
        .collect();
    assert!(!shown.is_empty(), "what was shown before stays to be seen");
    assert!(shown.iter().all(|line| line.ends_with("settled false")));
    world.store_answers = true;
    world.pass(5_000);
    let last = world.log.iter().rfind(|line| line.starts_with("entries 8"));
    assert!(last.is_some_and(|line| line.ends_with("settled true")));
}

//
#[test]
fn a_store_that_is_busy_is_given_up_however_often_it_was_full_before() {
    let mut world = settling_without_space();
    pass_without_space(&mut world, 100);
    for n_tries in 1.. {
        assert!(n_tries < 100, "the bound holds");
        world.pass(5_000);
        world.answer_all(WriteOutcome::Failed(WriteFailure::Busy));
        if world.log_has("give up") {
            assert_eq!(n_tries, 10);
            return;
        }
    }
}
