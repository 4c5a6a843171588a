//! `PlanExecutionService`: each call to the file that answers it. Decides nothing.

mod list;
mod submit;
mod validate;

use crate::grpc::caller::Caller;
use crate::grpc::queries::paging::page_size;
use crate::grpc::{Answers, Edge, execution_id};
use crate::host::handle::Lane;
use crate::limits::{AUDIT_PAGE_MAX, WAIT_TIMEOUT_MS_DEFAULT, WAIT_TIMEOUT_MS_MAX};
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_engine::{Ended, Input};
use escapement_model::ExecutionId;
use escapement_transport::response_budget::{Budgeted, with_room};
use escapement_transport::share::CallTenant;
use escapement_transport::{CallClass, Recipient};
use escapement_wire::v1;
use escapement_wire::v1::plan_execution_service_server::PlanExecutionService;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Debug)]
pub(crate) struct Plans {
    edge: Edge,
}

impl Plans {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }

    /// The execution that a request is about, if the caller may know of it. Every lookup by an execution id comes through here.
    async fn visible<T>(&self, request: &Request<T>, id: impl Fn(&T) -> &str) -> Result<ExecutionId, Status> {
        let execution_id = execution_id(id(request.get_ref()))?;
        let caller = self.edge.caller(request.extensions(), request.metadata()).await?;
        self.edge.require_visible(&caller, execution_id).await?;
        Ok(execution_id)
    }
}

#[tonic::async_trait]
impl PlanExecutionService for Plans {
    async fn execute_plan(
        &self,
        request: Request<v1::ExecutePlanRequest>,
    ) -> Result<Response<v1::ExecutePlanResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let caller = self.edge.caller(&extensions, &metadata).await?;
        self.execute(request, &metadata, &caller).await
    }

    async fn submit_plan(
        &self,
        request: Request<v1::SubmitPlanRequest>,
    ) -> Result<Response<v1::SubmitPlanResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let caller = self.edge.caller(&extensions, &metadata).await?;
        self.submit(request, &metadata, &caller).await
    }

    async fn validate_plan(
        &self,
        request: Request<v1::ValidatePlanRequest>,
    ) -> Result<Response<v1::ValidatePlanResponse>, Status> {
        let caller = self.edge.caller(request.extensions(), request.metadata()).await?;
        let message = request.get_ref();
        looked_at(&caller, &message.namespace, message.plan.as_ref())?;
        self.validate(request.into_inner(), &caller).await
    }

    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Result<Response<v1::GetExecutionResponse>, Status> {
        let execution_id = self.visible(&request, |request| &request.execution_id).await?;
        let execution = self.edge.certified_execution(execution_id).await?;
        let answer = v1::GetExecutionResponse {
            execution: Some(execution),
        };
        self.edge.answers.answer(CallClass::Reads, answer)
    }

    async fn wait_execution(
        &self,
        request: Request<v1::WaitExecutionRequest>,
    ) -> Result<Response<v1::WaitExecutionResponse>, Status> {
        let execution_id = self.visible(&request, |request| &request.execution_id).await?;
        let patience = wait_timeout(request.into_inner().timeout_ms)?;
        let mut has_settled = false;
        if !patience.is_zero() {
            let settled = self
                .edge
                .engine
                .call(Lane::Reads, |caller| Input::Wait { caller, execution_id });
            match timeout(patience, settled).await {
                Ok(ended) => match ended? {
                    Ended::Refused(refusal) => return Err(Rejection::Refused(refusal).into()),
                    // The engine holds it no more: the store has the answer.
                    Ended::Settled(_) => has_settled = true,
                    Ended::NotLive => {}
                },
                Err(_elapsed) => {}
            }
        }
        let execution = match has_settled {
            true => {
                self.edge
                    .stored_execution(execution_id, ReadClass::Answer)
                    .await?
            }
            false => self.edge.execution(execution_id).await?,
        };
        let Budgeted { value, room } = execution;
        let answer = v1::WaitExecutionResponse {
            execution: Some(value),
        };
        Ok(with_room(answer, room))
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        self.list(request.get_ref(), &caller).await
    }

    type WatchExecutionStream = Answers<v1::WatchExecutionResponse>;

    async fn watch_execution(
        &self,
        request: Request<v1::WatchExecutionRequest>,
    ) -> Result<Response<Self::WatchExecutionStream>, Status> {
        let recipient = Recipient::new(&self.edge.answers, CallClass::Watches, request.extensions());
        let execution_id = self.visible(&request, |request| &request.execution_id).await?;
        let request = request.into_inner();
        let from_sequence = from_sequence(request.from_sequence)?;
        let after_hash = after_hash(&request.after_hash, from_sequence)?;
        let watch = self
            .edge
            .watch(execution_id, from_sequence, after_hash, recipient);
        Ok(Response::new(watch.await?))
    }

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Result<Response<v1::ListAuditEntriesResponse>, Status> {
        let tenant = CallTenant::of(request.extensions());
        let execution_id = self.visible(&request, |request| &request.execution_id).await?;
        let request = request.into_inner();
        let from_sequence = from_sequence(request.from_sequence)?;
        let page_size = page_size(request.page_size, AUDIT_PAGE_MAX, AUDIT_PAGE_MAX)?;
        let page = self
            .edge
            .audit_page(&tenant, execution_id, from_sequence, page_size);
        self.edge.answers.answer(CallClass::Reads, page.await?)
    }

    async fn explain_execution(
        &self,
        request: Request<v1::ExplainExecutionRequest>,
    ) -> Result<Response<v1::ExplainExecutionResponse>, Status> {
        self.visible(&request, |request| &request.execution_id).await?;
        self.edge.explain_execution(request.into_inner()).await
    }

    async fn replay_execution(
        &self,
        request: Request<v1::ReplayExecutionRequest>,
    ) -> Result<Response<v1::ReplayExecutionResponse>, Status> {
        self.visible(&request, |request| &request.execution_id).await?;
        let tenant = CallTenant::of(request.extensions());
        self.edge.replay_execution(&request.into_inner(), &tenant).await
    }

    type ExportExecutionStream = Answers<v1::ExportExecutionResponse>;

    async fn export_execution(
        &self,
        request: Request<v1::ExportExecutionRequest>,
    ) -> Result<Response<Self::ExportExecutionStream>, Status> {
        self.visible(&request, |request| &request.execution_id).await?;
        let recipient = Recipient::new(&self.edge.answers, CallClass::Reads, request.extensions());
        self.edge.export_execution(request.get_ref(), &recipient).await
    }

    async fn simulate_plan(
        &self,
        request: Request<v1::SimulatePlanRequest>,
    ) -> Result<Response<v1::SimulatePlanResponse>, Status> {
        let message = request.get_ref();
        looked_at(
            &Caller::of(request.extensions()),
            &message.namespace,
            message.plan.as_ref(),
        )?;
        let tenant = CallTenant::of(request.extensions());
        self.edge.simulate_plan(request.into_inner(), &tenant).await
    }
}

