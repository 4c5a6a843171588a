//! Requests that are no requests: every field of every method with values that nobody should send.
//! Each is refused as callers can read it, or taken, and the process serves on.

use crate::api;
use crate::plan_words::{call, question};
use crate::world::World;
use escapement_tests::documents;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MethodDescriptor, Value};
use serde_json::json;
use tonic::Code;

/// Every method of the API of runs.
fn methods() -> Vec<MethodDescriptor> {
    let services = documents::descriptors().services();
    let ours = services.filter(|service| service.package_name() == "escapement.runs.v1");
    ours.flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect()
}

/// Values that fit the type of a field and nothing else.
fn strange(field: &FieldDescriptor) -> Vec<Value> {
    if field.is_list() || field.is_map() {
        return Vec::new();
    }
    match field.kind() {
        Kind::String => [
            "".to_owned(),
            " ".to_owned(),
            "no id".to_owned(),
            "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01".to_owned(),
            "sha256:".to_owned(),
            "\u{0}\u{202e}".to_owned(),
            "x".repeat(70_000),
        ]
        .map(Value::String)
        .to_vec(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => [0, -1, i32::MIN, i32::MAX].map(Value::I32).to_vec(),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => [0, -1, i64::MIN, i64::MAX].map(Value::I64).to_vec(),
        Kind::Uint32 | Kind::Fixed32 => [0, u32::MAX].map(Value::U32).to_vec(),
        Kind::Uint64 | Kind::Fixed64 => [0, u64::MAX].map(Value::U64).to_vec(),
        Kind::Double => [f64::NAN, f64::INFINITY, -1.0, f64::MAX].map(Value::F64).to_vec(),
        Kind::Float => [f32::NAN, f32::NEG_INFINITY].map(Value::F32).to_vec(),
        Kind::Bool => vec![Value::Bool(true)],
        Kind::Bytes => vec![Value::Bytes(vec![0xff; 100].into())],
        Kind::Enum(_) => [99, -1, i32::MAX].map(Value::EnumNumber).to_vec(),
        Kind::Message(message) => vec![Value::Message(DynamicMessage::new(message))],
    }
}

/// A request with one strange value in it, at the top or one message below, and the name of its field.
fn requests(method: &MethodDescriptor, run_id: &str) -> Vec<(String, DynamicMessage)> {
    let input = method.input();
    let mut base = DynamicMessage::new(input.clone());
    if let Some(field) = input.get_field_by_name("run_id") {
        base.set_field(&field, Value::String(run_id.to_owned()));
    }
    let mut requests = vec![
        ("nothing".to_owned(), DynamicMessage::new(input.clone())),
        ("the run".to_owned(), base.clone()),
    ];
    for field in input.fields() {
        for value in strange(&field) {
            let mut request = base.clone();
            request.set_field(&field, value);
            requests.push((field.name().to_owned(), request));
        }
        if let (Kind::Message(below), false) = (field.kind(), field.is_list() || field.is_map()) {
            for inner in below.fields() {
                for value in strange(&inner) {
                    let mut message = DynamicMessage::new(below.clone());
                    message.set_field(&inner, value);
                    let mut request = base.clone();
                    request.set_field(&field, Value::Message(message));
                    requests.push((format!("{}.{}", field.name(), inner.name()), request));
                }
            }
        }
    }
    requests
}

/// Answers that a request may have, however strange it is.
const EXPECTED: [Code; 8] = [
    Code::Ok,
    Code::InvalidArgument,
    Code::NotFound,
    Code::FailedPrecondition,
    Code::AlreadyExists,
    Code::Aborted,
    Code::PermissionDenied,
    // A place in a feed that there is not.
    Code::OutOfRange,
];

#[tokio::test]
async fn every_strange_value_is_refused_in_words_or_taken() {
    let world = World::start().await;
    let methods = methods();
    assert!(methods.len() > 40, "{}", methods.len());
    let mut wrong = Vec::new();
    for method in &methods {
        for (field, request) in requests(method, NOBODY) {
            let said = api::send(world.orchestrator.channel(), method, request).await;
            if let Err(what) = judged(&said) {
                wrong.push(format!("{}: {field}: {what}", method.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let run = world
        .ended_run(json!([call("a", "script.pure", json!({}))]))
        .await;
    assert_eq!(run["state"], "completed", "it serves on");
    world.close().await;
}

#[tokio::test]
async fn strange_values_about_a_run_that_waits_change_nothing_but_what_they_say() {
    let world = World::start().await;
    let mut wrong = Vec::new();
    for method in &methods() {
        let run_id = world
            .run(json!([question("q"), call("a", "script.pure", json!({}))]))
            .await;
        world.open_request(&run_id).await;
        for (field, request) in requests(method, &run_id) {
            // A wait that is as long as it may be is no mistake.
            if field == "timeout_ms" || method.is_server_streaming() {
                continue;
            }
            let said = api::send(world.orchestrator.channel(), method, request).await;
            if let Err(what) = judged(&said) {
                wrong.push(format!("{}: {field}: {what}", method.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    world.close().await;
}

/// What is wrong with an answer.
fn judged(said: &Result<(), api::Refusal>) -> Result<(), String> {
    let Err(refusal) = said else { return Ok(()) };
    if !EXPECTED.contains(&refusal.code) {
        return Err(refusal.text());
    }
    let has_words = !refusal.message.is_empty() && !refusal.reason.is_empty();
    let names_field = refusal.code != Code::InvalidArgument
        || !refusal.violations.is_empty()
        || !refusal.metadata.is_empty();
    if has_words && names_field {
        Ok(())
    } else {
        Err(refusal.text())
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused() {
    let world = World::without_worker(|settings| settings).await;
    for method in &methods() {
        for bytes in [&b"\xff\xff\xff\xff"[..], b"\x0a\x05ab", b"\x0b"] {
            let refusal = api::send_bytes(world.orchestrator.channel(), method, bytes)
                .await
                .unwrap_err();
            assert_eq!(
                refusal.code,
                Code::InvalidArgument,
                "{}: {refusal:?}",
                method.name()
            );
        }
    }
    world.close().await;
}

const NOBODY: &str = "7c1f8a34-51c2-4d8e-8f60-1a2b3c4d5e02";
