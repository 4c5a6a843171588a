//! More than can be served: reads give way, then submissions, and what workers and operators say is heard all the time.

use crate::den::{Den, LIMIT, scale, submission};
use crate::frames::{GET, LIST, SUBMIT, call};
use crate::large::dense;
use crate::wire::{Flood, Wire};
use escapement_tests::{ScriptedWorker, calls, fresh_id, let_pass};
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{
    GetExecutionRequest, ListExecutionsRequest, ListWorkersRequest, Plan, PlanStep, ValidatePlanRequest,
    WaitExecutionRequest,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A refusal for want of room: its code, its reason, and when to come again.
#[track_caller]
fn expect_overloaded(refused: &Status) {
    assert!(
        matches!(refused.code(), Code::ResourceExhausted | Code::Unavailable),
        "{refused:?}"
    );
    let details = refused.get_error_details();
    let reason = &details
        .error_info()
        .expect("every refusal has an ErrorInfo")
        .reason;
    assert!(
        ["OVERLOADED", "QUEUE_FULL", "REQUESTS_TOO_LARGE"].contains(&reason.as_str()),
        "{refused:?}"
    );
    let again = details.retry_info().and_then(|info| info.retry_delay);
    assert!(again.is_some_and(|delay| !delay.is_zero()), "{refused:?}");
}

/// A worker that gets plans and reports on them, and an operator; on a thread of their own.
/// Gives how long each answer of the orchestrator took.
fn work(url: String, is_over: Arc<AtomicBool>) -> JoinHandle<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    std::thread::spawn(move || runtime.block_on(working(&url, &is_over)))
}

