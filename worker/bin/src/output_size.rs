//! True if an output fits into what the orchestrator takes, measured as it will travel.
//! Shortens nothing.

use crate::limits::OUTPUT_BYTES_MAX;
use escapement_sdk::StepError;
use escapement_wire::json::to_opaque;
use serde::Serialize;
use serde_json::{Value, json};

/// Gives the output back if it fits, and the handler's own error `code` otherwise.
///
/// The SDK refuses an output of more than 1 MiB encoded, or nested too deep, with a fatal code,
/// which no plan can skip.
///
/// # Errors
/// `code` with `bytes` and `bytes_max` in its context if the output is too large,
/// and without them if it is nested too deep; `UNKNOWN_ERROR` (fatal) if it is no object.
pub fn fitting<O: Serialize>(output: O, code: &str) -> Result<O, StepError> {
    let Value::Object(object) = serde_json::to_value(&output).map_err(StepError::unknown)? else {
        return Err(StepError::unknown("the output is no JSON object"));
    };
    let encoded = to_opaque(&object);
    if encoded.len() > OUTPUT_BYTES_MAX {
        let message = format!(
            "the output has {} bytes encoded, more than {OUTPUT_BYTES_MAX}",
            encoded.len()
        );
        let facts = json!({ "bytes": encoded.len(), "bytes_max": OUTPUT_BYTES_MAX });
        return Err(StepError::new(code, message).context(facts));
    }
    match encoded.check() {
        Ok(()) => Ok(output),
        Err(malformed) => Err(StepError::new(code, format!("the output {malformed}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::fitting;
    use serde_json::json;

    #[test]
    fn an_output_of_exactly_the_limit_fits_and_one_byte_more_does_not() {
        // Tags, lengths and the key around a text of this length take 15 bytes.
        let text = "x".repeat((1 << 20) - 15);
        assert!(fitting(json!({ "a": text }), "OWN").is_ok());
        let error = fitting(json!({ "a": text + "x" }), "OWN").unwrap_err();
        assert_eq!((error.code(), error.stated_severity()), ("OWN", None));
        assert_eq!(error.diagnostics()["bytes"], (1 << 20) + 1);
    }

    #[test]
    fn numbers_count_as_they_travel_and_not_as_they_are_written() {
        let numbers = vec![1; 100_000];
        assert!(json!(numbers).to_string().len() < 1 << 20);
        assert!(fitting(json!({ "a": numbers }), "OWN").is_err());
    }
}
