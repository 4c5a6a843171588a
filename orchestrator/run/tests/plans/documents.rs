//! Documents in JSON, encoded by prost's own types: no code of the product takes part. And one document with all fields.

use std::collections::BTreeMap;

use escapement_model::Opaque;
use escapement_run::plan::{self, Plan, Violations};
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct};
use serde_json::{Value, json};

/// An object as prost encodes it.
pub(crate) fn encoded(value: &Value) -> Opaque {
    let Some(Kind::StructValue(object)) = kind_of(value) else {
        panic!("no object: {value}");
    };
    Opaque::from_encoded(object.encode_to_vec().into())
}

fn kind_of(value: &Value) -> Option<Kind> {
    Some(match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => {
            let values = items.iter().map(proto_value).collect();
            Kind::ListValue(ListValue { values })
        }
        Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), proto_value(value)));
            let fields: BTreeMap<_, _> = entries.collect();
            Kind::StructValue(Struct { fields })
        }
    })
}

/// A value as prost has it.
pub(crate) fn proto_value(value: &Value) -> prost_types::Value {
    prost_types::Value { kind: kind_of(value) }
}

/// An object as prost decodes it.
pub(crate) fn decoded(object: &Opaque) -> Value {
    let object = Struct::decode(object.as_encoded().clone()).unwrap();
    json_of(&prost_types::Value {
        kind: Some(Kind::StructValue(object)),
    })
}

/// A value as JSON.
pub(crate) fn json_of(value: &prost_types::Value) -> Value {
    match value.kind.as_ref() {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => json!(flag),
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::ListValue(list)) => list.values.iter().map(json_of).collect(),
        Some(Kind::StructValue(object)) => {
            let entries = object.fields.iter();
            Value::Object(
                entries
                    .map(|(key, value)| (key.clone(), json_of(value)))
                    .collect(),
            )
        }
    }
}

/// Reads a document in JSON.
pub(crate) fn read(document: &Value) -> Result<Plan, Violations> {
    plan::read(&encoded(document))
}

/// Reads a document of these steps.
pub(crate) fn read_steps(steps: &Value) -> Result<Plan, Violations> {
    read(&json!({"schema": "escapement.plan/1", "name": "Steps", "steps": steps}))
}

/// What is wrong, a line for each: path, code and sentence.
pub(crate) fn told(read: Result<Plan, Violations>) -> String {
    let violations = read.expect_err("the document is refused");
    let line = |violation: &plan::Violation| {
        format!("{} {} {}\n", violation.path, violation.code, violation.message)
    };
    violations.iter().map(line).collect()
}

/// A document with every field and a step of each type, in canonical order.
pub(crate) fn full() -> Value {
    json!({
        "schema": "escapement.plan/1", "name": "All", "goal": "Have all fields", "description": "Has all fields",
        "parallel": true, "narrative": "Nothing happens.", "output": {"said": "${decide:/decision}", "n": "${again}"},
        "constraints": {"must_produce": ["image"], "expected_artifact_type": "image"},
        "steps": [
            {
                "key": "call", "order": 1, "type": "tool_call", "name": "Call", "description": "Calls",
                "config": {"tool_name": "file.read", "tool_args": {"path": "${input:/path}", "n": [1, {"deep": "${run}"}]}},
                "depends_on": [], "required": true, "async": true, "timeout_ms": 30000,
                "retry": {"max_retries": 3, "backoff_ms": 1000, "multiplier": 2, "max_backoff_ms": 30000, "escalate": false},
                "on_success": "ask", "on_failure": "abort", "on_dependency_failure": "skip",
                "verify": {"tool_name": "check", "tool_args": {"result": "${call}", "last": "${child:/state}"}},
                "metadata": {"any": ["thing"]}
            },
            {
                "key": "decide", "order": 2, "type": "llm_decision",
                "config": {
                    "prompt": "Is ${call:/text} good?", "choices": ["yes", "no"], "context": ["call"],
                    "tools": ["web_search"], "model": "small", "max_iterations": 5
                },
                "depends_on": ["call"]
            },
            {
                "key": "ask", "order": 3, "type": "user_input",
                "config": {
                    "question": "Which of ${decide:/decision}?", "input_type": "choice", "options": ["a", "b"],
                    "timeout_ms": 86_400_000, "default_answer": "a"
                },
                "on_failure": "all"
            },
            {
                "key": "branch", "order": 4, "type": "condition",
                "config": {"condition": "result:ask", "true_step": "all", "false_step": "again"}
            },
            {
                "key": "all", "order": 5, "type": "parallel",
                "config": {
                    "steps": ["list", {"tool_name": "get", "tool_args": {"of": "${item}"}}],
                    "batch_size": 5, "wait_all": false
                }
            },
            {
                "key": "again", "order": 6, "type": "loop",
                "config": {
                    "tool_name": "check", "tool_args": {"n": "${iteration}", "of": {"$from": "all", "path": "/0", "default": null}},
                    "max_iterations": 10, "loop_condition": "steps.again < 3"
                }
            },
            {
                "key": "child", "order": 7, "type": "sub_plan",
                "config": {"plan_id": "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10", "input": {"seen": "${again:/0}"}}
            }
        ]
    })
}
