//! Worker and orchestrator processes that die, freeze, or are asked to stop at the worst moment.

use crate::arena::{Arena, LIMIT, scale, unix_ms};
use crate::record::{assigned_unix_ms, failures, n_assigned, returns};
use crate::recorder::{HOLD, Recorder, WORK};
use crate::traffic::{retried_when_lost, side_by_side};
use escapement_sdk::{StepContext, StepError};
use escapement_tests::fault_proxy::{Direction, Flow};
use escapement_tests::session_checker::Count;
use escapement_tests::{PlanDocument, ScriptedWorker, Worker as StockWorker, let_pass, wait_for};
use escapement_wire::v1::Worker as WorkerEntry;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::worker::State;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A step of the stock worker that takes a minute.
const MINUTE: &str = "delay";

fn a_minute() -> Value {
    json!({ "ms": 60_000 })
}

/// Completes at once what the stock worker takes a minute for.
async fn quick_spare(arena: &Arena) -> Recorder {
    let quick = |_: Value, context: StepContext| async move { Ok(json!({ "attempt": context.attempt() })) };
    let url = arena.orchestrator.url();
    Recorder::connect_with(&url, "spare", |builder| {
        builder.handler(MINUTE, quick).handler("echo", quick)
    })
    .await
}

/// Waits until an execution's step is assigned that nobody starts.
async fn wait_for_assignment(arena: &Arena, id: &str) {
    let assigned = async || (n_assigned(&arena.record_of(id).await) >= 1).then_some(());
    wait_for("an assignment", LIMIT, assigned).await.unwrap();
}

fn is_suspect(workers: &[WorkerEntry]) -> Option<()> {
    let suspect = |worker: &WorkerEntry| worker.state() == State::Suspect;
    workers.iter().any(suspect).then_some(())
}

/// What a worker that went away left behind: a step that is retried, one that is not, and one that never started.
struct Left {
    retried: String,
    halted: String,
    unstarted: String,
}

impl Left {
    /// Freezes the process before the last of them, so that it is assigned and not started.
    async fn by(arena: &Arena, worker: &mut StockWorker) -> Self {
        let retried = arena.submit(retried_when_lost(MINUTE, a_minute())).await;
        let halted = arena
            .submit(PlanDocument::new("halts").step(MINUTE, a_minute(), &[]))
            .await;
        arena.wait_for_starts(&retried, 1).await;
        arena.wait_for_starts(&halted, 1).await;
        worker.process.signal(Signal::STOP).unwrap();
        let unstarted = arena
            .submit(PlanDocument::new("unstarted").step("echo", json!({}), &[]))
            .await;
        wait_for_assignment(arena, &unstarted).await;
        Self {
            retried,
            halted,
            unstarted,
        }
    }

    /// All is settled as it should be. Gives when the loss was, and when the unstarted step was handed out again.
    async fn settled(&self, arena: &Arena) -> (i64, i64) {
        assert_eq!(arena.result_of(&self.unstarted).await.status(), Status::Success);
        assert_eq!(arena.result_of(&self.retried).await.status(), Status::Success);
        let result = arena.result_of(&self.halted).await;
        assert_eq!(result.status(), Status::Failure);
        assert_eq!(result.error.unwrap().error_code, "WORKER_LOST");
        let record = arena.record_of(&self.unstarted).await;
        assert_eq!(
            (failures(&record).len(), returns(&record)),
            (0, vec!["lease_expired"])
        );
        let again_unix_ms = assigned_unix_ms(&record)[1];
        let record = arena.record_of(&self.retried).await;
        let failures = failures(&record);
        let [(1, "WORKER_LOST", lost_unix_ms)] = failures[..] else {
            panic!("{failures:?}")
        };
        (lost_unix_ms, again_unix_ms)
    }
}

