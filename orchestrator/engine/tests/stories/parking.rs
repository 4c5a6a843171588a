//! What waits beyond memory waits like everything else: same order, same limits, same answers.

use crate::world::{START_UNIX_MS, WaitFor, World, plan, watch_of};
use escapement_contract::Status;
use escapement_engine::{
    CallerId, Input, LoadOutcome, NamespaceKey, RecoveredParked, Refusal, Reply, Watched, WriteConflict,
    WriteFailure, WriteOutcome,
};
use escapement_model::{ExecutionId, codes};

/// One execution runs, two wait in memory.
fn narrow() -> World {
    World::with(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = 2;
    })
}

/// Returns a narrow world with a busy slot and this many executions in the queue; callers and plans count from 1.
fn crowded(n_queued: u64) -> (World, Vec<ExecutionId>) {
    let mut world = narrow();
    world.worker(1, 4, &["a"]);
    world.run(1_000, plan(1_000, &["a"]));
    let ids = (1..=n_queued)
        .map(|n| world.run(n, plan(n, &["a"]).id(n)))
        .collect();
    (world, ids)
}

/// Waits for the entry behind the first, which is there from the accept on.
fn watch(world: &mut World, caller: u64, execution_id: ExecutionId) {
    world.input(Input::Watch(watch_of(caller, execution_id, 2, true)));
}

fn is_parked(world: &mut World, execution_id: ExecutionId) -> bool {
    world.describe(execution_id).is_none()
}

//
#[test]
fn the_order_is_the_same_however_little_fits_into_memory() {
    let order = |in_memory_max: usize| {
        let mut world = World::with(|config| {
            config.max_running_executions = 1;
            config.queued_in_memory_max = in_memory_max;
        });
        world.worker(1, 4, &["a"]);
        for n in 1..=60_u64 {
            let priority = (n * 7 % 5) as i32;
            world.run(n, plan(n, &["a"]).priority(priority));
        }
        let mut names = world.serve(20);
        // Some come while others are being read back.
        for n in 61..=80_u64 {
            world.run(n, plan(n, &["a"]).priority((n % 7) as i32));
        }
        names.extend(world.serve(60));
        assert!((1..=80).all(|caller| world.status(caller) == Status::Success));
        assert_eq!(world.engine.live_executions(), 0);
        (names, world.loads.len())
    };
    let (expected, no_loads) = order(1_000);
    assert_eq!(no_loads, 0);
    for in_memory_max in [1, 2, 3, 10, 40] {
        let (names, n_loads) = order(in_memory_max);
        assert_eq!(names, expected, "{in_memory_max} in memory");
        assert!(n_loads > 0, "{in_memory_max} in memory");
    }
}

#[test]
fn requests_are_asked_for_ahead_of_their_turn_and_no_more_than_fit() {
    let (mut world, ids) = crowded(10);
    assert!(world.loads.is_empty());
    assert!(!is_parked(&mut world, ids[0]) && !is_parked(&mut world, ids[1]));
    assert!(ids[2..].iter().all(|id| is_parked(&mut world, *id)));
    world.loader_answers = false;
    world.serve(2);
    assert_eq!(world.loads, ids[2..4]);
    let loads = std::mem::take(&mut world.loads);
    let loaded: Vec<_> = loads.iter().rev().map(|id| world.loaded(*id)).collect();
    // In whatever order they come.
    world.inputs(loaded);
    world.loader_answers = true;
    assert_eq!(
        world.serve(9),
        (2..=10).map(|n| format!("plan {n}")).collect::<Vec<_>>()
    );
}

