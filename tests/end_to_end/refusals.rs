//! Requests that are refused: with everything that is wrong with them, and without a trace.

use crate::plans::{RequestWords, StepWords, WORK, plan, request, step};
use crate::status_details::{reason, violations};
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{
    ExecutePlanRequest, ListExecutionsRequest, Plan, RetryPolicy, SimulatePlanRequest, SubmitPlanRequest,
    ValidatePlanRequest,
};
use serde_json::json;
use tonic::Code;

/// A request with something wrong in every part, and what must be found in document order.
fn broken_request() -> (ExecutePlanRequest, Vec<(&'static str, &'static str)>) {
    let invalid = "INVALID_PAYLOAD";
    let unresolved = "DEPENDENCY_UNRESOLVED";
    let mut no_payload = step(1, "");
    no_payload.payload = None;
    no_payload.on_failure = 7;
    let mut self_reference = step(2, WORK).after(&[2]).timeout_ms(0);
    self_reference.depends_on.push("nobody".to_owned());
    let plan = Plan {
        id: "not a uuid".to_owned(),
        version: 2,
        created_at: 0,
        steps: vec![
            step(0, WORK).after(&[3]),
            no_payload,
            self_reference,
            step(3, WORK).after(&[0]),
            step(0, WORK),
        ],
        name: String::new(),
        context_requirements: Vec::new(),
        timeout_ms: Some(0),
        retry_policy: Some(RetryPolicy {
            max_attempts: Some(0),
            backoff_ms: Some(-1),
            backoff_multiplier: Some(0.5),
            ..RetryPolicy::default()
        }),
        ..plan([])
    };
    let request = ExecutePlanRequest {
        plan: Some(plan),
        parent_execution_id: Some("urn:uuid:11111111-1111-4111-8111-111111111111".to_owned()),
        ..request(Plan::default())
    };
    let found = vec![
        ("plan.id", invalid),
        ("plan.version", invalid),
        ("plan.created_at", invalid),
        ("plan.steps[1].action", invalid),
        ("plan.steps[1].payload", invalid),
        ("plan.steps[1].on_failure", invalid),
        ("plan.steps[2].depends_on[0]", unresolved),
        ("plan.steps[2].depends_on[1]", unresolved),
        ("plan.steps[2].timeout_ms", invalid),
        ("plan.steps[3].depends_on[0]", unresolved),
        ("plan.steps[4].id", invalid),
        ("plan.name", invalid),
        ("plan.context_requirements", invalid),
        ("plan.timeout_ms", invalid),
        ("plan.retry_policy.max_attempts", invalid),
        ("plan.retry_policy.backoff_ms", invalid),
        ("plan.retry_policy.backoff_multiplier", invalid),
        ("parent_execution_id", invalid),
    ];
    (request, found)
}

async fn stored_executions(world: &World) -> usize {
    let list = world
        .orchestrator
        .plans()
        .list_executions(ListExecutionsRequest::default())
        .await
        .unwrap();
    list.into_inner().executions.len()
}

// R-1.1, R-1.2
#[tokio::test]
async fn an_invalid_plan_is_refused_with_every_violation_in_document_order() {
    let world = World::start().await;
    let (request, expected) = broken_request();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(field, code)| (field.to_owned(), code.to_owned()))
        .collect();
    let by_submit = world.try_submit(&request).await.unwrap_err();
    assert_eq!(violations(&by_submit), expected);
    assert_eq!(
        reason(&by_submit, Code::InvalidArgument),
        "INVALID_PAYLOAD",
        "that of the first one"
    );
    let by_execute = world.try_execute(request).await.unwrap_err();
    assert_eq!(violations(&by_execute), expected);
    assert_eq!(stored_executions(&world).await, 0);
}

// R-1.1
#[tokio::test]
async fn the_ids_of_a_refused_request_can_be_used_afterwards() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let good = request(plan([step(0, WORK)]));
    let mut bad = good.clone();
    bad.plan.as_mut().unwrap().steps[0].action.clear();
    for _ in 0..2 {
        let refused = world.try_submit(&bad).await.unwrap_err();
        assert_eq!(
            violations(&refused),
            [("plan.steps[0].action".to_owned(), "INVALID_PAYLOAD".to_owned())]
        );
    }
    assert_eq!(stored_executions(&world).await, 0);
    world.crash_and_restart().await;
    assert_eq!(stored_executions(&world).await, 0);
    drop(worker);
    worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let call = world.executing(good);
    worker.complete_next(json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
}

// R-1.18, R-1.19
#[tokio::test]
async fn the_limits_of_a_request_are_checked_with_those_of_the_server() {
    let world = World::start_with(|settings| settings.flag("--max-concurrent-steps", 4)).await;
    let good = || request(plan([step(0, WORK)]));
    let cases = [
        ("options.max_concurrent_steps", good().concurrent(5)),
        ("options.max_concurrent_steps", good().concurrent(0)),
        (
            "user_id",
            ExecutePlanRequest {
                user_id: Some("u".repeat(256)),
                ..good()
            },
        ),
        (
            "request_id",
            ExecutePlanRequest {
                request_id: Some("r".repeat(256)),
                ..good()
            },
        ),
    ];
    for (field, request) in cases {
        let refused = world.try_submit(&request).await.unwrap_err();
        assert_eq!(
            violations(&refused),
            [(field.to_owned(), "INVALID_PAYLOAD".to_owned())]
        );
    }
    world.submit(&good().concurrent(4)).await;
}

// R-1.1
#[tokio::test]
async fn a_request_without_a_plan_is_refused_in_the_same_words_whatever_is_asked() {
    let world = World::start().await;
    let mut plans = world.orchestrator.plans();
    let refusals = [
        plans
            .execute_plan(ExecutePlanRequest::default())
            .await
            .unwrap_err(),
        plans.submit_plan(SubmitPlanRequest::default()).await.unwrap_err(),
        plans
            .validate_plan(ValidatePlanRequest::default())
            .await
            .unwrap_err(),
        plans
            .simulate_plan(SimulatePlanRequest::default())
            .await
            .unwrap_err(),
    ];
    for refused in &refusals {
        assert_eq!(reason(refused, Code::InvalidArgument), "INVALID_PAYLOAD");
        assert_eq!(refused.message(), "plan: Required.");
        assert_eq!(
            violations(refused),
            [("plan".to_owned(), "INVALID_PAYLOAD".to_owned())]
        );
    }
}

#[tokio::test]
async fn what_does_not_decode_is_an_invalid_argument_with_a_reason() {
    let world = World::start().await;
    let mut client = tonic::client::Grpc::new(world.orchestrator.channel());
    for call in ["PlanExecutionService/SubmitPlan", "FleetService/DrainWorker"] {
        client.ready().await.unwrap();
        // Begins with a number, as no request of ours does.
        let request = tonic::Request::new(tonic_types::pb::Status {
            code: 5,
            ..Default::default()
        });
        let path = format!("/escapement.v1.{call}").parse().unwrap();
        let codec = tonic_prost::ProstCodec::<_, tonic_types::pb::Status>::default();
        let refused = client.unary(request, path, codec).await.unwrap_err();
        assert_eq!(
            reason(&refused, Code::InvalidArgument),
            "REQUEST_UNREADABLE",
            "{call}"
        );
    }
}
