//! What a child's result means for the parent's step. Sends nothing.

use super::document::descriptors;
use crate::limits::CHILD_ERROR_BYTES_MAX;
use escapement_sdk::{StepContext, StepError};
use escapement_wire::json::to_opaque;
use escapement_wire::v1::{ExecutionError, PlanResult, plan_result::Status};
use prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::{Map, Value, json};

/// Success as it is, `partial` with the warning `CHILD_PARTIAL`, `failure` as the error `CHILD_FAILED`.
pub(super) fn judge(result: &PlanResult, context: &StepContext) -> Result<(), StepError> {
    let code = match result.status() {
        Status::Success => return Ok(()),
        Status::Partial => "CHILD_PARTIAL",
        Status::Failure | Status::Unspecified => "CHILD_FAILED",
    };
    let error = result.error.clone().unwrap_or_default();
    let message = format!(
        "{} of {} steps completed; {}: {}",
        result.steps_executed, result.steps_total, error.error_code, error.message
    );
    let facts = json!({
        "execution_id": result.execution_id,
        "plan_id": result.plan_id,
        "error": error_json(error)?,
    });
    let told = StepError::new(code, message).context(facts);
    if result.status() == Status::Partial {
        context.warn(told);
        return Ok(());
    }
    Err(told)
}

/// Returns the result as the contract writes it.
pub(super) fn to_json(result: &PlanResult) -> Result<Value, StepError> {
    message_json("escapement.v1.PlanResult", &result.encode_to_vec())
}

/// Returns the error as the contract writes it; without its diagnostic data and its cause if it would be too
/// large or too deep for the diagnostic data of the step's own error.
fn error_json(mut error: ExecutionError) -> Result<Value, StepError> {
    let whole = message_json(ERROR, &error.encode_to_vec())?;
    if fits(&whole) {
        return Ok(whole);
    }
    error.context = None;
    error.cause = None;
    message_json(ERROR, &error.encode_to_vec())
}

fn fits(error: &Value) -> bool {
    let facts = to_opaque(&Map::from_iter([(String::new(), error.clone())]));
    facts.len() <= CHILD_ERROR_BYTES_MAX && facts.check_context().is_ok()
}

fn message_json(name: &str, encoded: &[u8]) -> Result<Value, StepError> {
    let descriptor = descriptors()
        .get_message_by_name(name)
        .expect("the API has this message");
    let message = DynamicMessage::decode(descriptor, encoded).map_err(StepError::unknown)?;
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .skip_default_fields(false)
        .stringify_64_bit_integers(false);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(StepError::unknown)
}

const ERROR: &str = "escapement.v1.ExecutionError";

#[cfg(test)]
mod tests {
    use super::{judge, to_json};
    use escapement_sdk::testing::{ContextBuilder, take_warnings};
    use escapement_wire::json::to_opaque;
    use escapement_wire::v1::{ExecutionError, PlanResult, plan_result::Status};
    use serde_json::json;

    fn result(status: Status) -> PlanResult {
        let output = to_opaque(json!({ "step": { "n": 1 } }).as_object().unwrap());
        PlanResult {
            plan_id: "p".to_owned(),
            execution_id: "e".to_owned(),
            status: status.into(),
            completed_at: 1_700_000_000_001,
            steps_executed: 1,
            steps_total: 2,
            result_payload: Some(output),
            error: (status != Status::Success).then(|| ExecutionError {
                error_code: "BOOM".to_owned(),
                ..ExecutionError::default()
            }),
            ..PlanResult::default()
        }
    }

    #[test]
    fn a_partial_child_is_a_success_with_a_warning() {
        let context = ContextBuilder::new("execute_plan").build();
        judge(&result(Status::Partial), &context).unwrap();
        let warnings = take_warnings(&context);
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].code(), "CHILD_PARTIAL");
        assert_eq!(warnings[0].diagnostics()["error"]["error_code"], "BOOM");
    }

    #[test]
    fn a_failed_child_is_an_error_that_shows_the_child_s_own() {
        let context = ContextBuilder::new("execute_plan").build();
        let error = judge(&result(Status::Failure), &context).unwrap_err();
        assert_eq!(error.code(), "CHILD_FAILED");
        assert_eq!(error.stated_severity(), None);
        assert_eq!(error.diagnostics()["error"]["error_code"], "BOOM");
    }

    #[test]
    fn an_error_that_is_too_large_loses_its_data_and_keeps_its_code() {
        let context = ContextBuilder::new("execute_plan").build();
        let mut child = result(Status::Failure);
        let large = to_opaque(json!({ "trace": "x".repeat(100_000) }).as_object().unwrap());
        child.error.as_mut().unwrap().context = Some(large);
        let error = judge(&child, &context).unwrap_err();
        assert_eq!(error.diagnostics()["error"]["error_code"], "BOOM");
        assert!(error.diagnostics()["error"].to_string().len() < 1_000);
    }

    #[test]
    fn an_error_that_is_too_deep_loses_its_data_and_keeps_its_code() {
        let shown = |nesting| {
            let context = ContextBuilder::new("execute_plan").build();
            let mut child = result(Status::Failure);
            let data = (0..nesting / 3).fold(json!({}), |inner, _| json!({ "in": inner }));
            child.error.as_mut().unwrap().context = Some(to_opaque(data.as_object().unwrap()));
            let error = judge(&child, &context).unwrap_err();
            assert_eq!(to_opaque(error.diagnostics()).check_context(), Ok(()));
            assert_eq!(error.diagnostics()["error"]["error_code"], "BOOM");
            !error.diagnostics()["error"]["context"].is_null()
        };
        // 6 messages around the child's data in the data of the step's own error, of which 82 are allowed.
        assert!(shown(75));
        assert!(!shown(78));
    }

    #[test]
    fn an_error_whose_numbers_are_too_large_when_encoded_keeps_its_code() {
        let context = ContextBuilder::new("execute_plan").build();
        let mut child = result(Status::Failure);
        let numbers = to_opaque(json!({ "n": vec![0.5; 2_500] }).as_object().unwrap());
        child.error.as_mut().unwrap().context = Some(numbers);
        let error = judge(&child, &context).unwrap_err();
        assert!(to_opaque(error.diagnostics()).len() < 16 << 10);
        assert_eq!(error.diagnostics()["error"]["error_code"], "BOOM");
    }

    #[test]
    fn a_result_is_written_in_the_spelling_of_the_contract() {
        let written = to_json(&result(Status::Success)).unwrap();
        assert_eq!(written["status"], "success");
        assert_eq!(written["completed_at"], 1_700_000_000_001_i64);
        assert_eq!(written["result_payload"]["step"]["n"], 1.0);
    }
}
