//! `PlanExecutionService`. Validates, asks the engine, and asks the store for what the engine does not hold.

mod submit;

use crate::call_class::CallClass;
use crate::clock;
use crate::grpc::queries::advice;
use crate::grpc::queries::paging::page_size;
use crate::grpc::transport::connection_abort::ConnectionAbort;
use crate::grpc::transport::response_budget::{Held, with_room};
use crate::grpc::{Answers, Edge, execution_id};
use crate::host::handle::Lane;
use crate::limits::{
    AUDIT_PAGE_MAX, EXECUTIONS_PAGE_DEFAULT, EXECUTIONS_PAGE_MAX, WAIT_TIMEOUT_MS_DEFAULT,
    WAIT_TIMEOUT_MS_MAX,
};
use crate::status::Rejection;
use crate::storage::readers::Reading;
use escapement_codec::certificate::certificate as convert_certificate;
use escapement_codec::page_token;
use escapement_codec::request as convert;
use escapement_codec::stored_execution;
use escapement_contract::{Plan, RequestDraft, validate_concurrency, validate_plan, validate_request};
use escapement_engine::{Ended, Input};
use escapement_insight::spelling::Speller;
use escapement_model::planted::{self, Bug};
use escapement_store::{ListFilter, Reader, StoreFault, StoredState, StoredSummary};
use escapement_wire::v1;
use escapement_wire::v1::plan_execution_service_server::PlanExecutionService;
use std::collections::BTreeSet;
use std::sync::Arc;
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
}

#[tonic::async_trait]
impl PlanExecutionService for Plans {
    async fn execute_plan(
        &self,
        request: Request<v1::ExecutePlanRequest>,
    ) -> Result<Response<v1::ExecutePlanResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.execute(request, &metadata).await
    }

    async fn submit_plan(
        &self,
        request: Request<v1::SubmitPlanRequest>,
    ) -> Result<Response<v1::SubmitPlanResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.submit(request, &metadata).await
    }

    async fn validate_plan(
        &self,
        request: Request<v1::ValidatePlanRequest>,
    ) -> Result<Response<v1::ValidatePlanResponse>, Status> {
        let request = request.into_inner();
        let Some(plan) = request.plan else {
            let nothing = validate_request(RequestDraft::default(), self.edge.max_concurrent_steps);
            let violations = nothing.expect_err("a request without a plan breaks a rule");
            return Err(Rejection::Violations(violations).into());
        };
        let asked = request.options.and_then(|options| options.max_concurrent_steps);
        let max_concurrent_steps = validate_concurrency(asked, self.edge.max_concurrent_steps);
        let max_concurrent_steps = max_concurrent_steps.map_err(Rejection::Violations)?;
        let plan = match validate_plan(convert::plan_draft(plan)) {
            Ok(plan) => Arc::new(plan),
            Err(violations) => {
                let violations = violations.iter().map(advice::finding).collect();
                let answer = v1::ValidatePlanResponse {
                    violations,
                    ..Default::default()
                };
                return self.edge.answers.answer(CallClass::Reads, answer);
            }
        };
        let mut warnings: Vec<_> = plan.warnings().iter().map(advice::finding).collect();
        if let Some(deadline_ms) = request.deadline_ms {
            warnings.extend(advice::of_deadline(&plan, deadline_ms, clock::unix_ms()));
        }
        if let Some(environment) = &request.environment {
            let missing = plan.missing_context_keys(environment);
            warnings.extend(missing.into_iter().map(advice::of_missing_key));
        }
        let actions = self.edge.actions(Lane::LongReads).await?;
        warnings.extend(self.edge.payload_warnings(&plan, &actions).await);
        let offered: BTreeSet<&str> = actions
            .iter()
            .filter(|action| action.workers > 0)
            .map(|action| action.name.as_ref())
            .collect();
        let unknown_actions = unknown_actions(&plan, &offered);
        let certificate = convert_certificate(&plan, &plan.certificate(max_concurrent_steps));
        let answer = v1::ValidatePlanResponse {
            valid: true,
            violations: Vec::new(),
            warnings,
            action_suggestions: suggestions(&unknown_actions, &offered),
            unknown_actions,
            canonical_order: certificate.canonical_order.clone(),
            certificate: Some(certificate),
        };
        self.edge.answers.answer(CallClass::Reads, answer)
    }

    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Result<Response<v1::GetExecutionResponse>, Status> {
        let execution_id = execution_id(&request.into_inner().execution_id)?;
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
        let request = request.into_inner();
        let execution_id = execution_id(&request.execution_id)?;
        let patience = wait_timeout(request.timeout_ms)?;
        if !patience.is_zero() {
            let settled = self
                .edge
                .engine
                .call(Lane::Reads, |caller| Input::Wait { caller, execution_id });
            match timeout(patience, settled).await {
                Ok(ended) => {
                    if let Ended::Refused(refusal) = ended? {
                        return Err(Rejection::Refused(refusal).into());
                    }
                }
                Err(_elapsed) => {}
            }
        }
        let execution = self.edge.execution(execution_id).await?;
        let Held { value, room } = execution;
        let answer = v1::WaitExecutionResponse {
            execution: Some(value),
        };
        Ok(with_room(answer, room))
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        let request = request.into_inner();
        let page_size = page_size(request.page_size, EXECUTIONS_PAGE_DEFAULT, EXECUTIONS_PAGE_MAX)?;
        let filter = list_filter(&request)?;
        let before = match request.page_token.as_str() {
            "" => None,
            token => Some(page_token::decode(token, &filter).map_err(|_| Rejection::PageTokenInvalid)?),
        };
        let query = filter.clone();
        let read = move |reader: &dyn Reader| list(reader, &query, before, page_size + 1);
        let mut summaries = self.edge.readers.read(Reading::List, read).await?;
        let has_more = summaries.len() > page_size;
        summaries.truncate(page_size);
        let next_page_token = match summaries.last() {
            Some(last) if has_more => {
                let skipped = u64::from(planted::is_on(Bug::PageSkipsOne));
                page_token::encode(last.number - skipped, &filter)
            }
            Some(_) | None => String::new(),
        };
        let executions = summaries.iter().map(stored_execution::listed_execution).collect();
        let answer = v1::ListExecutionsResponse {
            executions,
            next_page_token,
        };
        self.edge.answers.answer(CallClass::Reads, answer)
    }

    type WatchExecutionStream = Answers<v1::WatchExecutionResponse>;

    async fn watch_execution(
        &self,
        request: Request<v1::WatchExecutionRequest>,
    ) -> Result<Response<Self::WatchExecutionStream>, Status> {
        let abort = request.extensions().get::<ConnectionAbort>().cloned();
        let request = request.into_inner();
        let execution_id = execution_id(&request.execution_id)?;
        let from_sequence = from_sequence(request.from_sequence)?;
        let after_hash = after_hash(&request.after_hash, from_sequence)?;
        let watch = self.edge.watch(execution_id, from_sequence, after_hash, abort);
        Ok(Response::new(watch.await?))
    }

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Result<Response<v1::ListAuditEntriesResponse>, Status> {
        let request = request.into_inner();
        let execution_id = execution_id(&request.execution_id)?;
        let from_sequence = from_sequence(request.from_sequence)?;
        let page_size = page_size(request.page_size, AUDIT_PAGE_MAX, AUDIT_PAGE_MAX)?;
        let page = self.edge.audit_page(execution_id, from_sequence, page_size);
        self.edge.answers.answer(CallClass::Reads, page.await?)
    }

    async fn explain_execution(
        &self,
        request: Request<v1::ExplainExecutionRequest>,
    ) -> Result<Response<v1::ExplainExecutionResponse>, Status> {
        self.edge.explain_execution(request.into_inner()).await
    }

    async fn replay_execution(
        &self,
        request: Request<v1::ReplayExecutionRequest>,
    ) -> Result<Response<v1::ReplayExecutionResponse>, Status> {
        self.edge.replay_execution(&request.into_inner()).await
    }

    type ExportExecutionStream = Answers<v1::ExportExecutionResponse>;

    async fn export_execution(
        &self,
        request: Request<v1::ExportExecutionRequest>,
    ) -> Result<Response<Self::ExportExecutionStream>, Status> {
        let abort = request.extensions().get::<ConnectionAbort>().cloned();
        self.edge.export_execution(request.get_ref(), abort).await
    }

    async fn simulate_plan(
        &self,
        request: Request<v1::SimulatePlanRequest>,
    ) -> Result<Response<v1::SimulatePlanResponse>, Status> {
        self.edge.simulate_plan(request.into_inner()).await
    }
}

