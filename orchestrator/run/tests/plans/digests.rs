//! What makes two documents the same plan, and that everything else does not.

use escapement_model::Opaque;
use escapement_run::plan;
use serde_json::{Value, json};

use crate::documents::{encoded, full, read};

fn digest(document: &Value) -> [u8; 32] {
    read(document)
        .unwrap_or_else(|violations| panic!("{violations}"))
        .digest
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut document = full();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match parent {
        Value::Object(object) => {
            object.insert(field.to_owned(), value);
        }
        other => *other.pointer_mut(&format!("/{field}")).unwrap() = value,
    }
    document
}

fn minimal() -> Value {
    json!({"schema": "escapement.plan/1", "name": "P", "steps": [
        {"key": "a", "type": "tool_call", "config": {"tool_name": "f"}},
        {"key": "b", "type": "tool_call", "config": {"tool_name": "g", "tool_args": {"x": "${a}"}}},
    ]})
}

// Journals keep digests: a change of these is a new encoding, with a new name.
#[test]
fn the_encoding_stays() {
    assert_eq!(
        hex(digest(&minimal())),
        "2e103b378b9fd901597d4a0e77a6dd711d51e0fe32c753a976d6f4d0a98af150"
    );
    assert_eq!(
        hex(digest(&full())),
        "eed2e9c0b75f333c566933c96c4a00df59f28231fba49a04d48ba7a819c30941"
    );
}

// RUN-3.7: approvals and journals name the digests of such plans.
#[test]
fn a_parallel_plan_without_marks_keeps_its_digest() {
    let mut document = minimal();
    document["parallel"] = json!(true);
    let unmarked = digest(&document);
    assert_eq!(
        hex(unmarked),
        "d8890e5cf80cf6f1035377346a86a099454c04bb336a30bbcd246c0a84825111"
    );
    for at in 0..2 {
        document["steps"][at]["async"] = json!(false);
    }
    assert_eq!(digest(&document), unmarked);
    document["steps"][0]["async"] = json!(true);
    assert_ne!(digest(&document), unmarked);
}

// RUN-1.2
#[test]
fn defaults_order_and_spelling_make_no_difference() {
    let explicit = json!({"steps": [
        {"depends_on": ["a", "a"], "config": {"tool_args": {"x": "${a}"}, "tool_name": "g"}, "type": "tool_call", "key": "b",
            "order": 2, "name": "b", "on_failure": null},
        {"key": "a", "order": 1, "type": "tool_call", "config": {"tool_name": "f", "tool_args": {}}, "async": false,
            "retry": {}, "metadata": {}},
    ], "goal": "", "description": "", "parallel": false, "narrative": null, "output": null, "constraints": {},
        "name": "P", "schema": "escapement.plan/1"});
    assert_eq!(digest(&explicit), digest(&minimal()));
    assert_eq!(
        digest(&changed("/steps/4/config/steps/0", json!({"tool_name": "list"}))),
        digest(&full())
    );
}

#[test]
fn the_order_of_encoded_keys_and_replaced_values_make_no_difference() {
    let document = encoded(&full());
    // The same entries once more, in front, as a map may have them: the last ones count.
    let before = encoded(&changed("/name", json!("Replaced")));
    let twice = [before.as_encoded().as_ref(), document.as_encoded()].concat();
    let read = plan::read(&Opaque::from_encoded(twice.into())).unwrap();
    assert_eq!(read.digest, digest(&full()));
}

#[test]
fn a_loop_of_a_step_is_the_loop_of_its_call() {
    let document = |config: Value| {
        json!({"schema": "escapement.plan/1", "name": "P", "steps": [
            {"key": "poll", "type": "tool_call", "config": {"tool_name": "f", "tool_args": {"x": 1}}},
            {"key": "again", "type": "loop", "config": config},
        ]})
    };
    let named = digest(&document(json!({"loop_step": "poll"})));
    assert_eq!(
        named,
        digest(&document(json!({"tool_name": "f", "tool_args": {"x": 1}})))
    );
    assert_ne!(
        named,
        digest(&document(json!({"tool_name": "f", "tool_args": {"x": 2}})))
    );
}

#[test]
fn every_field_makes_a_difference() {
    let child =
        json!({"revision_digest": format!("sha256:{}", "0".repeat(64)), "input": {"seen": "${again:/0}"}});
    let rows = [
        ("/name", json!("Other")),
        ("/goal", json!("Other")),
        ("/description", json!("Other")),
        ("/parallel", json!(false)),
        ("/narrative", Value::Null),
        ("/output", json!("${again}")),
        ("/constraints/must_produce", json!([])),
        ("/constraints/expected_artifact_type", Value::Null),
        ("/steps/0/order", json!(0)),
        ("/steps/0/name", json!("Other")),
        ("/steps/0/description", json!("Other")),
        ("/steps/0/config/tool_name", json!("other")),
        ("/steps/0/config/tool_args/n", json!([1])),
        ("/steps/6/depends_on", json!(["call"])),
        ("/steps/0/required", Value::Null),
        ("/steps/0/async", json!(false)),
        ("/steps/0/timeout_ms", Value::Null),
        ("/steps/0/retry/max_retries", json!(0)),
        ("/steps/0/retry/backoff_ms", Value::Null),
        ("/steps/0/retry/multiplier", json!(1.5)),
        ("/steps/0/retry/max_backoff_ms", json!(1)),
        ("/steps/0/retry/escalate", json!(true)),
        ("/steps/0/on_success", json!("branch")),
        ("/steps/0/on_failure", json!("drain")),
        ("/steps/0/on_failure", json!("ask")),
        ("/steps/0/on_dependency_failure", json!("block")),
        ("/steps/0/verify", Value::Null),
        ("/steps/0/verify/tool_args/last", json!(1)),
        ("/steps/0/metadata/any", json!([])),
        ("/steps/1/config/prompt", json!("Good?")),
        ("/steps/1/config/choices", json!(["no", "yes"])),
        ("/steps/1/config/context", json!("all")),
        ("/steps/1/config/tools", json!([])),
        ("/steps/1/config/model", json!("large")),
        ("/steps/1/config/max_iterations", json!(6)),
        ("/steps/2/config/question", json!("Which?")),
        ("/steps/2/config/options", json!(["a"])),
        ("/steps/2/config/timeout_ms", Value::Null),
        ("/steps/2/config/default_answer", json!("b")),
        ("/steps/3/config/condition", json!("true")),
        ("/steps/3/config/condition", json!("result:call")),
        ("/steps/3/config/true_step", Value::Null),
        ("/steps/3/config/false_step", json!("child")),
        ("/steps/4/config/steps/1/tool_name", json!("other")),
        ("/steps/4/config/batch_size", json!(4)),
        ("/steps/4/config/wait_all", json!(true)),
        ("/steps/5/config/max_iterations", json!(11)),
        ("/steps/5/config/pass_iteration", json!(false)),
        ("/steps/5/config/loop_condition", json!("result:all")),
        (
            "/steps/6/config/plan_id",
            json!("7f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10"),
        ),
        ("/steps/6/config", child),
        ("/steps/6/config/input/seen", json!("${again:/1}")),
    ];
    let mut digests = vec![digest(&full())];
    for (pointer, value) in rows {
        let changed = digest(&changed(pointer, value.clone()));
        assert!(!digests.contains(&changed), "{pointer} as {value}");
        digests.push(changed);
    }
}
