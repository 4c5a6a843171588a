//! When a worker is asked what it has, and what follows from its answer.

use crate::world::{WaitFor, World, action, in_flight, plan, token_of};
use escapement_contract::Status;
use escapement_engine::{AttemptReport, CancelReason, FromWorker, InFlight, InFlightPhase, Input, ToWorker};
use escapement_model::{AttemptToken, codes};

/// Numbers of the requests since a session was asked last.
fn requests(world: &mut World, session: u64) -> Vec<u64> {
    let sent = world.take_sent(session).into_iter();
    sent.filter_map(|message| match message {
        ToWorker::SnapshotRequest { n } => Some(n),
        _ => None,
    })
    .collect()
}

/// The worker has read everything up to the last assignments.
fn answer(world: &mut World, session: u64, n: u64, has: &[(AttemptToken, InFlightPhase)]) {
    answer_up_to(world, session, n, u64::MAX, has);
}

fn answer_up_to(
    world: &mut World,
    session: u64,
    n: u64,
    last_assignment_seq: u64,
    has: &[(AttemptToken, InFlightPhase)],
) {
    let in_flight = has.iter().map(|(token, phase)| InFlight {
        token: *token,
        phase: *phase,
    });
    let in_flight = in_flight.collect();
    world.say(
        session,
        FromWorker::Snapshot {
            n,
            last_assignment_seq,
            in_flight,
        },
    );
}

/// Returns a worker with room for `n` and that many attempts of one execution; the caller is 1.
fn busy(n: u32) -> (World, Vec<AttemptToken>) {
    let mut world = World::new();
    world.worker(1, n, &["a"]);
    let request = plan(1, &vec!["a"; n as usize]).at_a_time(n as i32).build();
    world.submit(1, &request, WaitFor::Settled);
    let tokens = token_of(&world.assignments(1));
    assert_eq!(tokens.len(), n as usize);
    world.take_sent(1);
    (world, tokens)
}

/// Lets time pass with a heartbeat each second that says nothing about attempts.
fn pass_alive(world: &mut World, session: u64, seconds: u64) {
    for _ in 0..seconds {
        world.pass(1_000);
        world.alive(session);
    }
}

#[test]
fn a_worker_is_asked_when_it_does_not_answer_an_assignment() {
    let (mut world, _) = busy(1);
    world.pass(1_999);
    assert_eq!(requests(&mut world, 1), []);
    world.pass(1);
    assert_eq!(requests(&mut world, 1), [1]);
}

#[test]
fn a_worker_that_answers_its_assignments_is_not_asked() {
    let (mut world, tokens) = busy(2);
    world.started(1, tokens[0]);
    world.complete(1, tokens[1]);
    pass_alive(&mut world, 1, 60);
    assert_eq!(requests(&mut world, 1), []);
}

#[test]
fn a_request_that_is_not_answered_is_repeated_and_only_the_last_answer_counts() {
    let (mut world, tokens) = busy(1);
    world.pass(6_000);
    assert_eq!(requests(&mut world, 1), [1, 2]);
    answer(&mut world, 1, 1, &[]);
    world.pass(100);
    assert!(
        world.assignments(1).is_empty(),
        "an answer to an older request settles nothing"
    );
    world.started(1, tokens[0]);
    world.complete(1, tokens[0]);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn at_most_one_request_is_unanswered() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let mut asked_at = Vec::new();
    for n in 1..=16 {
        world.heartbeat(1, &[AttemptToken::new([n; 16])]);
        world.pass(1_000);
        let asked = requests(&mut world, 1).into_iter().map(|_| world.now_ms);
        asked_at.extend(asked);
    }
    assert_eq!(asked_at, [2_000, 5_000, 9_000, 13_000], "only the repetitions");
}

#[test]
fn a_snapshot_that_nobody_asked_for_is_ignored() {
    let (mut world, tokens) = busy(1);
    answer(&mut world, 1, 0, &[]);
    answer(&mut world, 1, 1, &[]);
    world.pass(2_000);
    answer(&mut world, 1, 1, &[(tokens[0], InFlightPhase::Received)]);
    answer(&mut world, 1, 1, &[]);
    assert!(world.assignments(1).is_empty());
}

//
#[test]
fn what_a_snapshot_omits_and_never_started_is_handed_out_again_uncounted() {
    let (mut world, tokens) = busy(1);
    world.pass(2_000);
    answer(&mut world, 1, 1, &[]);
    let again = world.one_assignment(1);
    assert_ne!(again.token, tokens[0]);
    assert_eq!(again.attempt, 1);
    world.complete(1, again.token);
    assert_eq!(world.evidence(1), ["snapshot_omits"]);
    assert_eq!(world.status(1), Status::Success);
}

