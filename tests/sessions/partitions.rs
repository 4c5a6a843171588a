//! Networks that are gone for a while, in both directions or in one, shorter and longer than the lease.
//! Connections that break, and links that are merely bad, stand in `links`.

use crate::arena::{Arena, LIMIT, unix_ms};
use crate::record::{assigned_unix_ms, failures, n_assigned, returns};
use crate::recorder::{HOLD, Recorder, WORK};
use crate::traffic::{retried_when_lost, side_by_side};
use escapement_tests::fault_proxy::{Direction, Flow};
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, let_pass, wait_for};
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::time::Duration;

const BOTH: [Direction; 2] = [Direction::ToTarget, Direction::ToClient];
const LEASE_MARGIN_MS: i64 = 1_000;

/// Nothing passes for half of the lease while handlers end and new work comes.
async fn shorter_than_the_lease(directions: &[Direction]) {
    let arena = Arena::start_with(|settings| settings.lease(3_000, 500)).await;
    let proxy = arena.proxy().await;
    let worker = Recorder::connect(&proxy.url(), "cut", 8).await;
    let before = arena.submit(side_by_side(HOLD, &json!({}), 3)).await;
    arena.wait_for_starts(&before, 3).await;

    for direction in directions {
        proxy.set(*direction, Flow::Hold);
    }
    let within = arena.submit(side_by_side(WORK, &json!({}), 3)).await;
    worker.release();
    let_pass(Duration::from_millis(1_500)).await;
    proxy.set_both(Flow::Pass);

    for id in [&before, &within] {
        assert_eq!(arena.result_of(id).await.status(), Status::Success);
        assert_eq!(n_assigned(&arena.record_of(id).await), 3);
    }
    let seen = worker.seen();
    assert_eq!(seen.len(), 6, "every handler ran once: {seen:?}");
    assert!(
        seen.iter().all(|seen| seen.completed_unix_ms.is_some()),
        "{seen:?}"
    );
    assert_eq!(worker.n_sessions(), 1, "nobody had a reason to connect again");
    worker.stop().await;
    let judgement = arena.finish().await;
    judgement.exactly(Count::Assignments, 6).exactly(Count::Losses, 0);
    judgement
        .exactly(Count::OutcomesAccepted, 6)
        .exactly(Count::Resumes, 0);
}

#[tokio::test]
async fn a_partition_shorter_than_the_lease_loses_and_repeats_nothing() {
    shorter_than_the_lease(&BOTH).await;
}

#[tokio::test]
async fn an_orchestrator_that_is_not_heard_for_a_while_loses_and_repeats_nothing() {
    shorter_than_the_lease(&[Direction::ToClient]).await;
}

#[tokio::test]
async fn a_worker_that_is_not_heard_for_a_while_loses_and_repeats_nothing() {
    shorter_than_the_lease(&[Direction::ToTarget]).await;
}

