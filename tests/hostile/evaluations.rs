//! What one tenant has evaluated, the dearest of each kind and many at once: the process lives, others are served as before,
//! and the tenant has a clear answer.

use crate::den::{Den, LIMIT};
use crate::large::{PLAIN, Tireless};
use crate::large_runs::{creation, document, references, trigger};
use crate::saved::one_that_runs_others;
use escapement_tests::dearest::{nested_keys, sizes_condition, sizes_filter, sub_plans, values_filter};
use escapement_tests::{let_pass, plans, wait_for};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::plan_service_client::PlanServiceClient;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::session_service_client::SessionServiceClient;
use escapement_wire::runs::v1::trigger::Config;
use escapement_wire::runs::v1::trigger_service_client::TriggerServiceClient;
use escapement_wire::v1::ExecutePlanRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dearest_evaluations_of_one_tenant_stop_nobody_and_are_answered() {
    let mut den = Den::start_alone(|settings| settings).await;
    den.stop_canary().await;
    let _worker = Tireless::start(den.address()).await;
    let attacker = den.channel().await;
    let plan_id = prepare(&attacker).await;
    let n_answered = Arc::new(AtomicUsize::new(0));
    served(&den, N_SERVED / 4, &n_answered).await;
    let quiet = served(&den, N_SERVED, &n_answered).await;

    let requests = Arc::new(Requests::new(&plan_id));
    let is_over = Arc::new(AtomicBool::new(false));
    let attack = {
        let (url, requests) = (den.orchestrator.url(), Arc::clone(&requests));
        let (is_over, n_answered) = (Arc::clone(&is_over), Arc::clone(&n_answered));
        std::thread::spawn(move || attack(&url, &requests, &is_over, &n_answered))
    };
    // All of them are under way.
    let is_busy = async || (n_answered.load(Ordering::Relaxed) > 0).then_some(());
    wait_for("the attack", LIMIT, is_busy).await.unwrap();
    let loaded = served(&den, N_SERVED, &n_answered).await;
    is_over.store(true, Ordering::Relaxed);
    tokio::task::spawn_blocking(move || attack.join().unwrap())
        .await
        .unwrap();
    eprintln!("evaluations: 99 of 100 small executions and runs: {quiet:?} before, {loaded:?} meanwhile");
    // However slow the machine is, it is so for both: who has to wait for the evaluations waits for all of them.
    assert!(loaded.n_before <= BEFORE_MAX, "{loaded:?}");

    assert!(den.orchestrator.process.is_running(), "the process lives");
    answers(&attacker).await;
    let begin = Instant::now();
    served(&den, 4, &n_answered).await;
    assert!(begin.elapsed() < LIMIT);
    den.orchestrator.process.kill().unwrap();
}

/// Makes requests until it is over, many at once, on threads of a low priority: their own work is not the orchestrator's.
fn attack(url: &str, requests: &Arc<Requests>, is_over: &Arc<AtomicBool>, n_answered: &Arc<AtomicUsize>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| {
            let _as_it_was = rustix::process::nice(19);
        })
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let channel = Endpoint::from_shared(url.to_owned())
            .unwrap()
            .connect()
            .await
            .unwrap();
        let mut all = JoinSet::new();
        for n in 0..N_AT_ONCE {
            let (channel, requests) = (channel.clone(), Arc::clone(requests));
            let (is_over, n_answered) = (Arc::clone(is_over), Arc::clone(n_answered));
            all.spawn(async move {
                for m in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    match requests.make(&channel, n, m).await {
                        Ok(()) => drop(n_answered.fetch_add(1, Ordering::Relaxed)),
                        Err(refused) => {
                            assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
                        }
                    }
                }
            });
        }
        while !is_over.load(Ordering::Relaxed) {
            tokio::select! {
                Some(ended) = all.join_next() => ended.unwrap(),
                () = let_pass(PAUSE) => {}
            }
        }
        all.shutdown().await;
    });
}

/// What the attack needs: a session, conditions, listeners, and plans of which one runs many. Gives the id of that one.
async fn prepare(channel: &Channel) -> String {
    let mut sessions = SessionServiceClient::new(channel.clone());
    let request = v1::CreateSessionRequest {
        session_id: "dense".to_owned(),
        state: Some(nested_keys(1 << 20)),
        ..v1::CreateSessionRequest::default()
    };
    sessions.create_session(request).await.unwrap();
    let mut triggers = TriggerServiceClient::new(channel.clone());
    let small = |config: Config| v1::Trigger {
        run: Some(creation(document(&json!([])))),
        ..trigger(0, config)
    };
    let conditions = (0..10).map(|_| sizes_condition("dense", N_SIZES, false));
    let listeners = [values_filter("dense"), sizes_filter("dense", N_SIZES)];
    for config in conditions.chain(listeners) {
        let request = v1::CreateTriggerRequest {
            trigger: Some(small(config)),
            ..v1::CreateTriggerRequest::default()
        };
        triggers.create_trigger(request).await.unwrap();
    }
    let mut plans = PlanServiceClient::new(channel.clone());
    one_that_runs_others(&mut plans, N_SUB_PLANS).await.swap_remove(0)
}

/// Requests of the attack, made before it begins: what it takes to make them is not the orchestrator's.
struct Requests {
    plan: v1::CreatePlanRequest,
    event: v1::PublishEventRequest,
}

