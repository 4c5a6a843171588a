//! Callers that go away: the execution does not notice.

use crate::plans::{RequestWords, WORK, plan, request, step};
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use tonic::transport::Endpoint;

//
#[tokio::test]
async fn a_caller_that_disconnects_changes_nothing() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK), step(1, WORK)]));
    let id = request.id();
    // A connection of its own, so that dropping the call closes the socket.
    let channel = Endpoint::from_shared(world.orchestrator.url())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let call = tokio::spawn(async move {
        PlanExecutionServiceClient::new(channel)
            .execute_plan(request)
            .await
    });
    let first = worker.started().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(world.execution(&id).await.state(), State::Running);
    worker.succeed(&first, json!({})).await;
    worker.complete_next(json!({})).await;
    let result = world.result_of(&id).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 2));
}

//
#[tokio::test]
async fn a_call_whose_time_is_up_changes_nothing_and_can_be_repeated() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let request = request(plan([step(0, WORK)]));
    let mut hurried = tonic::Request::new(request.clone());
    hurried.set_timeout(std::time::Duration::from_millis(200));
    let ended = world
        .orchestrator
        .plans()
        .execute_plan(hurried)
        .await
        .unwrap_err();
    assert!(
        [tonic::Code::DeadlineExceeded, tonic::Code::Cancelled].contains(&ended.code()),
        "{ended:?}"
    );
    let assignment = worker.started().await;
    let again = world.executing(request);
    worker.succeed(&assignment, json!({})).await;
    assert_eq!(again.await.unwrap().unwrap().status(), Status::Success);
}