/// Refuses a plan to look at whose namespace or actions are not the caller's.
fn looked_at(caller: &Caller, namespace: &str, plan: Option<&v1::Plan>) -> Result<(), Rejection> {
    let namespace = caller.namespace(namespace)?;
    caller.check_plan(&namespace, plan)
}

fn wait_timeout(timeout_ms: Option<i64>) -> Result<Duration, Rejection> {
    let timeout_ms = timeout_ms.unwrap_or(WAIT_TIMEOUT_MS_DEFAULT);
    match u64::try_from(timeout_ms) {
        Ok(patience_ms) if timeout_ms <= WAIT_TIMEOUT_MS_MAX => Ok(Duration::from_millis(patience_ms)),
        Ok(_) | Err(_) => Err(Rejection::InvalidField {
            field: "timeout_ms",
            message: format!("must be 0 to {WAIT_TIMEOUT_MS_MAX}"),
        }),
    }
}

fn from_sequence(from_sequence: i64) -> Result<u64, Rejection> {
    u64::try_from(from_sequence).map_err(|_| Rejection::InvalidField {
        field: "from_sequence",
        message: "must not be negative".to_owned(),
    })
}

/// Reads the hash of the entry before the first one wanted.
fn after_hash(after_hash: &[u8], from_sequence: u64) -> Result<Option<[u8; 32]>, Rejection> {
    if after_hash.is_empty() {
        return Ok(None);
    }
    match after_hash.try_into() {
        Ok(hash) if from_sequence > 1 => Ok(Some(hash)),
        Ok(_) | Err(_) => Err(Rejection::InvalidField {
            field: "after_hash",
            message: "must be the 32 bytes of the hash of the entry before `from_sequence`, which must be 2 or more"
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests;
