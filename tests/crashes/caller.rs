//! Calls that an orchestrator may die in. Tells apart an answer, a refusal and no answer; judges nothing.

use std::collections::BTreeMap;

use escapement_model::limits::ANSWER_MESSAGE_BYTES_MAX;
use escapement_tests::calls;
use escapement_tests::plans::{self, RequestWords, StepWords};
use escapement_wire::v1::event_service_client::EventServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{
    AuditEntry, Execution, GetExecutionRequest, ListExecutionsRequest, SubmitPlanRequest,
    WaitExecutionRequest, WatchExecutionRequest,
};
use serde_json::json;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::hand::WORK;
use crate::world::LIMIT;

/// The orchestrator went away before it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// Why there is no answer of the kind that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// Nobody answered: what was asked for may have happened or not.
    Gone,
    /// The orchestrator refused, with this code and reason.
    Refused(Code, String),
}

impl From<Status> for No {
    /// Every refusal of an orchestrator has an `ErrorInfo`; what a broken connection makes up has none.
    fn from(status: Status) -> Self {
        match status.get_details_error_info() {
            Some(info) => No::Refused(status.code(), info.reason),
            None => No::Gone,
        }
    }
}

impl No {
    /// Returns the reason of a refusal.
    pub(crate) fn reason(&self) -> &str {
        match self {
            No::Gone => "",
            No::Refused(_, reason) => reason,
        }
    }
}

/// Somebody with plans, over a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    plans: PlanExecutionServiceClient<Channel>,
    events: EventServiceClient<Channel>,
}

impl Caller {
    pub(crate) fn at(url: &str) -> Self {
        let channel = Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy();
        let plans = PlanExecutionServiceClient::new(channel.clone());
        let events = EventServiceClient::new(channel);
        Self {
            plans: plans.max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX),
            events: events.max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX),
        }
    }

    /// Returns the API itself.
    pub(crate) fn plans(&self) -> PlanExecutionServiceClient<Channel> {
        self.plans.clone()
    }

    /// Returns the events.
    pub(crate) fn events(&self) -> EventServiceClient<Channel> {
        self.events.clone()
    }

    pub(crate) async fn submit(&self, request: &SubmitPlanRequest) -> Result<Execution, No> {
        let answer = self.plans.clone().submit_plan(request.clone()).await?;
        Ok(answer.into_inner().execution.unwrap())
    }

    /// `None` if it was never accepted. Without its certificate, which no other call shows.
    pub(crate) async fn execution(&self, id: &str) -> Result<Option<Execution>, No> {
        let execution_id = id.to_owned();
        match self
            .plans
            .clone()
            .get_execution(GetExecutionRequest { execution_id })
            .await
        {
            Ok(answer) => Ok(answer.into_inner().execution.map(|execution| Execution {
                certificate: None,
                ..execution
            })),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Waits for the end of an execution.
    pub(crate) async fn settled(&self, id: &str) -> Result<Execution, No> {
        let request = WaitExecutionRequest {
            execution_id: id.to_owned(),
            timeout_ms: Some(i64::try_from(LIMIT.as_millis()).unwrap()),
        };
        let answer = self.plans.clone().wait_execution(request).await?;
        let execution = answer.into_inner().execution.unwrap();
        assert!(execution.result.is_some(), "not settled in time: {execution:?}");
        Ok(execution)
    }

    /// Returns all entries, page by page.
    pub(crate) async fn record(&self, id: &str) -> Result<Vec<AuditEntry>, No> {
        Ok(calls::record_of(self.plans.clone(), id).await?)
    }

    /// Returns all entries of a settled execution as a watcher sees them.
    pub(crate) async fn watched(&self, id: &str) -> Result<Vec<AuditEntry>, No> {
        let request = WatchExecutionRequest {
            execution_id: id.to_owned(),
            from_sequence: 1,
            ..WatchExecutionRequest::default()
        };
        let mut stream = self.plans.clone().watch_execution(request).await?.into_inner();
        let mut entries = Vec::new();
        while let Some(next) = stream.message().await? {
            entries.extend(next.entry);
        }
        Ok(entries)
    }

    /// Returns everything that the list shows, by id.
    pub(crate) async fn list(&self) -> Result<BTreeMap<String, Execution>, No> {
        let mut all = BTreeMap::new();
        let mut page_token = String::new();
        loop {
            let request = ListExecutionsRequest {
                page_token: page_token.clone(),
                ..ListExecutionsRequest::default()
            };
            let page = self.plans.clone().list_executions(request).await?.into_inner();
            for execution in page.executions {
                let id = execution.execution_id.clone();
                assert!(all.insert(id, execution).is_none(), "the list shows one twice");
            }
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }
}

/// Returns a request for a plan of one step, with so many bytes of payload.
pub(crate) fn request(payload_bytes: usize) -> SubmitPlanRequest {
    let step = plans::step(1, WORK).payload(json!({ "fill": "x".repeat(payload_bytes) }));
    plans::request(plans::plan([step])).as_submission()
}

/// Returns the id of the execution that a request asks for.
pub(crate) fn id_of(request: &SubmitPlanRequest) -> String {
    request.execution_id.clone().unwrap()
}
