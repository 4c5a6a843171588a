//! Plan documents and results between their contract JSON and the wire types, by the rules of proto JSON.
//! Checks nothing that the orchestrator should check: a document that breaks the contract passes through here.

use std::path::Path;
use std::sync::LazyLock;

use escapement_wire::v1::{Execution, Plan, PlanResult};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde::de::IntoDeserializer;
use serde_json::Value;

use crate::Fault;

/// Returns all messages and services of both APIs, as the programs were built with them.
pub fn descriptors() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        DescriptorPool::decode(escapement_wire::DESCRIPTORS).expect("the build wrote a descriptor set")
    });
    &POOL
}

/// Reads a plan document.
///
/// # Errors
/// The JSON is no `Plan`: an unknown field, or a value of another type.
pub fn plan(document: &Value) -> Result<Plan, Fault> {
    from_json("escapement.v1.Plan", document)
}

/// Reads a plan document from a file.
///
/// # Errors
/// The file cannot be read, is no JSON, or no `Plan`; the text names the file.
pub fn plan_file(path: &Path) -> Result<Plan, Fault> {
    let read = || -> Result<Plan, Fault> { plan(&serde_json::from_slice(&std::fs::read(path)?)?) };
    read().map_err(|fault| format!("{}: {fault}", path.display()).into())
}

/// Returns a result as the contract writes it: snake_case names, statuses by name, numbers as numbers, defaults spelled out.
pub fn result(result: &PlanResult) -> Value {
    to_json("escapement.v1.PlanResult", result)
}

/// Returns an execution in the same form.
pub fn execution(execution: &Execution) -> Value {
    to_json("escapement.v1.Execution", execution)
}

/// Reads any message of the APIs by its full name, for example `escapement.v1.SubmitPlanRequest`.
///
/// # Errors
/// The JSON does not fit the message.
///
/// # Panics
/// There is no such message.
pub fn from_json<M: Message + Default>(message: &str, document: &Value) -> Result<M, Fault> {
    let dynamic = DynamicMessage::deserialize(descriptor(message), document.clone().into_deserializer())?;
    Ok(M::decode(dynamic.encode_to_vec().as_slice())?)
}

/// Writes any message of the APIs by its full name.
///
/// # Panics
/// There is no such message, or it is not what `M` is.
pub fn to_json<M: Message>(message: &str, value: &M) -> Value {
    let dynamic = DynamicMessage::decode(descriptor(message), value.encode_to_vec().as_slice())
        .expect("the caller names the message that the value is");
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .skip_default_fields(false)
        .stringify_64_bit_integers(false);
    dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("every message of the APIs has a JSON form")
}

fn descriptor(message: &str) -> MessageDescriptor {
    descriptors()
        .get_message_by_name(message)
        .unwrap_or_else(|| panic!("there is no message {message}"))
}

#[cfg(test)]
mod tests {
    use super::{from_json, plan, result, to_json};
    use escapement_wire::v1::{ExecutionError, Plan, PlanResult, plan_result::Status, plan_step::OnFailure};
    use serde_json::{Value, json};

    fn document() -> Value {
        json!({
            "id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a01",
            "version": 1,
            "created_at": 1_700_000_000_000_i64,
            "name": "two steps",
            "context_requirements": ["project"],
            "steps": [
                { "id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a02", "action": "echo", "payload": { "n": [1, null] } },
                {
                    "id": "0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a03", "action": "echo", "payload": {},
                    "depends_on": ["0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a02"], "on_failure": "skip", "timeout_ms": 5
                }
            ],
            "retry_policy": { "backoff_multiplier": 1.5 }
        })
    }

    #[test]
    fn a_document_of_the_contract_is_a_plan_as_it_stands() {
        let plan = plan(&document()).unwrap();
        assert_eq!(plan.steps.len(), 2);
        assert_eq!(plan.steps[1].on_failure(), OnFailure::Skip);
        assert_eq!(plan.steps[1].timeout_ms, Some(5));
        assert!(plan.steps[0].payload.as_ref().unwrap().has_key("n"));
        assert_eq!(plan.timeout_ms, None);
    }

    #[test]
    fn a_plan_keeps_its_content_through_json_and_back() {
        let plan = plan(&document()).unwrap();
        let again: Plan = from_json("escapement.v1.Plan", &to_json("escapement.v1.Plan", &plan)).unwrap();
        assert_eq!(again, plan);
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let mut document = document();
        document["colour"] = json!("red");
        assert!(plan(&document).unwrap_err().to_string().contains("colour"));
    }

    #[test]
    fn a_result_is_written_in_the_spelling_of_the_contract() {
        let error = ExecutionError {
            error_code: "UNKNOWN_ERROR".to_owned(),
            ..ExecutionError::default()
        };
        let written = result(&PlanResult {
            status: Status::Failure.into(),
            completed_at: 1_700_000_000_001,
            steps_total: 2,
            error: Some(error),
            ..PlanResult::default()
        });
        assert_eq!(written["status"], "failure");
        assert_eq!(written["completed_at"], 1_700_000_000_001_i64);
        assert_eq!(written["steps_executed"], 0);
        assert_eq!(written["error"]["error_code"], "UNKNOWN_ERROR");
    }
}
