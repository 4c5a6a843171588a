//! Plans, and calls about them, for attacks that need many. Judges nothing.

use crate::arena::LIMIT;
use escapement_model::Opaque;
use escapement_model::limits::ANSWER_MESSAGE_BYTES_MAX;
use escapement_tests::calls;
use escapement_tests::{Orchestrator, fresh_id};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{Execution, Plan, PlanResult, PlanStep, SubmitPlanRequest};
use serde_json::Value;
use std::time::Duration;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// A step that halts the plan when it fails. Its number makes its id.
pub(crate) fn step(number: usize, action: &str, payload: Value) -> PlanStep {
    PlanStep {
        id: step_id(number),
        action: action.to_owned(),
        payload: Some(object(payload)),
        ..PlanStep::default()
    }
}

/// The same, after others.
pub(crate) fn step_after(number: usize, action: &str, payload: Value, others: &[usize]) -> PlanStep {
    PlanStep {
        depends_on: others.iter().map(|other| step_id(*other)).collect(),
        ..step(number, action, payload)
    }
}

fn step_id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// A plan of these steps, under fresh ids.
pub(crate) fn submission(steps: impl IntoIterator<Item = PlanStep>) -> SubmitPlanRequest {
    let plan = Plan {
        id: fresh_id(),
        version: 1,
        created_at: 1_766_016_000_000,
        steps: steps.into_iter().collect(),
        name: "under attack".to_owned(),
        context_requirements: vec!["region".to_owned()],
        ..Plan::default()
    };
    SubmitPlanRequest {
        plan: Some(plan),
        environment: Some(object(serde_json::json!({ "region": "eu" }))),
        execution_id: Some(fresh_id()),
        ..SubmitPlanRequest::default()
    }
}

/// The id of the execution that a request asks for.
pub(crate) fn id_of(request: &SubmitPlanRequest) -> String {
    request.execution_id.clone().unwrap()
}

/// An encoded object.
pub(crate) fn object(value: Value) -> Opaque {
    escapement_wire::json::to_opaque(value.as_object().unwrap())
}

/// Somebody with plans, over a connection of its own.
#[derive(Clone)]
pub(crate) struct Caller {
    plans: PlanExecutionServiceClient<Channel>,
}

impl Caller {
    /// Calls an orchestrator.
    pub(crate) fn of(orchestrator: &Orchestrator) -> Self {
        Self::at(&orchestrator.url())
    }

    /// Calls through a proxy.
    pub(crate) fn at(url: &str) -> Self {
        let channel = Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy();
        let plans = PlanExecutionServiceClient::new(channel);
        Self {
            plans: plans.max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX),
        }
    }

    pub(crate) async fn try_submit(&self, request: &SubmitPlanRequest) -> Result<Execution, Status> {
        let answer = self.plans.clone().submit_plan(request.clone()).await?;
        Ok(answer.into_inner().execution.unwrap())
    }

    /// Hands a plan in and gives the id of its execution.
    pub(crate) async fn submit(&self, request: &SubmitPlanRequest) -> String {
        self.try_submit(request).await.unwrap().execution_id
    }

    /// Hands a plan in and waits for its result.
    pub(crate) async fn run(&self, request: &SubmitPlanRequest) -> PlanResult {
        let id = self.submit(request).await;
        self.result_of(&id).await
    }

    /// `WaitExecution`, which must end with a result.
    pub(crate) async fn result_of(&self, id: &str) -> PlanResult {
        self.try_result_of(id).await.unwrap()
    }

    /// The same where the orchestrator may go away.
    pub(crate) async fn try_result_of(&self, id: &str) -> Result<PlanResult, Status> {
        calls::result_of(self.plans.clone(), id, LIMIT).await
    }
}

/// The value below which so many percent of all values lie.
pub(crate) fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_unstable();
    values[(values.len() * percent / 100).min(values.len() - 1)]
}

/// How much memory a process has now.
pub(crate) fn resident_bytes(process_id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}