fn unknown_actions(plan: &Plan, offered: &BTreeSet<&str>) -> Vec<String> {
    let wanted: BTreeSet<&str> = plan.steps().iter().map(|step| step.action()).collect();
    wanted
        .difference(offered)
        .map(|action| (*action).to_owned())
        .collect()
}

fn suggestions(unknown: &[String], offered: &BTreeSet<&str>) -> Vec<v1::UnknownAction> {
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut speller = Speller::new(offered);
    unknown
        .iter()
        .map(|action| v1::UnknownAction {
            action: action.clone(),
            suggestions: speller.suggestions(action),
        })
        .collect()
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

fn list_filter(request: &v1::ListExecutionsRequest) -> Result<ListFilter, Rejection> {
    let unknown = |field| Rejection::InvalidField {
        field,
        message: "is no value of this enumeration".to_owned(),
    };
    let state = match v1::execution::State::try_from(request.state).map_err(|_| unknown("state"))? {
        v1::execution::State::Unspecified => None,
        v1::execution::State::Queued => Some(StoredState::Queued),
        v1::execution::State::Running => Some(StoredState::Running),
        v1::execution::State::Settled => Some(StoredState::Settled),
    };
    let status = match v1::plan_result::Status::try_from(request.status).map_err(|_| unknown("status"))? {
        v1::plan_result::Status::Unspecified => None,
        v1::plan_result::Status::Success => Some(1),
        v1::plan_result::Status::Partial => Some(2),
        v1::plan_result::Status::Failure => Some(3),
    };
    let parent = request.parent_execution_id.as_deref().map(str::parse).transpose();
    Ok(ListFilter {
        state,
        status,
        plan_name: request.plan_name.clone(),
        tag: request.tag.clone(),
        user_id: request.user_id.clone(),
        accepted_after: request.accepted_after,
        accepted_before: request.accepted_before,
        parent_execution_id: parent.map_err(|invalid: escapement_model::InvalidId| {
            Rejection::InvalidField {
                field: "parent_execution_id",
                message: invalid.to_string(),
            }
        })?,
    })
}

/// Reads until there are enough or no more. A page of the store may be short, and a damaged execution is
/// passed over:
/// asking for it by its id tells that it is damaged.
fn list(
    reader: &dyn Reader,
    filter: &ListFilter,
    mut before: Option<u64>,
    n_wanted: usize,
) -> Result<Vec<StoredSummary>, StoreFault> {
    let mut all: Vec<StoredSummary> = Vec::new();
    while all.len() < n_wanted {
        match reader.list(filter, before, n_wanted - all.len()) {
            Ok(page) => {
                let Some(last) = page.last() else { break };
                before = Some(last.number);
                all.extend(page);
            }
            Err(StoreFault::Corrupt { number, .. }) => before = Some(number),
            Err(fault) => return Err(fault),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
