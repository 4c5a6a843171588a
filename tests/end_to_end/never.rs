//! What section 6 of the contract forbids, where its absence can be seen from the outside.

use crate::plans::{RequestWords, StepWords, WORK, json_of, plan, plan_with_retries, request, step, step_id};
use crate::recording_worker::RecordingWorker;
use crate::status_details::violations;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_tests::fresh_id;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{ExecutePlanRequest, ListExecutionsRequest, Plan};
use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use serde_json::json;
use std::collections::BTreeSet;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

async fn n_executions(world: &World) -> usize {
    let list = world
        .orchestrator
        .plans()
        .list_executions(ListExecutionsRequest::default())
        .await
        .unwrap();
    list.into_inner().executions.len()
}

//
#[tokio::test]
async fn a_failed_plan_is_not_executed_again() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 4).await;
    let steps = [step(0, WORK), step(1, WORK).on_failure(OnFailure::Retry)];
    let call = world.executing(request(plan_with_retries(steps, 5, &["*"])));
    let assignment = worker.started().await;
    worker.fail(&assignment, "BROKEN", Severity::Error).await;
    assert_eq!(call.await.unwrap().unwrap().status(), Status::Failure);
    assert_eq!(worker.n_assignments_sent().await, 0, "nothing else runs");
    assert_eq!(n_executions(&world).await, 1);
}

//
#[tokio::test]
async fn no_output_reaches_another_step() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let payload = json!({
        "value": "${steps.0.output.value}", "template": "{{ value }}", "jq": ".value", "step": step_id(0),
    });
    let second = step(1, WORK).payload(payload.clone()).after(&[0]);
    let sent = second.payload.clone();
    let call = world.executing(request(plan([step(0, WORK), second])));
    worker
        .complete_next(json!({ "value": "secret output", "template": "x" }))
        .await;
    let assignment = worker.started().await;
    assert_eq!(assignment.payload, sent);
    assert_eq!(json_of(assignment.payload.as_ref()), payload);
    assert!(
        !format!("{assignment:?}").contains("secret output"),
        "{assignment:?}"
    );
    worker.succeed(&assignment, json!({})).await;
    call.await.unwrap().unwrap();
}

//
#[tokio::test]
async fn identical_content_under_new_ids_is_executed_again() {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let first = request(plan([step(0, "record").payload(json!({ "same": true }))]));
    let mut second = ExecutePlanRequest {
        execution_id: Some(fresh_id()),
        ..first.clone()
    };
    second.plan.as_mut().unwrap().id = fresh_id();
    let ids = [first.id(), second.id()];
    world.execute(first).await;
    world.execute(second).await;
    let ran: Vec<_> = worker.seen().into_iter().map(|seen| seen.execution_id).collect();
    assert_eq!(ran, ids);
    worker.stop().await;
}

//
#[tokio::test]
async fn another_version_is_refused_and_not_translated() {
    let world = World::start().await;
    for version in [0, 2, i32::MAX, -1] {
        let request = request(Plan {
            version,
            ..plan([step(0, WORK)])
        });
        let refused = world.try_submit(&request).await.unwrap_err();
        assert_eq!(
            violations(&refused),
            [("plan.version".to_owned(), "INVALID_PAYLOAD".to_owned())],
            "{version}"
        );
    }
    assert_eq!(n_executions(&world).await, 0);
}

//
#[tokio::test]
async fn two_executions_do_not_wait_for_one_another() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 2).await;
    // The same step ids in both: they are unique in their plan only.
    let (first, second) = (request(plan([step(0, WORK)])), request(plan([step(0, WORK)])));
    let first_call = world.executing(first.clone());
    let held = worker.started().await;
    let second_call = world.executing(second.clone());
    let other = worker.complete_next(json!({ "from": "second" })).await;
    assert_eq!(
        (&held.execution_id, &other.execution_id),
        (&first.id(), &second.id())
    );
    assert_eq!(second_call.await.unwrap().unwrap().status(), Status::Success);
    worker.succeed(&held, json!({ "from": "first" })).await;
    let result = first_call.await.unwrap().unwrap();
    assert_eq!(
        json_of(result.result_payload.as_ref()),
        json!({ step_id(0): { "from": "first" } })
    );
}

/// One question to the reflection service.
async fn reflect(world: &World, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(question),
    };
    let mut client = ServerReflectionClient::new(world.orchestrator.channel());
    let mut answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer: ServerReflectionResponse = answers.message().await.unwrap().unwrap();
    answer.message_response.unwrap()
}

/// Every call that the orchestrator offers under `escapement`, as `Service/Method`.
async fn offered_calls(world: &World) -> BTreeSet<String> {
    let MessageResponse::ListServicesResponse(list) =
        reflect(world, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list of services");
    };
    let mut calls = BTreeSet::new();
    for service in list
        .service
        .into_iter()
        .filter(|service| service.name.starts_with("escapement."))
    {
        let question = MessageRequest::FileContainingSymbol(service.name.clone());
        let MessageResponse::FileDescriptorResponse(files) = reflect(world, question).await else {
            panic!("no file holds {}", service.name);
        };
        for bytes in files.file_descriptor_proto {
            let file = FileDescriptorProto::decode(bytes.as_slice()).unwrap();
            for described in &file.service {
                let methods = described
                    .method
                    .iter()
                    .map(|method| format!("{}/{}", described.name(), method.name()));
                calls.extend(methods);
            }
        }
    }
    calls
}

//
#[tokio::test]
async fn there_is_no_call_that_cancels_or_changes_an_execution() {
    let world = World::start().await;
    let expected = [
        "EventService/SubscribeEvents",
        "FleetService/DeclareWorkerDead",
        "FleetService/DrainWorker",
        "FleetService/ForgetAction",
        "FleetService/ListActions",
        "FleetService/ListWorkers",
        "PlanExecutionService/ExecutePlan",
        "PlanExecutionService/ExplainExecution",
        "PlanExecutionService/ExportExecution",
        "PlanExecutionService/GetExecution",
        "PlanExecutionService/ListAuditEntries",
        "PlanExecutionService/ListExecutions",
        "PlanExecutionService/ReplayExecution",
        "PlanExecutionService/SimulatePlan",
        "PlanExecutionService/SubmitPlan",
        "PlanExecutionService/ValidatePlan",
        "PlanExecutionService/WaitExecution",
        "PlanExecutionService/WatchExecution",
        "WorkerService/ReportOutcomes",
        "WorkerService/Session",
    ];
    assert_eq!(offered_calls(&world).await, expected.map(str::to_owned).into());
}

#[tokio::test]
async fn reflection_answers_in_both_of_its_versions() {
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient as AlphaClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest as AlphaQuestion;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse as AlphaAnswer;
    let world = World::start().await;
    assert!(!offered_calls(&world).await.is_empty());
    let request = tonic_reflection::pb::v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(AlphaQuestion::ListServices(String::new())),
    };
    let mut client = AlphaClient::new(world.orchestrator.channel());
    let mut answers = client
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers
        .message()
        .await
        .unwrap()
        .unwrap()
        .message_response
        .unwrap();
    let AlphaAnswer::ListServicesResponse(list) = answer else {
        panic!("no list: {answer:?}")
    };
    assert!(
        list.service
            .iter()
            .any(|service| service.name == "escapement.v1.PlanExecutionService"),
        "{list:?}"
    );
}
