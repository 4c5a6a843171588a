//! Runs over the contract.

use crate::recording_worker::RecordingWorker;
use crate::world::{LIMIT, World};
use escapement_model::Opaque;
use escapement_tests::Orchestrator;
use escapement_wire::json;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{CreateRunRequest, Run, WaitRunRequest, create_run_request::What};
use serde_json::{Value, json};
use std::time::Instant;
use tonic::transport::Channel;

fn object(value: &Value) -> Opaque {
    json::to_opaque(value.as_object().unwrap())
}

/// Returns a plan of so many steps one after another.
fn steps(n: usize) -> Value {
    let steps: Vec<Value> = (0..n)
        .map(|at| {
            json!({"key": format!("s{at}"), "type": "tool_call",
                   "config": {"tool_name": "record", "tool_args": {"at": at}}})
        })
        .collect();
    json!({"schema": "escapement.plan/1", "name": "Steps", "steps": steps})
}

pub(crate) fn creation(request_id: &str, document: &Value) -> CreateRunRequest {
    CreateRunRequest {
        what: Some(What::Document(object(document))),
        autonomy_level: Some(4),
        request_id: request_id.to_owned(),
        ..CreateRunRequest::default()
    }
}

fn runs_of(orchestrator: &Orchestrator) -> RunServiceClient<Channel> {
    RunServiceClient::new(orchestrator.channel())
}

/// Makes a run.
pub(crate) async fn create(orchestrator: &Orchestrator, request: CreateRunRequest) -> Run {
    let created = runs_of(orchestrator).create_run(request).await.unwrap();
    created.into_inner().run.unwrap()
}

/// Waits for the end of a run.
pub(crate) async fn ended(orchestrator: &Orchestrator, run_id: &str) -> Run {
    let until = Instant::now() + LIMIT;
    loop {
        let request = WaitRunRequest {
            run_id: run_id.to_owned(),
            timeout_ms: Some(1_000),
        };
        let run = runs_of(orchestrator).wait_run(request).await.unwrap();
        let run = run.into_inner().run.unwrap();
        if run.completed_at.is_some() {
            return run;
        }
        assert!(Instant::now() < until, "{run:?}");
    }
}

/// How often each step was done, by its place.
fn done(worker: &RecordingWorker, n: usize) -> Vec<usize> {
    let seen = worker.seen();
    let of = |at: usize| seen.iter().filter(|seen| seen.input["at"] == at).count();
    (0..n).map(of).collect()
}

#[tokio::test]
async fn a_run_of_three_steps_does_each_of_them_once() {
    let world = World::start().await;
    let worker = RecordingWorker::start(&world.orchestrator.url(), 4);
    let run = create(&world.orchestrator, creation("three", &steps(3))).await;
    let run = ended(&world.orchestrator, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    assert_eq!(done(&worker, 3), [1, 1, 1]);
    worker.stop().await;
}
