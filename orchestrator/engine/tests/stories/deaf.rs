//! Workers that are heard and do not hear: they say hello again and again, and read no welcome.

use crate::world::{World, action, hello_of, plan, session_id};
use escapement_contract::Status;
use escapement_engine::{AckVerdict, Hello, InFlight, InFlightPhase, Input, KeepOrStop};
use escapement_model::{AttemptToken, codes};

/// Returns a hello of instance 1, which offers two slots of `a`, after the welcome of this session.
fn hello(previous: Option<u64>, in_flight: &[(AttemptToken, InFlightPhase)]) -> Hello {
    let in_flight = in_flight.iter();
    Hello {
        actions: vec![action("a")],
        max_in_flight: 2,
        previous_session_id: previous.map(session_id),
        in_flight: in_flight
            .map(|(token, phase)| InFlight {
                token: *token,
                phase: *phase,
            })
            .collect(),
        ..hello_of(1, "w")
    }
}

/// The stream breaks, and the worker says this hello on the next one.
fn say_again(world: &mut World, session: u64, hello: Hello) {
    world.close(session - 1);
    world.open_unheard(session, hello);
}

fn n_handed_out(world: &World) -> usize {
    world.auditor.seq_of.len()
}

/// Returns a worker with two attempts; `started` says which of them it started.
fn with_two_attempts(started: [bool; 2]) -> (World, [AttemptToken; 2]) {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    for caller in 1..=2 {
        world.run(caller, plan(caller, &["a"]));
    }
    let tokens: Vec<_> = world.assignments(1).iter().map(|item| item.token).collect();
    for (token, _) in tokens.iter().zip(started).filter(|(_, started)| *started) {
        world.started(1, *token);
    }
    (world, [tokens[0], tokens[1]])
}

#[test]
fn a_deaf_worker_gets_no_work_before_its_heartbeat() {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    say_again(&mut world, 2, hello(Some(1), &[]));
    world.run(1, plan(1, &["a"]));
    world.one_assignment(2);
    // It has not read the second welcome, nor any of those that follow.
    for session in 3..=6 {
        say_again(&mut world, session, hello(Some(1), &[]));
        world.run(session, plan(session, &["a"]));
        world.pass(5_000);
    }
    assert_eq!(n_handed_out(&world), 1);
    world.heartbeat(6, &[]);
    assert_eq!(world.assignments(6).len(), 2, "as many as it has room for");
}

#[test]
fn an_action_that_waits_is_not_handed_to_a_deaf_worker_either() {
    let mut world = World::new();
    let mut waiter = hello(None, &[]);
    (waiter.actions[0].waits, waiter.actions[0].max_in_flight) = (true, 4);
    world.open_unheard(1, waiter.clone());
    say_again(&mut world, 2, waiter);
    world.run(1, plan(1, &["a"]));
    assert_eq!(n_handed_out(&world), 0);
    world.heartbeat(2, &[]);
    world.one_assignment(2);
}

//
#[test]
fn what_a_deaf_worker_does_not_run_is_settled_after_the_lease_and_its_margin() {
    use InFlightPhase::{Finished, Received};
    let (mut world, [ran, waited]) = with_two_attempts([true, false]);
    let lists = [(ran, Finished), (waited, Received)];
    world.pass(2_000);
    world.heartbeat(1, &[ran, waited]);
    world.pass(4_000);
    // It has read the welcome of the first session, and that alone.
    say_again(&mut world, 2, hello(Some(1), &lists));
    assert_eq!(
        world.take_welcome(2),
        [(ran, KeepOrStop::Keep), (waited, KeepOrStop::Keep)]
    );
    world.pass(5_000);
    say_again(&mut world, 3, hello(Some(1), &lists));
    world.pass(5_999);
    say_again(&mut world, 4, hello(Some(1), &lists));
    assert_eq!(
        world.take_welcome(4),
        [(ran, KeepOrStop::Keep), (waited, KeepOrStop::Keep)]
    );
    world.pass(1);
    say_again(&mut world, 5, hello(Some(1), &lists));
    assert_eq!(
        world.take_welcome(5),
        [(ran, KeepOrStop::Stop), (waited, KeepOrStop::Stop)]
    );
    assert_eq!(world.code(1), codes::WORKER_LOST);
    assert_eq!(n_handed_out(&world), 2, "not to the deaf worker");
    world.hello(8, 8, 1, vec![action("a")], vec![]);
    let again = world.one_assignment(8);
    assert_eq!(again.attempt, 1, "uncounted");
    world.complete(8, again.token);
    assert_eq!(
        (world.status(2), world.evidence(2)),
        (Status::Success, vec!["lease_expired"])
    );
    // Its outcomes come through at last.
    world.complete(5, ran);
    world.complete(5, waited);
    assert_eq!(
        world.take_verdicts(5),
        [AckVerdict::AlreadyEnded, AckVerdict::Stale]
    );
}

//
#[test]
fn what_had_started_unheard_is_lost_and_not_handed_out_again() {
    use InFlightPhase::{Finished, Received};
    let (mut world, [finished, received]) = with_two_attempts([false, true]);
    world.pass(6_000);
    // Its hellos are all that is heard of it.
    say_again(
        &mut world,
        2,
        hello(None, &[(finished, Received), (received, Received)]),
    );
    world.pass(5_000);
    say_again(
        &mut world,
        3,
        hello(None, &[(finished, Finished), (received, Received)]),
    );
    for caller in 1..=2 {
        assert_eq!(world.code(caller), codes::WORKER_LOST);
    }
}

