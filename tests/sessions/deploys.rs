//! Rolling restarts under load, of stock workers and of the orchestrator: nothing fails, nothing runs twice, nothing is lost.

use crate::arena::{Arena, LIMIT, scale};
use crate::load::{Caller, id_of, submission};
use escapement_tests::plans::{StepWords, step};
use escapement_tests::session_checker::Count;
use escapement_tests::{Worker, wait_for};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, PlanResult, SubmitPlanRequest};
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Time at which the replacement of a worker starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replacement {
    /// While the old one drains.
    Beside,
    /// Time at which the old one is gone.
    Afterwards,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_replaced_one_by_one_fail_and_repeat_no_step() {
    replace_workers(3, Replacement::Beside).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_replaced_after_they_are_gone_fail_and_repeat_no_step() {
    replace_workers(3, Replacement::Afterwards).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_worker_that_is_replaced_within_the_grace_of_its_actions_fails_and_repeats_no_step() {
    replace_workers(1, Replacement::Afterwards).await;
}

/// Every worker is replaced `scale(2, 10)` times.
async fn replace_workers(n_workers: usize, replacement: Replacement) {
    let arena = Arena::start().await;
    let mut workers = Vec::new();
    for number in 0..n_workers {
        workers.push(worker(&arena, &arena.orchestrator.url(), &format!("stock-{number}-0")).await);
    }
    let mut names: BTreeSet<String> = workers.iter().map(|worker| worker.worker_id.clone()).collect();
    let load = Load::begin(&arena.orchestrator.url(), 6);
    let mut n_replaced = 0;
    for round in 1..=scale(2, 10) {
        for (number, old) in workers.iter_mut().enumerate() {
            load.goes_on().await;
            works(&arena, &old.worker_id).await;
            let name = format!("stock-{number}-{round}");
            old.process.signal(Signal::TERM).unwrap();
            let gone = async |old: &mut Worker| old.process.exit(LIMIT).await.unwrap();
            let (status, new) = match replacement {
                Replacement::Beside => {
                    let new = worker(&arena, &arena.orchestrator.url(), &name).await;
                    (gone(old).await, new)
                }
                Replacement::Afterwards => {
                    let status = gone(old).await;
                    (status, worker(&arena, &arena.orchestrator.url(), &name).await)
                }
            };
            assert_eq!(
                status.code(),
                Some(0),
                "{}: {}",
                old.worker_id,
                old.process.stderr()
            );
            names.insert(name);
            *old = new;
            n_replaced += 1;
        }
    }
    load.goes_on().await;
    for worker in &workers {
        works(&arena, &worker.worker_id).await;
    }
    let runs = load.end().await;
    let mut served = BTreeSet::new();
    let mut n_returned = 0;
    for run in &runs {
        assert_eq!(run.result.status(), Status::Success, "{:?}", run.result);
        let record = arena.record_of(&run.id).await;
        let seen = expect_once(&record);
        served.extend(seen.workers);
        n_returned += seen.n_returned;
    }
    assert_eq!(served, names, "every worker had its share");
    let slowest = runs.iter().map(|run| run.took).max().unwrap();
    eprintln!(
        "deploys: {n_replaced} of {n_workers} workers replaced, {} plans, {n_returned} steps handed back before they started, \
         slowest plan {slowest:?}",
        runs.len()
    );
    for worker in workers {
        worker.stop().await.unwrap();
    }
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::Drains, n_replaced)
        .at_least(Count::Assignments, 10 * n_replaced)
        .exactly(Count::Losses, 0);
    assert_eq!(
        judgement.count(Count::Started),
        judgement.count(Count::OutcomesAccepted)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestrator_that_is_replaced_settles_what_it_accepted_and_its_workers_come_back() {
    let mut arena = Arena::start().await;
    let proxy = arena.proxy().await;
    let mut workers = Vec::new();
    for number in 0..2 {
        workers.push(worker(&arena, &proxy.url(), &format!("stays-{number}")).await);
    }
    let load = Load::begin(&proxy.url(), 6);
    let n_rounds = scale(2, 10);
    for round in 0..n_rounds {
        for worker in &workers {
            works(&arena, &worker.worker_id).await;
        }
        load.goes_on().await;
        arena.pause_neighbour().await;
        let began = Instant::now();
        arena.drain_and_restart().await;
        proxy.set_target(arena.orchestrator.address());
        let served = Instant::now();
        let url_serves = served - began;
        for worker in &workers {
            works(&arena, &worker.worker_id).await;
        }
        eprintln!(
            "deploys: orchestrator {round}: a new one serves after {url_serves:?}, its workers work {:?} later",
            served.elapsed()
        );
        assert!(
            served.elapsed() < Duration::from_secs(10),
            "the workers stay away"
        );
        arena.resume_neighbour().await;
    }
    load.goes_on().await;
    let runs = load.end().await;
    for run in &runs {
        assert_eq!(run.result.status(), Status::Success, "{:?}", run.result);
        expect_once(&arena.record_of(&run.id).await);
    }
    let slowest = runs.iter().map(|run| run.took).max().unwrap();
    eprintln!(
        "deploys: {n_rounds} restarts, {} plans, slowest {slowest:?}",
        runs.len()
    );
    for worker in &mut workers {
        assert!(worker.process.is_running(), "{}", worker.process.stderr());
    }
    for worker in workers {
        worker.stop().await.unwrap();
    }
    drop(proxy);
    arena.finish().await.at_least(Count::Boots, n_rounds + 1);
}

async fn worker(arena: &Arena, url: &str, worker_id: &str) -> Worker {
    let actions = |settings: escapement_tests::WorkerSettings| {
        settings
            .flag("--actions", "delay,echo")
            .flag("--max-in-flight", 4)
    };
    arena.stock_worker(url, worker_id, actions).await
}

/// Waits until a worker has something in flight.
async fn works(arena: &Arena, worker_id: &str) {
    arena
        .wait_for_workers("work for a worker", worker_id, |workers| {
            workers.iter().any(|worker| worker.in_flight > 0).then_some(())
        })
        .await;
}

/// What a record says of the hand-outs.
struct HandOuts {
    workers: BTreeSet<String>,
    n_returned: usize,
}

/// Passes where each step started once, as its first attempt, and nothing failed or was given back after its start.
fn expect_once(record: &[AuditEntry]) -> HandOuts {
    let mut seen = HandOuts {
        workers: BTreeSet::new(),
        n_returned: 0,
    };
    let (mut started, mut completed) = (BTreeSet::new(), BTreeSet::new());
    let mut last_worker = String::new();
    for entry in record {
        match entry.event.as_ref().unwrap() {
            Event::AttemptAssigned(entry) => {
                assert_eq!(entry.attempt, 1, "{record:?}");
                last_worker.clone_from(&entry.worker_id);
                seen.workers.insert(last_worker.clone());
            }
            Event::AttemptStarted(entry) => assert!(started.insert(entry.step_id.clone()), "{record:?}"),
            Event::AttemptReturned(entry) => {
                assert!(!started.contains(&entry.step_id), "{record:?}");
                seen.n_returned += 1;
            }
            Event::StepCompleted(entry) => assert!(completed.insert(entry.step_id.clone()), "{record:?}"),
            Event::AttemptFailed(_) | Event::RetryScheduled(_) | Event::StepNotCompleted(_) => {
                panic!("{record:?}")
            }
            _ => {}
        }
    }
    assert_eq!(started, completed, "{record:?}");
    assert_eq!(completed.len(), N_STEPS, "{record:?}");
    seen
}

/// A plan that ended.
struct Run {
    id: String,
    result: PlanResult,
    took: Duration,
}

/// Callers that run plan after plan.
struct Load {
    is_over: Arc<AtomicBool>,
    n_ended: Arc<AtomicUsize>,
    callers: JoinSet<Vec<Run>>,
}

impl Load {
    fn begin(url: &str, n_callers: usize) -> Self {
        let (is_over, n_ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut callers = JoinSet::new();
        for number in 0..n_callers {
            let caller = Caller::at(url);
            let (is_over, n_ended) = (Arc::clone(&is_over), Arc::clone(&n_ended));
            callers.spawn(async move {
                let mut runs = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    runs.push(run(&caller, 20 + 7 * (runs.len() + number) % 60).await);
                    n_ended.fetch_add(1, Ordering::Relaxed);
                }
                runs
            });
        }
        Self {
            is_over,
            n_ended,
            callers,
        }
    }

    /// Waits until some more plans have ended.
    async fn goes_on(&self) {
        let before = self.n_ended.load(Ordering::Relaxed);
        let more = async || (self.n_ended.load(Ordering::Relaxed) >= before + 12).then_some(());
        wait_for("plans to end", LIMIT, more).await.unwrap();
    }

    async fn end(self) -> Vec<Run> {
        self.is_over.store(true, Ordering::Relaxed);
        self.callers.join_all().await.into_iter().flatten().collect()
    }
}

/// Returns a delay, two steps beside each other, and one after both; asks again where the orchestrator is away.
async fn run(caller: &Caller, ms: usize) -> Run {
    let request: SubmitPlanRequest = submission([
        step(0, "delay").payload(json!({ "ms": ms })),
        step(1, "echo").payload(json!({ "n": 1 })).after(&[0]),
        step(2, "delay").payload(json!({ "ms": ms })).after(&[0]),
        step(3, "echo").payload(json!({ "n": 2 })).after(&[1, 2]),
    ]);
    let id = id_of(&request);
    let began = Instant::now();
    let accepted = async || caller.try_submit(&request).await.ok();
    wait_for("a plan to be accepted", LIMIT, accepted).await.unwrap();
    let settled = async || caller.try_result_of(&id).await.ok();
    let result = wait_for("a result", LIMIT, settled).await.unwrap();
    let took = began.elapsed();
    Run { id, result, took }
}

const N_STEPS: usize = 4;
