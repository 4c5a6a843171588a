//! A request is accepted once, durably, or not at all.

use crate::world::{WaitFor, World, plan, submitter};
use escapement_contract::Status;
use escapement_engine::{
    CallerId, Input, NamespaceKey, Refusal, Submission, UntilDecided, WriteConflict, WriteOutcome,
};
use escapement_model::{ExecutionId, codes};
use std::sync::Arc;

//
#[test]
fn nobody_hears_of_an_execution_before_its_accept_is_durable() {
    let mut world = World::new();
    world.store_answers = false;
    let id = world.accept(1, plan(1, &["a"]));
    assert!(!world.replies.contains_key(&1));
    assert!(world.describe(id).is_none());
    world.answer_last(WriteOutcome::Durable);
    assert!(matches!(world.accepted(1), Some(view) if view.execution_id == id));
}

#[test]
fn what_the_shell_holds_for_a_submission_is_dropped_once_it_is_decided_whoever_still_waits() {
    let mut world = World::new();
    world.store_answers = false;
    let held = Arc::new(());
    let submit = |world: &mut World, caller| {
        let fresh_id = world.id();
        world.input(Input::Submit(Submission {
            namespace: NamespaceKey::default(),
            submitter: submitter(caller, WaitFor::Settled),
            request: plan(1, &["a"]).build(),
            fresh_id,
            may_nest: true,
            until_decided: UntilDecided::hold(Arc::clone(&held)),
        }));
    };
    submit(&mut world, 1);
    // The same plan again, under another id: it is not known yet whether that is refused.
    submit(&mut world, 2);
    world.input(Input::CallerGone(CallerId(1)));
    world.input(Input::CallerGone(CallerId(2)));
    assert_eq!(Arc::strong_count(&held), 3);
    world.answer_last(WriteOutcome::Durable);
    assert_eq!(Arc::strong_count(&held), 1);
}

//
#[test]
fn what_ends_without_a_durable_start_is_queued_until_its_result_is_durable() {
    let mut world = World::new();
    world.store_answers = false;
    let past = crate::world::START_UNIX_MS - 1;
    let builder = plan(1, &["a"]).deadline(past);
    world.accept(1, builder);
    world.answer_last(WriteOutcome::Durable);
    let (_, content) = world.writes.last().unwrap();
    assert!(matches!(content, escapement_engine::StoreWrite::Settle { .. }));
    assert!(
        matches!(world.accepted(1), Some(view) if view.started_at.is_none()),
        "the store has it queued, and a crash would show that: {:?}",
        world.replies[&1]
    );
}

//
#[test]
fn no_step_is_handed_out_before_the_start_is_durable() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    world.store_answers = false;
    world.run(1, plan(1, &["a"]));
    assert!(world.assignments(1).is_empty());
    world.answer_last(WriteOutcome::Durable);
    assert_eq!(world.assignments(1).len(), 1);
}

//
#[test]
fn the_same_request_attaches_and_another_one_under_its_id_is_refused() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]).id(1));
    world.run(2, plan(1, &["a"]).id(1));
    world.run(3, plan(2, &["a"]).id(1));
    assert_eq!(world.refusal(3), Some(Refusal::ExecutionIdUsed));
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    assert_eq!(world.settlement(1), world.settlement(2));
    assert_eq!(
        world.writes.len(),
        2,
        "one accept and one settle: {:?}",
        world.log
    );
}

//
#[test]
fn a_plan_id_that_lives_under_another_execution_is_refused() {
    let mut world = World::new();
    let id = world.accept(1, plan(1, &["a"]));
    world.accept(2, plan(1, &["a"]));
    assert!(matches!(
        world.refusal(2), Some(Refusal::PlanIdUsed { execution_id }) if execution_id == id
    ));
}

//
#[test]
fn ids_that_the_store_knows_are_judged_by_the_store() {
    let mut world = World::new();
    world.store_answers = false;
    let request = plan(1, &["a"]).id(1).build();
    let other = world.id();
    let conflicts = [
        WriteConflict::ExecutionIdUsed {
            request_digest: *request.digest(),
        },
        WriteConflict::ExecutionIdUsed {
            request_digest: [0; 32],
        },
        WriteConflict::PlanIdUsed { execution_id: other },
    ];
    for (caller, conflict) in conflicts.into_iter().enumerate() {
        world.submit(caller as u64, &request, WaitFor::Settled);
        world.answer_last(WriteOutcome::Conflict(conflict));
    }
    assert!(
        world.is_not_live(0),
        "the same request: its answer stands in the store"
    );
    assert_eq!(world.refusal(1), Some(Refusal::ExecutionIdUsed));
    assert!(matches!(world.refusal(2), Some(Refusal::PlanIdUsed { .. })));
    assert_eq!(world.engine.live_executions(), 0);
    let grace_ms = Some(10_000);
    assert_eq!(
        world.engine.next_due_ms(),
        grace_ms,
        "nothing else is left behind"
    );
}

//
#[test]
fn a_context_violation_is_an_execution_that_failed() {
    let mut world = World::new();
    world.run(1, plan(1, &["a"]).draft(|draft| draft.environment = None));
    world.assert_never_ran(1, codes::CONTEXT_MISSING);
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    let mut world = World::with(|config| config.max_live_executions = 1);
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]));
    world.run(2, plan(2, &["a"]));
    assert_eq!(world.refusal(2), Some(Refusal::QueueFull));
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    world.accept(3, plan(3, &["a"]));
    assert!(world.accepted(3).is_some());
}