#[test]
fn what_a_deaf_worker_runs_moves_from_session_to_session() {
    use InFlightPhase::Running;
    let (mut world, tokens) = with_two_attempts([true, false]);
    let lists = tokens.map(|token| (token, Running));
    for session in 2..=7 {
        world.pass(5_000);
        say_again(&mut world, session, hello(Some(1), &lists));
    }
    assert_eq!(
        world.take_welcome(7),
        tokens.map(|token| (token, KeepOrStop::Keep))
    );
    for (token, caller) in tokens.into_iter().zip(1..) {
        world.complete(7, token);
        assert_eq!(world.status(caller), Status::Success);
    }
}

#[test]
fn a_heartbeat_ends_the_deafness() {
    use InFlightPhase::Finished;
    let (mut world, tokens) = with_two_attempts([true, true]);
    let lists = tokens.map(|token| (token, Finished));
    world.pass(5_000);
    say_again(&mut world, 2, hello(Some(1), &lists));
    world.pass(5_000);
    say_again(&mut world, 3, hello(Some(1), &lists));
    world.pass(5_000);
    world.heartbeat(3, &tokens);
    world.pass(5_000);
    say_again(&mut world, 4, hello(Some(1), &lists));
    world.pass(5_999);
    say_again(&mut world, 5, hello(Some(1), &lists));
    assert_eq!(
        world.take_welcome(5),
        tokens.map(|token| (token, KeepOrStop::Keep))
    );
    world.pass(1);
    say_again(&mut world, 6, hello(Some(1), &lists));
    assert_eq!(
        world.take_welcome(6),
        tokens.map(|token| (token, KeepOrStop::Stop))
    );
}

#[test]
fn a_worker_that_names_the_last_welcome_has_heard() {
    use InFlightPhase::Finished;
    let (mut world, tokens) = with_two_attempts([true, true]);
    let lists = tokens.map(|token| (token, Finished));
    for session in 2..=3 {
        world.pass(5_000);
        say_again(&mut world, session, hello(Some(1), &lists));
    }
    // It read the third welcome, and its stream broke before the first heartbeat.
    world.pass(5_000);
    say_again(&mut world, 4, hello(Some(3), &lists));
    assert_eq!(
        world.take_welcome(4),
        tokens.map(|token| (token, KeepOrStop::Keep))
    );
    world.complete(4, tokens[0]);
    assert_eq!(world.status(1), Status::Success);
    world.run(3, plan(3, &["a"]));
    world.one_assignment(4);
}

#[test]
fn a_worker_that_names_no_session_only_waits_for_its_heartbeat() {
    use InFlightPhase::Finished;
    let (mut world, [done, other]) = with_two_attempts([true, true]);
    world.complete(1, other);
    world.pass(9_000);
    world.heartbeat(1, &[done]);
    world.pass(9_000);
    say_again(&mut world, 2, hello(None, &[(done, Finished)]));
    assert_eq!(world.take_welcome(2), [(done, KeepOrStop::Keep)]);
    world.complete(2, done);
    assert_eq!(world.status(1), Status::Success);
    world.run(3, plan(3, &["a"]));
    assert_eq!(n_handed_out(&world), 2);
    world.heartbeat(2, &[]);
    world.one_assignment(2);
}

#[test]
fn a_session_that_was_forgotten_is_remembered_as_the_last_one() {
    for (previous, works_at_once) in [(Some(1), true), (None, false), (Some(9), false)] {
        let mut world = World::new();
        world.worker(1, 2, &["a"]);
        world.close(1);
        assert!(world.workers().is_empty(), "nothing is left of it");
        world.pass(60_000);
        world.open_unheard(2, hello(previous, &[]));
        world.run(1, plan(1, &["a"]));
        assert_eq!(n_handed_out(&world) == 1, works_at_once, "{previous:?}");
        world.heartbeat(2, &[]);
        world.one_assignment(2);
    }
}

#[test]
fn the_deafness_goes_on_where_sessions_with_nothing_left_are_forgotten() {
    let mut world = World::new();
    world.worker(1, 2, &["a"]);
    for session in 2..=4 {
        say_again(&mut world, session, hello(Some(1), &[]));
        world.close(session);
        world.pass(5_000);
    }
    world.run(1, plan(1, &["a"]));
    world.open_unheard(5, hello(Some(1), &[]));
    assert_eq!(n_handed_out(&world), 0);
    world.open_unheard(6, hello(Some(5), &[]));
    world.one_assignment(6);
}

#[test]
fn a_pause_of_the_orchestrator_is_no_deafness() {
    use InFlightPhase::Finished;
    let (mut world, tokens) = with_two_attempts([true, true]);
    let lists = tokens.map(|token| (token, Finished));
    for session in 2..=3 {
        world.pass(1_000);
        say_again(&mut world, session, hello(Some(1), &lists));
    }
    world.now_ms += 30_000;
    world.input(Input::Tick);
    say_again(&mut world, 4, hello(Some(1), &lists));
    assert_eq!(
        world.take_welcome(4),
        tokens.map(|token| (token, KeepOrStop::Keep))
    );
}
