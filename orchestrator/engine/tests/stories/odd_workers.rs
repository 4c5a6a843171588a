//! Workers that say unusual things, and moments that are easily told too early.

use crate::world::{World, action, in_flight, plan};
use escapement_contract::Status;
use escapement_engine::{
    ActionSpec, FromWorker, InFlightPhase, Input, Refusal, SessionErrorCode, SessionKey, WriteFailure,
    WriteOutcome,
};
use escapement_model::SessionId;

#[test]
fn an_attempt_whose_action_nobody_offers_any_more_goes_on_after_a_break() {
    let mut world = World::new();
    world.pass(60_000);
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]));
    let token = world.one_assignment(1).token;
    world.started(1, token);
    world.register(1, 1, vec![]);
    for _ in 0..5 {
        world.pass(3_000);
        world.alive(1);
    }
    let still = vec![in_flight(token, InFlightPhase::Running)];
    world.hello(2, 1, 4, vec![], still);
    world.complete(2, token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn a_worker_comes_back_though_there_is_no_room_for_new_ones() {
    let mut world = World::with(|config| config.max_sessions = 1);
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]));
    let token = world.one_assignment(1).token;
    world.started(1, token);
    world.close(1);
    world.worker(7, 4, &["a"]);
    assert_eq!(world.closed, [7], "a new one finds no room");
    let still = vec![in_flight(token, InFlightPhase::Running)];
    world.hello(2, 1, 4, vec![action("a")], still);
    world.complete(2, token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn a_stream_without_a_hello_is_closed() {
    let mut world = World::new();
    world.input(Input::SessionOpened {
        session: SessionKey(1),
        session_id: SessionId::new([1; 16]),
    });
    world.say(1, FromWorker::Unknown);
    world.pass(4_999);
    assert!(world.closed.is_empty());
    world.pass(1);
    assert_eq!(world.closed, [1]);
    let grace_ms = Some(10_000);
    assert_eq!(
        world.engine.next_due_ms(),
        grace_ms,
        "nothing else is left behind"
    );
}

#[test]
fn a_worker_without_a_name_is_refused() {
    let mut world = World::new();
    world.named_worker(1, "");
    world.named_worker(2, &"x".repeat(256));
    for session in [1, 2] {
        assert_eq!(world.take_errors(session), [SessionErrorCode::LimitExceeded]);
    }
    assert_eq!(world.closed, [1, 2]);
}

#[test]
fn a_level_of_zero_pauses_one_action() {
    let mut world = World::new();
    world.worker(1, 4, &["a", "b"]);
    world.capacity(1, 1, 4, &[("a", 0)]);
    world.run(1, plan(1, &["a", "b"]).at_a_time(2));
    let first = world.one_assignment(1);
    assert_eq!(first.request.plan().step(first.step).action(), "b");
    world.capacity(1, 2, 4, &[("a", 1)]);
    assert_eq!(world.assignments(1).len(), 1);
}

#[test]
fn credits_without_bound_are_bounded() {
    let mut world = World::new();
    let endless = || ActionSpec {
        waits: true,
        max_in_flight: u32::MAX,
        ..action("a")
    };
    world.hello(1, 1, u32::MAX, vec![endless()], vec![]);
    world.hello(2, 2, u32::MAX, vec![endless()], vec![]);
    assert_eq!(
        world.actions()[0].free_slots,
        2 * escapement_model::limits::SESSION_IN_FLIGHT_MAX
    );
}

//
#[test]
fn nobody_is_refused_on_account_of_an_accept_that_may_fail() {
    let mut world = World::new();
    world.store_answers = false;
    world.accept(1, plan(1, &["a"]));
    world.accept(2, plan(1, &["a"]));
    world.answer_last(WriteOutcome::Failed(WriteFailure::Busy));
    assert_eq!(world.refusal(1), Some(Refusal::StoreFailed));
    assert!(
        !world.replies.contains_key(&2),
        "the plan was never accepted, so the second call has its turn"
    );
    world.answer_last(WriteOutcome::Durable);
    assert!(world.accepted(2).is_some());
}

//
#[test]
fn whoever_waited_for_an_accept_that_held_is_refused() {
    let mut world = World::new();
    world.store_answers = false;
    let id = world.accept(1, plan(1, &["a"]));
    world.accept(2, plan(1, &["a"]));
    world.answer_last(WriteOutcome::Durable);
    assert!(matches!(
        world.refusal(2), Some(Refusal::PlanIdUsed { execution_id }) if execution_id == id
    ));
}

//
#[test]
fn a_start_is_shown_once_it_is_durable() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]));
    let first = world.one_assignment(1);
    let id = world.run(2, plan(2, &["a"]));
    world.watch(9, id, 1);
    world.store_answers = false;
    world.complete(1, first.token);
    world.answer_last(WriteOutcome::Durable);
    let view = world.describe(id);
    assert!(view.unwrap().started_at.is_none());
    assert!(!world.log_has("entries 9 [2] settled false"));
    world.answer_last(WriteOutcome::Durable);
    assert!(world.log.iter().any(|line| line.starts_with("entries 9 [2")));
    let view = world.describe(id);
    assert!(view.unwrap().started_at.is_some());
}
