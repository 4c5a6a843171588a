//! Workers that are scaled by what there is to do: from nothing and back, and never below what they have in hand.

use crate::plans::{RequestWords, WORK, plan, request, step};
use crate::status_details::{reason, violations};
use crate::world::{LIMIT, World};
use escapement_sdk::{StepContext, Worker};
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::externalscaler::external_scaler_client::ExternalScalerClient;
use escapement_wire::externalscaler::{GetMetricsRequest, IsActiveResponse, MetricSpec, ScaledObjectRef};
use escapement_wire::v1::DrainWorkerRequest;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

/// What KEDA does with a trigger of the type `external-push`, without Kubernetes.
struct Keda {
    scaler: ExternalScalerClient<Channel>,
    trigger: ScaledObjectRef,
}

impl Keda {
    fn new(world: &World, actions: &str) -> Self {
        let metadata = [
            ("scalerAddress", "escapement:7400"),
            ("actions", actions),
            ("slotsPerWorker", "16"),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self {
            scaler: ExternalScalerClient::new(world.orchestrator.channel()),
            trigger: ScaledObjectRef {
                name: "billing-worker".to_owned(),
                namespace: "default".to_owned(),
                scaler_metadata: metadata.into(),
            },
        }
    }

    async fn spec(&self) -> MetricSpec {
        let answer = self
            .scaler
            .clone()
            .get_metric_spec(self.trigger.clone())
            .await
            .unwrap();
        let [spec]: [MetricSpec; 1] = answer.into_inner().metric_specs.try_into().unwrap();
        spec
    }

    async fn demand(&self) -> i64 {
        let request = GetMetricsRequest {
            scaled_object_ref: Some(self.trigger.clone()),
            metric_name: self.spec().await.metric_name,
        };
        let answer = self.scaler.clone().get_metrics(request).await.unwrap();
        let value = &answer.get_ref().metric_values[0];
        assert!((value.metric_value_float - value.metric_value as f64).abs() < 0.5);
        value.metric_value
    }

    /// As the autoscaler does for a target of the kind `AverageValue`.
    async fn wanted_workers(&self) -> usize {
        let target = self.spec().await.target_size_float;
        (self.demand().await as f64 / target).ceil() as usize
    }

    async fn is_active(&self) -> bool {
        let answer = self.scaler.clone().is_active(self.trigger.clone()).await.unwrap();
        answer.into_inner().result
    }

    async fn pushes(&self) -> Streaming<IsActiveResponse> {
        let answer = self
            .scaler
            .clone()
            .stream_is_active(self.trigger.clone())
            .await
            .unwrap();
        answer.into_inner()
    }
}

async fn pushed(pushes: &mut Streaming<IsActiveResponse>) -> bool {
    let next = tokio::time::timeout(LIMIT, pushes.message()).await.unwrap();
    next.unwrap().unwrap().result
}

//
#[tokio::test]
async fn a_plan_waits_for_the_first_worker_of_a_declared_action_and_calls_for_it() {
    let world = World::start_with(|settings| {
        settings
            .flag("--registration-grace-ms", 0)
            .flag("--declare-action", format!("{WORK}*"))
    })
    .await;
    let keda = Keda::new(&world, WORK);
    let mut pushes = keda.pushes().await;
    assert!(!pushed(&mut pushes).await);
    assert_eq!((keda.demand().await, keda.is_active().await), (0, false));

    let request = request(plan([step(0, WORK)]));
    let began = Instant::now();
    assert_eq!(world.submit(&request).await.state(), State::Queued);
    assert!(pushed(&mut pushes).await);
    println!(
        "pushed {} ms after the submission began",
        began.elapsed().as_millis()
    );
    assert_eq!((keda.demand().await, keda.wanted_workers().await), (1, 1));

    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 16).await;
    let assignment = worker.started().await;
    assert_eq!((keda.demand().await, keda.is_active().await), (1, true));
    worker.succeed(&assignment, json!({})).await;
    assert!(!pushed(&mut pushes).await);
    assert_eq!(world.result_of(&request.id()).await.status(), Status::Success);
    assert_eq!(keda.wanted_workers().await, 0);
    let replayed = escapement_wire::v1::ReplayExecutionRequest {
        execution_id: request.id(),
    };
    let replayed = world
        .orchestrator
        .plans()
        .replay_execution(replayed)
        .await
        .unwrap();
    assert!(replayed.into_inner().identical);
}