//
#[test]
fn nothing_overtakes_an_execution_whose_request_is_on_its_way() {
    let (mut world, ids) = crowded(4);
    world.loader_answers = false;
    world.serve(3);
    assert!(world.assignments(1).is_empty(), "the third waits for its request");
    let newcomer = plan(50, &["a"]).build();
    world.submit(50, &newcomer, WaitFor::Settled);
    assert!(world.assignments(1).is_empty(), "and so does who comes later");
    let urgent = plan(51, &["a"]).priority(9).build();
    world.submit(51, &urgent, WaitFor::Settled);
    assert_eq!(world.serve(1), ["plan 51"], "who goes first anyway does not");
    world.loader_answers = true;
    for id in &ids[2..] {
        world.input(world.loaded(*id));
    }
    assert_eq!(world.serve(3), ["plan 3", "plan 4", "plan 50"]);
}

//
#[test]
fn ids_of_parked_executions_attach_or_are_refused() {
    let (mut world, ids) = crowded(5);
    let same = plan(5, &["a"]).id(5).build();
    world.submit(11, &same, WaitFor::Accepted);
    assert!(world.is_not_live(11), "the store shows it");
    world.submit(12, &same, WaitFor::Settled);
    world.accept(13, plan(60, &["a"]).id(5));
    assert_eq!(world.refusal(13), Some(Refusal::ExecutionIdUsed));
    // The plan id is the store's to judge, and its holder may come into memory before it does.
    world.store_answers = false;
    world.accept(14, plan(5, &["a"]).id(6));
    let (write, _) = world.writes.pop().unwrap();
    watch(&mut world, 15, ids[4]);
    let execution_id = ids[4];
    world.input(Input::Stored {
        write,
        outcome: WriteOutcome::Conflict(WriteConflict::PlanIdUsed { execution_id }),
    });
    assert!(matches!(world.refusal(14), Some(Refusal::PlanIdUsed { .. })));
    world.accept(16, plan(5, &["a"]).id(7));
    assert!(
        matches!(world.refusal(16), Some(Refusal::PlanIdUsed { execution_id }) if execution_id == ids[4]),
        "in memory it is known again"
    );
    world.store_answers = true;
    world.serve(6);
    assert_eq!(world.settlement(12), world.settlement(5));
}

//
#[test]
fn whoever_names_a_parked_execution_waits_behind_it() {
    let (mut world, ids) = crowded(5);
    world.accept(20, plan(20, &["a"]).parent(ids[4]));
    assert!(matches!(world.accepted(20), Some(view) if view.started_at.is_none()));
    assert_eq!(world.serve(7)[6], "plan 20");
}

//
#[test]
fn a_deadline_that_passes_beyond_memory_ends_the_execution() {
    let (mut world, _) = crowded(4);
    let request = plan(5, &["a"]).deadline(START_UNIX_MS + 5_000).build();
    let id = world.submit(5, &request, WaitFor::Settled);
    assert!(is_parked(&mut world, id));
    world.pass(4_999);
    assert!(!world.replies.contains_key(&5) && world.loads.is_empty());
    world.pass(1);
    world.assert_never_ran(5, codes::DEADLINE_EXCEEDED);
    assert_eq!(world.settlement(5).result.completed_at, START_UNIX_MS + 5_000);
    assert_eq!(world.serve(5).len(), 5, "the others run");
}

//
#[test]
fn a_deadline_that_passes_while_the_request_is_on_its_way_ends_the_execution() {
    let (mut world, _) = crowded(2);
    let request = plan(3, &["a"])
        .deadline(START_UNIX_MS + 70_000)
        .plan_limit(1)
        .build();
    let id = world.submit(3, &request, WaitFor::Settled);
    world.loader_answers = false;
    world.serve(3);
    world.pass(70_000);
    assert!(!world.replies.contains_key(&3));
    world.input(world.loaded(id));
    assert_eq!(world.code(3), codes::DEADLINE_EXCEEDED);
    assert!(world.assignments(1).is_empty(), "it never runs");
}

