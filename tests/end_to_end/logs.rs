//! What never stands in a log, however much is logged, and what the same thing is called in every line that names it.

use crate::plans::{StepWords, echo, fail, json_of, object, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::{Worker, WorkerSettings};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{DrainWorkerRequest, ExecutePlanRequest};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

mod exported;

/// Stands in every environment and payload here, and nowhere else.
const SECRET: &str = "swordfish-8d41c7";
/// With the frames, which a level alone does not show.
const EVERYTHING: &str = "trace,h2=trace";

fn with_secret(request: ExecutePlanRequest) -> ExecutePlanRequest {
    let environment = json!({ "region": SECRET, "token": { "inner": [SECRET] } });
    ExecutePlanRequest {
        environment: Some(object(environment)),
        ..request
    }
}

/// Stops both and searches everything that they logged, to their last lines.
async fn assert_kept(mut world: World, mut worker: Worker) {
    worker.process.terminate(LIMIT).await.unwrap();
    world.orchestrator.process.terminate(LIMIT).await.unwrap();
    let logs = [
        ("orchestrator", world.orchestrator.process.stderr()),
        ("worker", worker.process.stderr()),
    ];
    for (name, log) in logs {
        assert!(log.contains(" TRACE "), "the {name} did not log everything");
        let told: Vec<&str> = log.lines().filter(|line| line.contains(SECRET)).collect();
        assert!(told.is_empty(), "the {name} told:\n{}", told.join("\n"));
    }
}

async fn talkative() -> (World, Worker) {
    let world = World::start_with(|settings| settings.flag("--log", EVERYTHING)).await;
    let worker = world.stock_worker("stock", |settings| settings.flag("--log", EVERYTHING));
    let worker = worker.await;
    (world, worker)
}

//
#[tokio::test]
async fn neither_environment_nor_payload_is_logged_at_any_level() {
    let (world, worker) = talkative().await;
    let secret_echo = || echo(0, json!({ "word": SECRET }));
    let misread = step(1, "delay").payload(json!({ "duration_ms": SECRET }));
    let cases = [
        (Status::Success, plan([secret_echo()])),
        (Status::Failure, plan([secret_echo(), fail(1, "BROKEN")])),
        (Status::Failure, plan([secret_echo(), misread])),
    ];
    for (status, plan) in cases {
        let result = world.execute(with_secret(request(plan))).await;
        assert_eq!(result.status(), status);
        assert!(
            json_of(result.result_payload.as_ref())
                .to_string()
                .contains(SECRET),
            "the plan carried it"
        );
    }
    assert_kept(world, worker).await;
}

//
#[tokio::test]
async fn no_environment_is_logged_where_a_key_is_missing_or_the_plan_is_refused() {
    let (world, worker) = talkative().await;
    let secret_echo = || echo(0, json!({ "word": SECRET }));
    let refused = with_secret(request(plan([secret_echo().after(&[0])])));
    assert!(world.try_execute(refused).await.is_err());
    let mut lacking = with_secret(request(plan([secret_echo()])));
    lacking.plan.as_mut().unwrap().context_requirements = vec!["desk".to_owned()];
    let result = world.execute(lacking).await;
    assert_eq!(result.error.unwrap().error_code, "CONTEXT_MISSING");
    assert_kept(world, worker).await;
}

#[tokio::test]
async fn a_name_that_a_caller_chose_forges_no_line_and_steers_no_terminal() {
    let mut world = World::start_with(|settings| settings.flag("--registration-grace-ms", 0)).await;
    let name = "pay\n2026-01-01T00:00:00.000000Z  WARN credentials refused\r\u{1b}[2J\u{9b}1m";
    let result = world.execute(request(plan([step(0, name)]))).await;
    assert_eq!(result.error.unwrap().error_code, "ACTION_NOT_FOUND");
    world.orchestrator.process.terminate(LIMIT).await.unwrap();
    let log = world.orchestrator.process.stderr();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("credentials refused"))
        .collect();
    assert!(!told.is_empty(), "the action is named: {log}");
    for line in told {
        assert!(
            line.contains("the action is not registered"),
            "a line of its own: {line}"
        );
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

type IsWellFormed = fn(&Value) -> bool;

/// What a line may say and what that looks like.
const IDS: [(&str, IsWellFormed); 12] = [
    ("execution_id", is_uuid),
    ("plan_id", is_uuid),
    ("step_id", is_uuid),
    ("run_id", is_text),
    ("attempt", Value::is_u64),
    ("namespace", is_text),
    ("worker_id", is_text),
    ("instance_id", |id| is_hexadecimal(id, 32)),
    ("session_id", is_text),
    ("principal", Value::is_string),
    ("trace_id", |id| is_hexadecimal(id, 32)),
    ("span_id", |id| is_hexadecimal(id, 16)),
];

/// What would be another name of one of them.
const OTHER_NAMES: [&str; 9] = [
    "execution",
    "plan",
    "step",
    "run",
    "attempt_number",
    "worker",
    "instance",
    "trace",
    "user",
];

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_hexadecimal(value: &Value, digits: usize) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    value
        .as_str()
        .is_some_and(|text| text.len() == digits && text.bytes().all(is_digit))
}

fn is_uuid(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 36 && is_hexadecimal(&json!(text.replace('-', "")), 32)
}

/// Holds each line to the schema, and gives the names that each message came with.
fn read(log: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut read = Vec::new();
    for line in log.lines() {
        let line: Map<String, Value> =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let timestamp = line["timestamp"].as_str().unwrap();
        assert!(timestamp.len() == 27 && timestamp.ends_with('Z'), "{line:?}");
        let levels = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
        assert!(levels.contains(&line["level"].as_str().unwrap()), "{line:?}");
        assert!(is_text(&line["target"]) && is_text(&line["message"]), "{line:?}");
        for (name, is_well_formed) in IDS {
            let value = line.get(name);
            assert!(value.is_none_or(is_well_formed), "{name} in {line:?}");
        }
        for name in OTHER_NAMES {
            assert!(!line.contains_key(name), "{name} in {line:?}");
        }
        let names = line.keys().cloned().collect();
        read.push((line["message"].as_str().unwrap().to_owned(), names));
    }
    read
}

#[tokio::test]
async fn as_json_every_line_is_an_object_and_names_things_alike() {
    let filter = "info,escapement_orchestrator=debug,escapement_host=debug,escapement_sdk=debug";
    let world = World::start_with(|settings| settings.flag("--log", filter).flag("--log-format", "json"));
    let mut world = world.await;
    let settings = |settings: WorkerSettings| settings.flag("--log", filter).flag("--log-format", "json");
    let mut worker = world.stock_worker("stock", settings).await;
    world.execute(request(plan([echo(0, json!({}))]))).await;
    world.execute(request(plan([fail(0, "BROKEN")]))).await;
    let drain = DrainWorkerRequest {
        worker_id: "stock".to_owned(),
        ..DrainWorkerRequest::default()
    };
    world.orchestrator.fleet().drain_worker(drain).await.unwrap();
    worker.process.terminate(LIMIT).await.unwrap();
    world.orchestrator.process.terminate(LIMIT).await.unwrap();
    let mut lines = read(&world.orchestrator.process.stderr());
    lines.extend(read(&worker.process.stderr()));
    for (message, names) in [
        (
            "execution accepted",
            ["execution_id", "plan_id", "namespace"].as_slice(),
        ),
        ("execution failed", &["execution_id", "plan_id", "step_id"]),
        (
            "attempt_assigned",
            &["execution_id", "step_id", "attempt", "worker_id"],
        ),
        (
            "worker session begins",
            &["worker_id", "instance_id", "principal"],
        ),
        ("operator acts", &["principal", "rpc"]),
        ("attempt started", &["execution_id", "step_id", "attempt"]),
    ] {
        let told = lines.iter().filter(|(other, _)| other == message);
        let told: Vec<_> = told.map(|(_, named)| named).collect();
        assert!(!told.is_empty(), "{message}");
        for (name, named) in names
            .iter()
            .flat_map(|name| told.iter().map(move |named| (name, named)))
        {
            assert!(named.contains(*name), "{message}: {named:?}");
        }
    }
}
