//! Plan documents and requests in few words. Judges nothing.

use serde_json::{Map, Value, json};

/// A plan document of these steps.
pub(crate) fn document(steps: Value) -> Value {
    json!({ "schema": "escapement.plan/1", "name": "Story", "steps": steps })
}

/// A call of an action.
pub(crate) fn call(key: &str, action: &str, payload: Value) -> Value {
    json!({ "key": key, "type": "tool_call", "config": { "tool_name": action, "tool_args": payload } })
}

/// A question of a person.
pub(crate) fn question(key: &str) -> Value {
    json!({ "key": key, "type": "user_input", "config": { "question": format!("What is {key}?") } })
}

/// The object with further fields.
pub(crate) fn with(mut object: Value, fields: Value) -> Value {
    let more: Map<String, Value> = serde_json::from_value(fields).unwrap();
    object.as_object_mut().unwrap().extend(more);
    object
}

/// The request with an autonomy level at which nobody is asked, unless it names one.
pub(crate) fn unattended(mut request: Value) -> Value {
    if request.get("autonomy_level").is_none() {
        request["autonomy_level"] = json!(4);
    }
    request
}

/// The text that the value is.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}
