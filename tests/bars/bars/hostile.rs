//! Small executions and runs while one caller has the dearest of requests evaluated, many at once, and without that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use escapement_tests::dearest::{nested_keys, sizes_condition, sizes_filter, sub_plans, values_filter};
use escapement_tests::{Fault, let_pass, wait_for};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::plan_service_client::PlanServiceClient;
use escapement_wire::runs::v1::session_service_client::SessionServiceClient;
use escapement_wire::runs::v1::trigger_service_client::TriggerServiceClient;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::pairs::{Pairs, p99};
use super::runs::{calls, run_to_its_end};
use crate::load::one_by_one;
use crate::plans::Template;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::Stage;

/// Measures both bars: an execution and a run.
pub(crate) async fn hostile(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let url = stage.orchestrator.url();
    let channel = stage.channel()?;
    let requests = Arc::new(Requests::prepare(&channel).await?);
    let n_calls = (extent.calls / 5).max(200);
    served(&stage, n_calls).await?;
    let (mut executions, mut runs) = (Pairs::default(), Pairs::default());
    for round in 0..extent.rounds {
        let quiet = served(&stage, n_calls).await?;
        requests.enable_conditions(&channel, true).await?;
        let attack = Attack::begin(&url, &requests, round).await?;
        let loaded = served(&stage, n_calls).await?;
        attack.end().await?;
        requests.enable_conditions(&channel, false).await?;
        executions.baseline.push(p99(&quiet.executions));
        executions.value.push(p99(&loaded.executions));
        runs.baseline.push(p99(&quiet.runs));
        runs.value.push(p99(&loaded.runs));
    }
    let bar = |name, what: &str, pairs: &Pairs| {
        let what = format!("{what} beside {N_AT_ONCE} of the dearest requests at once, p99");
        Bar::new(name, what, "ms", pairs.value(), Aim::RatioUnder(2.0)).beside(pairs.baseline("without them"))
    };
    Ok(vec![
        bar("hostile_execution", "execution of one step", &executions),
        bar("hostile_run", "run of one step", &runs),
    ])
}

/// Sorted latencies of small requests.
struct Served {
    executions: Vec<Duration>,
    runs: Vec<Duration>,
}

/// Makes executions, then runs, one after the other.
async fn served(stage: &Stage, n_calls: usize) -> Result<Served, Fault> {
    let executions = one_by_one(stage.channel()?, &Template::single(), n_calls).await?;
    let (channel, plan) = (stage.channel()?, calls(1)?);
    let mut runs = Vec::with_capacity(n_calls);
    for _ in 0..n_calls {
        runs.push(run_to_its_end(&channel, &plan).await?);
    }
    runs.sort();
    Ok(Served {
        executions: executions.latencies,
        runs,
    })
}

/// Dear requests in flight, on a thread of their own until they are over.
struct Attack {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Fault>>>,
}

impl Attack {
    /// Begins, and waits until the first request is answered.
    async fn begin(url: &str, requests: &Arc<Requests>, round: usize) -> Result<Self, Fault> {
        let (is_over, n_answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = {
            let (url, requests) = (url.to_owned(), Arc::clone(requests));
            let (is_over, n_answered) = (Arc::clone(&is_over), Arc::clone(&n_answered));
            spawn(move || attack(url, &requests, round, &is_over, &n_answered))
        };
        let attack = Self {
            is_over,
            thread: Some(thread),
        };
        let is_busy = async || (n_answered.load(Ordering::Relaxed) > 0).then_some(());
        wait_for("the attack", LIMIT, is_busy).await?;
        Ok(attack)
    }

    /// Ends it. What is still evaluated is over before this returns.
    async fn end(mut self) -> Result<(), Fault> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it ends once");
        tokio::task::spawn_blocking(move || thread.join().expect("it does not panic")).await?
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Makes requests until it is over, on threads of a low priority: their own work is not the orchestrator's.
fn attack(
    url: String,
    requests: &Arc<Requests>,
    round: usize,
    is_over: &Arc<AtomicBool>,
    n_answered: &Arc<AtomicUsize>,
) -> Result<(), Fault> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| {
            let _as_it_was = rustix::process::nice(19);
        })
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let channel = Endpoint::from_shared(url)?.connect().await?;
        let mut all = JoinSet::new();
        for n in 0..N_AT_ONCE {
            let (channel, requests) = (channel.clone(), Arc::clone(requests));
            let (is_over, n_answered) = (Arc::clone(is_over), Arc::clone(n_answered));
            all.spawn(async move {
                for m in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    match requests.make(&channel, n, &format!("{round} {n} {m}")).await {
                        Ok(()) => drop(n_answered.fetch_add(1, Ordering::Relaxed)),
                        // What is refused is not asked again at once.
                        Err(refused) if refused.code() == Code::ResourceExhausted => let_pass(PAUSE).await,
                        Err(refused) => return Err(Fault::from(refused)),
                    }
                }
                Ok(())
            });
        }
        while let Some(ended) = all.join_next().await {
            ended??;
        }
        Ok(())
    })
}

