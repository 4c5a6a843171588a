#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_store::{OPERATOR_ENTRY_BYTES_MAX, OperatorDeed};

#[test]
fn nothing_that_is_asked_for_makes_an_entry_too_large() {
    let long = "\u{e9}".repeat(100_000);
    let mut extensions = Extensions::new();
    let mut principal = Principal::without_policy();
    principal.name = long.as_str().into();
    principal.issuer = long.as_str().into();
    extensions.insert(Arc::new(principal));
    extensions.insert(CallerAddress("[::1]:65535".parse().unwrap()));
    let intent = of_call(&extensions, &long, &json!({"worker_id": long}));
    let recorded: Value = serde_json::from_str(&intent.request).unwrap();
    assert_eq!(recorded["bytes"], 200_016);
    assert_eq!(intent.peer, "[::1]:65535");
    assert!(OperatorDeed::Intent(intent).n_bytes() <= OPERATOR_ENTRY_BYTES_MAX);
    for outcome in [outcome(Ok(&json!(long))), outcome(Err(&Status::not_found(long)))] {
        assert!(outcome.len() <= OPERATOR_ENTRY_BYTES_MAX);
    }
}

#[test]
fn an_outcome_has_the_name_of_its_status() {
    let named = |status: Status| {
        let outcome: Value = serde_json::from_str(&outcome(Err(&status))).unwrap();
        (outcome["code"].clone(), outcome["message"].clone())
    };
    assert_eq!(
        named(Status::not_found("gone")),
        (json!("NOT_FOUND"), json!("gone"))
    );
    let precondition = Status::failed_precondition("");
    assert_eq!(named(precondition), (json!("FAILED_PRECONDITION"), json!("")));
    assert_eq!(outcome(Ok(&json!({"a": 1}))), r#"{"answer":{"a":1},"code":"OK"}"#);
}
