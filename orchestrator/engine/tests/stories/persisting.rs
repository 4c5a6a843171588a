//! Persist, then emit, then return; and what happens when the store cannot.

use crate::world::{World, plan};
use escapement_contract::Status;
use escapement_engine::{Input, Refusal, WriteConflict, WriteFailure, WriteOutcome};

fn run_one(world: &mut World) {
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    let assignment = world.one_assignment(1);
    world.log.clear();
    world.complete(1, assignment.token);
}

//
#[test]
fn the_result_is_persisted_then_emitted_then_returned() {
    let mut world = World::new();
    run_one(&mut world);
    let order: Vec<&str> = world
        .log
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("send"))
        .collect();
    assert_eq!(order, ["write settle", "emit event", "reply 1"]);
}

//
#[test]
fn a_failure_notifies_the_error_handler_after_the_event_and_before_the_return() {
    let mut world = World::new();
    world.run(1, plan(1, &["a"]).draft(|draft| draft.environment = None));
    let order: Vec<&str> = world.log.iter().map(String::as_str).collect();
    assert_eq!(
        order,
        [
            "write accept",
            "write settle",
            "emit event",
            "notify error handler",
            "reply 1"
        ]
    );
}

//
#[test]
fn a_result_that_cannot_be_persisted_is_neither_emitted_nor_returned() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.run(1, plan(1, &["a"]));
    let assignment = world.one_assignment(1);
    world.store_answers = false;
    world.complete(1, assignment.token);
    world.answer_last(WriteOutcome::Failed(WriteFailure::Busy));
    assert_eq!(world.refusal(1), Some(Refusal::StoreFailed));
    assert!(!world.log_has("emit event"));
    world.wait(2, id);
    world.store_answers = true;
    world.pass(200);
    assert_eq!(
        world.status(2),
        Status::Success,
        "the write was tried again: {:#?}",
        world.log
    );
    assert_eq!(world.log.iter().filter(|line| *line == "emit event").count(), 1);
}

#[test]
fn writes_that_keep_failing_make_the_engine_give_up() {
    let (mut world, assignment) = World::with_one(1);
    world.store_answers = false;
    world.complete(1, assignment.token);
    for _ in 0..10 {
        world.answer_last(WriteOutcome::Failed(WriteFailure::Busy));
        world.pass(5_000);
    }
    assert!(world.log_has("give up"));
    assert!(!world.log_has("emit event"));
}

/// Returns the start of plan 2 could not be written; plan 2 has a limit of 1 s.
fn start_that_failed() -> World {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 2, &["a"]);
    world.run(1, plan(1, &["a"]));
    world.run(2, plan(2, &["a"]).plan_limit(1_000));
    let first = world.one_assignment(1);
    world.store_answers = false;
    world.complete(1, first.token);
    world.answer_last(WriteOutcome::Durable);
    world.answer_last(WriteOutcome::Failed(WriteFailure::Busy));
    assert!(world.assignments(1).is_empty());
    world
}

#[test]
fn a_start_that_is_tried_again_still_starts() {
    let mut world = start_that_failed();
    world.store_answers = true;
    world.pass(200);
    let second = world.one_assignment(1);
    world.complete(1, second.token);
    assert_eq!(world.status(2), Status::Success);
}

//
#[test]
fn a_start_is_tried_no_more_once_its_execution_has_ended() {
    for outcome in [
        WriteOutcome::Failed(WriteFailure::Busy),
        WriteOutcome::Conflict(WriteConflict::AlreadyThere),
        WriteOutcome::Conflict(WriteConflict::NotFound),
    ] {
        let mut world = start_that_failed();
        world.pass(200);
        let (start, _) = world.writes.last().unwrap().clone();
        world.pass(1_000);
        world.answer_last(WriteOutcome::Durable);
        assert_eq!(world.status(2), Status::Failure);
        // The settled execution may have been removed, and its id forgotten, before the start is tried.
        let n_writes = world.writes.len();
        world.input(Input::Stored {
            write: start,
            outcome,
        });
        world.pass(60_000);
        assert_eq!(world.writes.len(), n_writes, "{outcome:?}: {:?}", world.log);
    }
}
