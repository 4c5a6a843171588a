//! Requests, outputs and results at their size limits and beyond.

use crate::plans::{WORK, plan, request, step};
use crate::status_details::{reason, violations};
use crate::world::World;
use escapement_model::Opaque;
use escapement_model::limits::{ENVIRONMENT_BYTES_MAX, PAYLOAD_BYTES_MAX};
use escapement_model::opaque::StructBuilder;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{ExecutePlanRequest, PlanStep};
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt;

/// Returns an object of exactly so many encoded bytes that has the key `region`.
fn object_of(bytes: usize) -> Opaque {
    let around = StructBuilder::new()
        .text("region", &"x".repeat(bytes))
        .build()
        .len()
        - bytes;
    let object = StructBuilder::new()
        .text("region", &"x".repeat(bytes - around))
        .build();
    assert_eq!(object.len(), bytes);
    object
}

fn with_payload(number: usize, bytes: usize) -> PlanStep {
    PlanStep {
        payload: Some(object_of(bytes)),
        ..step(number, WORK)
    }
}

//
#[tokio::test]
async fn a_payload_and_an_environment_at_their_limits_reach_the_worker_whole() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = ExecutePlanRequest {
        environment: Some(object_of(ENVIRONMENT_BYTES_MAX)),
        ..request(plan([with_payload(0, PAYLOAD_BYTES_MAX)]))
    };
    let call = world.executing(request);
    let assignment = worker.started().await;
    assert_eq!(assignment.payload, Some(object_of(PAYLOAD_BYTES_MAX)));
    assert_eq!(assignment.environment, Some(object_of(ENVIRONMENT_BYTES_MAX)));
    worker.succeed(&assignment, json!({})).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Success);
}

//
#[tokio::test]
async fn a_byte_over_a_limit_is_a_violation_and_not_a_broken_connection() {
    let world = World::start().await;
    let environment = ExecutePlanRequest {
        environment: Some(object_of(ENVIRONMENT_BYTES_MAX + 1)),
        ..request(plan([step(0, WORK)]))
    };
    let cases = [
        (
            "plan",
            request(plan((0..5).map(|number| with_payload(number, PAYLOAD_BYTES_MAX)))),
        ),
        (
            "plan.steps[1].payload",
            request(plan([step(0, WORK), with_payload(1, PAYLOAD_BYTES_MAX + 1)])),
        ),
        ("environment", environment),
    ];
    for (field, request) in cases {
        let refused = world.try_submit(&request).await.unwrap_err();
        assert_eq!(
            violations(&refused),
            [(field.to_owned(), "INVALID_PAYLOAD".to_owned())]
        );
    }
    // What no valid request can be is refused before it is read.
    let huge = request(plan((0..8).map(|number| with_payload(number, PAYLOAD_BYTES_MAX))));
    let refused = world.try_submit(&huge).await.unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "REQUEST_TOO_LARGE");
    let details = refused.get_error_details();
    assert!(details.retry_info().is_none(), "the same again would be as large");
    world.submit(&request(plan([step(0, WORK)]))).await;
}

//
#[tokio::test]
async fn a_refusal_with_very_many_violations_still_fits_into_headers_and_says_how_many_there_are() {
    let world = World::start().await;
    let refused = world
        .try_submit(&request(plan((0..1_024).map(|number| step(number, "")))))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::InvalidArgument), "INVALID_PAYLOAD");
    assert_eq!(
        refused.get_error_details().error_info().unwrap().metadata["violations"],
        "1000"
    );
    let listed = violations(&refused);
    assert!(listed.len() >= 30, "{}", listed.len());
    for (number, (field, _)) in listed.iter().enumerate() {
        assert_eq!(field, &format!("plan.steps[{number}].action"));
    }
}
