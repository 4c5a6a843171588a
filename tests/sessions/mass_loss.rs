//! Many workers that vanish at once, for a reason that is hardly theirs, and one that vanishes alone.

use crate::arena::{Arena, unix_ms};
use crate::record::{failures, n_assigned, returns};
use crate::recorder::{HOLD, Recorder, WORK};
use crate::traffic::retried_when_lost;
use escapement_model::limits::{HEARTBEAT_INTERVAL_MS, LEASE_MARGIN_MS, LEASE_MS as DEFAULT_LEASE_MS};
use escapement_tests::fault_proxy::Flow;
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, ScriptedWorker, let_pass};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_verdict::Verdict as KeepOrStop;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use serde_json::json;
use std::time::Duration;

/// Long enough for a machine that is busy with other tests: what the tests time has half a lease to be early or late.
const LEASE_MS: u64 = 5_000;
/// Nobody's lease and margin last longer than this after the cut, and no extended lease is over by then.
const PAST_LEASES: Duration = Duration::from_millis(LEASE_MS + LEASE_MARGIN_MS + LEASE_MS / 4);
const N_WORKERS: usize = 10;

async fn crowd(arena: &Arena, url: &str, count: usize) -> Vec<Recorder> {
    let mut workers = Vec::new();
    for number in 0..count {
        workers.push(Recorder::connect(url, &format!("crowd-{number}"), 2).await);
    }
    let listed = arena.workers().await;
    assert_eq!(listed.len(), arena.n_sessions_before() + count);
    workers
}

// Each worker has expired by itself long before, yet what it had finished in time is not thrown away.
#[tokio::test]
async fn ten_workers_that_vanish_at_once_lose_nothing_that_ends_before_their_leases() {
    let arena = Arena::start_with(|settings| settings.lease(LEASE_MS, 500)).await;
    let proxy = arena.proxy().await;
    let workers = crowd(&arena, &proxy.url(), N_WORKERS).await;
    let mut running = Vec::new();
    for _ in 0..N_WORKERS {
        running.push(
            arena
                .submit(PlanDocument::new("running").step(HOLD, json!({}), &[]))
                .await,
        );
    }
    for id in &running {
        arena.wait_for_starts(id, 1).await;
    }
    proxy.set_both(Flow::Hold);
    // In flight when the switch fails, and never started.
    let mut unstarted = Vec::new();
    for _ in 0..N_WORKERS {
        unstarted.push(
            arena
                .submit(PlanDocument::new("unstarted").step(WORK, json!({}), &[]))
                .await,
        );
    }
    for worker in &workers {
        worker.release();
    }
    let_pass(PAST_LEASES).await;
    for id in &running {
        assert_eq!(
            failures(&arena.record_of(id).await),
            [],
            "nobody is lost in a hurry"
        );
    }
    proxy.set_both(Flow::Pass);
    for id in &running {
        assert_eq!(arena.result_of(id).await.status(), Status::Success);
        assert_eq!(n_assigned(&arena.record_of(id).await), 1);
    }
    for id in &unstarted {
        assert_eq!(arena.result_of(id).await.status(), Status::Success);
        assert_eq!(failures(&arena.record_of(id).await), []);
    }
    for worker in workers {
        worker.stop().await;
    }
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Losses, judgement.count(Count::HandedOutAgain))
        .at_least(Count::Resumes, N_WORKERS as u64)
        .at_least(Count::Assignments, 2 * N_WORKERS as u64);
}

// Workers that do not give up by themselves keep what they run through the extension.
#[tokio::test]
async fn ten_workers_that_vanish_at_once_and_go_on_working_keep_what_they_run() {
    let arena = Arena::start_with(|settings| settings.lease(LEASE_MS, 500)).await;
    let proxy = arena.proxy().await;
    let mut workers = Vec::new();
    for number in 0..N_WORKERS {
        let mut hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[WORK]), 1);
        hello.worker_id = format!("crowd-{number}");
        let (mut worker, _) = ScriptedWorker::open(&proxy.url(), hello).await;
        worker.keep_alive(Duration::from_millis(500));
        let id = arena
            .submit(PlanDocument::new("kept").step(WORK, json!({}), &[]))
            .await;
        let assignment = worker.started().await;
        workers.push((worker, id, assignment));
    }
    proxy.set_both(Flow::BlackHole);
    let_pass(PAST_LEASES).await;
    proxy.reset_all();
    proxy.set_both(Flow::Pass);
    for (worker, id, assignment) in workers {
        let in_flight = worker.in_flight();
        let (mut worker, welcome) = worker.reconnect_listing(&proxy.url(), in_flight).await;
        assert_eq!(welcome.verdicts[0].verdict(), KeepOrStop::Keep);
        assert_eq!(worker.succeed(&assignment, json!({})).await, Verdict::Accepted);
        assert_eq!(arena.result_of(&id).await.status(), Status::Success);
        assert_eq!(n_assigned(&arena.record_of(&id).await), 1);
        worker.goodbye().await;
    }
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Losses, 0)
        .exactly(Count::HandedOutAgain, 0)
        .exactly(Count::KeptAttempts, N_WORKERS as u64);
}

