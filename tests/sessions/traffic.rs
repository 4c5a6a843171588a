//! Plans and callers for attacks. Judges only that plans succeed.

use crate::arena::Arena;
use escapement_tests::{PlanDocument, let_pass};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// Returns a plan of so many steps of one action that may all run at a time.
pub(crate) fn side_by_side(action: &str, payload: &Value, count: usize) -> PlanDocument {
    let begin =
        PlanDocument::new("side by side").request_field("options", json!({ "max_concurrent_steps": 64 }));
    (0..count).fold(begin, |plan, _| plan.step(action, payload.clone(), &[]))
}

/// Returns a plan of one step that is tried again, up to three times, when its worker is lost.
pub(crate) fn retried_when_lost(action: &str, payload: Value) -> PlanDocument {
    let policy = json!({ "max_attempts": 3, "retryable_error_codes": ["WORKER_LOST"] });
    PlanDocument::new("retried when lost")
        .step_with(action, payload, &[], json!({ "on_failure": "retry" }))
        .plan_field("retry_policy", policy)
}

/// Callers that execute one plan after another.
pub(crate) struct Load {
    goes_on: watch::Sender<bool>,
    callers: JoinSet<u64>,
}

impl Load {
    /// So many callers, each with the plan that the function gives.
    pub(crate) fn start(arena: &Arena, callers: usize, plan: fn() -> PlanDocument) -> Self {
        let (goes_on, receiver) = watch::channel(true);
        let mut load = Self {
            goes_on,
            callers: JoinSet::new(),
        };
        for _ in 0..callers {
            load.callers
                .spawn(call(arena.orchestrator.plans(), receiver.clone(), plan));
        }
        load
    }

    /// Waits for the plans that run, and says how many there were in all.
    ///
    /// # Panics
    /// One of them did not succeed.
    pub(crate) async fn stop(self) -> u64 {
        self.goes_on.send_replace(false);
        self.callers.join_all().await.into_iter().sum()
    }
}

async fn call(
    mut plans: PlanExecutionServiceClient<Channel>,
    goes_on: watch::Receiver<bool>,
    plan: fn() -> PlanDocument,
) -> u64 {
    let mut n_plans = 0;
    while *goes_on.borrow() {
        let answer = plans.execute_plan(plan().execute()).await.unwrap();
        let result = answer.into_inner().result.unwrap();
        assert_eq!(result.status(), Status::Success, "{result:?}");
        n_plans += 1;
        let_pass(PACE).await;
    }
    n_plans
}

/// Between two plans of a caller.
const PACE: Duration = Duration::from_millis(5);
