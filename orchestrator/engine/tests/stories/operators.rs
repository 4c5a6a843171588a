//! What operators do to workers, and what becomes of those that live on all the same.

use crate::world::{World, action, hello_of, in_flight, plan};
use escapement_contract::Status;
use escapement_engine::{
    AckVerdict, Assignment, FromWorker, InFlightPhase, Input, KeepOrStop, SessionErrorCode, SessionState,
    ToWorker, WorkerSelector, WorkerView, WorkersDrain,
};
use escapement_model::{InstanceId, codes};

fn instance(n: u8) -> InstanceId {
    InstanceId::new([n; 16])
}

fn drain(world: &mut World, worker: WorkerSelector) -> Option<WorkersDrain> {
    world.ask(|caller| Input::DrainWorker { caller, worker })
}

fn drained(world: &mut World, worker: WorkerSelector) -> Vec<WorkerView> {
    drain(world, worker).expect("the workers drain").workers
}

/// Lost and returned attempts.
fn declare_dead(world: &mut World, n: u8) -> Option<(u32, u32)> {
    let instance_id = instance(n);
    let losses = world.ask(|caller| Input::DeclareWorkerDead { caller, instance_id });
    losses.map(|losses| (losses.n_lost, losses.n_returned))
}

fn n_drain_started(world: &mut World, session: u64) -> usize {
    let sent = world.take_sent(session);
    let told = sent
        .iter()
        .filter(|message| matches!(message, ToWorker::DrainStarted { .. }));
    told.count()
}

#[test]
fn a_drained_worker_finishes_what_it_has_and_gets_nothing_more() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a", "a"]));
    let first = world.one_assignment(1);
    let workers = drained(&mut world, WorkerSelector::Instance(instance(1)));
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].state, SessionState::Draining);
    assert_eq!(n_drain_started(&mut world, 1), 1);
    world.complete(1, first.token);
    assert!(world.assignments(1).is_empty());
    assert_eq!(world.workers()[0].in_flight, 0, "now it is idle");
    world.worker(2, 1, &["a"]);
    let second = world.one_assignment(2);
    world.complete(2, second.token);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn a_drained_process_stays_drained_over_its_sessions_and_the_next_process_is_not() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    drained(&mut world, WorkerSelector::Instance(instance(1)));
    world.close(1);
    world.hello(2, 1, 1, vec![action("a")], vec![]);
    world.run(1, plan(1, &["a"]));
    assert!(world.assignments(2).is_empty());
    assert_eq!(world.workers()[0].state, SessionState::Draining);
    world.register(2, 1, vec![action("a")]);
    let sent: Vec<&'static str> = world.take_sent(2).iter().map(name).collect();
    assert_eq!(
        sent,
        ["welcome", "drain_started"],
        "told unasked, and nothing else"
    );
    world.hello(3, 3, 1, vec![action("a")], vec![]);
    world.one_assignment(3);
}

fn name(message: &ToWorker) -> &'static str {
    match message {
        ToWorker::Welcome(_) => "welcome",
        ToWorker::DrainStarted {
            last_assignment_seq: 0,
        } => "drain_started",
        _ => "something else",
    }
}

#[test]
fn a_worker_that_is_back_after_a_break_learns_that_it_was_drained_meanwhile() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a", "a"]));
    let token = world.one_assignment(1).token;
    world.started(1, token);
    world.close(1);
    assert_eq!(
        drained(&mut world, WorkerSelector::Instance(instance(1))).len(),
        1
    );
    let still = vec![in_flight(token, InFlightPhase::Running)];
    world.hello(2, 1, 1, vec![action("a")], still);
    assert_eq!(n_drain_started(&mut world, 2), 1);
    world.complete(2, token);
    assert!(world.assignments(2).is_empty());
}

#[test]
fn a_label_drains_all_that_have_it() {
    let mut world = World::new();
    for session in 1..=3 {
        let label = if session < 3 { "blue" } else { "green" };
        let mut hello = hello_of(session as u8, label);
        (hello.actions, hello.max_in_flight) = (vec![action("a")], 1);
        world.open(session, hello);
    }
    let workers = drained(&mut world, WorkerSelector::WorkerId("blue".into()));
    assert_eq!(workers.len(), 2);
    world.run(1, plan(1, &["a"]));
    assert_eq!(
        world.assignments(1).len() + world.assignments(2).len() + world.assignments(3).len(),
        1
    );
    assert!(world.log_has("send 3 assignments"));
}

#[test]
fn nobody_is_told_twice_that_it_drains() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    drained(&mut world, WorkerSelector::Instance(instance(1)));
    drained(&mut world, WorkerSelector::Instance(instance(1)));
    assert_eq!(n_drain_started(&mut world, 1), 1);
    world.say(1, FromWorker::Drain);
    assert_eq!(n_drain_started(&mut world, 1), 1, "unless it asks itself");
}

#[test]
fn whom_nobody_knows_is_neither_drained_nor_dead() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let unknown = [
        WorkerSelector::Instance(instance(9)),
        WorkerSelector::WorkerId("nobody".into()),
    ];
    for worker in unknown {
        assert!(drain(&mut world, worker).is_none());
    }
    assert_eq!(declare_dead(&mut world, 9), None);
}

