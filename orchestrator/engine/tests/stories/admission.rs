//! Who runs next.

use crate::world::{World, plan};
use escapement_contract::{Interruption, Status};
use escapement_engine::{Input, NamespaceKey, Recovered, WriteOutcome};
use escapement_model::codes;

//
#[test]
fn with_one_slot_higher_priority_goes_first_and_equals_in_order_of_arrival() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 4, &["a"]);
    for (n, priority) in [(1, 0), (2, -5), (3, 7), (4, 0), (5, 7)] {
        world.run(n, plan(n, &["a"]).priority(priority));
    }
    assert_eq!(world.serve(5), ["plan 1", "plan 3", "plan 5", "plan 4", "plan 2"]);
    assert!((1..=5).all(|caller| world.status(caller) == Status::Success));
}

//
#[test]
fn steps_that_compete_for_one_worker_follow_the_same_order() {
    let mut world = World::new();
    for (n, priority) in [(1, 0), (2, 9), (3, 0)] {
        world.run(n, plan(n, &["a"]).priority(priority));
    }
    world.worker(1, 1, &["a"]);
    assert_eq!(world.serve(3), ["plan 2", "plan 1", "plan 3"]);
}

//
#[test]
fn a_deadline_that_passes_in_the_queue_ends_the_execution() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]));
    let deadline = crate::world::START_UNIX_MS + 5_000;
    world.run(2, plan(2, &["a"]).deadline(deadline));
    world.pass(4_999);
    assert!(!world.replies.contains_key(&2));
    world.pass(1);
    world.assert_never_ran(2, codes::DEADLINE_EXCEEDED);
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    assert!(world.assignments(1).is_empty(), "it never runs afterwards");
}

//
#[test]
fn a_wall_clock_that_is_set_moves_neither_deadlines_nor_durations() {
    const DAY_MS: i64 = 86_400_000;
    for (jump_ms, queued_in_memory_max) in [(DAY_MS, 2), (-DAY_MS, 2), (DAY_MS, 1), (-DAY_MS, 1)] {
        let mut world = World::with(|config| {
            config.max_running_executions = 1;
            config.queued_in_memory_max = queued_in_memory_max;
        });
        world.worker(1, 4, &["a"]);
        for n in 1..=3 {
            world.run(n, plan(n, &["a"]));
        }
        world.pass(1_000);
        world.wall_shift_ms = jump_ms;
        for n in 1..=3 {
            let assignment = world.one_assignment(1);
            world.pass(2_000);
            world.complete(1, assignment.token);
            let settlement = world.settlement(n);
            let result = &settlement.result;
            assert_eq!(result.status, Status::Success, "{:?}", result.error);
            assert_eq!(result.duration_ms, if n == 1 { 3_000 } else { 2_000 });
            assert_eq!(
                result.completed_at,
                crate::world::START_UNIX_MS + 1_000 + 2_000 * n as i64
            );
            assert!(settlement.audit.is_sorted_by_key(|entry| entry.at_unix_ms));
        }
    }
}

//
#[test]
fn after_a_restart_what_was_queued_runs_and_what_was_interrupted_fails() {
    let mut world = World::new();
    let (queued, started, restored) = (world.id(), world.id(), world.id());
    let restarted = Interruption::Restarted {
        started_at: crate::world::START_UNIX_MS - 500,
    };
    let recovered = |execution_id, n, interruption| {
        Input::Recover(Recovered {
            namespace: NamespaceKey::default(),
            execution_id,
            request: plan(n, &["a"]).build(),
            accepted_at: crate::world::START_UNIX_MS - 1_000,
            deadline_ms: crate::world::START_UNIX_MS + 1_000_000,
            interruption,
        })
    };
    world.store_answers = false;
    world.inputs(vec![
        recovered(queued, 1, None),
        recovered(started, 2, Some(restarted)),
        recovered(restored, 3, Some(Interruption::Restored)),
    ]);
    for (caller, execution_id) in [(1, queued), (2, started), (3, restored)] {
        world.wait(caller, execution_id);
    }
    world.store_answers = true;
    world.answer_all(WriteOutcome::Durable);
    world.worker(1, 1, &["a"]);
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    assert_eq!(world.status(1), Status::Success);
    for caller in [2, 3] {
        world.assert_never_ran(caller, codes::UNKNOWN_ERROR);
    }
}
