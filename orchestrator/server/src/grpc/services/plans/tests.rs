#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::grpc::testing::{Stage, plan_that_fails_at_once};
use escapement_store::Removal;

//
#[tokio::test]
async fn who_executes_a_plan_gets_its_result_however_soon_it_is_removed() {
    let keeps_nothing = Removal {
        keep_settled_count: Some(0),
        ..Removal::default()
    };
    let stage = Stage::start(keeps_nothing);
    let request = v1::ExecutePlanRequest {
        plan: Some(plan_that_fails_at_once(1)),
        execution_id: Some(crate::grpc::fresh_execution_id(1).to_string()),
        ..v1::ExecutePlanRequest::default()
    };
    let plans = Plans::new(stage.edge.clone());
    let executed = plans.execute_plan(Request::new(request.clone())).await;
    let result = executed.unwrap().into_inner().result.unwrap();
    assert_eq!(result.error.unwrap().error_code, "CONTEXT_MISSING");
    // It was removed in the same moment.
    let again = plans.execute_plan(Request::new(request)).await.unwrap_err();
    assert_eq!(again.code(), tonic::Code::FailedPrecondition);
}