#[tokio::test]
async fn ten_workers_that_vanish_for_good_are_settled_after_one_more_lease() {
    let arena = Arena::start_with(|settings| settings.lease(LEASE_MS, 500)).await;
    let proxy = arena.proxy().await;
    let workers = crowd(&arena, &proxy.url(), N_WORKERS).await;
    let mut running = Vec::new();
    for _ in 0..N_WORKERS {
        running.push(arena.submit(retried_when_lost(HOLD, json!({}))).await);
    }
    for id in &running {
        arena.wait_for_starts(id, 1).await;
    }
    proxy.set_both(Flow::BlackHole);
    let cut_unix_ms = unix_ms();
    let spare = Recorder::connect(&arena.orchestrator.url(), "spare", 16).await;
    spare.release();
    for id in &running {
        assert_eq!(arena.result_of(id).await.status(), Status::Success);
        let record = arena.record_of(id).await;
        let failures = failures(&record);
        let [(1, "WORKER_LOST", lost_unix_ms)] = failures[..] else {
            panic!("{failures:?}")
        };
        let after_ms = lost_unix_ms - cut_unix_ms;
        // Each was heard within its lease before the cut: one lease is over by the lower limit, two are not, and three
        // are not by the upper one.
        let (one, three) = (LEASE_MS + LEASE_MARGIN_MS, 3 * LEASE_MS + LEASE_MARGIN_MS);
        assert!(
            (one as i64..three as i64).contains(&after_ms),
            "lost after {after_ms} ms"
        );
    }
    proxy.reset_all();
    proxy.set_both(Flow::Pass);
    spare.stop().await;
    for worker in workers {
        worker.stop().await;
    }
    arena.finish().await.exactly(Count::Losses, N_WORKERS as u64);
}

// With the default lease: many other workers do not make the loss of one any slower.
#[tokio::test]
async fn one_worker_of_ten_that_vanishes_alone_is_settled_after_its_lease() {
    let arena = Arena::start().await;
    let proxy = arena.proxy().await;
    let others = crowd(&arena, &arena.orchestrator.url(), N_WORKERS - 1).await;
    let alone = Recorder::connect(&proxy.url(), "alone", 32).await;
    // Among workers with a free slot the least loaded is first, so this many reach every one of them.
    let mut running = Vec::new();
    for _ in 0..N_WORKERS {
        running.push(arena.submit(retried_when_lost(HOLD, json!({}))).await);
    }
    for id in &running {
        arena.wait_for_starts(id, 1).await;
    }
    assert_eq!(alone.seen().len(), 1);
    proxy.set_both(Flow::BlackHole);
    let cut_unix_ms = unix_ms();
    let lost = alone.seen()[0].execution_id.clone();
    arena.wait_for_starts(&lost, 2).await;
    let record = arena.record_of(&lost).await;
    // Not before its lease and margin are over, which the checker of sessions judges, and without a second lease.
    let (_, _, lost_unix_ms) = failures(&record)[0];
    let after_ms = lost_unix_ms - cut_unix_ms;
    let second_lease_ms = (DEFAULT_LEASE_MS + LEASE_MARGIN_MS + DEFAULT_LEASE_MS) as i64;
    assert!(
        after_ms < second_lease_ms - HEARTBEAT_INTERVAL_MS as i64,
        "lost after {after_ms} ms"
    );
    for worker in &others {
        worker.release();
    }
    for id in &running {
        let record = arena.record_of(id).await;
        assert_eq!(arena.result_of(id).await.status(), Status::Success);
        assert_eq!(returns(&record).len(), 0);
        assert_eq!(failures(&record).len(), usize::from(*id == lost));
    }
    proxy.reset_all();
    proxy.set_both(Flow::Pass);
    alone.stop().await;
    for worker in others {
        worker.stop().await;
    }
    arena.finish().await.exactly(Count::Losses, 1);
}