//
#[test]
fn what_a_snapshot_omits_and_had_started_is_lost() {
    let (mut world, tokens) = busy(2);
    world.started(1, tokens[0]);
    world.pass(2_000);
    answer(&mut world, 1, 1, &[(tokens[1], InFlightPhase::Received)]);
    assert_eq!(world.code(1), codes::WORKER_LOST);
}

#[test]
fn what_a_snapshot_omits_and_was_cancelled_frees_its_credit() {
    let (mut world, tokens) = busy(2);
    world.started(1, tokens[0]);
    world.pass(2_000);
    let fatal = escapement_contract::Outcome::Undecodable { detail: "no".into() };
    world.report(1, tokens[0], fatal);
    assert_eq!(world.workers()[0].stopping, 1, "the other one is cancelled");
    answer(&mut world, 1, 1, &[]);
    assert_eq!(world.workers()[0].in_flight, 0);
}

#[test]
fn an_assignment_that_the_worker_has_not_read_is_not_missing() {
    let (mut world, tokens) = busy(1);
    world.pass(2_000);
    let seq = world.auditor.seq_of[&tokens[0]];
    answer_up_to(&mut world, 1, 1, seq - 1, &[]);
    assert_eq!(world.workers()[0].in_flight, 1);
    world.pass(1_999);
    assert_eq!(requests(&mut world, 1), [1], "requests keep their distance");
    world.pass(1);
    assert_eq!(requests(&mut world, 1), [2], "it is still not answered");
    answer_up_to(&mut world, 1, 2, seq, &[]);
    assert_eq!(world.assignments(1).len(), 1);
}

#[test]
fn a_snapshot_covers_nothing_that_comes_after_it() {
    let (mut world, _) = busy(1);
    world.pass(2_000);
    assert_eq!(requests(&mut world, 1), [1]);
    answer_up_to(&mut world, 1, 1, u64::MAX, &[]);
    world.one_assignment(1);
    pass_alive(&mut world, 1, 2);
    assert_eq!(requests(&mut world, 1), [2], "the next is not answered either");
}

#[test]
fn what_a_snapshot_lists_as_running_has_started() {
    for phase in [InFlightPhase::Running, InFlightPhase::Finished] {
        let (mut world, tokens) = busy(1);
        world.pass(2_000);
        answer(&mut world, 1, 1, &[(tokens[0], phase)]);
        world.say(1, FromWorker::Goodbye);
        assert_eq!(world.code(1), codes::WORKER_LOST);
    }
}

#[test]
fn an_attempt_that_waits_with_its_worker_is_asked_for_once_in_a_while() {
    let (mut world, tokens) = busy(1);
    world.pass(2_000);
    assert_eq!(requests(&mut world, 1), [1]);
    answer(&mut world, 1, 1, &[(tokens[0], InFlightPhase::Received)]);
    pass_alive(&mut world, 1, 29);
    assert_eq!(requests(&mut world, 1), []);
    pass_alive(&mut world, 1, 1);
    assert_eq!(requests(&mut world, 1), [2]);
}

#[test]
fn what_a_worker_has_and_should_not_is_cancelled_once() {
    let (mut world, tokens) = busy(1);
    let strangers: Vec<AttemptToken> = (1..=3).map(|n| AttemptToken::new([n; 16])).collect();
    world.pass(2_000);
    world.take_sent(1);
    let has = [
        (tokens[0], InFlightPhase::Running),
        (strangers[0], InFlightPhase::Received),
        (strangers[1], InFlightPhase::Running),
        (strangers[2], InFlightPhase::Finished),
    ];
    answer(&mut world, 1, 1, &has);
    let superseded = |token| (token, CancelReason::Superseded);
    assert_eq!(
        world.take_cancels(1),
        [superseded(strangers[0]), superseded(strangers[1])],
        "the outcome of what has finished is on its way"
    );
    pass_alive(&mut world, 1, 20);
    assert_eq!(world.take_cancels(1), [], "nobody repeats it");
}

#[test]
fn a_heartbeat_finds_what_a_worker_forgot() {
    let (mut world, tokens) = busy(2);
    world.started(1, tokens[0]);
    world.started(1, tokens[1]);
    world.heartbeat(1, &tokens);
    world.pass(3_000);
    assert_eq!(requests(&mut world, 1), [], "equal books need no snapshot");
    world.heartbeat(1, &tokens[..1]);
    assert_eq!(requests(&mut world, 1), [1]);
    answer(&mut world, 1, 1, &[(tokens[0], InFlightPhase::Running)]);
    assert_eq!(world.code(1), codes::WORKER_LOST);
}