//
#[test]
fn a_caller_that_goes_changes_nothing() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    let id = world.run(1, plan(1, &["a"]));
    world.input(Input::CallerGone(escapement_engine::CallerId(1)));
    world.wait(2, id);
    let assignment = world.one_assignment(1);
    world.complete(1, assignment.token);
    assert!(!world.replies.contains_key(&1));
    assert_eq!(world.status(2), Status::Success);
}

//
#[test]
fn plans_nest_eight_levels_deep_and_no_deeper() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 16, &["a"]);
    let mut parent = world.accept(100, plan(100, &["a"]));
    for level in 1..=8 {
        parent = world.accept(level, plan(level, &["a"]).parent(parent));
        assert!(
            matches!(world.accepted(level), Some(view) if view.started_at.is_some()),
            "level {level} starts although its parent holds the only slot"
        );
    }
    world.accept(9, plan(9, &["a"]).parent(parent));
    assert_eq!(world.refusal(9), Some(Refusal::NestedTooDeep));
}

/// One runs and holds the only slot, and another one waits for it.
fn one_runs_and_one_waits() -> (World, ExecutionId, ExecutionId) {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 4_096, &["a"]);
    let runs = world.run(1, plan(1, &["a"]));
    let waits = world.run(2, plan(2, &["a"]).priority(100));
    (world, runs, waits)
}

//
#[test]
fn naming_an_execution_that_does_not_run_takes_nobody_past_the_queue() {
    let (mut world, runs, queued) = one_runs_and_one_waits();
    let first = world.one_assignment(1);
    let unknown = world.id();
    for n in 3..103 {
        let parent = if n % 2 == 0 { queued } else { unknown };
        world.accept(n, plan(n, &["a"]).priority(-1_000).parent(parent));
        assert!(matches!(world.accepted(n), Some(view) if view.started_at.is_none()));
    }
    // An execution that runs does not help either, if the caller may not know of it.
    let child = plan(200, &["a"]).priority(-1_000).parent(runs).build();
    world.submit_as(200, &child, WaitFor::Accepted, false);
    assert!(matches!(world.accepted(200), Some(view) if view.started_at.is_none()));
    assert!(world.assignments(1).is_empty(), "they wait like any other");
    world.complete(1, first.token);
    assert_eq!(world.one_assignment(1).request.plan().name(), "plan 2");
    world.input(Input::Drain { grace_ms: 1_000 });
    for (n, parent, may_nest) in [(103, unknown, true), (104, queued, false)] {
        let child = plan(n, &["a"]).parent(parent).build();
        world.submit_as(n, &child, WaitFor::Accepted, may_nest);
        assert_eq!(world.refusal(n), Some(Refusal::Draining));
    }
}

//
#[test]
fn a_parent_has_as_many_live_children_as_steps_with_workers() {
    let (mut world, parent, _) = one_runs_and_one_waits();
    let of_parent = world.one_assignment(1);
    let child = |n| plan(n, &["a"]).id(n).parent(parent).build();
    world.submit(3, &child(3), WaitFor::Settled);
    let of_child = world.one_assignment(1);
    world.submit(4, &child(4), WaitFor::Settled);
    assert_eq!(world.refusal(4), Some(Refusal::TooManyChildren));
    world.submit(5, &child(3), WaitFor::Settled);
    world.complete(1, of_child.token);
    assert_eq!(world.settlement(3), world.settlement(5), "a repeat attaches");
    world.submit(6, &child(6), WaitFor::Accepted);
    assert!(
        matches!(world.accepted(6), Some(view) if view.started_at.is_some()),
        "one child after the other"
    );
    world.complete(1, of_parent.token);
    assert_eq!(world.status(1), Status::Success);
    world.submit(7, &child(7), WaitFor::Accepted);
    assert!(
        matches!(world.accepted(7), Some(view) if view.started_at.is_none()),
        "the parent is over"
    );
}

//
#[test]
fn a_child_that_is_not_accepted_leaves_its_place_to_another() {
    let (mut world, parent, _) = one_runs_and_one_waits();
    let _of_parent = world.one_assignment(1);
    let child = |n| plan(n, &["a"]).parent(parent).build();
    world.store_answers = false;
    world.submit(3, &child(3), WaitFor::Accepted);
    world.answer_last(WriteOutcome::Failed(escapement_engine::WriteFailure::Busy));
    assert_eq!(world.refusal(3), Some(Refusal::StoreFailed));
    world.store_answers = true;
    world.submit(4, &child(4), WaitFor::Accepted);
    assert!(world.accepted(4).is_some());
}

//
#[test]
fn a_deadline_that_is_over_is_an_execution_that_failed() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    for (caller, parent) in [(1, None), (2, Some(world.accept(9, plan(9, &["a"]))))] {
        let past = crate::world::START_UNIX_MS - 1;
        let builder = plan(caller, &["a"]).deadline(past);
        let builder = parent
            .into_iter()
            .fold(builder, |builder, parent| builder.parent(parent));
        world.run(caller, builder);
        world.assert_never_ran(caller, codes::DEADLINE_EXCEEDED);
    }
}
