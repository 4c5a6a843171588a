//! What every way of running the programs is asked: where it serves figures, and whether it executes a plan and a run.

use escapement_tests::{ChildProcess, Orchestrator, PlanDocument, documents, http, wait_for};
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{CreateRunRequest, WaitRunRequest};
use escapement_wire::v1::WhoAmIRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use serde_json::{Value, json};
use std::time::Duration;
use tonic::transport::Channel;

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Where a process serves figures and probes, as its log in JSON says.
pub(crate) async fn metrics_address(process: &ChildProcess) -> String {
    let told = async || {
        let log = process.stderr();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let served = |line: &Value| line["message"] == "metrics served";
        let line = lines.into_iter().find(served)?;
        Some(line["address"].as_str()?.to_owned())
    };
    wait_for("the listener of metrics", LIMIT, told).await.unwrap()
}

/// The status and the body of an answer; `None` if nobody listens.
pub(crate) async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    http::get(address, path, "*/*").await
}

/// Executes a plan of two steps, the second after the first, and a run of one.
pub(crate) async fn serves_a_plan_and_a_run(channel: Channel) {
    let mut plans = PlanExecutionServiceClient::new(channel.clone());
    let document = PlanDocument::new("two steps").step("echo", json!({ "a": 1 }), &[]);
    let document = document.step("echo", json!({ "b": 2 }), &[0]);
    let answer = plans.execute_plan(document.execute()).await.unwrap();
    let result = documents::result(&answer.into_inner().result.unwrap());
    assert_eq!(result["status"], "success", "{result}");

    let mut runs = RunServiceClient::new(channel);
    let echo = json!({ "key": "say", "type": "tool_call", "config": { "tool_name": "echo", "tool_args": { "a": 1 } } });
    let document = json!({ "schema": "escapement.plan/1", "name": "one step", "steps": [echo] });
    let asked = json!({ "document": document, "autonomy_level": 4 });
    let asked: CreateRunRequest =
        documents::from_json("escapement.runs.v1.CreateRunRequest", &asked).unwrap();
    let run = runs.create_run(asked).await.unwrap().into_inner().run.unwrap();
    let wait = WaitRunRequest {
        run_id: run.run_id,
        timeout_ms: None,
    };
    let ended = runs.wait_run(wait).await.unwrap().into_inner().run.unwrap();
    assert_eq!(ended.state(), State::Completed, "{ended:?}");
}

/// Makes a run that asks a question, and answers with its id.
pub(crate) async fn asks(orchestrator: &Orchestrator) -> Result<String, tonic::Status> {
    let question = json!({ "key": "ask", "type": "user_input", "config": { "question": "Well?" } });
    let document = json!({ "schema": "escapement.plan/1", "name": "asks", "steps": [question] });
    let asked = json!({ "document": document, "autonomy_level": 4 });
    let asked: CreateRunRequest =
        documents::from_json("escapement.runs.v1.CreateRunRequest", &asked).unwrap();
    let mut runs = RunServiceClient::new(orchestrator.channel());
    Ok(runs.create_run(asked).await?.into_inner().run.unwrap().run_id)
}

/// Waits until it answers a call.
pub(crate) async fn answers(orchestrator: &Orchestrator) {
    let asked = async || {
        let who = WhoAmIRequest::default();
        orchestrator.access().who_am_i(who).await.ok()
    };
    wait_for("an answer", LIMIT, asked).await.unwrap();
}
