//! `ValidatePlan`: everything about a plan, and nothing stored.

use crate::plans::{
    RequestWords, StepWords, WORK, object, plan, plan_with_retries, request, step, step_number, unix_ms,
};
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{
    ListExecutionsRequest, Plan, PlanFinding, ValidatePlanRequest, ValidatePlanResponse,
};
use serde_json::json;

async fn validate(world: &World, plan: Plan, environment: Option<serde_json::Value>) -> ValidatePlanResponse {
    let request = ValidatePlanRequest {
        options: None,
        plan: Some(plan),
        environment: environment.map(object),
        ..Default::default()
    };
    world
        .orchestrator
        .plans()
        .validate_plan(request)
        .await
        .unwrap()
        .into_inner()
}

fn found(findings: &[PlanFinding]) -> Vec<(&str, &str)> {
    findings
        .iter()
        .map(|finding| {
            assert!(!finding.message.is_empty(), "{finding:?}");
            (finding.field.as_str(), finding.code.as_str())
        })
        .collect()
}

//
#[tokio::test]
async fn a_valid_plan_is_told_its_canonical_order() {
    let world = World::start().await;
    let _worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let steps = [
        step(9, WORK).after(&[4]).timeout_ms(1_000),
        step(7, WORK),
        step(4, WORK),
        step(2, WORK).after(&[9, 7]),
        step(5, WORK),
    ];
    let answer = validate(&world, plan(steps), None).await;
    assert!(answer.valid, "{answer:?}");
    assert_eq!(
        (answer.violations, answer.warnings, answer.unknown_actions),
        (vec![], vec![], vec![])
    );
    let order: Vec<_> = answer.canonical_order.iter().map(|id| step_number(id)).collect();
    assert_eq!(order, [7, 4, 9, 2, 5]);
}

//
#[tokio::test]
async fn an_invalid_plan_is_told_everything_that_forbids_it() {
    let world = World::start().await;
    let steps = [
        step(0, WORK).after(&[1]),
        step(1, WORK).after(&[0]),
        step(2, "").after(&[2]),
    ];
    let broken = Plan {
        version: 0,
        name: "n".repeat(256),
        ..plan(steps)
    };
    let answer = validate(&world, broken, None).await;
    let expected = [
        ("plan.version", "INVALID_PAYLOAD"),
        ("plan.steps[1].depends_on[0]", "DEPENDENCY_UNRESOLVED"),
        ("plan.steps[2].action", "INVALID_PAYLOAD"),
        ("plan.steps[2].depends_on[0]", "DEPENDENCY_UNRESOLVED"),
        ("plan.name", "INVALID_PAYLOAD"),
    ];
    assert_eq!(found(&answer.violations), expected);
    assert!(!answer.valid && answer.canonical_order.is_empty());
}

//
#[tokio::test]
async fn what_is_allowed_and_probably_not_meant_is_a_warning() {
    let world = World::start().await;
    let _worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let never_retried = plan_with_retries([step(0, WORK).on_failure(OnFailure::Retry)], 3, &[]);
    let answer = validate(&world, never_retried, None).await;
    assert!(answer.valid);
    assert_eq!(
        found(&answer.warnings)
            .iter()
            .map(|(_, code)| *code)
            .collect::<Vec<_>>(),
        ["NO_STEP_LIMITS", "RETRY_NEVER_HAPPENS"]
    );
    let never_binds = Plan {
        timeout_ms: Some(100),
        ..plan([step(0, WORK).timeout_ms(200)])
    };
    let answer = validate(&world, never_binds, None).await;
    assert!(answer.valid);
    assert_eq!(
        found(&answer.warnings),
        [("plan.steps[0].timeout_ms", "STEP_LIMIT_NEVER_BINDS")]
    );
}

#[tokio::test]
async fn missing_keys_and_unknown_actions_forbid_nothing_and_are_told() {
    let world = World::start().await;
    let _worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut asks = plan([
        step(0, "z.unknown").timeout_ms(1_000),
        step(1, WORK),
        step(2, "a.unknown"),
        step(3, "z.unknown"),
    ]);
    asks.context_requirements = vec!["region".to_owned(), "desk".to_owned()];
    let answer = validate(&world, asks.clone(), Some(json!({ "region": null }))).await;
    assert!(answer.valid, "{answer:?}");
    assert_eq!(answer.unknown_actions, ["a.unknown", "z.unknown"]);
    assert_eq!(answer.warnings.len(), 1, "{answer:?}");
    assert_eq!(answer.warnings[0].code, "CONTEXT_MISSING");
    assert!(answer.warnings[0].message.contains("desk"), "{answer:?}");
    assert!(
        validate(&world, asks, None).await.warnings.is_empty(),
        "no environment, nothing to say about it"
    );
}

//
#[tokio::test]
async fn a_validated_plan_is_neither_stored_nor_used_up() {
    let world = World::start().await;
    let request = request(plan([step(0, WORK)]));
    for _ in 0..2 {
        assert!(validate(&world, request.plan.clone().unwrap(), None).await.valid);
    }
    let list = world
        .orchestrator
        .plans()
        .list_executions(ListExecutionsRequest::default())
        .await
        .unwrap();
    assert!(list.into_inner().executions.is_empty());
    assert_eq!(world.submit(&request).await.plan_id, request.plan_id());
}

//
#[tokio::test]
async fn payloads_are_held_against_the_schemas_of_live_workers_and_forbidden_nothing() {
    let world = World::start().await;
    let mut plan = plan([step(0, "delay").timeout_ms(1_000), step(1, "delay")]);
    plan.steps[0].payload = Some(object(json!({ "ms": 1 })));
    plan.steps[1].payload = Some(object(json!({ "mss": 1 })));
    assert!(
        validate(&world, plan.clone(), None).await.warnings.is_empty(),
        "no worker, no schema"
    );
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let answer = validate(&world, plan, None).await;
    assert!(answer.valid);
    assert_eq!(
        found(&answer.warnings),
        [
            ("plan.steps[1].payload", "PAYLOAD_MISMATCH"),
            ("plan.steps[1].payload.mss", "PAYLOAD_MISMATCH")
        ]
    );
    assert_eq!(
        answer.warnings[0].message,
        "By the input schema of delay it lacks \"ms\"."
    );
}

#[tokio::test]
async fn a_deadline_that_could_not_be_kept_is_a_warning() {
    let world = World::start().await;
    let plan = plan([step(0, WORK).timeout_ms(1_000)]);
    for (deadline_ms, expected) in [
        (unix_ms() + 3_600_000, None),
        (unix_ms() + 60_000, Some("DEADLINE_TOO_NEAR")),
        (unix_ms() - 1, Some("DEADLINE_PASSED")),
        (unix_ms() / 1_000, Some("TIME_IN_SECONDS")),
    ] {
        let request = ValidatePlanRequest {
            plan: Some(plan.clone()),
            deadline_ms: Some(deadline_ms),
            ..Default::default()
        };
        let answer = world.orchestrator.plans().validate_plan(request).await;
        let answer = answer.unwrap().into_inner();
        let warning = answer.warnings.first().map(|warning| warning.code.as_str());
        assert_eq!((answer.valid, warning), (true, expected));
    }
}
