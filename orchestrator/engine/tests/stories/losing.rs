//! Workers that vanish, come back, or come back different.

use crate::world::{World, action, in_flight, plan};
use escapement_contract::Status;
use escapement_engine::{
    AckVerdict, AttemptReport, FromWorker, InFlightPhase, Input, KeepOrStop, RejectReason, ReleaseReason,
};
use escapement_model::{AttemptToken, codes};

//
#[test]
fn an_attempt_that_never_started_goes_to_another_worker_when_the_lease_is_over() {
    let (mut world, _) = World::with_one(1);
    world.close(1);
    world.worker(2, 1, &["a"]);
    world.pass(10_999);
    assert!(world.assignments(2).is_empty(), "a broken stream proves nothing");
    world.alive(2);
    world.pass(1);
    let again = world.one_assignment(2);
    assert_eq!(again.attempt, 1, "uncounted");
    world.complete(2, again.token);
    assert_eq!(world.status(1), Status::Success);
}

//
#[test]
fn an_attempt_that_started_is_lost_when_the_lease_is_over() {
    let (mut world, assignment) = World::with_one(1);
    world.started(1, assignment.token);
    world.close(1);
    world.pass(11_000);
    world.assert_never_ran(1, codes::WORKER_LOST);
}

//
#[test]
fn a_plan_opts_in_to_repeating_what_a_lost_worker_had() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).retry(&[codes::WORKER_LOST]));
    let assignment = world.one_assignment(1);
    world.started(1, assignment.token);
    world.close(1);
    world.pass(5_000);
    world.worker(2, 1, &["a"]);
    world.pass(6_000);
    let again = world.one_assignment(2);
    assert_eq!(again.attempt, 2);
    world.complete(2, again.token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn a_worker_that_comes_back_in_time_goes_on() {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    world.run(1, plan(1, &["a", "a"]).at_a_time(2));
    let both = world.assignments(1);
    world.started(1, both[0].token);
    world.close(1);
    world.pass(5_000);
    let still = vec![in_flight(both[0].token, InFlightPhase::Running)];
    world.hello(2, 1, 2, vec![action("a")], still);
    let again = world.one_assignment(2);
    assert_eq!(world.take_welcome(2), [(both[0].token, KeepOrStop::Keep)]);
    assert_eq!(
        (again.step, again.attempt),
        (both[1].step, 1),
        "what it does not have never ran"
    );
    world.complete(2, both[0].token);
    world.complete(2, again.token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn an_attempt_that_started_and_is_gone_after_the_return_is_lost() {
    let (mut world, assignment) = World::with_one(2);
    world.started(1, assignment.token);
    world.close(1);
    world.hello(2, 1, 2, vec![action("a")], Vec::new());
    assert_eq!(world.code(1), codes::WORKER_LOST);
}

#[test]
fn a_second_session_of_one_instance_supersedes_the_first() {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    world.hello(2, 1, 2, vec![action("a")], Vec::new());
    assert_eq!(world.closed, [1]);
    world.run(1, plan(1, &["a"]));
    assert!(world.assignments(1).is_empty());
    let assignment = world.one_assignment(2);
    world.complete(2, assignment.token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn a_worker_that_says_goodbye_with_work_gives_it_up_at_once() {
    let (mut world, _) = World::with_one(2);
    world.worker(2, 2, &["a"]);
    world.say(1, FromWorker::Goodbye);
    let again = world.one_assignment(2);
    world.complete(2, again.token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn heartbeats_keep_a_worker_alive_and_silence_ends_its_session() {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    for _ in 1..=5 {
        world.pass(9_000);
        world.alive(1);
    }
    assert!(world.closed.is_empty());
    world.pass(10_999);
    assert!(world.closed.is_empty());
    world.pass(1);
    assert_eq!(world.closed, [1]);
}

#[test]
fn nobody_is_declared_dead_for_a_pause_of_the_orchestrator() {
    let (mut world, assignment) = World::with_one(2);
    world.started(1, assignment.token);
    world.now_ms += 30_000;
    world.input(Input::Tick);
    assert!(world.closed.is_empty());
    world.complete(1, assignment.token);
    assert_eq!(world.status(1), Status::Success);
}

//
#[test]
fn a_lost_workers_late_outcome_changes_nothing() {
    let (mut world, assignment) = World::with_one(1);
    world.started(1, assignment.token);
    world.close(1);
    world.pass(11_000);
    let before = world.settlement(1);
    world.worker(2, 1, &["a"]);
    world.complete(2, assignment.token);
    assert_eq!(world.take_verdicts(2), [AckVerdict::AlreadyEnded]);
    assert_eq!(world.settlement(1), before);
}

//
#[test]
fn a_body_that_ended_without_an_outcome_had_started_and_is_lost() {
    let stopped = |token| FromWorker::AttemptAcks {
        started: vec![],
        rejected: vec![],
        stopped: vec![token],
    };
    let released = |token| FromWorker::Outcomes {
        items: vec![(token, AttemptReport::Released(ReleaseReason::Drain))],
        unreadable: vec![],
    };
    let reports: [&dyn Fn(AttemptToken) -> FromWorker; 2] = [&stopped, &released];
    for report in reports {
        let (mut world, assignment) = World::with_one(2);
        world.say(1, report(assignment.token));
        assert_eq!(world.code(1), codes::WORKER_LOST);
    }
}

//
#[test]
fn an_attempt_that_started_cannot_be_rejected() {
    let (mut world, assignment) = World::with_one(2);
    world.started(1, assignment.token);
    world.reject(1, assignment.token, RejectReason::Cancelled);
    assert_eq!(world.code(1), codes::WORKER_LOST);
    assert!(world.assignments(1).is_empty());
}

/// Workers 1 to n with one slot each.
fn fleet(n: u64) -> World {
    let mut world = World::new();
    for session in 1..=n {
        world.worker(session, 1, &["a"]);
    }
    world
}

fn pass_with_heartbeats(world: &mut World, alive: std::ops::RangeInclusive<u64>, ms: u64) {
    for _ in 0..ms / 1_000 {
        world.pass(1_000);
        alive.clone().for_each(|session| world.alive(session));
    }
}

#[test]
fn many_that_fall_silent_at_once_get_a_second_lease_and_no_third() {
    let mut world = fleet(20);
    pass_with_heartbeats(&mut world, 6..=20, 20_000);
    assert!(
        world.closed.is_empty(),
        "five of twenty: a lease and its margin, and then one lease more"
    );
    pass_with_heartbeats(&mut world, 6..=20, 1_000);
    assert_eq!(world.closed, [1, 2, 3, 4, 5]);
}

#[test]
fn a_few_that_fall_silent_are_lost_at_once() {
    let mut small = fleet(4);
    small.pass(11_000);
    assert_eq!(small.closed, [1, 2, 3, 4], "fewer than five");
    let mut large = fleet(25);
    pass_with_heartbeats(&mut large, 6..=25, 11_000);
    assert_eq!(large.closed, [1, 2, 3, 4, 5], "a fifth and no more");
}

#[test]
fn broken_streams_count_as_silent() {
    let mut world = fleet(6);
    for n in 1..=5 {
        world.run(n, plan(n, &["a"]));
    }
    for session in 1..=5 {
        let token = world.one_assignment(session).token;
        world.started(session, token);
        world.close(session);
    }
    pass_with_heartbeats(&mut world, 6..=6, 20_000);
    assert!(world.replies.is_empty());
    pass_with_heartbeats(&mut world, 6..=6, 1_000);
    assert_eq!(world.replies.len(), 5, "lost as ever");
}

#[test]
fn streams_that_broke_just_now_count_as_silent() {
    let mut world = fleet(6);
    for n in 1..=6 {
        world.run(n, plan(n, &["a"]));
    }
    world.close(1);
    pass_with_heartbeats(&mut world, 2..=6, 10_000);
    (2..=5).for_each(|session| world.close(session));
    pass_with_heartbeats(&mut world, 6..=6, 10_000);
    assert_eq!(world.workers().len(), 6, "the first has its second lease");
}

#[test]
fn whoever_got_a_second_lease_gets_no_work_until_it_is_heard() {
    let mut world = fleet(5);
    world.pass(12_000);
    assert!(world.closed.is_empty());
    world.run(1, plan(1, &["a"]));
    assert_eq!(world.auditor.seq_of.len(), 0);
    world.started(3, AttemptToken::new([1; 16]));
    assert_eq!(world.auditor.seq_of.len(), 0, "only a heartbeat renews a lease");
    assert_eq!(world.actions()[0].free_slots, 0);
    world.alive(3);
    let token = world.one_assignment(3).token;
    world.complete(3, token);
    assert_eq!(world.status(1), Status::Success);
    pass_with_heartbeats(&mut world, 3..=3, 30_000);
    assert_eq!(world.closed, [1, 2, 4, 5]);
}

#[test]
fn a_worker_that_is_heard_again_may_get_another_second_lease() {
    let mut world = fleet(5);
    for _ in 1..=2 {
        world.pass(12_000);
        (1..=5).for_each(|session| world.alive(session));
    }
    assert!(world.closed.is_empty());
    world.pass(21_000);
    assert_eq!(world.closed, [1, 2, 3, 4, 5]);
}

#[test]
fn an_action_that_waits_is_held_back_as_well() {
    let mut world = World::new();
    let waiter = || escapement_engine::ActionSpec {
        waits: true,
        max_in_flight: 4,
        ..action("a")
    };
    for session in 1..=5 {
        world.hello(session, session as u8, 1, vec![waiter()], vec![]);
    }
    world.pass(12_000);
    world.run(1, plan(1, &["a"]));
    assert_eq!(world.auditor.seq_of.len(), 0);
    world.alive(2);
    world.one_assignment(2);
}
