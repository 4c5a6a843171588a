//! Which worker gets what, and what its answers mean.

use crate::world::{World, action, plan, token_of, wide};
use escapement_contract::{Outcome, Reported, Status};
use escapement_engine::{
    AckVerdict, ActionSpec, ActionView, CancelReason, FromWorker, RejectReason, SessionErrorCode, ToWorker,
};
use escapement_model::{AttemptToken, Opaque, codes};

#[test]
fn in_flight_never_exceeds_the_credits() {
    let mut world = World::new();
    world.worker(1, 3, &["a"]);
    world.run(1, wide(1, 10));
    let first = token_of(&world.assignments(1));
    assert_eq!(first.len(), 3);
    world.complete(1, first[0]);
    assert_eq!(world.assignments(1).len(), 1);
    world.capacity(1, 1, 0, &[]);
    world.complete(1, first[1]);
    assert!(world.assignments(1).is_empty(), "no credit, no work");
    world.capacity(1, 2, 5, &[]);
    assert_eq!(world.assignments(1).len(), 3);
}

#[test]
fn an_action_can_have_less_room_than_its_worker() {
    let mut world = World::new();
    let narrow = ActionSpec {
        max_in_flight: 1,
        ..action("a")
    };
    world.hello(1, 1, 8, vec![narrow, action("b")], Vec::new());
    world.run(1, plan(1, &["a", "a", "b", "b"]).at_a_time(4));
    let actions: Vec<String> = world
        .assignments(1)
        .iter()
        .map(|item| item.request.plan().step(item.step).action().to_owned())
        .collect();
    assert_eq!(actions, ["a", "b", "b"]);
}

#[test]
fn the_least_loaded_worker_gets_the_next_step() {
    let mut world = World::new();
    world.worker(1, 8, &["a"]);
    world.worker(2, 8, &["a"]);
    world.run(1, wide(1, 6));
    assert_eq!((world.assignments(1).len(), world.assignments(2).len()), (3, 3));
}

#[test]
fn the_oldest_wait_is_that_of_the_step_that_waits_for_longest() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    let first = world.one_assignment(1);
    let shown = |world: &mut World| {
        let actions = world.actions();
        let [a] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        (a.slots, a.free_slots, a.waiting, a.oldest_wait_ms)
    };
    world.pass(10);
    assert_eq!(shown(&mut world), (1, 0, 0, 0), "what runs waits no more");
    // This one is ended by its own limit, without a worker.
    world.run(2, plan(2, &["a"]).plan_limit(500));
    world.pass(100);
    world.run(3, plan(3, &["a"]));
    world.run(4, plan(4, &["a"]));
    world.pass(250);
    assert_eq!(shown(&mut world), (1, 0, 3, 350));
    world.pass(300);
    assert_eq!(world.code(2), codes::PLAN_TIMEOUT);
    assert_eq!(
        shown(&mut world),
        (1, 0, 2, 550),
        "both began to wait at the same time"
    );
    world.complete(1, first.token);
    assert_eq!(shown(&mut world), (1, 0, 1, 550));
    let next = world.one_assignment(1);
    world.complete(1, next.token);
    let last = world.one_assignment(1);
    world.complete(1, last.token);
    assert_eq!(shown(&mut world), (1, 1, 0, 0));
}

#[test]
fn the_slots_of_an_action_are_those_of_its_workers_and_its_own_limit_at_each() {
    let mut world = World::new();
    let narrow = ActionSpec {
        max_in_flight: 2,
        ..action("a")
    };
    world.hello(1, 1, 8, vec![narrow, action("b")], Vec::new());
    world.worker(2, 3, &["a"]);
    let slots = |world: &mut World| {
        let actions = world.actions();
        let of = |action: &ActionView| (action.name.to_string(), action.slots, action.free_slots);
        actions.iter().map(of).collect::<Vec<_>>()
    };
    let all = [("a".to_owned(), 2 + 3, 5), ("b".to_owned(), 8, 8)];
    assert_eq!(slots(&mut world), all);
    world.run(1, plan(1, &["b"]));
    world.one_assignment(1);
    assert_eq!(
        slots(&mut world),
        [("a".to_owned(), 5, 5), ("b".to_owned(), 8, 7)]
    );
}

//
#[test]
fn a_step_without_a_free_slot_waits() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    world.run(2, plan(2, &["a"]));
    let first = world.one_assignment(1);
    world.pass(30_000 - 1);
    assert!(world.assignments(1).is_empty());
    world.started(1, first.token);
}

//
#[test]
fn an_action_that_nobody_offers_is_fatal_once_the_grace_after_the_start_is_over() {
    let mut world = World::new();
    world.run(1, plan(1, &["nobody"]));
    world.pass(9_999);
    assert!(!world.replies.contains_key(&1));
    world.pass(1);
    assert_eq!(world.code(1), codes::ACTION_NOT_FOUND);
    world.run(2, plan(2, &["nobody"]));
    assert_eq!(world.code(2), codes::ACTION_NOT_FOUND);
}

//
#[test]
fn a_rolling_restart_fails_nothing() {
    let mut world = World::new();
    world.pass(60_000);
    world.worker(1, 1, &["a"]);
    world.say(1, FromWorker::Drain);
    world.say(1, FromWorker::Goodbye);
    world.run(1, plan(1, &["a"]));
    world.pass(9_000);
    world.worker(2, 1, &["a"]);
    let assignment = world.one_assignment(2);
    world.complete(2, assignment.token);
    assert_eq!(world.status(1), Status::Success);
}

