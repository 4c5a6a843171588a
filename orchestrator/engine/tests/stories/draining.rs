//! How workers and the orchestrator itself take their leave.

use crate::world::{World, plan};
use escapement_contract::Status;
use escapement_engine::{FromWorker, Input, Refusal, RejectReason, SessionKey, ToWorker};
use escapement_model::SessionId;

#[test]
fn a_draining_worker_gets_nothing_more_and_what_it_has_not_started_goes_elsewhere() {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    world.run(1, plan(1, &["a", "a", "a"]).at_a_time(3));
    let both = world.assignments(1);
    world.started(1, both[0].token);
    world.say(1, FromWorker::Drain);
    assert!(world.sent.iter().any(|(_, message)| matches!(
        message,
        ToWorker::DrainStarted { last_assignment_seq } if *last_assignment_seq > 0
    )));
    world.reject(1, both[1].token, RejectReason::Draining);
    world.complete(1, both[0].token);
    assert!(world.assignments(1).is_empty());
    world.say(1, FromWorker::Goodbye);
    world.worker(2, 2, &["a"]);
    for assignment in world.assignments(2) {
        world.complete(2, assignment.token);
    }
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn a_draining_orchestrator_lets_running_executions_end_and_takes_no_new_ones() {
    let mut world = World::with(|config| config.max_running_executions = 1);
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a", "a"]));
    world.accept(2, plan(2, &["a"]));
    world.input(Input::Drain { grace_ms: 30_000 });
    world.run(3, plan(3, &["a"]));
    assert_eq!(world.refusal(3), Some(Refusal::Draining));
    for _ in 0..2 {
        assert!(!world.log_has("drained, 0 left"));
        let assignment = world.one_assignment(1);
        world.complete(1, assignment.token);
    }
    assert_eq!(world.status(1), Status::Success);
    assert!(world.log_has("drained, 0 left"));
    assert!(
        world.assignments(1).is_empty(),
        "what is queued is left to the next start"
    );
}

#[test]
fn a_drain_ends_with_its_grace() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    world.input(Input::Drain { grace_ms: 5_000 });
    world.pass(4_999);
    assert!(!world.log_has("drained, 1 left"));
    world.pass(1);
    assert!(world.log_has("drained, 1 left"));
    assert!(world.log_has("send 1 reconnect"));
    assert!(!world.replies.contains_key(&1), "its outcome is not made up");
}

/// What the sessions were told about leaving: session, jitter, deadline.
fn reconnects(world: &mut World) -> Vec<(u64, u64, u64)> {
    let sent = std::mem::take(&mut world.sent).into_iter();
    sent.filter_map(|(session, message)| match message {
        ToWorker::Reconnect {
            jitter_ms,
            deadline_ms,
        } => Some((session, jitter_ms, deadline_ms)),
        _ => None,
    })
    .collect()
}

#[test]
fn workers_are_told_of_a_drain_at_its_start_and_at_its_end() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a", "a"]));
    let first = world.one_assignment(1);
    world.input(Input::SessionOpened {
        session: SessionKey(7),
        session_id: SessionId::new([7; 16]),
    });
    world.input(Input::Drain { grace_ms: 30_000 });
    assert_eq!(
        reconnects(&mut world),
        [(1, 1_000, 30_000)],
        "whoever has not said hello is told after welcome"
    );
    world.pass(4_000);
    world.worker(2, 1, &["a"]);
    assert_eq!(reconnects(&mut world), [(2, 1_000, 26_000)]);
    world.complete(1, first.token);
    let tokens = world.assignments(1).into_iter().chain(world.assignments(2));
    let tokens: Vec<_> = tokens.map(|item| item.token).collect();
    assert_eq!(tokens.len(), 1, "what runs goes on");
    assert_eq!(reconnects(&mut world), []);
    let holder = world
        .workers()
        .iter()
        .position(|worker| worker.in_flight == 1)
        .unwrap();
    world.complete(holder as u64 + 1, tokens[0]);
    assert_eq!(reconnects(&mut world), [(1, 1_000, 0), (2, 1_000, 0)]);
    world.worker(3, 1, &["a"]);
    assert_eq!(reconnects(&mut world), [(3, 1_000, 0)]);
}

#[test]
fn nothing_is_handed_out_once_a_drain_is_over() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a", "a"]));
    let first = world.one_assignment(1);
    world.input(Input::Drain { grace_ms: 1_000 });
    world.pass(1_000);
    assert!(world.log_has("drained, 1 left"));
    world.complete(1, first.token);
    world.worker(2, 1, &["a"]);
    world.pass(5_000);
    let later = world.assignments(1).len() + world.assignments(2).len();
    assert_eq!(later, 0, "the restart would find it started and fail it");
}
