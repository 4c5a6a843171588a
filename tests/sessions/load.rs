//! Plans, and calls about them, for attacks that need many. Judges nothing.

use crate::arena::LIMIT;
use escapement_model::limits::ANSWER_MESSAGE_BYTES_MAX;
use escapement_tests::Orchestrator;
use escapement_tests::calls;
use escapement_tests::plans::{RequestWords, plan, request};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{Execution, PlanResult, PlanStep, SubmitPlanRequest};
use std::time::Duration;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// Returns a plan of these steps, under fresh ids.
pub(crate) fn submission(steps: impl IntoIterator<Item = PlanStep>) -> SubmitPlanRequest {
    request(plan(steps)).as_submission()
}

/// Returns the id of the execution that a request asks for.
pub(crate) fn id_of(request: &SubmitPlanRequest) -> String {
    request.execution_id.clone().unwrap()
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

/// Returns the value below which so many percent of all values lie.
pub(crate) fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_unstable();
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