/// Requests of the attack, made before it begins.
struct Requests {
    plan: v1::CreatePlanRequest,
    event: v1::PublishEventRequest,
    /// Triggers whose conditions are checked during the attack only.
    conditions: Vec<String>,
}

impl Requests {
    /// Creates what the attack needs: a session, conditions, listeners, and plans of which one runs many.
    async fn prepare(channel: &Channel) -> Result<Self, Fault> {
        let mut sessions = SessionServiceClient::new(channel.clone());
        let request = v1::CreateSessionRequest {
            session_id: "dense".to_owned(),
            state: Some(nested_keys(1 << 20)),
            ..v1::CreateSessionRequest::default()
        };
        sessions.create_session(request).await?;
        let mut triggers = TriggerServiceClient::new(channel.clone());
        let dear = (0..N_CONDITIONS).map(|_| sizes_condition("dense", N_SIZES, false));
        let listeners = [values_filter("dense"), sizes_filter("dense", N_SIZES)];
        let mut conditions = Vec::new();
        for (n, config) in dear.chain(listeners).enumerate() {
            let trigger = v1::Trigger {
                name: format!("trigger {n}"),
                config: Some(config),
                enabled: Some(n >= N_CONDITIONS),
                run: Some(v1::CreateRunRequest {
                    what: Some(What::Document(sub_plans([]))),
                    ..v1::CreateRunRequest::default()
                }),
                ..v1::Trigger::default()
            };
            let request = v1::CreateTriggerRequest {
                trigger: Some(trigger),
                ..v1::CreateTriggerRequest::default()
            };
            let made = triggers.create_trigger(request).await?.into_inner();
            conditions.push(made.trigger.ok_or("a saved trigger is a trigger")?.trigger_id);
        }
        conditions.truncate(N_CONDITIONS);
        let plan_id = one_that_runs_others(channel).await?;
        Ok(Self {
            plan: creation("top", Some(sub_plans(vec![&plan_id; 1_024]))),
            event: v1::PublishEventRequest {
                r#type: "dense".to_owned(),
                data: Some(nested_keys(64 << 10)),
                ..v1::PublishEventRequest::default()
            },
            conditions,
        })
    }

    /// Lets the conditions be checked, or no longer.
    async fn enable_conditions(&self, channel: &Channel, enabled: bool) -> Result<(), Fault> {
        let mut triggers = TriggerServiceClient::new(channel.clone());
        for trigger_id in &self.conditions {
            let request = v1::EnableTriggerRequest {
                trigger_id: trigger_id.clone(),
                enabled,
                ..v1::EnableTriggerRequest::default()
            };
            triggers.enable_trigger(request).await?;
        }
        Ok(())
    }

    /// Makes the request of the `n`th caller: one of four saves a plan, the others publish events.
    async fn make(&self, channel: &Channel, n: usize, name: &str) -> Result<(), Status> {
        if n.is_multiple_of(4) {
            let mut request = self.plan.clone();
            name.clone_into(&mut request.plan.as_mut().expect("it is there").name);
            let mut plans = PlanServiceClient::new(channel.clone());
            return plans.create_plan(request).await.map(drop);
        }
        let mut request = self.event.clone();
        name.clone_into(&mut request.id);
        let mut triggers = TriggerServiceClient::new(channel.clone());
        triggers.publish_event(request).await.map(drop)
    }
}

/// Saves plans that do nothing, and one that runs them all; returns its id.
async fn one_that_runs_others(channel: &Channel) -> Result<String, Fault> {
    let mut plans = PlanServiceClient::new(channel.clone());
    let mut saved = Vec::new();
    for n in 0..N_SUB_PLANS {
        let plan = plans.create_plan(creation(&format!("small {n}"), None)).await?;
        saved.push(plan.into_inner().plan.ok_or("a saved plan is a plan")?.plan_id);
    }
    let above = plans
        .create_plan(creation("above", Some(sub_plans(&saved))))
        .await?;
    Ok(above.into_inner().plan.ok_or("a saved plan is a plan")?.plan_id)
}

fn creation(name: &str, document: Option<escapement_model::Opaque>) -> v1::CreatePlanRequest {
    v1::CreatePlanRequest {
        plan: Some(v1::Plan {
            name: name.to_owned(),
            goal: "to be run".to_owned(),
            ..v1::Plan::default()
        }),
        document,
        ..v1::CreatePlanRequest::default()
    }
}

/// Requests of the attack in flight together.
const N_AT_ONCE: usize = 256;
const N_SUB_PLANS: usize = 200;
const N_CONDITIONS: usize = 10;
/// Measures of one expression.
const N_SIZES: usize = 40;
const PAUSE: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(30);
