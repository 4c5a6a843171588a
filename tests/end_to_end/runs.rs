//! Runs over the contract: in one process, and in a process of their own that calls another orchestrator.

use crate::recording_worker::RecordingWorker;
use crate::world::{LIMIT, World};
use escapement_model::Opaque;
use escapement_tests::{Orchestrator, OrchestratorSettings, PrivateDirectory, wait_for};
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

// RUN-9.4
#[tokio::test]
async fn runs_of_a_process_of_their_own_are_killed_and_lose_no_execution() {
    const STEPS: usize = 40;
    let contract = World::start_with(|settings| settings.switch("--no-runs")).await;
    let worker = RecordingWorker::start(&contract.orchestrator.url(), 4);
    let directory = PrivateDirectory::new("runs-apart").unwrap();
    let settings =
        OrchestratorSettings::new(directory.path()).flag("--contract", contract.orchestrator.url());
    let mut runs = settings.start().await.unwrap();
    let run = create(&runs, creation("apart", &steps(STEPS))).await;
    for n_kills in 1..=4 {
        let n_done = || done(&worker, STEPS).into_iter().sum::<usize>();
        let is_under_way = async || (n_done() >= 7 * n_kills).then_some(());
        wait_for("further steps", LIMIT, is_under_way).await.unwrap();
        runs.process.kill().unwrap();
        runs = settings.start().await.unwrap();
        let again = create(&runs, creation("apart", &steps(STEPS))).await;
        assert_eq!(again.run_id, run.run_id);
    }
    let run = ended(&runs, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    assert_eq!(done(&worker, STEPS), [1; STEPS]);
    worker.stop().await;
}

#[tokio::test]
async fn a_contract_that_is_away_for_a_while_costs_a_run_nothing_but_time() {
    let mut contract = World::start_with(|settings| settings.switch("--no-runs")).await;
    let url = contract.orchestrator.url();
    let directory = PrivateDirectory::new("runs-apart").unwrap();
    let settings = OrchestratorSettings::new(directory.path()).flag("--contract", &url);
    let runs = settings.start().await.unwrap();
    contract.orchestrator.process.kill().unwrap();
    let run = create(&runs, creation("away", &steps(2))).await;
    let address = contract.orchestrator.address();
    let there = OrchestratorSettings::new(contract.directory.path())
        .switch("--no-runs")
        .listen(address);
    let there = there.start().await.unwrap();
    let worker = RecordingWorker::start(&there.url(), 4);
    let run = ended(&runs, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    assert_eq!(done(&worker, 2), [1, 1]);
    worker.stop().await;
}