#[test]
fn the_oldest_drained_processes_are_forgotten() {
    let mut world = World::new();
    for n in 0..10_001_u64 {
        let mut hello = hello_of(0, "w");
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        hello.instance_id = InstanceId::new(bytes);
        world.open(n, hello);
        drained(&mut world, WorkerSelector::Instance(InstanceId::new(bytes)));
        world.close(n);
        world.sent.clear();
    }
    let mut session = 20_000;
    for (n, is_drained) in [(0_u64, false), (1, true)] {
        session += 1;
        let mut hello = hello_of(0, "w");
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        hello.instance_id = InstanceId::new(bytes);
        world.open(session, hello);
        assert_eq!(n_drain_started(&mut world, session), usize::from(is_drained));
    }
}

//
#[test]
fn what_a_dead_worker_had_is_settled_at_once() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    for n in 1..=3 {
        world.run(n, plan(n, &["a"]));
    }
    let had = world.assignments(1);
    world.started(1, had[0].token);
    world.take_sent(1);
    assert_eq!(declare_dead(&mut world, 1), Some((1, 2)));
    assert_eq!(world.code(1), codes::WORKER_LOST);
    assert_eq!(world.take_errors(1), [SessionErrorCode::DeclaredDead]);
    assert_eq!(world.closed, [1]);
    world.worker(2, 4, &["a"]);
    for again in world.assignments(2) {
        assert_eq!(again.attempt, 1, "uncounted");
        world.complete(2, again.token);
    }
    assert_eq!(world.evidence(2), ["declared_dead"]);
    assert_eq!(
        (world.status(2), world.status(3)),
        (Status::Success, Status::Success)
    );
}

#[test]
fn a_worker_whose_stream_is_broken_can_be_declared_dead() {
    let (mut world, _) = World::with_one(4);
    world.close(1);
    world.worker(2, 4, &["a"]);
    assert_eq!(declare_dead(&mut world, 1), Some((0, 1)));
    assert!(world.closed.is_empty(), "its stream had ended");
    world.one_assignment(2);
}

//
#[test]
fn a_worker_that_was_declared_dead_may_come_back_and_nothing_of_before_counts() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    for n in 1..=2 {
        world.run(n, plan(n, &["a"]));
    }
    let had = world.assignments(1);
    world.started(1, had[0].token);
    declare_dead(&mut world, 1);
    let running = |item: &Assignment| in_flight(item.token, InFlightPhase::Running);
    world.hello(2, 1, 4, vec![action("a")], had.iter().map(running).collect());
    let stop = |index: usize| (had[index].token, KeepOrStop::Stop);
    assert_eq!(world.take_welcome(2), [stop(0), stop(1)]);
    world.complete(2, had[0].token);
    world.complete(2, had[1].token);
    assert_eq!(
        world.take_verdicts(2),
        [AckVerdict::AlreadyEnded, AckVerdict::Stale]
    );
    assert!(
        !world.replies.contains_key(&2),
        "the one handed out again goes on"
    );
}

#[test]
fn operators_see_handlers_that_do_not_stop() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    world.run(1, plan(1, &["a"]).limit(500));
    let token = world.one_assignment(1).token;
    world.started(1, token);
    assert_eq!(
        (world.workers()[0].stopping, world.workers()[0].stopping_age_ms),
        (0, 0)
    );
    world.pass(500);
    world.pass(2_300);
    let worker = world.workers().remove(0);
    assert_eq!(
        (worker.stopping, worker.stopping_age_ms, worker.in_flight),
        (1, 2_300, 1)
    );
    world.stopped(1, token);
    let worker = world.workers().remove(0);
    assert_eq!((worker.stopping, worker.stopping_age_ms), (0, 0));
}

#[test]
fn a_hello_that_was_held_up_changes_nothing() {
    let mut world = World::new();
    let numbered = |number: u64| {
        let mut hello = hello_of(1, "w");
        (hello.actions, hello.max_in_flight, hello.hello_number) = (vec![action("a")], 1, number);
        hello
    };
    world.open(1, numbered(2));
    world.open(2, numbered(1));
    assert_eq!(world.take_errors(2), [SessionErrorCode::Superseded]);
    assert_eq!(world.closed, [2]);
    world.run(1, plan(1, &["a"]));
    let token = world.one_assignment(1).token;
    world.close(1);
    world.open(3, numbered(1));
    assert_eq!(world.closed, [2, 3], "nor while the present session is suspect");
    let mut back = numbered(3);
    back.in_flight = vec![in_flight(token, InFlightPhase::Running)];
    world.open(4, back);
    world.complete(4, token);
    assert_eq!(world.status(1), Status::Success);
    world.open(5, numbered(3));
    world.open(6, numbered(0));
    assert_eq!(world.closed, [2, 3, 4, 5], "an equal number and none supersede");
    world.close(6);
    world.open(7, numbered(1));
    assert_eq!(
        world.closed,
        [2, 3, 4, 5],
        "a worker that does not number its hellos cannot be late"
    );
    world.open(8, numbered(9));
    world.close(8);
    assert!(world.workers().is_empty(), "nothing is left of it");
    world.open(9, numbered(8));
    assert_eq!(world.closed, [2, 3, 4, 5, 7, 9], "its last number is");
}
