//! The same API through grpcurl and reflection: the contract's JSON goes in unchanged and comes out.

use crate::plans::{step_id, unix_ms};
use crate::world::World;
use escapement_tests::{fresh_id, tool};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) const INSTALL: &str = "`cargo verify` installs it";

/// Runs grpcurl with a request on its stdin.
pub(crate) fn grpcurl(program: &Path, arguments: &[impl AsRef<OsStr>], request: &Value) -> Output {
    let mut command = Command::new(program);
    command.args(["-plaintext", "-d", "@"]).args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(request.to_string().as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a plan as the contract writes it, all fields.
fn document() -> Value {
    json!({
        "id": fresh_id(), "version": 1, "created_at": unix_ms(), "name": "through grpcurl",
        "context_requirements": ["region"], "priority": 3, "timeout_ms": 60_000,
        "retry_policy": {
            "max_attempts": 2, "backoff_ms": 1, "backoff_multiplier": 1.5, "max_backoff_ms": 10,
            "retryable_error_codes": ["BUSY"],
        },
        "metadata": { "owner": { "desk": 7 } }, "tags": ["nightly"], "estimated_duration_ms": 10,
        "steps": [
            { "id": step_id(0), "action": "echo", "payload": { "n": [1, null, true] }, "depends_on": [],
              "on_failure": "halt", "timeout_ms": 5_000 },
            { "id": step_id(1), "action": "fail", "payload": { "code": "BUSY", "message": "Busy." },
              "depends_on": [step_id(0)], "on_failure": "retry" },
        ],
    })
}

#[tokio::test]
async fn grpcurl_lists_the_services() {
    let Some(program) = tool("grpcurl", INSTALL) else {
        return;
    };
    let world = World::start().await;
    let output = Command::new(program)
        .args(["-plaintext", &world.orchestrator.address().to_string(), "list"])
        .output()
        .unwrap();
    let listed = text(&output.stdout);
    let services = [
        "escapement.v1.AccessService",
        "escapement.v1.EventService",
        "escapement.v1.FleetService",
        "escapement.v1.PlanExecutionService",
        "escapement.worker.v1.WorkerService",
        "externalscaler.ExternalScaler",
        "grpc.health.v1.Health",
    ];
    for service in services {
        assert!(
            listed.lines().any(|line| line == service),
            "{service} is not in {listed}{}",
            text(&output.stderr)
        );
    }
}

#[tokio::test]
async fn a_plan_document_goes_through_grpcurl_unchanged_and_the_contracts_json_comes_out() {
    let Some(program) = tool("grpcurl", INSTALL) else {
        return;
    };
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let document = document();
    let execution_id = fresh_id();
    let request =
        json!({ "plan": document, "environment": { "region": "eu" }, "execution_id": execution_id });
    let address = world.orchestrator.address().to_string();
    let output = grpcurl(
        &program,
        &[&address, "escapement.v1.PlanExecutionService/ExecutePlan"],
        &request,
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &answer["result"];
    assert_eq!(result["plan_id"], document["id"]);
    assert_eq!(result["execution_id"], execution_id.as_str());
    assert_eq!(result["status"], "partial");
    assert_eq!(
        (&result["steps_executed"], &result["steps_total"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        result["result_payload"],
        json!({ step_id(0): { "n": [1, null, true] } })
    );
    let error = &result["error"];
    assert_eq!(
        (&error["error_code"], &error["severity"]),
        (&json!("BUSY"), &json!("error"))
    );
    assert_eq!(
        (&error["step_id"], &error["recoverable"]),
        (&json!(step_id(1)), &json!(true))
    );
    assert_eq!(
        error["context"]["errors"].as_array().unwrap().len(),
        2,
        "two attempts"
    );
    // Proto JSON writes 64-bit integers as texts.
    assert!(result["completed_at"].as_str().unwrap().parse::<i64>().unwrap() > 0);
}

//
#[tokio::test]
async fn a_certificate_goes_through_grpcurl_in_the_words_of_the_proto() {
    let Some(program) = tool("grpcurl", INSTALL) else {
        return;
    };
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let mut document = document();
    document["steps"][1]["action"] = json!("Fial");
    document["steps"][1]["timeout_ms"] = json!(200);
    let address = world.orchestrator.address().to_string();
    let call = "escapement.v1.PlanExecutionService/ValidatePlan";
    let output = grpcurl(&program, &[&address, call], &json!({ "plan": document }));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let certificate = &answer["certificate"];
    // 5000 + 2 * 200 + 1: one after the other, the second up to twice.
    assert_eq!(certificate["worst_case_duration_ms"], "5401");
    assert_eq!(certificate["duration_bound"], "steps");
    assert_eq!(certificate["critical_path"][1]["worst_case_attempts"], "2");
    assert_eq!(certificate["canonical_order"], answer["canonical_order"]);
    assert_eq!(
        answer["action_suggestions"],
        json!([{ "action": "Fial", "suggestions": ["fail"] }])
    );
}

#[tokio::test]
async fn grpcurl_shows_why_a_document_is_refused() {
    let Some(program) = tool("grpcurl", INSTALL) else {
        return;
    };
    let world = World::start().await;
    let mut document = document();
    document["version"] = json!(2);
    let address = world.orchestrator.address().to_string();
    let output = grpcurl(
        &program,
        &[&address, "escapement.v1.PlanExecutionService/SubmitPlan"],
        &json!({ "plan": document }),
    );
    assert!(!output.status.success());
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("InvalidArgument") && stderr.contains("plan.version"),
        "{stderr}"
    );
}
