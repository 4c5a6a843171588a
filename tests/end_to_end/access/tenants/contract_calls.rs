//! Every call of the contract that is about a namespace. Makes none.

use super::wire::Elsewhere::{Hidden, NotFound, NotHere};
use super::wire::Use::{Payloads, Read, Write};
use super::wire::{Call, call_to};
use crate::plans::{RequestWords, plan, request, step};
use escapement_wire::v1;

/// Those calls, about this execution or in the namespace `other`. Those who may hand in do it below this parent, and something wrong.
pub(crate) fn contract_calls(execution_id: &str, parent: Option<&str>) -> Vec<Call> {
    let new = || plan([step(0, "work")]);
    let namespace = || "other".to_owned();
    let mut submit = request(new()).as_submission();
    submit.namespace = namespace();
    let mut execute = request(new());
    execute.namespace = namespace();
    // Without steps it is no plan.
    let wrong = || {
        let mut wrong = request(plan([]));
        wrong.parent_execution_id = parent.map(str::to_owned);
        wrong.namespace = if parent.is_none() {
            namespace()
        } else {
            String::new()
        };
        wrong
    };
    let validate = v1::ValidatePlanRequest {
        plan: Some(new()),
        namespace: namespace(),
        ..Default::default()
    };
    let own = v1::ValidatePlanRequest {
        namespace: wrong().namespace,
        ..validate.clone()
    };
    let simulate = v1::SimulatePlanRequest {
        plan: Some(new()),
        namespace: namespace(),
        ..Default::default()
    };
    let asked = v1::GetExecutionRequest {
        execution_id: execution_id.to_owned(),
    };
    // The first field of each of these is the execution.
    let about = |method: &str, kind| call_to(PLANS, method, &asked, NotFound, kind);
    let wait = v1::WaitExecutionRequest {
        execution_id: execution_id.to_owned(),
        timeout_ms: Some(0),
    };
    let list = v1::ListExecutionsRequest::default();
    let subscribe = v1::SubscribeEventsRequest {
        namespace: namespace(),
        ..Default::default()
    };
    let read = v1::ReadEventsRequest::default();
    vec![
        call_to(PLANS, "ExecutePlan", &execute, NotHere, Write).permitted(&wrong()),
        call_to(PLANS, "SubmitPlan", &submit, NotHere, Write).permitted(&wrong().as_submission()),
        call_to(PLANS, "ValidatePlan", &validate, NotHere, Read).permitted(&own),
        call_to(PLANS, "SimulatePlan", &simulate, NotHere, Write),
        about("GetExecution", Read),
        call_to(PLANS, "WaitExecution", &wait, NotFound, Read),
        about("WatchExecution", Read),
        call_to(PLANS, "ListExecutions", &list, Hidden, Read),
        about("ListAuditEntries", Read),
        about("ExplainExecution", Read),
        about("ReplayExecution", Read),
        about("ExportExecution", Payloads),
        call_to(EVENTS, "SubscribeEvents", &subscribe, NotHere, Read),
        call_to(EVENTS, "ReadEvents", &read, Hidden, Read),
    ]
}

const PLANS: &str = "escapement.v1.PlanExecutionService";
const EVENTS: &str = "escapement.v1.EventService";