#[tokio::test]
async fn a_killed_worker_is_suspect_at_once_and_settled_when_its_lease_is_over() {
    let arena = Arena::start_with(|settings| settings.lease(2_000, 500)).await;
    let url = arena.orchestrator.url();
    let mut killed = arena.stock_worker(&url, "killed", |settings| settings).await;
    let left = Left::by(&arena, &mut killed).await;
    let killed_unix_ms = unix_ms();
    let begin = Instant::now();
    killed.process.kill().unwrap();
    arena
        .wait_for_workers("a suspect worker", "killed", is_suspect)
        .await;
    eprintln!("killed: suspect after {:?}", begin.elapsed());
    let spare = quick_spare(&arena).await;
    let (lost_unix_ms, again_unix_ms) = left.settled(&arena).await;
    let (lost_ms, again_ms) = (lost_unix_ms - killed_unix_ms, again_unix_ms - killed_unix_ms);
    eprintln!("killed: lost after {lost_ms} ms, handed out again after {again_ms} ms");
    assert!(
        lost_ms <= 4_000 && again_ms <= 4_000,
        "{lost_ms} ms, {again_ms} ms"
    );
    spare.stop().await;
    // The third loss shows in the record alone: nothing is said on a stream that is over.
    arena
        .finish()
        .await
        .at_least(Count::Losses, 2)
        .exactly(Count::HandedOutAgain, 1);
}

// In the long run with the default lease, as an operator would do it.
#[tokio::test]
async fn a_worker_that_is_frozen_beyond_its_lease_is_replaced_and_works_again_when_it_thaws() {
    let (lease_ms, heartbeat_ms, frozen) = scale(
        (2_000, 500, Duration::from_secs(5)),
        (10_000, 3_000, Duration::from_secs(30)),
    );
    let arena = Arena::start_with(|settings| settings.lease(lease_ms, heartbeat_ms)).await;
    let url = arena.orchestrator.url();
    let mut worker = arena.stock_worker(&url, "frozen", |settings| settings).await;
    let begin = Instant::now();
    let left = Left::by(&arena, &mut worker).await;
    let spare = quick_spare(&arena).await;
    let_pass(frozen.saturating_sub(begin.elapsed())).await;
    left.settled(&arena).await;
    worker.process.signal(Signal::CONT).unwrap();
    let is_active = |workers: &[WorkerEntry]| {
        let active = |worker: &WorkerEntry| worker.state() == State::Active && worker.in_flight == 0;
        workers.iter().any(active).then_some(())
    };
    arena
        .wait_for_workers("a worker that is back", "frozen", is_active)
        .await;
    spare.stop().await;
    let after = arena
        .submit(PlanDocument::new("after").step("echo", json!({}), &[]))
        .await;
    assert_eq!(arena.result_of(&after).await.status(), Status::Success);
    worker.stop().await.unwrap();
    arena
        .finish()
        .await
        .exactly(Count::Losses, 3)
        .exactly(Count::HandedOutAgain, 1);
}