#[test]
fn a_difference_that_messages_on_their_way_explain_is_borne_for_a_while() {
    let (mut world, tokens) = busy(1);
    world.started(1, tokens[0]);
    // Its assignment is not read yet.
    world.heartbeat(1, &[]);
    assert_eq!(requests(&mut world, 1), []);
    world.complete(1, tokens[0]);
    // The answer to its outcome is not read yet.
    world.heartbeat(1, &tokens);
    assert_eq!(requests(&mut world, 1), []);
    world.heartbeat(1, &tokens);
    assert_eq!(requests(&mut world, 1), [1], "nothing has moved since");
}

#[test]
fn a_difference_is_looked_into_even_if_something_always_moves() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    let stranger = [AttemptToken::new([1; 16])];
    let mut asked_at = Vec::new();
    for n in 1..=70 {
        world.run(n, plan(n, &["a"]));
        let token = world.one_assignment(1).token;
        world.complete(1, token);
        world.heartbeat(1, &stranger);
        if let [request] = requests(&mut world, 1)[..] {
            asked_at.push(world.now_ms);
            answer(&mut world, 1, request, &[]);
        }
        world.pass(1_000);
    }
    assert_eq!(asked_at, [30_000, 60_000]);
}

#[test]
fn the_same_difference_is_not_asked_about_at_every_heartbeat() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    let stranger = [AttemptToken::new([1; 16])];
    let mut asked_at = Vec::new();
    for _ in 0..40 {
        world.heartbeat(1, &stranger);
        if let [request] = requests(&mut world, 1)[..] {
            asked_at.push(world.now_ms);
            answer(&mut world, 1, request, &[(stranger[0], InFlightPhase::Running)]);
        }
        world.pass(1_000);
    }
    assert_eq!(asked_at, [1_000, 31_000]);
}

#[test]
fn a_worker_that_floods_heartbeats_is_not_asked_for_each() {
    let mut world = World::new();
    world.worker(1, 4, &["a"]);
    for n in 1..=100 {
        world.heartbeat(1, &[AttemptToken::new([n; 16])]);
        if let [request] = requests(&mut world, 1)[..] {
            answer(&mut world, 1, request, &[]);
        }
        world.pass(40);
    }
    assert_eq!(
        world.log.iter().filter(|line| line.contains("snapshot")).count(),
        2
    );
}

#[test]
fn an_attempt_that_came_over_is_covered_by_any_snapshot_of_the_new_session() {
    let (mut world, tokens) = busy(1);
    world.started(1, tokens[0]);
    world.close(1);
    let still = vec![in_flight(tokens[0], InFlightPhase::Running)];
    world.hello(2, 1, 1, vec![action("a")], still);
    world.heartbeat(2, &tokens);
    world.pass(3_000);
    world.heartbeat(2, &[]);
    assert_eq!(requests(&mut world, 2), [1]);
    answer_up_to(&mut world, 2, 1, 0, &[]);
    assert_eq!(world.code(1), codes::WORKER_LOST);
}

#[test]
fn an_attempt_that_came_over_unstarted_is_asked_for_in_a_while() {
    let (mut world, tokens) = busy(1);
    world.close(1);
    let still = vec![in_flight(tokens[0], InFlightPhase::Received)];
    world.hello(2, 1, 1, vec![action("a")], still);
    pass_alive(&mut world, 2, 29);
    assert_eq!(
        requests(&mut world, 2),
        [],
        "its hello has just said that it has it"
    );
    pass_alive(&mut world, 2, 1);
    assert_eq!(requests(&mut world, 2), [1]);
}

//
#[test]
fn an_answer_on_its_way_does_not_confuse_a_snapshot() {
    let (mut world, tokens) = busy(2);
    world.pass(2_000);
    let output = escapement_contract::Outcome::completed(Default::default());
    // Its snapshot was taken before it read the answer to this outcome.
    world.report(1, tokens[0], output);
    world.take_sent(1);
    let has = [
        (tokens[0], InFlightPhase::Finished),
        (tokens[1], InFlightPhase::Running),
    ];
    answer(&mut world, 1, 1, &has);
    assert_eq!(world.take_cancels(1), []);
    world.complete(1, tokens[1]);
    assert_eq!(world.status(1), Status::Success);
}

#[test]
fn an_outcome_reported_elsewhere_and_then_omitted_frees_the_credit() {
    let (mut world, tokens) = busy(2);
    world.started(1, tokens[0]);
    let report = AttemptReport::Outcome(escapement_contract::Outcome::completed(Default::default()));
    let items = vec![(tokens[0], report)];
    world.ask(|caller| Input::ReportOutcomes { caller, items });
    world.pass(2_000);
    answer(&mut world, 1, 1, &[(tokens[1], InFlightPhase::Received)]);
    assert_eq!(world.workers()[0].in_flight, 1);
    world.complete(1, tokens[1]);
    assert_eq!(world.status(1), Status::Success);
}
