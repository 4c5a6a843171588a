//! `/readyz` while a store takes no writes. The disk is that of the fault layer.

use super::{address, counts, health};
use crate::plans::{RequestWords, WORK, plan, request, step};
use crate::runs::{create, creation, ended};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::fault_layer::FaultLayer;
use escapement_tests::http::get;
use escapement_tests::{PrivateDirectory, wait_for};
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::v1::GetExecutionRequest;
use serde_json::json;
use tonic::Code;

/// Waits until `/readyz` answers so.
async fn readiness(address: &str, status: u16, text: &str) {
    let answers = async || (get(address, "/readyz", "*/*").await? == (status, text.to_owned())).then_some(());
    wait_for(&format!("{status} {text}"), LIMIT, answers)
        .await
        .unwrap();
}

/// Returns an orchestrator that shows figures, on a disk that can be full.
pub(super) async fn world_on_a_disk() -> (World, FaultLayer) {
    let directory = PrivateDirectory::new("readiness").unwrap();
    let layer = FaultLayer::new(&directory.join("layer"), &directory.join("store")).unwrap();
    let world = World::start_in(directory, |settings| {
        layer.under(settings).flag("--metrics-listen", "127.0.0.1:0")
    });
    (world.await, layer)
}

//
#[tokio::test]
async fn an_orchestrator_whose_store_takes_no_writes_is_not_ready_until_it_does_though_nobody_calls() {
    let (world, layer) = world_on_a_disk().await;
    let address = address(&world).await;
    let first = request(plan([step(0, WORK)]));
    world.submit(&first).await;
    readiness(&address, 200, "ready\n").await;

    layer.set_full(true).unwrap();
    let refused = world
        .try_submit(&request(plan([step(0, WORK)])))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused, Code::ResourceExhausted), "STORE_FULL");
    readiness(&address, 503, "the store takes no writes\n").await;
    counts(&address, "escapement_store_full", 1.0).await;
    counts(&address, "escapement_ready", 0.0).await;
    assert_eq!(health(&address), Some(1));
    assert_eq!(get(&address, "/livez", "*/*").await.unwrap().0, 200);
    let asked = GetExecutionRequest {
        execution_id: first.id(),
    };
    world.orchestrator.plans().get_execution(asked).await.unwrap();

    layer.set_full(false).unwrap();
    readiness(&address, 200, "ready\n").await;
    counts(&address, "escapement_store_full", 0.0).await;
    counts(&address, "escapement_ready", 1.0).await;
    assert_eq!(health(&address), Some(0));
    world.submit(&request(plan([step(0, WORK)]))).await;
}

// RUN-9.3
#[tokio::test]
async fn an_orchestrator_whose_store_of_runs_takes_no_writes_is_not_ready_until_it_does() {
    let (world, layer) = world_on_a_disk().await;
    let address = address(&world).await;
    readiness(&address, 200, "ready\n").await;
    layer.set_full(true).unwrap();
    let nothing = json!({ "schema": "escapement.plan/1", "name": "Nothing", "steps": [] });
    let creation = creation("first", &nothing);
    let mut runs = RunServiceClient::new(world.orchestrator.channel());
    let refused = runs.create_run(creation.clone()).await.unwrap_err();
    assert_eq!(reason(&refused, Code::Unavailable), "STORE_UNAVAILABLE");
    readiness(&address, 503, "the store takes no writes\n").await;
    counts(&address, "escapement_store_full", 1.0).await;
    counts(&address, "escapement_ready", 0.0).await;

    layer.set_full(false).unwrap();
    readiness(&address, 200, "ready\n").await;
    counts(&address, "escapement_store_full", 0.0).await;
    let run = create(&world.orchestrator, creation).await;
    ended(&world.orchestrator, &run.run_id).await;
}