//
#[test]
fn a_rejected_attempt_is_handed_out_again_uncounted() {
    let (mut world, first) = World::with_one(4);
    world.reject(1, first.token, RejectReason::NoCapacity);
    assert!(
        world.assignments(1).is_empty(),
        "a worker without room is left alone for a moment"
    );
    world.pass(100);
    let second = world.one_assignment(1);
    assert_eq!((second.attempt, second.step), (1, first.step));
    assert_ne!(second.token, first.token);
    world.complete(1, first.token);
    assert_eq!(world.take_verdicts(1), [AckVerdict::Stale]);
    world.complete(1, second.token);
    assert_eq!(world.status(1), Status::Success);
}

//
#[test]
fn an_outcome_is_accepted_once_and_a_late_one_is_refused() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    world.worker(2, 4, &["b"]);
    world.run(1, plan(1, &["a", "a"]).plan_limit(5_000));
    let first = world.one_assignment(1);
    world.complete(2, first.token);
    world.complete(1, AttemptToken::new([1; 16]));
    world.complete(1, first.token);
    world.complete(1, first.token);
    world.pass(5_000);
    let second = world.one_assignment(1);
    world.complete(1, second.token);
    assert_eq!(world.take_verdicts(2), [AckVerdict::Unknown]);
    assert_eq!(
        world.take_verdicts(1),
        [
            AckVerdict::Unknown,
            AckVerdict::Accepted,
            AckVerdict::Duplicate,
            AckVerdict::AlreadyEnded
        ]
    );
    assert_eq!(world.code(1), codes::PLAN_TIMEOUT);
    assert_eq!(world.settlement(1).result.steps_executed, 1);
}

//
#[test]
fn a_worker_is_told_to_stop_and_keeps_its_credit_until_it_answers() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).limit(500));
    world.run(2, plan(2, &["a"]));
    let first = world.one_assignment(1);
    assert_eq!(first.timeout_ms, 500);
    world.started(1, first.token);
    world.pass(500);
    assert_eq!(world.code(1), codes::STEP_TIMEOUT);
    let is_cancel = |message: &ToWorker| match message {
        ToWorker::Cancels(items) => {
            (items[0].token, items[0].reason) == (first.token, CancelReason::StepTimeout)
        }
        _ => false,
    };
    let cancels = |world: &World| {
        world
            .sent
            .iter()
            .filter(|(_, message)| is_cancel(message))
            .count()
    };
    assert_eq!(cancels(&world), 1);
    world.pass(1_000);
    assert_eq!(cancels(&world), 2, "sent again until it is answered");
    assert!(world.assignments(1).is_empty(), "the handler still has the slot");
    world.stopped(1, first.token);
    assert_eq!(world.assignments(1).len(), 1);
    world.pass(5_000);
    assert_eq!(cancels(&world), 2);
}

//
#[test]
fn a_waiting_parent_never_holds_the_slot_that_its_child_needs() {
    let mut world = World::new();
    let nested = ActionSpec {
        max_in_flight: 1,
        waits: true,
        ..action("execute_plan")
    };
    world.hello(1, 1, 1, vec![nested, action("a")], Vec::new());
    let grandparent = world.run(1, plan(1, &["execute_plan"]));
    let first = world.one_assignment(1);
    let parent = world.run(2, plan(2, &["execute_plan"]).parent(grandparent));
    let second = world.one_assignment(1);
    world.run(3, plan(3, &["a"]).parent(parent));
    let third = world.one_assignment(1);
    for token in [third.token, second.token, first.token] {
        world.complete(1, token);
    }
    assert!((1..=3).all(|caller| world.status(caller) == Status::Success));
}

#[test]
fn an_undecodable_outcome_is_answered_invalid_and_settles_the_attempt() {
    let (mut world, assignment) = World::with_one(1);
    world.report(
        1,
        assignment.token,
        Outcome::Undecodable {
            detail: "no output".into(),
        },
    );
    assert_eq!(world.take_verdicts(1), [AckVerdict::Invalid]);
    assert_eq!(world.code(1), codes::UNKNOWN_ERROR);
}

#[test]
fn a_message_out_of_order_ends_the_stream() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.input(escapement_engine::Input::SessionMessage {
        session: escapement_engine::SessionKey(1),
        seq: 7,
        message: FromWorker::Heartbeat {
            n: 1,
            in_flight_hash: None,
        },
    });
    assert_eq!(world.take_errors(1), [SessionErrorCode::ProtocolViolation]);
    assert_eq!(world.closed, [1]);
}

#[test]
fn operators_see_workers_and_actions() {
    let mut world = World::new();
    world.worker(1, 2, &["a", "b"]);
    world.run(1, plan(1, &["a"]));
    let (workers, actions) = (world.workers(), world.actions());
    assert_eq!(
        (workers.len(), workers[0].in_flight, workers[0].max_in_flight),
        (1, 1, 2)
    );
    assert_eq!(actions.len(), 2);
    assert_eq!(
        (&*actions[0].name, actions[0].in_flight, actions[0].free_slots),
        ("a", 1, 1)
    );
}

#[test]
fn a_failure_that_the_plan_lists_is_retried() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).retry(&["FLAKY"]));
    for attempt in 1..=3 {
        let assignment = world.one_assignment(1);
        assert_eq!(assignment.attempt, attempt);
        let reported = Reported {
            code: "FLAKY".into(),
            message: String::new(),
            severity: None,
            context: Opaque::default(),
        };
        world.report(1, assignment.token, Outcome::Failed(reported));
        world.pass(0);
    }
    assert_eq!(world.status(1), Status::Failure);
    assert!(world.assignments(1).is_empty());
}