#[tokio::test]
async fn metadata_that_is_wrong_is_refused() {
    let world = World::start().await;
    let keda = Keda::new(&world, "");
    let refused = keda
        .scaler
        .clone()
        .is_active(keda.trigger.clone())
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::InvalidArgument), "INVALID_ARGUMENT");
    assert_eq!(violations(&refused)[0].0, "scalerMetadata.actions");
    assert!(
        refused.message().starts_with("scalerMetadata.actions: "),
        "{}",
        refused.message()
    );
    let other = GetMetricsRequest {
        scaled_object_ref: Some(Keda::new(&world, "*").trigger),
        metric_name: "other".to_owned(),
    };
    let refused = keda.scaler.clone().get_metrics(other).await.unwrap_err();
    assert!(
        refused.message().starts_with("metricName: "),
        "{}",
        refused.message()
    );
}

/// Workers that hold each step until the test lets it end.
struct Fleet {
    url: String,
    running: Arc<AtomicUsize>,
    n_started: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    n_made: usize,
    /// Those that are not drained, the oldest first.
    ids: Vec<String>,
    tasks: JoinSet<()>,
}

impl Fleet {
    fn new(world: &World) -> Self {
        Self {
            url: world.orchestrator.url(),
            running: Arc::default(),
            n_started: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            n_made: 0,
            ids: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    fn add(&mut self) {
        self.n_made += 1;
        let id = format!("worker-{}", self.n_made);
        let (running, n_started, gate) = (
            Arc::clone(&self.running),
            Arc::clone(&self.n_started),
            Arc::clone(&self.gate),
        );
        let worker = Worker::builder(&self.url)
            .worker_id(&id)
            .max_in_flight(SLOTS)
            .handler(WORK, move |_: Value, _: StepContext| {
                running.fetch_add(1, Ordering::SeqCst);
                n_started.fetch_add(1, Ordering::SeqCst);
                let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
                async move {
                    gate.acquire().await.unwrap().forget();
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(json!({}))
                }
            })
            .build()
            .unwrap();
        self.tasks.spawn(async move {
            // It ends with the test, or with its orchestrator.
            let _ended = worker.run_until(std::future::pending()).await;
        });
        self.ids.push(id);
    }

    /// As Kubernetes does: it takes those that it likes, and asks them to stop.
    async fn scale_to(&mut self, wanted: usize, world: &World) {
        while self.ids.len() < wanted {
            self.add();
        }
        while self.ids.len() > wanted {
            let worker_id = self.ids.remove(0);
            let request = DrainWorkerRequest {
                worker_id,
                ..DrainWorkerRequest::default()
            };
            world.orchestrator.fleet().drain_worker(request).await.unwrap();
        }
    }

    fn n_running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_steps_never_scale_the_fleet_below_what_is_busy() {
    let world = World::start_with(|settings| settings.flag("--declare-action", WORK)).await;
    let keda = Keda::new(&world, "w*,nothing");
    let mut fleet = Fleet::new(&world);
    let request = request(plan((0..N_STEPS).map(|n| step(n, WORK)))).concurrent(N_STEPS as i32);
    world.submit(&request).await;
    assert_eq!(keda.demand().await, 1, "one execution is held back");

    fleet.scale_to(keda.wanted_workers().await, &world).await;
    let starts = async || (keda.demand().await == N_STEPS as i64).then_some(());
    wait_for("the first worker to let it start", LIMIT, starts)
        .await
        .unwrap();
    fleet.scale_to(keda.wanted_workers().await, &world).await;
    let all_run = async || (fleet.n_running() == N_STEPS).then_some(());
    wait_for("all steps to run", LIMIT, all_run).await.unwrap();
    assert_eq!(
        keda.demand().await,
        N_STEPS as i64,
        "nothing waits, and all of it counts"
    );
    assert_eq!(fleet.ids.len(), 40, "500 / (16 x 0.8), rounded up");

    let mut n_left = N_STEPS;
    let mut sizes = Vec::new();
    while n_left > 0 {
        let n_ending = n_left.min(40);
        n_left -= n_ending;
        fleet.gate.add_permits(n_ending);
        let seen = async || (keda.demand().await == n_left as i64).then_some(());
        wait_for("the ends to show", LIMIT, seen).await.unwrap();
        let wanted = keda.wanted_workers().await;
        assert!(
            wanted * SLOTS as usize >= fleet.n_running(),
            "{wanted} workers for {n_left} steps"
        );
        fleet.scale_to(wanted, &world).await;
        sizes.push(wanted);
    }
    assert!(
        sizes.is_sorted_by(|a, b| a >= b) && sizes.last() == Some(&0),
        "{sizes:?}"
    );
    assert_eq!(world.result_of(&request.id()).await.status(), Status::Success);
    assert_eq!(
        fleet.n_started.load(Ordering::SeqCst),
        N_STEPS,
        "scaling in repeats nothing"
    );
}

/// Attempts that a worker may have.
const SLOTS: u32 = 16;
const N_STEPS: usize = 500;