#[tokio::test]
async fn a_handler_that_never_returns_keeps_its_slot_and_nothing_else() {
    let arena = Arena::start_with(|settings| settings.lease(2_000, 500)).await;
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let stubborn = move |_: Value, _: StepContext| -> Result<Value, StepError> {
        let _ = ended.lock().unwrap().recv();
        Ok(json!({}))
    };
    let worker = Recorder::connect_with(&arena.orchestrator.url(), "stuck", |builder| {
        builder.max_in_flight(2).blocking_handler("stubborn", stubborn)
    })
    .await;
    let limit = json!({ "timeout_ms": 500 });
    let limited = PlanDocument::new("stubborn").step_with("stubborn", json!({}), &[], limit);
    let id = arena.submit(limited).await;
    let result = arena.result_of(&id).await;
    assert_eq!(result.error.unwrap().error_code, "STEP_TIMEOUT");
    let is_stopping = |workers: &[WorkerEntry]| (workers.first()?.stopping == 1).then_some(());
    arena
        .wait_for_workers("a handler that is stopping", "stuck", is_stopping)
        .await;

    // The other slot goes on, and only that one.
    let two = arena.submit(side_by_side(HOLD, &json!({}), 2)).await;
    arena.wait_for_starts(&two, 1).await;
    // For longer than a lease: the session stays, and the slot too.
    let_pass(Duration::from_millis(4_000)).await;
    assert_eq!(
        n_assigned(&arena.record_of(&two).await),
        1,
        "the slot is not free"
    );
    let entry = arena
        .workers()
        .await
        .into_iter()
        .find(|entry| entry.worker_id == "stuck")
        .unwrap();
    assert_eq!(
        (entry.state(), entry.in_flight, entry.stopping),
        (State::Active, 2, 1)
    );
    assert!(entry.stopping_age_ms >= 4_000, "{entry:?}");
    worker.release();
    assert_eq!(arena.result_of(&two).await.status(), Status::Success);
    end.send(()).unwrap();
    let is_free = |workers: &[WorkerEntry]| (workers.first()?.in_flight == 0).then_some(());
    arena.wait_for_workers("a free slot", "stuck", is_free).await;
    worker.stop().await;
    arena
        .finish()
        .await
        .at_least(Count::Stopped, 1)
        .exactly(Count::Losses, 0);
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_before_it_starts_what_it_was_given_hands_it_back() {
    let arena = Arena::start_with(|settings| settings.lease(4_000, 1_000)).await;
    let proxy = arena.proxy().await;
    let mut leaving = arena
        .stock_worker(&proxy.url(), "leaving", |settings| settings)
        .await;
    // The assignments are on their way when the signal comes.
    proxy.set(Direction::ToClient, Flow::Hold);
    let id = arena.submit(side_by_side("echo", &json!({}), 8)).await;
    let assigned = async || (n_assigned(&arena.record_of(&id).await) == 8).then_some(());
    wait_for("assignments", LIMIT, assigned).await.unwrap();
    leaving.process.signal(Signal::TERM).unwrap();
    let is_draining = |workers: &[WorkerEntry]| (workers.first()?.state() == State::Draining).then_some(());
    arena
        .wait_for_workers("a draining worker", "leaving", is_draining)
        .await;
    proxy.set(Direction::ToClient, Flow::Pass);
    let exit = leaving.process.exit(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(0), "{}", leaving.process.stderr());
    let spare = quick_spare(&arena).await;
    let result = arena.result_of(&id).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 8));
    let record = arena.record_of(&id).await;
    assert_eq!(
        (failures(&record), returns(&record)),
        (vec![], vec!["rejected"; 8])
    );
    spare.stop().await;
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Rejected, 8)
        .exactly(Count::Losses, 0)
        .at_least(Count::Drains, 1);
}

// As above, and whether a step runs or is handed back is for the worker to say.
#[tokio::test]
async fn a_worker_that_thaws_with_work_and_a_signal_to_stop_loses_nothing() {
    let arena = Arena::start_with(|settings| settings.lease(4_000, 1_000)).await;
    let url = arena.orchestrator.url();
    let mut leaving = arena.stock_worker(&url, "leaving", |settings| settings).await;
    leaving.process.signal(Signal::STOP).unwrap();
    let id = arena.submit(side_by_side("echo", &json!({}), 8)).await;
    let assigned = async || (n_assigned(&arena.record_of(&id).await) == 8).then_some(());
    wait_for("assignments", LIMIT, assigned).await.unwrap();
    leaving.process.signal(Signal::TERM).unwrap();
    leaving.process.signal(Signal::CONT).unwrap();
    let exit = leaving.process.exit(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(0), "{}", leaving.process.stderr());
    let spare = quick_spare(&arena).await;
    let result = arena.result_of(&id).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 8));
    assert_eq!(failures(&arena.record_of(&id).await), []);
    spare.stop().await;
    arena
        .finish()
        .await
        .exactly(Count::Losses, 0)
        .at_least(Count::Drains, 1);
}