async fn working(url: &str, is_over: &AtomicBool) -> Vec<Duration> {
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["urgent"]), 4);
    let (mut worker, _) = ScriptedWorker::open(url, hello).await;
    let channel = Endpoint::from_shared(url.to_owned()).unwrap();
    let mut fleet = FleetServiceClient::new(channel.connect().await.unwrap());
    let mut took = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let n_sent = worker.n_assignments_sent().await;
        took.push(begin.elapsed());
        for _ in 0..n_sent {
            let assignment = worker.started().await;
            let begin = Instant::now();
            worker.succeed(&assignment, json!({})).await;
            took.push(begin.elapsed());
        }
        let begin = Instant::now();
        let workers = fleet.list_workers(ListWorkersRequest {}).await.unwrap();
        took.push(begin.elapsed());
        assert_eq!(workers.into_inner().workers.len(), 1);
        let_pass(Duration::from_millis(20)).await;
    }
    worker.goodbye().await;
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_callers_delays_no_worker_and_is_refused_in_order() {
    // Few may be queued, so that writes meet a limit as well. What the flood left ends with its worker.
    let mut den = Den::start_with(|settings| {
        settings
            .flag("--max-queued-executions", 3_000)
            .flag("--registration-grace-ms", 1_000)
            .flag("--registration-memory-ms", 0)
    })
    .await;
    den.stop_canary().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let working = work(den.orchestrator.url(), Arc::clone(&is_over));
    let (n_done, n_refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let end = Instant::now() + Duration::from_secs(scale(5, 60));
    let mut flood = JoinSet::new();
    for n in 0..scale(24, 64) {
        let channel = den.channel().await;
        for m in 0..200 {
            let (channel, n_done, n_refused) = (channel.clone(), Arc::clone(&n_done), Arc::clone(&n_refused));
            flood.spawn(async move {
                while Instant::now() < end {
                    let answered = tokio::time::timeout(LIMIT, ask(channel.clone(), n + m)).await;
                    match answered.expect("nothing hangs") {
                        Ok(()) => n_done.fetch_add(1, Ordering::Relaxed),
                        Err(refused) => {
                            expect_overloaded(&refused);
                            n_refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    }
    while let Some(flooded) = flood.join_next().await {
        flooded.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let mut took = working.join().unwrap();
    took.sort();
    let (n_answers, most) = (took.len(), took[took.len() - 1]);
    eprintln!(
        "overload: {} calls answered, {} refused; {n_answers} answers to the worker and the operator, p99 {:?}, most {most:?}",
        n_done.load(Ordering::Relaxed),
        n_refused.load(Ordering::Relaxed),
        took[n_answers * 99 / 100],
    );
    // How many fit into the flood goes by the machine; that none waits long is judged below.
    assert!(n_answers > 5, "the worker was heard all the time");
    // One that had to wait for the flood to end would wait 5 s; a loaded machine makes one of 1.5 s wait 3.
    assert!(
        most < Duration::from_secs(4),
        "a worker waited {most:?} behind callers"
    );
    // The flood is over: everything works.
    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["afterwards"], 1).await;
    let mut plans = PlanExecutionServiceClient::new(den.channel().await);
    let request = submission("afterwards");
    let id = request.execution_id.clone().unwrap();
    loop {
        match plans.submit_plan(request.clone()).await {
            Ok(_) => break,
            Err(refused) => expect_overloaded(&refused),
        }
        let_pass(Duration::from_millis(100)).await;
    }
    worker.complete_next(json!({})).await;
    calls::result_of(plans, &id, LIMIT).await.unwrap();
    worker.goodbye().await;
    den.finish("overload", scale(700, 1_500)).await;
}

/// One call of a flood.
async fn ask(channel: Channel, number: usize) -> Result<(), Status> {
    let mut plans = PlanExecutionServiceClient::new(channel);
    let execution_id = fresh_id();
    let known = |answered: Result<(), Status>| match answered {
        Err(status) if status.code() == Code::NotFound => Ok(()),
        answered => answered,
    };
    match number % 6 {
        0 => plans.submit_plan(submission("urgent")).await.map(drop),
        1 => plans.validate_plan(large_plan()).await.map(drop),
        2 => {
            let request = ListExecutionsRequest {
                page_size: Some(100),
                ..ListExecutionsRequest::default()
            };
            plans.list_executions(request).await.map(drop)
        }
        3 => {
            let timeout_ms = Some(1_000);
            let request = WaitExecutionRequest {
                execution_id,
                timeout_ms,
            };
            known(plans.wait_execution(request).await.map(drop))
        }
        _ => known(
            plans
                .get_execution(GetExecutionRequest { execution_id })
                .await
                .map(drop),
        ),
    }
}

fn large_plan() -> ValidatePlanRequest {
    let step = |_| PlanStep {
        id: fresh_id(),
        action: "urgent".to_owned(),
        payload: Some(escapement_model::Opaque::default()),
        ..PlanStep::default()
    };
    ValidatePlanRequest {
        plan: Some(Plan {
            id: fresh_id(),
            version: 1,
            created_at: 1_766_016_000_000,
            steps: (0..100).map(step).collect(),
            name: "large".to_owned(),
            ..Plan::default()
        }),
        ..ValidatePlanRequest::default()
    }
}

/// Plans that take longest to read and validate, as many as there is room for: they wait for each other, and nobody else
/// waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dear_plans_delay_each_other_and_no_small_caller() {
    let mut den = Den::start().await;
    let dear = ValidatePlanRequest {
        plan: Some(dense(true)),
        ..ValidatePlanRequest::default()
    };
    let mut flood = JoinSet::new();
    for _ in 0..scale(10, 48) {
        let mut plans = PlanExecutionServiceClient::new(den.channel().await);
        let dear = dear.clone();
        flood.spawn(async move {
            let begin = Instant::now();
            let answered = plans.validate_plan(dear).await;
            assert!(!answered.unwrap().into_inner().violations.is_empty());
            begin.elapsed()
        });
    }
    let mut waited = flood.join_all().await;
    let mut took = den.stop_canary().await;
    waited.sort();
    took.sort();
    let (dear, most) = (waited[waited.len() / 2], took[took.len() - 1]);
    eprintln!(
        "dear plans: {dear:?} each; {} calls of others, most {most:?}",
        took.len()
    );
    assert!(
        most < dear / 2,
        "a small caller waited {most:?}, a dear plan {dear:?}"
    );
    den.finish("dear plans", 512).await;
}

/// Half-sent questions in every place that there is: whoever sends a whole one is served all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_calls_give_way_to_whole_ones() {
    let den = Den::start().await;
    let mut wires = Vec::new();
    // More than the 4,096 places of questions, and of submissions.
    for (path, n_connections) in [(GET, 3), (LIST, 3), (SUBMIT, 5)] {
        for _ in 0..scale(1, 3) * n_connections {
            let mut wire = Wire::open(den.address()).await;
            let bytes: Vec<u8> = (0..1_000).flat_map(|n| call(path, 2 * n + 1)).collect();
            assert_eq!(wire.flood(&bytes).await, Flood::Sent);
            wires.push(wire);
        }
    }
    // The canary asks and submits all the while.
    let_pass(Duration::from_secs(scale(3, 40))).await;
    drop(wires);
    den.finish("half-sent calls in every place", scale(400, 600))
        .await;
}