//
#[test]
fn a_wall_clock_that_is_set_back_moves_no_deadline_of_what_is_read_back() {
    let (mut world, _) = crowded(3);
    let request = plan(4, &["a"]).deadline(START_UNIX_MS + 5_000).build();
    let id = world.submit(4, &request, WaitFor::Settled);
    world.wall_shift_ms = -3_600_000;
    watch(&mut world, 21, id);
    world.pass(4_999);
    assert!(!world.replies.contains_key(&4));
    world.pass(1);
    assert_eq!(world.code(4), codes::DEADLINE_EXCEEDED);
}

//
#[test]
fn what_will_never_start_holds_up_nobody() {
    let (mut world, _) = crowded(2);
    let expiring = |n: u64| {
        plan(n, &["a"])
            .priority(5)
            .plan_limit(1)
            .deadline(START_UNIX_MS + 5_000)
            .build()
    };
    for n in 3..=600 {
        world.submit(n, &expiring(n), WaitFor::Settled);
    }
    world.store_answers = false;
    world.writes.clear();
    world.pass(5_000);
    // The ends of those that expired are written slowly; all else is quick.
    world.writes.clear();
    for expected in ["plan 1000", "plan 1", "plan 2"] {
        let assignment = world.one_assignment(1);
        assert_eq!(assignment.request.plan().name(), expected);
        world.complete(1, assignment.token);
        world.answer_all(WriteOutcome::Durable);
        world.answer_all(WriteOutcome::Durable);
    }
}

//
#[test]
fn executions_that_expire_together_come_into_memory_a_few_at_a_time() {
    let mut world = narrow();
    world.accept(9_000, plan(9_000, &["a"]));
    for n in 1..=1_000 {
        world.run(n, plan(n, &["a"]).deadline(START_UNIX_MS + 5_000));
    }
    world.store_answers = false;
    world.writes.clear();
    world.pass(5_000);
    assert!(
        world.loads.len() <= 256,
        "{} while none is settled",
        world.loads.len()
    );
    while let Some((write, _)) = world.writes.pop() {
        let outcome = WriteOutcome::Durable;
        world.input(Input::Stored { write, outcome });
    }
    assert!((1..=1_000).all(|caller| world.status(caller) == Status::Failure));
    assert_eq!(world.engine.live_executions(), 1);
}

#[test]
fn a_watcher_brings_a_parked_execution_into_memory_for_as_long_as_it_watches() {
    let (mut world, ids) = crowded(6);
    watch(&mut world, 21, ids[5]);
    assert!(!world.replies.contains_key(&21));
    assert!(!is_parked(&mut world, ids[5]));
    world.input(Input::CallerGone(CallerId(21)));
    assert!(is_parked(&mut world, ids[5]));
    watch(&mut world, 22, ids[5]);
    assert_eq!(world.serve(7).last().unwrap(), "plan 6");
    assert!(matches!(world.replies[&22], Reply::Watched(Watched::Entries(..))));
}

#[test]
fn callers_that_go_while_a_request_is_on_its_way_are_forgotten() {
    let (mut world, ids) = crowded(4);
    world.loader_answers = false;
    watch(&mut world, 21, ids[3]);
    world.input(Input::CallerGone(CallerId(21)));
    world.input(Input::CallerGone(CallerId(4)));
    world.loader_answers = true;
    world.input(world.loaded(ids[3]));
    world.serve(5);
    assert!(!world.replies.contains_key(&21) && !world.replies.contains_key(&4));
    assert_eq!(world.engine.live_executions(), 0);
}

#[test]
fn a_damaged_request_is_left_to_the_store_and_everything_else_goes_on() {
    let (mut world, ids) = crowded(5);
    world.loader_answers = false;
    watch(&mut world, 21, ids[2]);
    world.serve(1);
    let execution_id = ids[2];
    let outcome = LoadOutcome::Damaged;
    world.input(Input::Loaded {
        execution_id,
        outcome,
    });
    assert!(world.is_not_live(3));
    assert!(world.is_not_live(21));
    world.loader_answers = true;
    world.input(world.loaded(ids[3]));
    assert_eq!(world.serve(4), ["plan 1", "plan 2", "plan 4", "plan 5"]);
    assert_eq!(world.engine.live_executions(), 0);
}