#[tokio::test]
async fn a_worker_whose_grace_is_shorter_than_its_steps_gives_them_up_and_exits_in_time() {
    let arena = Arena::start().await;
    let url = arena.orchestrator.url();
    let short = |settings: escapement_tests::WorkerSettings| settings.flag("--drain-grace-ms", 500);
    let mut leaving = arena.stock_worker(&url, "leaving", short).await;
    let retried = arena.submit(retried_when_lost(MINUTE, a_minute())).await;
    let halted = arena
        .submit(PlanDocument::new("halts").step(MINUTE, a_minute(), &[]))
        .await;
    arena.wait_for_starts(&retried, 1).await;
    arena.wait_for_starts(&halted, 1).await;
    let begin = Instant::now();
    let exit = leaving.process.terminate(LIMIT).await.unwrap();
    let took = begin.elapsed();
    eprintln!("a grace of 500 ms: gone after {took:?}");
    assert_eq!(exit.code(), Some(0), "{}", leaving.process.stderr());
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(
        arena.result_of(&halted).await.error.unwrap().error_code,
        "WORKER_LOST"
    );
    let spare = quick_spare(&arena).await;
    assert_eq!(arena.result_of(&retried).await.status(), Status::Success);
    let record = arena.record_of(&retried).await;
    let failures = failures(&record);
    assert!(matches!(failures[..], [(1, "WORKER_LOST", _)]), "{failures:?}");
    spare.stop().await;
    // By their own words, not by the lease: nobody had to wait for it.
    arena
        .finish()
        .await
        .exactly(Count::Losses, 0)
        .at_least(Count::OutcomesAccepted, 3);
}

#[tokio::test]
async fn an_orchestrator_that_was_frozen_declares_nobody_dead() {
    let (lease_ms, heartbeat_ms, frozen) = scale(
        (2_000, 500, Duration::from_secs(5)),
        (10_000, 3_000, Duration::from_secs(30)),
    );
    let mut arena = Arena::start_with(|settings| settings.lease(lease_ms, heartbeat_ms)).await;
    let mut scripted = ScriptedWorker::connect(&arena.orchestrator, &[WORK], 1).await;
    scripted.keep_alive(Duration::from_millis(heartbeat_ms));
    let kept = arena
        .submit(PlanDocument::new("kept").step(WORK, json!({}), &[]))
        .await;
    let assignment = scripted.started().await;
    arena.wait_for_starts(&kept, 1).await;
    // A worker of the SDK keeps to its lease whatever the reason, so it gives its step up by itself.
    let honest = Recorder::connect(&arena.orchestrator.url(), "honest", 2).await;
    let retried = arena.submit(retried_when_lost(HOLD, json!({}))).await;
    arena.wait_for_starts(&retried, 1).await;
    arena.pause_neighbour().await;

    arena.orchestrator.process.signal(Signal::STOP).unwrap();
    let_pass(frozen).await;
    arena.orchestrator.process.signal(Signal::CONT).unwrap();

    assert_eq!(scripted.succeed(&assignment, json!({})).await, Verdict::Accepted);
    assert_eq!(arena.result_of(&kept).await.status(), Status::Success);
    assert_eq!(n_assigned(&arena.record_of(&kept).await), 1);
    honest.wait_for_handlers(2).await;
    honest.release();
    assert_eq!(arena.result_of(&retried).await.status(), Status::Success);
    let record = arena.record_of(&retried).await;
    let failures = failures(&record);
    assert!(matches!(failures[..], [(1, "WORKER_LOST", _)]), "{failures:?}");
    arena.resume_neighbour().await;
    scripted.goodbye().await;
    honest.stop().await;
    // The word of the worker, and never the lease.
    arena.finish().await.exactly(Count::Losses, 0);
}