impl Requests {
    fn new(plan_id: &String) -> Self {
        Self {
            plan: v1::CreatePlanRequest {
                plan: Some(v1::Plan {
                    goal: "to run many".to_owned(),
                    ..v1::Plan::default()
                }),
                document: Some(sub_plans(vec![plan_id; 1_024])),
                ..v1::CreatePlanRequest::default()
            },
            event: v1::PublishEventRequest {
                r#type: "dense".to_owned(),
                data: Some(nested_keys(64 << 10)),
                ..v1::PublishEventRequest::default()
            },
        }
    }

    /// Makes one request of the attack.
    async fn make(&self, channel: &Channel, n: usize, m: usize) -> Result<(), Status> {
        if n.is_multiple_of(4) {
            let mut request = self.plan.clone();
            request.plan.as_mut().expect("it is there").name = format!("top {n} {m}");
            let mut plans = PlanServiceClient::new(channel.clone());
            return plans.create_plan(request).await.map(drop);
        }
        let mut request = self.event.clone();
        request.id = format!("{n} {m}");
        let mut triggers = TriggerServiceClient::new(channel.clone());
        triggers.publish_event(request).await.map(drop)
    }
}

fn execution() -> ExecutePlanRequest {
    plans::request(plans::plan([plans::step(0, PLAIN)]))
}

/// Most that 99 of 100 small executions and runs took.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "it is shown")]
struct Served {
    took: Duration,
    /// Requests of the attack that were answered before.
    n_before: usize,
}

/// Makes small executions and small runs, one after the other.
///
/// From a thread of its own, so that it does not wait for the tasks of the attack.
async fn served(den: &Den, n_times: usize, n_answered: &Arc<AtomicUsize>) -> Served {
    let (url, n_answered) = (den.orchestrator.url(), Arc::clone(n_answered));
    let serving = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
            serve(&channel, n_times, &n_answered).await
        })
    });
    tokio::task::spawn_blocking(move || serving.join().unwrap())
        .await
        .unwrap()
}

async fn serve(channel: &Channel, n_times: usize, n_answered: &AtomicUsize) -> Served {
    let mut plans = PlanExecutionServiceClient::new(channel.clone());
    let mut runs = RunServiceClient::new(channel.clone());
    let call = json!([{"key": "a", "type": "tool_call", "config": {"tool_name": PLAIN}}]);
    let (mut took, mut before) = (Vec::new(), Vec::new());
    for _ in 0..n_times {
        let (begin, n) = (Instant::now(), n_answered.load(Ordering::Relaxed));
        plans.execute_plan(execution()).await.unwrap();
        took.push(begin.elapsed());
        before.push(n_answered.load(Ordering::Relaxed) - n);
        let (begin, n) = (Instant::now(), n_answered.load(Ordering::Relaxed));
        let created = runs.create_run(creation(document(&call))).await.unwrap();
        let run_id = created.into_inner().run.unwrap().run_id;
        let ended = ended(&mut runs, run_id).await;
        assert_eq!(ended.state(), State::Completed, "{ended:?}");
        took.push(begin.elapsed());
        before.push(n_answered.load(Ordering::Relaxed) - n);
    }
    took.sort();
    before.sort_unstable();
    Served {
        took: took[took.len() * 99 / 100],
        n_before: before[before.len() * 99 / 100],
    }
}

async fn ended(runs: &mut RunServiceClient<Channel>, run_id: String) -> v1::Run {
    let request = v1::WaitRunRequest {
        run_id,
        timeout_ms: Some(30_000),
    };
    let run = runs.wait_run(request).await.unwrap().into_inner().run.unwrap();
    assert!(run.completed_at.is_some(), "it has ended: {run:?}");
    run
}

/// Each kind of request by itself, and what the tenant is told.
async fn answers(channel: &Channel) {
    let mut runs = RunServiceClient::new(channel.clone()).max_decoding_message_size(64 << 20);
    let request = references("${input:/o/00000}", nested_keys(1 << 20));
    let created = runs.create_run(request).await.unwrap().into_inner();
    let run = ended(&mut runs, created.run.unwrap().run_id).await;
    assert_eq!(run.state(), State::Failed);
    let error = run.error.unwrap();
    assert_eq!(error.code, "INPUT_TOO_LARGE");
    assert!(error.message.contains("more work than is allowed"), "{error:?}");

    let mut triggers = TriggerServiceClient::new(channel.clone());
    let request = v1::PublishEventRequest {
        r#type: "dense".to_owned(),
        id: "the largest".to_owned(),
        data: Some(nested_keys(900 << 10)),
        ..v1::PublishEventRequest::default()
    };
    let firings = triggers
        .publish_event(request)
        .await
        .unwrap()
        .into_inner()
        .firings;
    let failed: Vec<_> = firings.iter().map(|firing| firing.reason.as_str()).collect();
    assert_eq!(failed, ["FILTER_TOO_COSTLY"]);
    let request = v1::CreateTriggerRequest {
        trigger: Some(v1::Trigger {
            run: Some(creation(document(&json!([])))),
            ..trigger(0, sizes_condition("dense", N_SIZES, false))
        }),
        ..v1::CreateTriggerRequest::default()
    };
    for _ in 10..20 {
        triggers.create_trigger(request.clone()).await.unwrap();
    }
    let refused = triggers.create_trigger(request).await.unwrap_err();
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "TOO_MANY_LOOKS");
}

/// Requests of the attack under way at a time.
const N_AT_ONCE: usize = 256;
const N_SERVED: usize = 64;
const N_SUB_PLANS: usize = 201;
/// Measures of one expression.
const N_SIZES: usize = 40;
/// Requests that are answered while a small one is served. One that had to wait for all others would wait for 256.
const BEFORE_MAX: usize = N_AT_ONCE / 4;
const PAUSE: Duration = Duration::from_millis(50);
