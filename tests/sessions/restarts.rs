//! A crash of the orchestrator with many steps in flight: everything settles, and the workers are busy again within seconds.

use crate::arena::{Arena, LIMIT, scale, unix_ms};
use crate::load::{Caller, step, submission};
use crate::recorder::{HOLD, Recorder, WORK};
use escapement_tests::session_checker::Count;
use escapement_tests::wait_for;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{Worker, worker};
use serde_json::json;
use std::collections::BTreeSet;
use tokio::task::JoinSet;

// C14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_everything_settles_and_the_workers_are_busy_again_within_five_seconds() {
    let (n_running, n_queued) = (scale(1_000, 10_000), 1_000);
    let mut arena = Arena::start_with(|settings| settings.flag("--max-running-executions", n_running)).await;
    let proxy = arena.proxy().await;
    let mut crew = Vec::new();
    for number in 0..N_WORKERS {
        let level = u32::try_from(n_running / N_WORKERS).unwrap();
        crew.push(Recorder::connect(&proxy.url(), &format!("crew-{number}"), level).await);
    }
    arena.pause_neighbour().await;
    let caller = Caller::of(&arena.orchestrator);
    let running = submit(&caller, HOLD, n_running).await;
    let all_run = async || (n_handlers(&crew) == n_running).then_some(());
    wait_for("all steps to run", LIMIT, all_run).await.unwrap();
    let queued = submit(&caller, WORK, n_queued).await;
    for id in &queued {
        assert_eq!(caller.execution(id).await.state(), State::Queued);
    }

    let killed_at = unix_ms();
    arena.crash_and_restart().await;
    let serving_at = unix_ms();
    let are_active = async || {
        let workers = arena.workers().await;
        let is_active = |worker: &&Worker| {
            worker.worker_id.starts_with("crew-") && worker.state() == worker::State::Active
        };
        (workers.iter().filter(is_active).count() == N_WORKERS).then(unix_ms)
    };
    let active_at = wait_for("all workers to be back", LIMIT, are_active)
        .await
        .unwrap();
    let all_done = async || (n_handlers(&crew) >= n_running + n_queued).then_some(());
    wait_for("the new steps", LIMIT, all_done).await.unwrap();

    let caller = Caller::of(&arena.orchestrator);
    for id in &running {
        let result = caller.result_of(id).await;
        let error = result.error.as_ref().unwrap();
        let code = error.error_code.as_str();
        assert_eq!(
            (result.status(), code),
            (Status::Failure, "UNKNOWN_ERROR"),
            "{result:?}"
        );
        let context = escapement_wire::json::from_opaque(error.context.as_ref().unwrap()).unwrap();
        assert_eq!(context["reason"], "orchestrator_restarted");
    }
    for id in &queued {
        assert_eq!(caller.result_of(id).await.status(), Status::Success);
    }
    let (old, new): (Vec<_>, Vec<_>) = crew
        .iter()
        .flat_map(Recorder::seen)
        .partition(|seen| seen.began_unix_ms < serving_at);
    let of = |ids: &[String]| ids.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        (old.len(), new.len()),
        (n_running, n_queued),
        "nothing runs twice"
    );
    assert_eq!(
        new.iter()
            .map(|seen| seen.execution_id.clone())
            .collect::<BTreeSet<_>>(),
        of(&queued)
    );
    assert!(
        old.iter().all(|seen| seen.cancelled_unix_ms.is_some()),
        "what ran before is stopped"
    );
    let first_ms = new.iter().map(|seen| seen.began_unix_ms).min().unwrap() - serving_at;
    let done_ms = new
        .iter()
        .filter_map(|seen| seen.completed_unix_ms)
        .max()
        .unwrap()
        - serving_at;
    let active_ms = active_at - serving_at;
    eprintln!(
        "restarts: {n_running} steps in flight, {n_queued} plans queued; serving {} ms after the kill; from then \
         all workers active after {active_ms} ms, the first new step after {first_ms} ms, the last after {done_ms} ms",
        serving_at - killed_at
    );
    assert!(
        first_ms < BUSY_MS_MAX && active_ms < BUSY_MS_MAX,
        "{first_ms} ms, {active_ms} ms"
    );

    arena.resume_neighbour().await;
    for recorder in crew {
        recorder.stop().await;
    }
    drop((proxy, caller));
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::Boots, 2)
        .at_least(Count::RestartedRecords, n_running as u64)
        .at_least(Count::Assignments, (n_running + n_queued) as u64);
}

fn n_handlers(crew: &[Recorder]) -> usize {
    crew.iter().map(|recorder| recorder.seen().len()).sum()
}

/// Submits many plans of one step, some at a time.
async fn submit(caller: &Caller, action: &'static str, count: usize) -> Vec<String> {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let caller = caller.clone();
        lanes.spawn(async move {
            let mut ids = Vec::new();
            for _ in (lane..count).step_by(LANES) {
                ids.push(caller.submit(&submission([step(0, action, json!({}))])).await);
            }
            ids
        });
    }
    lanes.join_all().await.into_iter().flatten().collect()
}

const N_WORKERS: usize = 4;
const LANES: usize = 16;
const BUSY_MS_MAX: i64 = 5_000;
