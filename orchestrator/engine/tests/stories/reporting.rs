//! Outcomes that come without a session.

use crate::world::{World, action, in_flight, plan, success};
use escapement_contract::{Outcome, Status};
use escapement_engine::{
    AckVerdict, Assignment, AttemptReport, CancelReason, InFlightPhase, Input, KeepOrStop, RejectReason,
    ReleaseReason,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, codes};

fn report(world: &mut World, items: Vec<(AttemptToken, AttemptReport)>) -> Vec<AckVerdict> {
    let tokens: Vec<AttemptToken> = items.iter().map(|(token, _)| *token).collect();
    let acks = world.ask(|caller| Input::ReportOutcomes { caller, items });
    let answered: Vec<AttemptToken> = acks.iter().map(|(token, _)| *token).collect();
    assert_eq!(answered, tokens, "one answer for each, in their order");
    acks.into_iter().map(|(_, verdict)| verdict).collect()
}

fn report_one(world: &mut World, token: AttemptToken) -> AckVerdict {
    report(world, vec![(token, success())])[0]
}

/// Returns a worker with room for one, its attempt of an execution of two steps, and the caller 1.
fn running() -> (World, AttemptToken) {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a", "a"]));
    let token = world.one_assignment(1).token;
    world.started(1, token);
    world.take_sent(1);
    (world, token)
}

//
#[test]
fn the_worker_is_told_and_keeps_its_credit_until_it_answers() {
    let (mut world, token) = running();
    assert_eq!(report_one(&mut world, token), AckVerdict::Accepted);
    assert_eq!(world.take_cancels(1), [(token, CancelReason::Superseded)]);
    assert_eq!(world.workers()[0].in_flight, 1);
    world.pass(1_000);
    assert_eq!(
        world.take_cancels(1),
        [(token, CancelReason::Superseded)],
        "until it answers"
    );
    world.stopped(1, token);
    let second = world.one_assignment(1);
    world.complete(1, second.token);
    assert_eq!(world.status(1), Status::Success);
    assert_eq!(report_one(&mut world, token), AckVerdict::Duplicate);
}

//
#[test]
fn the_workers_own_outcome_is_a_duplicate_and_frees_the_credit() {
    let (mut world, token) = running();
    report_one(&mut world, token);
    world.take_sent(1);
    world.complete(1, token);
    world.one_assignment(1);
    assert_eq!(world.take_verdicts(1), [AckVerdict::Duplicate]);
    assert_eq!(report_one(&mut world, token), AckVerdict::Duplicate);
}

#[test]
fn each_item_is_answered_as_on_a_stream() {
    let (mut world, token) = running();
    let unreadable = AttemptReport::Outcome(Outcome::Undecodable { detail: "no".into() });
    let stranger = AttemptToken::new([1; 16]);
    let items = vec![(stranger, success()), (token, unreadable), (token, success())];
    let verdicts = report(&mut world, items);
    assert_eq!(
        verdicts,
        [AckVerdict::Unknown, AckVerdict::Invalid, AckVerdict::Duplicate]
    );
    assert_eq!(world.code(1), codes::UNKNOWN_ERROR);
}

#[test]
fn an_attempt_that_was_over_is_already_ended() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).limit(500));
    let token = world.one_assignment(1).token;
    world.pass(500);
    assert_eq!(world.take_cancels(1), [(token, CancelReason::StepTimeout)]);
    assert_eq!(report_one(&mut world, token), AckVerdict::AlreadyEnded);
    assert_eq!(world.take_cancels(1), [], "it has been told");
    world.complete(1, token);
    assert_eq!(report_one(&mut world, token), AckVerdict::AlreadyEnded);
}

#[test]
fn a_report_at_the_very_limit_comes_too_late_and_still_stops_the_worker() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).limit(500));
    let token = world.one_assignment(1).token;
    world.now_ms += 500;
    assert_eq!(report_one(&mut world, token), AckVerdict::AlreadyEnded);
    assert_eq!(world.take_cancels(1).len(), 1);
    world.stopped(1, token);
    assert_eq!(world.workers()[0].in_flight, 0);
}

#[test]
fn an_attempt_that_was_handed_out_again_is_stale() {
    let (mut world, Assignment { token, .. }) = World::with_one(1);
    world.worker(2, 1, &["a"]);
    world.reject(1, token, RejectReason::NoCapacity);
    world.one_assignment(2);
    assert_eq!(report_one(&mut world, token), AckVerdict::Stale);
}

#[test]
fn an_attempt_that_was_given_up_is_lost() {
    let (mut world, Assignment { token, .. }) = World::with_one(1);
    let released = AttemptReport::Released(ReleaseReason::Drain);
    assert_eq!(
        report(&mut world, vec![(token, released)]),
        [AckVerdict::Accepted]
    );
    assert_eq!(world.code(1), codes::WORKER_LOST);
    let known = StructBuilder::new()
        .text("worker", "worker-1")
        .text("evidence", "released")
        .build();
    let error = world.settlement(1).result.error.clone();
    assert_eq!(error.unwrap().cause.unwrap().context, known);
    assert_eq!(world.take_cancels(1).len(), 1);
}

#[test]
fn the_last_gasp_of_a_worker_whose_stream_is_broken_counts() {
    let (mut world, token) = running();
    world.close(1);
    assert_eq!(report_one(&mut world, token), AckVerdict::Accepted);
    world.worker(2, 1, &["a"]);
    let second = world.one_assignment(2);
    world.complete(2, second.token);
    assert_eq!(world.status(1), Status::Success);
    for _ in 0..4 {
        world.pass(3_000);
        world.alive(2);
    }
    assert_eq!(world.workers().len(), 1, "its credit goes with its session");
    assert_eq!(report_one(&mut world, token), AckVerdict::Duplicate);
}

#[test]
fn a_worker_that_comes_back_with_what_was_reported_elsewhere_stops_it() {
    let (mut world, token) = running();
    world.close(1);
    report_one(&mut world, token);
    let still = vec![in_flight(token, InFlightPhase::Running)];
    world.hello(2, 1, 1, vec![action("a")], still);
    assert!(
        world.assignments(2).is_empty(),
        "its handler still runs and has the only slot"
    );
    world.pass(1_000);
    let n_cancels = world.log.iter().filter(|line| *line == "send 2 cancels").count();
    assert_eq!(n_cancels, 2, "and again until it answers");
    assert_eq!(world.take_welcome(2), [(token, KeepOrStop::Stop)]);
    world.stopped(2, token);
    world.one_assignment(2);
}

#[test]
fn a_rejection_after_the_report_changes_nothing() {
    let (mut world, Assignment { token, .. }) = World::with_one(1);
    report_one(&mut world, token);
    world.reject(1, token, RejectReason::Cancelled);
    assert_eq!(world.status(1), Status::Success);
    assert_eq!(report_one(&mut world, token), AckVerdict::Duplicate);
    assert_eq!(world.workers()[0].in_flight, 0);
}
