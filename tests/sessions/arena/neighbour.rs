//! A worker and a caller beside the attack, on a thread of their own: whatever they notice is a fault.
//! Never comes near a proxy.

use escapement_sdk::{StepContext, Worker};
use escapement_tests::{PlanDocument, let_pass, wait_for};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tonic::transport::{Channel, Endpoint};

use super::LIMIT;

/// The label of its worker and the name of its action.
pub(crate) const NEIGHBOUR: &str = "neighbour";
/// Steps of each of its plans, one after the other.
pub(crate) const STEPS: u64 = 2;

/// A running neighbour. Ends with the test where it is not stopped.
pub(crate) struct Neighbour {
    orders: watch::Sender<Orders>,
    seen: Arc<Mutex<Seen>>,
    thread: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orders {
    GoOn,
    Pause,
    Stop,
}

/// What the caller noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) n_plans: u64,
    slowest: Duration,
    failures: Vec<String>,
    is_idle: bool,
}

impl Neighbour {
    pub(crate) fn start(url: &str) -> Self {
        let (orders, receiver) = watch::channel(Orders::GoOn);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (url, noting) = (url.to_owned(), Arc::clone(&seen));
        let live = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(live(&url, receiver, &noting));
        };
        let thread = std::thread::spawn(live);
        Self { orders, seen, thread }
    }

    /// Waits until the plan that runs is over and no other follows.
    pub(crate) async fn pause(&self) {
        self.orders.send_replace(Orders::Pause);
        let idle = async || self.seen.lock().unwrap().is_idle.then_some(());
        wait_for("the neighbour to pause", LIMIT, idle).await.unwrap();
    }

    pub(crate) fn resume(&self) {
        self.orders.send_replace(Orders::GoOn);
    }

    /// Waits until two more plans have ended.
    pub(crate) async fn plans_go_on(&self) {
        let before = self.seen.lock().unwrap().n_plans;
        let more = async || (self.seen.lock().unwrap().n_plans >= before + 2).then_some(());
        wait_for("plans of the neighbour", LIMIT, more).await.unwrap();
    }

    pub(crate) async fn stop(&self) -> Seen {
        self.orders.send_replace(Orders::Stop);
        let gone = async || self.thread.is_finished().then_some(());
        wait_for("the end of the neighbour", LIMIT, gone).await.unwrap();
        self.seen.lock().unwrap().clone()
    }
}

impl Seen {
    /// Passes when every plan succeeded in time.
    pub(crate) fn expect_undisturbed(&self) {
        eprintln!(
            "the neighbour: {} plans, the slowest took {:?}",
            self.n_plans, self.slowest
        );
        assert!(
            self.failures.is_empty(),
            "the neighbour was disturbed: {:?}",
            self.failures
        );
        assert!(self.n_plans >= 2, "the neighbour did nothing");
        assert!(
            self.slowest <= SLOWEST_MAX,
            "a plan of the neighbour took {:?}, and should take at most {SLOWEST_MAX:?}",
            self.slowest
        );
    }

    fn note(&mut self, took: Duration, failure: Option<String>) {
        self.n_plans += 1;
        self.slowest = self.slowest.max(took);
        if self.failures.len() < FAILURES_MAX {
            self.failures.extend(failure);
        }
    }
}

async fn live(url: &str, mut orders: watch::Receiver<Orders>, seen: &Mutex<Seen>) {
    let echo = |input: Value, _: StepContext| async { Ok(input) };
    let worker = Worker::builder(url)
        .worker_id(NEIGHBOUR)
        .handler(NEIGHBOUR, echo)
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let channel = Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy();
    let mut plans = PlanExecutionServiceClient::new(channel);
    loop {
        let now = *orders.borrow_and_update();
        seen.lock().unwrap().is_idle = now != Orders::GoOn;
        match now {
            Orders::GoOn => {
                let begin = Instant::now();
                let failure = execute(&mut plans).await;
                seen.lock().unwrap().note(begin.elapsed(), failure);
                let_pass(PACE).await;
            }
            Orders::Pause if orders.changed().await.is_ok() => {}
            Orders::Pause | Orders::Stop => break,
        }
    }
    drop(plans);
    let _ = stop.send(());
    if let Err(error) = worker.await.unwrap() {
        seen.lock().unwrap().failures.push(format!("its worker: {error}"));
    }
}

/// One plan; says what went wrong.
async fn execute(plans: &mut PlanExecutionServiceClient<Channel>) -> Option<String> {
    let document = PlanDocument::new(NEIGHBOUR)
        .step(NEIGHBOUR, json!({ "n": 1 }), &[])
        .step(NEIGHBOUR, json!({ "n": 2 }), &[0]);
    match plans.execute_plan(document.execute()).await {
        Err(status) => Some(status.to_string()),
        Ok(answer) => {
            let result = answer.into_inner().result.unwrap();
            (result.status() != Status::Success).then(|| format!("{result:?}"))
        }
    }
}

/// Between two plans.
const PACE: Duration = Duration::from_millis(30);
const FAILURES_MAX: usize = 10;
/// How long its slowest plan may take. Finds an orchestrator that stands still: other attacks share the processors with it,
/// a thousand handshakes of a debug build, say.
const SLOWEST_MAX: Duration = Duration::from_secs(15);