#[test]
fn a_request_that_cannot_be_read_now_is_asked_for_again_and_keeps_its_place() {
    let (mut world, ids) = crowded(4);
    world.loader_answers = false;
    watch(&mut world, 21, ids[3]);
    world.serve(3);
    for execution_id in std::mem::take(&mut world.loads) {
        let outcome = LoadOutcome::Failed;
        world.input(Input::Loaded {
            execution_id,
            outcome,
        });
    }
    assert!(world.loads.is_empty() && world.assignments(1).is_empty());
    world.pass(99);
    assert!(world.loads.is_empty(), "not at once");
    world.loader_answers = true;
    world.pass(1);
    assert!(!is_parked(&mut world, ids[3]));
    assert_eq!(world.serve(2), ["plan 3", "plan 4"]);
}

#[test]
fn a_drain_leaves_what_is_parked_where_it_is() {
    let (mut world, ids) = crowded(5);
    world.input(Input::Drain { grace_ms: 30_000 });
    world.serve(1);
    assert!(world.log_has("drained, 0 left"));
    assert!(world.loads.is_empty());
    assert!(is_parked(&mut world, ids[4]));
}

//
#[test]
fn what_waited_beyond_memory_before_a_restart_does_so_after_it() {
    let (before, ids) = crowded(6);
    let mut world = narrow();
    world.loader_answers = false;
    let mut inputs: Vec<Input> = ids[..1]
        .iter()
        .map(|id| Input::Recover(before.recovered(*id)))
        .collect();
    inputs.extend(ids[1..].iter().map(|id| {
        let recovered = before.recovered(*id);
        Input::RecoverParked(RecoveredParked {
            namespace: NamespaceKey::default(),
            execution_id: *id,
            request_digest: *recovered.request.digest(),
            priority: recovered.request.plan().priority(),
            deadline_ms: recovered.deadline_ms,
        })
    }));
    world.inputs(inputs);
    assert_eq!(world.engine.live_executions(), 6);
    assert_eq!(world.loads, ids[1..3], "one runs, two fit");
    world.run(7, plan(6, &["a"]).id(6));
    let mut names = Vec::new();
    world.worker(1, 4, &["a"]);
    while world.engine.live_executions() > 0 {
        for id in std::mem::take(&mut world.loads) {
            let loaded = Input::Loaded {
                execution_id: id,
                outcome: LoadOutcome::Loaded(before.recovered(id)),
            };
            world.input(loaded);
        }
        names.extend(world.serve(1));
    }
    assert_eq!(names, (1..=6).map(|n| format!("plan {n}")).collect::<Vec<_>>());
    assert_eq!(world.status(7), Status::Success);
}

//
#[test]
fn on_a_full_disk_the_limit_of_what_waits_beyond_memory_still_counts() {
    let mut world = World::with(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = 1;
    });
    // The one that runs waits for a slot.
    world.worker(1, 0, &["a"]);
    for n in 1..=3 {
        world.run(n, plan(n, &["a"]));
    }
    let request = plan(4, &["a"]).deadline(START_UNIX_MS + 5_000).build();
    let id = world.submit(4, &request, WaitFor::Settled);
    assert!(is_parked(&mut world, id));
    world.store_answers = false;
    world.writes.clear();
    for _ in 0..40 {
        world.pass(1_000);
        world.answer_all(WriteOutcome::Failed(WriteFailure::Full));
    }
    assert!(!world.log_has("give up"));
    assert_eq!(world.engine.live_executions(), 4);
    world.wait(30, id);
    world.store_answers = true;
    world.pass(10_000);
    let result = &world.settlement(30).result;
    assert_eq!(result.error.as_ref().unwrap().code, codes::DEADLINE_EXCEEDED);
    assert_eq!(result.completed_at, START_UNIX_MS + 5_000);
    assert_eq!(world.engine.live_executions(), 3);
}
