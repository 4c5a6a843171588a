//! What section 6 of the contract forbids, where its absence can be seen from the outside.

use crate::world::World;
use escapement_tests::documents::descriptors;
use prost_reflect::Kind;
use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use std::collections::BTreeSet;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

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

/// Returns every call that the server serves, as `/package.Service/Method`.
pub(crate) async fn served_calls(world: &World) -> BTreeSet<String> {
    let MessageResponse::ListServicesResponse(list) =
        reflect(world, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list of services");
    };
    let mut calls = BTreeSet::new();
    for service in list.service {
        let question = MessageRequest::FileContainingSymbol(service.name.clone());
        let MessageResponse::FileDescriptorResponse(files) = reflect(world, question).await else {
            panic!("no file holds {}", service.name);
        };
        for bytes in files.file_descriptor_proto {
            let file = FileDescriptorProto::decode(bytes.as_slice()).unwrap();
            let described = file.service.iter();
            // A file may hold more services than are served.
            let described = described
                .filter(|described| format!("{}.{}", file.package(), described.name()) == service.name);
            let methods = described.flat_map(|described| &described.method);
            calls.extend(methods.map(|method| format!("/{}/{}", service.name, method.name())));
        }
    }
    calls
}

/// Every call that the contract and its workers have, as `Service/Method`. Runs are a caller of these, and have an API of their own.
async fn offered_calls(world: &World) -> BTreeSet<String> {
    let calls = served_calls(world).await.into_iter();
    let calls =
        calls.filter(|path| path.starts_with("/escapement.") && !path.starts_with("/escapement.runs."));
    calls
        .map(|path| {
            path.rsplit_once('.')
                .expect("a package ends with a dot")
                .1
                .to_owned()
        })
        .collect()
}

//
#[tokio::test]
async fn there_is_no_call_that_cancels_or_changes_an_execution() {
    let world = World::start().await;
    let expected = [
        "AccessService/ListOperatorActions",
        "AccessService/Reload",
        "AccessService/WhoAmI",
        "EventService/SubscribeEvents",
        "EventService/ReadEvents",
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

//
#[test]
fn no_call_of_runs_names_an_execution_that_it_would_change() {
    let services = descriptors().services();
    let of_runs = services.filter(|service| service.full_name().starts_with("escapement.runs."));
    let methods: Vec<_> = of_runs
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect();
    assert!(methods.len() > 40, "{}", methods.len());
    let mut named = BTreeSet::new();
    for method in methods {
        let (mut seen, mut open) = (BTreeSet::new(), vec![method.input()]);
        while let Some(message) = open.pop() {
            if !seen.insert(message.full_name().to_owned()) {
                continue;
            }
            for field in message.fields() {
                if field.name().contains("execution_id") {
                    named.insert(format!("{} of {}", field.name(), method.name()));
                }
                if let Kind::Message(inner) = field.kind() {
                    open.push(inner);
                }
            }
        }
    }
    // The execution within which a run is made; nothing becomes of it. A trigger refuses it in the requests that it is to send.
    let calls = ["CreateRun", "CreateTrigger", "PreviewRun", "UpdateTrigger"];
    let allowed = calls.map(|call| format!("parent_execution_id of {call}"));
    assert_eq!(named, allowed.into());
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
