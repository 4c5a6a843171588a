//! Every call of the contract that is about a namespace. Makes none.

use super::wire::Call;
use super::wire::Elsewhere::{self, Hidden, NotFound, Refused};
use super::wire::Use::{self, Payloads, Read, Write};
use crate::plans::{RequestWords, plan, request, step};
use escapement_wire::v1;
use prost::Message;

/// Those calls, about this execution or in the namespace `other`.
pub(super) fn contract_calls(execution_id: &str) -> Vec<Call> {
    let call = |service: &str, method: &str, message: Vec<u8>, elsewhere: Elsewhere, kind: Use| Call {
        path: format!("/escapement.v1.{service}/{method}"),
        message: message.into(),
        elsewhere,
        kind,
    };
    let plans = "PlanExecutionService";
    let new = || plan([step(0, "work")]);
    let namespace = || "other".to_owned();
    let mut submit = request(new()).as_submission();
    submit.namespace = namespace();
    let mut execute = request(new());
    execute.namespace = namespace();
    let validate = v1::ValidatePlanRequest {
        plan: Some(new()),
        namespace: namespace(),
        ..Default::default()
    };
    let simulate = v1::SimulatePlanRequest {
        plan: Some(new()),
        namespace: namespace(),
        ..Default::default()
    };
    // The first field of each of these is the execution.
    let asked = v1::GetExecutionRequest {
        execution_id: execution_id.to_owned(),
    };
    let about = |method: &str, kind| call(plans, method, asked.encode_to_vec(), NotFound, kind);
    let wait = v1::WaitExecutionRequest {
        execution_id: execution_id.to_owned(),
        timeout_ms: Some(0),
    };
    let list = v1::ListExecutionsRequest::default();
    let subscribe = v1::SubscribeEventsRequest::default();
    let read = v1::ReadEventsRequest::default();
    vec![
        call(plans, "ExecutePlan", execute.encode_to_vec(), Refused, Write),
        call(plans, "SubmitPlan", submit.encode_to_vec(), Refused, Write),
        call(plans, "ValidatePlan", validate.encode_to_vec(), Refused, Read),
        call(plans, "SimulatePlan", simulate.encode_to_vec(), Refused, Write),
        about("GetExecution", Read),
        call(plans, "WaitExecution", wait.encode_to_vec(), NotFound, Read),
        about("WatchExecution", Read),
        call(plans, "ListExecutions", list.encode_to_vec(), Hidden, Read),
        about("ListAuditEntries", Read),
        about("ExplainExecution", Read),
        about("ReplayExecution", Read),
        about("ExportExecution", Payloads),
        call(
            "EventService",
            "SubscribeEvents",
            subscribe.encode_to_vec(),
            Hidden,
            Read,
        ),
        call("EventService", "ReadEvents", read.encode_to_vec(), Hidden, Read),
    ]
}