/// Nothing passes until everything that the worker had is settled. Gives the evidence of what it had not started.
async fn longer_than_the_lease(directions: &[Direction]) -> Vec<String> {
    let lease_ms = 1_500;
    let arena = Arena::start_with(|settings| settings.lease(lease_ms, 500)).await;
    let proxy = arena.proxy().await;
    let cut = Recorder::connect(&proxy.url(), "cut", 4).await;
    let retried = arena.submit(retried_when_lost(HOLD, json!({}))).await;
    let halted = arena
        .submit(PlanDocument::new("halts").step(HOLD, json!({}), &[]))
        .await;
    arena.wait_for_starts(&retried, 1).await;
    arena.wait_for_starts(&halted, 1).await;

    for direction in directions {
        proxy.set(*direction, Flow::Hold);
    }
    let cut_unix_ms = unix_ms();
    let unstarted = arena
        .submit(PlanDocument::new("unstarted").step(WORK, json!({}), &[]))
        .await;
    let assigned = async || (n_assigned(&arena.record_of(&unstarted).await) == 1).then_some(());
    wait_for("the assignment into the void", LIMIT, assigned)
        .await
        .unwrap();
    let spare = Recorder::connect(&arena.orchestrator.url(), "spare", 4).await;
    spare.release();

    assert_eq!(arena.result_of(&unstarted).await.status(), Status::Success);
    assert_eq!(arena.result_of(&retried).await.status(), Status::Success);
    let result = arena.result_of(&halted).await;
    assert_eq!(result.status(), Status::Failure);
    assert_eq!(result.error.unwrap().error_code, "WORKER_LOST");
    for id in [&retried, &halted] {
        let record = arena.record_of(id).await;
        let failures = failures(&record);
        let [(1, "WORKER_LOST", lost_unix_ms)] = failures[..] else {
            panic!("one attempt was lost and nothing else failed: {failures:?}")
        };
        let seen = cut
            .seen()
            .into_iter()
            .find(|seen| seen.execution_id == *id)
            .unwrap();
        let stopped_unix_ms = seen.cancelled_unix_ms.expect("the worker stopped by itself");
        assert!(
            stopped_unix_ms <= lost_unix_ms,
            "stopped {} ms after the orchestrator had given it up",
            stopped_unix_ms - lost_unix_ms
        );
        eprintln!(
            "cut {directions:?}: stopped after {} ms, lost after {} ms",
            stopped_unix_ms - cut_unix_ms,
            lost_unix_ms - cut_unix_ms
        );
    }
    let record = arena.record_of(&unstarted).await;
    assert_eq!(failures(&record), []);
    let evidence: Vec<String> = returns(&record).into_iter().map(str::to_owned).collect();
    eprintln!(
        "cut {directions:?}: handed out again after {} ms, since {evidence:?}",
        assigned_unix_ms(&record)[1] - cut_unix_ms
    );

    proxy.set_both(Flow::Pass);
    cut.wait_for_sessions(2).await;
    spare.stop().await;
    let after = arena
        .submit(PlanDocument::new("after").step(WORK, json!({}), &[]))
        .await;
    assert_eq!(arena.result_of(&after).await.status(), Status::Success);
    cut.stop().await;
    arena
        .finish()
        .await
        .at_least(Count::Losses, 2)
        .at_least(Count::HandedOutAgain, 1);
    evidence
}

#[tokio::test]
async fn a_partition_longer_than_the_lease_loses_what_had_started_and_hands_out_the_rest_again() {
    assert_eq!(longer_than_the_lease(&BOTH).await, ["lease_expired"]);
}

#[tokio::test]
async fn an_orchestrator_that_is_not_heard_beyond_the_lease_makes_the_worker_give_up() {
    // The worker connects again and can say, though not hear, what it has.
    assert_eq!(
        longer_than_the_lease(&[Direction::ToClient]).await,
        ["resume_omits"]
    );
}

#[tokio::test]
async fn a_worker_that_is_not_heard_beyond_the_lease_is_lost() {
    assert_eq!(
        longer_than_the_lease(&[Direction::ToTarget]).await,
        ["lease_expired"]
    );
}

// A worker that may not be heard has to be sure that its lease is over before its orchestrator is.
#[tokio::test]
async fn a_worker_stops_within_its_lease_and_before_the_margin_is_over() {
    let lease_ms = 2_000;
    let arena = Arena::start_with(|settings| settings.lease(lease_ms, 400)).await;
    let proxy = arena.proxy().await;
    let cut = Recorder::connect(&proxy.url(), "cut", 64).await;
    let ids = arena.submit(side_by_side(HOLD, &json!({}), 32)).await;
    arena.wait_for_starts(&ids, 32).await;
    proxy.set_both(Flow::BlackHole);
    assert_eq!(
        arena.result_of(&ids).await.error.unwrap().error_code,
        "WORKER_LOST"
    );
    let lost = failures(&arena.record_of(&ids).await)
        .iter()
        .map(|(_, _, at)| *at)
        .min()
        .unwrap();
    let stopped: Vec<_> = cut
        .seen()
        .iter()
        .filter_map(|seen| seen.cancelled_unix_ms)
        .collect();
    assert_eq!(stopped.len(), 32, "every handler was told");
    let left_ms = lost - stopped.iter().max().unwrap();
    eprintln!("handlers were told {left_ms} ms before the orchestrator gave them up");
    assert!(left_ms >= LEASE_MARGIN_MS / 4, "{left_ms} ms");
    // What was on its way is lost for good, so that connection cannot go on.
    proxy.reset_all();
    proxy.set_both(Flow::Pass);
    cut.stop().await;
    arena.finish().await.at_least(Count::Losses, 1);
}
