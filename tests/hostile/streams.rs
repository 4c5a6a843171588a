//! Streams that are opened and not used, answers that nobody takes, connections that are left alone.

use crate::den::{Den, LIMIT, scale, submission};
use crate::frames::{
    GET, INITIAL_WINDOW_SIZE, LIST, SESSION, SUBMIT, WAIT, WATCH, call, setting, whole_call,
};
use crate::wire::{Flood, Wire};
use escapement_tests::{ScriptedWorker, calls, let_pass, wait_for};
use escapement_wire::v1::GetExecutionRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use prost::Message as _;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_opened_and_never_used() {
    let den = Den::start().await;
    let before = den.size().descriptors;
    let mut wires = Vec::new();
    for n in 0..scale(10, 40) {
        let path = [SUBMIT, LIST, WATCH, SESSION, GET][n % 5];
        let mut wire = Wire::open(den.address()).await;
        let bytes: Vec<u8> = (0..1_000).flat_map(|n| call(path, 2 * n + 1)).collect();
        let _ = wire.flood(&bytes).await;
        wires.push(wire);
    }
    let there = async || (den.size().descriptors >= before + wires.len()).then_some(());
    wait_for("all connections", LIMIT, there).await.unwrap();
    let_pass(Duration::from_millis(scale(2_000, 20_000))).await;
    drop(wires);
    den.finish("unused streams", scale(300, 900)).await;
}

/// Windows of nothing: every answer waits for somebody who never takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_takes() {
    let den = Den::start().await;
    let mut wires = Vec::new();
    for n in 0..scale(10, 60) {
        let window = [0, 1, 16][n % 3];
        let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, window)).await;
        let bytes: Vec<u8> = (0..200)
            .flat_map(|n| whole_call(LIST, 2 * n + 1, b"\x08\xe8\x07"))
            .collect();
        assert_eq!(wire.flood(&bytes).await, Flood::Sent);
        wires.push(wire);
    }
    let_pass(Duration::from_millis(scale(1_000, 10_000))).await;
    drop(wires);
    den.finish("answers that nobody takes", scale(256, 700)).await;
}

/// Answers that are asked for and not read from the socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_somebody_who_does_not_read() {
    let den = Den::start().await;
    let mut wires = Vec::new();
    for _ in 0..scale(8, 50) {
        let mut wire = Wire::open(den.address()).await;
        for n in 0..scale(20, 200) {
            let from = 100 * n;
            let bytes: Vec<u8> = (from..from + 100)
                .flat_map(|n| whole_call(LIST, 2 * n + 1, b"\x08\xe8\x07"))
                .collect();
            if wire.flood_deaf(&bytes).await != Flood::Sent {
                break;
            }
        }
        wires.push(wire);
    }
    drop(wires);
    den.finish("questions of the deaf", scale(256, 700)).await;
}

/// Connections that come, begin as they should, and say nothing more; their descriptors come back when they go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing() {
    let den = Den::start().await;
    let before = den.size().descriptors;
    let mut wires = Vec::new();
    for _ in 0..scale(800, 8_000) {
        wires.push(Wire::open(den.address()).await);
    }
    let there = async || (den.size().descriptors >= before + wires.len()).then_some(());
    wait_for("all connections", LIMIT, there).await.unwrap();
    drop(wires);
    den.finish("silent connections", scale(128, 600)).await;
}

/// Results of many megabytes, which many ask for and nobody takes. Each is held for as long as one is patient,
/// and all together have only so much room; small answers come through all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_that_nobody_takes() {
    let den = Den::start().await;
    let request = submission("large");
    let id = request.execution_id.clone().unwrap();
    let channel = den.channel().await;
    let mut plans = PlanExecutionServiceClient::new(channel);
    plans.submit_plan(request).await.unwrap();
    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["large"], 1).await;
    worker
        .complete_next(json!({ "text": "x".repeat(1_000_000) }))
        .await;
    calls::result_of(plans.clone(), &id, LIMIT).await.unwrap();
    worker.goodbye().await;

    let question = GetExecutionRequest {
        execution_id: id.clone(),
    }
    .encode_to_vec();
    let mut wires = Vec::new();
    for n in 0..scale(9, 30) {
        let path = [GET, WAIT, WATCH][n % 3];
        let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, 1)).await;
        let bytes: Vec<u8> = (0..200)
            .flat_map(|n| whole_call(path, 2 * n + 1, &question))
            .collect();
        assert_eq!(wire.flood(&bytes).await, Flood::Sent);
        wires.push(wire);
    }
    // Without a bound this takes several gigabytes.
    let refused = async || {
        let question = GetExecutionRequest {
            execution_id: id.clone(),
        };
        let refused = plans.clone().get_execution(question).await.err()?;
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
        Some(())
    };
    wait_for("the room to be taken", LIMIT, refused).await.unwrap();
    drop(wires);
    let again = async || {
        let question = GetExecutionRequest {
            execution_id: id.clone(),
        };
        plans.clone().get_execution(question).await.ok()
    };
    wait_for("the room to be given back", LIMIT, again).await.unwrap();
    drop(plans);
    den.finish("large answers that nobody takes", 900).await;
}
