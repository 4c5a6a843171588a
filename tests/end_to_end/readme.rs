//! What the README says grpcurl answers is what it answers. Ids and times differ from run to run, nothing else may.

use crate::plans::request;
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::{checkout, documents, tool};
use serde_json::Value;
use std::process::Command;
use tonic::Code;

/// Values of these keys are other ones in each run.
const VARYING: [&str; 8] = [
    "completed_at",
    "duration_ms",
    "execution_id",
    "heartbeat_age_ms",
    "instance_id",
    "session_age_ms",
    "session_id",
    "timestamp",
];

#[tokio::test]
async fn the_readme_shows_real_answers() {
    let Some(program) = tool("grpcurl", "`cargo verify` installs it where Go is there") else {
        return;
    };
    let readme = std::fs::read_to_string(checkout::root().join("README.md")).unwrap();
    let world = World::start().await;
    let _worker = world.stock_worker("worker-1", |settings| settings).await;
    let calls = calls(&readme);
    assert!(calls.len() >= 3, "the README shows at least three calls");
    assert!(
        calls[0].0.contains("ExecutePlan"),
        "the first call executes the plan"
    );
    let again = calls[0].0.clone();
    let address = world.orchestrator.address().to_string();
    let run = |command: &str| {
        let command = command
            .replace("127.0.0.1:7400", &address)
            .replace("grpcurl", &program.to_string_lossy());
        Command::new("sh")
            .args(["-c", &command])
            .current_dir(checkout::root())
            .output()
            .unwrap()
    };
    for (command, expected) in calls {
        let output = run(&command);
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{command}: {}", String::from_utf8_lossy(&output.stderr)));
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(without_varying(answer), without_varying(expected), "{command}");
    }
    // The plan's id is used up, as the README says.
    let output = run(&again);
    let refusal = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && refusal.contains("FailedPrecondition"),
        "{refusal}"
    );
    // grpcurl shows the reason only encoded.
    let plan = documents::plan_file(&checkout::root().join("tests/plans/hello.json")).unwrap();
    let refusal = world.try_execute(request(plan)).await.unwrap_err();
    assert_eq!(reason(&refusal, Code::FailedPrecondition), "PLAN_ID_USED");
}

#[test]
fn the_readme_shows_the_plan_as_it_is() {
    let readme = std::fs::read_to_string(checkout::root().join("README.md")).unwrap();
    let plan = std::fs::read_to_string(checkout::root().join("tests/plans/hello.json")).unwrap();
    assert!(
        readme.contains(plan.trim_end()),
        "tests/plans/hello.json is not in the README"
    );
}

/// Each shell block that calls grpcurl, with the JSON block that follows it.
fn calls(readme: &str) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    let mut command = None;
    for block in readme.split("```").skip(1).step_by(2) {
        match block.split_once('\n') {
            Some(("sh", text)) if text.contains("grpcurl") => command = Some(text.to_owned()),
            Some(("json", text)) => calls.extend(command.take().map(|command| (command, text.to_owned()))),
            _ => {}
        }
    }
    calls
}

fn without_varying(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| match VARYING.contains(&key.as_str()) {
                true => (key, Value::Null),
                false => (key, without_varying(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(without_varying).collect(),
        other => other,
    }
}
