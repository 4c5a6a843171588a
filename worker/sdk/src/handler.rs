//! Turns typed handlers into functions of one shape: encoded input in, encoded output or error out.
//! Does not know when a handler runs, or where its result goes.

use crate::action::Action;
use crate::context::StepContext;
use crate::error::StepError;
use escapement_model::{Opaque, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// Result of a handler.
pub(crate) type HandlerResult = Result<Opaque, StepError>;
type BodyFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;
type AsyncBody = Arc<dyn Fn(Opaque, StepContext) -> BodyFuture + Send + Sync>;
type BlockingBody = Arc<dyn Fn(Opaque, StepContext) -> HandlerResult + Send + Sync>;

/// An action and what runs it.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) action: Action,
    pub(crate) function: HandlerFn,
}

/// Function that runs an attempt.
#[derive(Clone)]
pub(crate) enum HandlerFn {
    /// On the caller's runtime.
    Async(AsyncBody),
    /// On the blocking threads of the caller's runtime.
    Blocking(BlockingBody),
}

impl fmt::Debug for HandlerFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandlerFn::Async(_) => "Async",
            HandlerFn::Blocking(_) => "Blocking",
        })
    }
}

impl HandlerFn {
    pub(crate) fn from_async<I, O, F, R>(handler: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I, StepContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        HandlerFn::Async(Arc::new(move |payload, context| {
            let handler = handler.clone();
            // Everything runs inside the future, so that a panic anywhere ends this task only.
            Box::pin(async move {
                let running = {
                    let input = decode(&payload, context.action())?;
                    handler(input, context.clone())
                };
                let output = running.await?;
                encode(&output, context.action())
            })
        }))
    }

    pub(crate) fn from_blocking<I, O, F>(handler: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I, StepContext) -> Result<O, StepError> + Send + Sync + 'static,
    {
        HandlerFn::Blocking(Arc::new(move |payload, context| {
            let input = decode(&payload, context.action())?;
            let output = handler(input, context.clone())?;
            encode(&output, context.action())
        }))
    }
}

fn decode<I: DeserializeOwned>(payload: &Opaque, action: &str) -> Result<I, StepError> {
    let object = || {
        escapement_wire::json::from_opaque(payload).map_err(|malformed| {
            StepError::new(
                codes::INVALID_PAYLOAD,
                format!("the payload of {action:?} {malformed}"),
            )
        })
    };
    if let Ok(input) = I::deserialize(Value::Object(object()?)) {
        return Ok(input);
    }
    // Remembering the path costs, so it is only done for the payload that does not decode.
    serde_path_to_error::deserialize(Value::Object(object()?)).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." {
            String::new()
        } else {
            format!(" at {path}")
        };
        let message = format!(
            "the payload of {action:?} does not decode{place}: {}",
            error.inner()
        );
        StepError::new(codes::INVALID_PAYLOAD, message).fatal()
    })
}

fn encode<O: Serialize>(output: &O, action: &str) -> HandlerResult {
    let defect = |detail: String| {
        let message = format!("the handler of {action:?} returned an output that {detail}");
        StepError::new(codes::UNKNOWN_ERROR, message).fatal()
    };
    let value = serde_json::to_value(output).map_err(|error| defect(format!("does not encode: {error}")))?;
    let Value::Object(object) = value else {
        return Err(defect(format!("is {}, not an object", kind_of(&value))));
    };
    let output = escapement_wire::json::to_opaque(&object);
    output
        .check()
        .map_err(|malformed| defect(malformed.to_string()))?;
    Ok(output)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    #[derive(Debug, serde::Deserialize)]
    struct Order {
        #[allow(dead_code, reason = "only decoded")]
        lines: Vec<u32>,
    }

    #[test]
    fn an_undecodable_input_names_the_field() {
        let payload = escapement_wire::json::to_opaque(json!({"lines": [1, "two"]}).as_object().unwrap());
        let error = decode::<Order>(&payload, "bill").unwrap_err();
        assert_eq!(error.code(), codes::INVALID_PAYLOAD);
        assert!(error.message().contains("at lines[1]"), "{error}");
    }

    #[test]
    fn an_output_that_is_no_object_names_the_handler() {
        let error = encode(&vec![1, 2], "bill").unwrap_err();
        assert_eq!(error.code(), codes::UNKNOWN_ERROR);
        assert!(
            error.message().contains("\"bill\"") && error.message().contains("a list"),
            "{error}"
        );
    }

    #[test]
    fn an_output_deeper_than_the_limit_is_refused() {
        let deep = |n_objects| (0..n_objects).fold(json!({}), |inner, _| json!({ "inner": inner }));
        assert!(encode(&deep(30), "bill").is_ok());
        let error = encode(&deep(31), "bill").unwrap_err();
        assert!(error.message().contains("nested deeper than 90"), "{error}");
    }
}
