//! What reaches a worker: exactly the caller's bytes, and nothing else of the plan.

use crate::plans::{RequestWords, StepWords, WORK, plan, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::world::World;
use escapement_model::Opaque;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::ExecutePlanRequest;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;

/// Keys out of order, one of them twice, and every kind of value.
fn odd_object() -> Opaque {
    let list = ListBuilder::new()
        .number(-0.0)
        .null()
        .text("\u{1f980}")
        .list(ListBuilder::new())
        .boolean(false);
    StructBuilder::new()
        .text("zebra", "first")
        .number("alpha", f64::MAX)
        .null("region")
        .text("zebra", "second")
        .text("", "an empty key")
        .list("mixed", list)
        .object(
            "inner",
            StructBuilder::new()
                .boolean("b", true)
                .boolean("a", false)
                .build()
                .as_encoded(),
        )
        .build()
}

//
#[tokio::test]
async fn environment_payload_and_output_keep_every_byte() {
    let mut world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut step = step(0, WORK);
    step.payload = Some(odd_object());
    let request = ExecutePlanRequest {
        environment: Some(odd_object()),
        ..request(plan([step]))
    };
    let id = request.id();
    let call = world.executing(request);
    let assignment = worker.started().await;
    assert_eq!(assignment.environment, Some(odd_object()));
    assert_eq!(assignment.payload, Some(odd_object()));
    worker.succeed_encoded(&assignment, odd_object()).await;
    let result = call.await.unwrap().unwrap();
    let expected = StructBuilder::new()
        .object(&step_id(0), odd_object().as_encoded())
        .build();
    assert_eq!(result.result_payload, Some(expected.clone()));
    world.crash_and_restart().await;
    assert_eq!(
        world.execution(&id).await.result.unwrap().result_payload,
        Some(expected)
    );
}

//
#[tokio::test]
async fn the_environment_reaches_a_handler_unchanged_with_null_counted_as_present() {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let request = ExecutePlanRequest {
        environment: Some(odd_object()),
        correlation_context: [("team".to_owned(), "desk 7".to_owned())].into(),
        ..request(plan([step(0, "record").payload(json!({ "n": 1 }))]))
    };
    let (id, plan_id) = (request.id(), request.plan_id());
    assert_eq!(world.execute(request).await.status(), Status::Success);
    let seen = worker.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].environment, odd_object());
    assert_eq!(seen[0].input, json!({ "n": 1 }));
    assert_eq!(seen[0].headers["team"], "desk 7");
    assert_eq!(
        (&seen[0].execution_id, &seen[0].plan_id, &seen[0].step_id),
        (&id, &plan_id, &step_id(0))
    );
    assert_eq!((seen[0].attempt, seen[0].action.as_str()), (1, "record"));
    worker.stop().await;
}
