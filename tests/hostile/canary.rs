//! A caller that means no harm and asks small questions all the time. No call of its may fail or take long;
//! where it is told to ask again, it does.

use crate::den::submission;
use escapement_tests::let_pass;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{GetExecutionRequest, ListExecutionsRequest};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Sings until it is told to stop.
pub(crate) struct Canary {
    stop: watch::Sender<bool>,
    song: JoinHandle<Vec<Duration>>,
}

impl Canary {
    pub(crate) async fn start(url: &str) -> Self {
        let channel = Endpoint::from_shared(url.to_owned())
            .unwrap()
            .connect()
            .await
            .unwrap();
        let (stop, stopped) = watch::channel(false);
        let song = tokio::spawn(sing(PlanExecutionServiceClient::new(channel), stopped));
        Self { stop, song }
    }

    /// How long its calls took; fails where one failed or took too long.
    pub(crate) async fn stop(self) -> Vec<Duration> {
        // It may have ended by itself, and says below why.
        let _ended = self.stop.send(true);
        self.song.await.expect("the canary lives")
    }
}

async fn sing(
    mut plans: PlanExecutionServiceClient<Channel>,
    stopped: watch::Receiver<bool>,
) -> Vec<Duration> {
    let first = plans
        .submit_plan(submission("nobody"))
        .await
        .unwrap()
        .into_inner();
    let execution_id = first.execution.unwrap().execution_id;
    let mut took = Vec::new();
    let mut n_calls = 0;
    while !*stopped.borrow() || n_calls < CALLS_MIN {
        let begin = Instant::now();
        let mut answered = ask(&mut plans, n_calls, &execution_id).await;
        // It may be told to ask again, as any caller, and does so within its time.
        while answered.as_ref().is_err_and(is_again) && begin.elapsed() < CALL_MAX {
            let_pass(PAUSE).await;
            answered = ask(&mut plans, n_calls, &execution_id).await;
        }
        check(n_calls, answered, begin.elapsed());
        took.push(begin.elapsed());
        n_calls += 1;
        let_pass(PAUSE).await;
    }
    took
}

async fn ask(
    plans: &mut PlanExecutionServiceClient<Channel>,
    n_calls: usize,
    execution_id: &str,
) -> Result<(), Status> {
    match n_calls % 8 {
        7 => plans.submit_plan(submission("nobody")).await.map(drop),
        3 => plans
            .list_executions(ListExecutionsRequest {
                page_size: Some(1),
                ..ListExecutionsRequest::default()
            })
            .await
            .map(drop),
        _ => plans
            .get_execution(GetExecutionRequest {
                execution_id: execution_id.to_owned(),
            })
            .await
            .map(drop),
    }
}

fn is_again(status: &Status) -> bool {
    let may_be = matches!(status.code(), Code::ResourceExhausted | Code::Unavailable);
    may_be && status.get_error_details().retry_info().is_some()
}

fn check(number: usize, answered: Result<(), Status>, took: Duration) {
    assert!(
        answered.is_ok(),
        "call {number} of a caller that means no harm: {answered:?}"
    );
    assert!(took <= CALL_MAX, "call {number} took {took:?}");
}

/// However short the attack was.
const CALLS_MIN: usize = 24;
const PAUSE: Duration = Duration::from_millis(5);
/// A machine that does other things as well must be forgiven much.
const CALL_MAX: Duration = Duration::from_secs(4);
