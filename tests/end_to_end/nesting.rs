//! Steps that execute plans, through the stock worker's `execute_plan`.

use crate::plans::{RequestWords, StepWords, json_of, plan, request, step, step_id};
use crate::world::World;
use escapement_tests::{fresh_id, wait_for};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{Execution, ListExecutionsRequest};
use serde_json::{Value, json};

/// Returns a plan document of one step.
fn document(action: &str, payload: Value) -> Value {
    json!({
        "id": fresh_id(), "version": 1, "created_at": 1_766_016_000_000_i64, "name": "nested",
        "context_requirements": ["region"],
        "steps": [{ "id": step_id(0), "action": action, "payload": payload }],
    })
}

/// Returns a document that executes a document that executes one, and so on, with an `echo` at the bottom.
fn nested_document(levels: usize) -> Value {
    let innermost = document("echo", json!({ "from": "the bottom" }));
    (1..levels).fold(innermost, |inner, _| {
        document("execute_plan", json!({ "plan": inner }))
    })
}

async fn executions(world: &World, request: ListExecutionsRequest) -> Vec<Execution> {
    world
        .orchestrator
        .plans()
        .list_executions(request)
        .await
        .unwrap()
        .into_inner()
        .executions
}

//
#[tokio::test]
async fn a_nested_plan_is_an_execution_of_its_own_with_the_parents_environment() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let child = document("echo", json!({ "from": "the child" }));
    let child_plan_id = child["id"].as_str().unwrap().to_owned();
    let request = request(plan([step(0, "execute_plan").payload(json!({ "plan": child }))]));
    let id = request.id();
    let result = world.execute(request).await;
    assert_eq!(result.status(), Status::Success, "{:?}", result.error);
    let output = &json_of(result.result_payload.as_ref())[step_id(0)];
    assert_eq!(output["status"], "success");
    assert_eq!(
        output["result_payload"][step_id(0)],
        json!({ "from": "the child" })
    );

    let filter = ListExecutionsRequest {
        parent_execution_id: Some(id.clone()),
        ..Default::default()
    };
    let [nested]: [Execution; 1] = executions(&world, filter).await.try_into().unwrap();
    assert_eq!(nested.status(), Status::Success);
    assert_eq!(output["execution_id"], nested.execution_id.as_str());
    assert_eq!(
        (nested.plan_id, nested.parent_execution_id),
        (child_plan_id, Some(id))
    );
}

//
#[tokio::test]
async fn a_worker_with_a_single_slot_and_an_orchestrator_with_one_too_execute_nested_plans() {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let _worker = world
        .stock_worker("single", |settings| settings.flag("--max-in-flight", 1))
        .await;
    let steps = [
        step(0, "execute_plan").payload(json!({ "plan": nested_document(3) })),
        step(1, "execute_plan").payload(json!({ "plan": nested_document(2) })),
        step(2, "echo"),
    ];
    let result = world.execute(request(plan(steps)).concurrent(3)).await;
    assert_eq!(
        (result.status(), result.steps_executed),
        (Status::Success, 3),
        "{:?}",
        result.error
    );
    let mut document = &json_of(result.result_payload.as_ref())[step_id(0)];
    for _ in 0..2 {
        document = &document["result_payload"][step_id(0)];
    }
    assert_eq!(
        document["result_payload"][step_id(0)],
        json!({ "from": "the bottom" })
    );
}

//
#[tokio::test]
async fn plans_are_nested_eight_deep_and_no_deeper() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let top = |levels| step(0, "execute_plan").payload(json!({ "plan": nested_document(levels) }));
    let allowed = world.execute(request(plan([top(8)]))).await;
    assert_eq!(allowed.status(), Status::Success, "{:?}", allowed.error);
    assert_eq!(
        executions(&world, ListExecutionsRequest::default()).await.len(),
        9
    );
    // A payload with nine plans inside one another is deeper than any object may be, so the first of them lies in a file.
    let refused = world.try_execute(request(plan([top(9)]))).await.unwrap_err();
    assert!(refused.message().contains("plan.steps[0].payload"), "{refused:?}");
    let steps = [
        step(0, "file.write")
            .payload(json!({ "path": "nine.json", "content": nested_document(9).to_string() })),
        step(1, "execute_plan")
            .payload(json!({ "plan_file": "nine.json" }))
            .after(&[0]),
    ];
    let too_deep = world.execute(request(plan(steps))).await;
    assert_eq!(too_deep.status(), Status::Failure);
    let executions = executions(&world, ListExecutionsRequest::default()).await;
    assert_eq!(executions.len(), 18, "the ninth level was refused");
    let eighth = world.execution(&executions[0].execution_id).await;
    assert_eq!(eighth.result.unwrap().error.unwrap().error_code, "CHILD_REJECTED");
}

//
#[tokio::test]
async fn the_failure_of_a_nested_plan_is_an_error_of_its_step() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let child = document("fail", json!({ "code": "BROKEN" }));
    let steps = [
        step(0, "execute_plan")
            .payload(json!({ "plan": child }))
            .on_failure(OnFailure::Skip),
        step(1, "echo"),
    ];
    let request = request(plan(steps));
    let id = request.id();
    let result = world.execute(request).await;
    assert_eq!(
        (result.status(), result.steps_executed),
        (Status::Partial, 1),
        "{:?}",
        result.error
    );
    assert_eq!(result.error.unwrap().error_code, "CHILD_FAILED");
    let filter = ListExecutionsRequest {
        parent_execution_id: Some(id),
        ..Default::default()
    };
    let children = wait_for("the child", crate::world::LIMIT, async || {
        Some(executions(&world, filter.clone()).await).filter(|children| children.len() == 1)
    });
    assert_eq!(children.await.unwrap()[0].status(), Status::Failure);
}
