//! A file for each action: its input, its output, its schema, and what it does.
//! None of them retries anything or keeps state from one attempt to the next.

pub mod delay;
pub mod echo;
pub mod execute_plan;
pub mod fail;
pub mod file_read;
pub mod file_stat;
pub mod file_write;
pub mod http_request;
pub mod json_filter;
pub mod json_query;
pub mod llm_chat;
pub mod process_run;
pub mod template_fill;
pub mod template_render;

use crate::config::Config;
use crate::limits::INPUT_FILE_BYTES_MAX;
use crate::sandbox::{Root, wrong_content};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use escapement_sdk::{StepContext, StepError, codes};
use escapement_wire::json::outside;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// How bytes stand in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As UTF-8 text.
    #[default]
    Text,
    /// As Base64 with padding.
    Base64,
}

/// Lets the trace of the handler go on in a request, unless the request names another one.
pub(crate) fn carry_trace(context: &StepContext, headers: &mut HeaderMap) {
    if headers.contains_key("traceparent") {
        return;
    }
    let trace = [
        ("traceparent", context.traceparent()),
        ("tracestate", context.header("tracestate")),
    ];
    for (name, value) in trace {
        let value = value.map(HeaderValue::from_str);
        if let Some(Ok(value)) = value {
            headers.insert(name, value);
        }
    }
}

/// Ends `work` early when the attempt is cancelled. What is returned then is discarded by the SDK.
pub(crate) async fn until_cancelled<T>(
    context: &StepContext,
    work: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    tokio::select! {
        // A result that is there counts, even if the cancellation is there as well.
        biased;
        result = work => result,
        () = context.cancelled() => Err(StepError::new("CANCELLED", "the attempt is not wanted any more")),
    }
}

/// Returns the root, or `FILE_ACCESS_OFF`: ask before the first effect, since another worker may have one.
pub(crate) fn root_of(config: &Config) -> Result<&Root, StepError> {
    let off = || {
        StepError::new(
            "FILE_ACCESS_OFF",
            "this worker sees no files; start it with --root DIRECTORY",
        )
        .fatal()
        .not_here()
    };
    config.root.as_ref().ok_or_else(off)
}

/// Reads a file that is one of the step's inputs.
pub(crate) async fn read_input(config: &Config, path: &str) -> Result<Vec<u8>, StepError> {
    root_of(config)?.read(path, INPUT_FILE_BYTES_MAX).await
}

/// Returns the limit that an input asks for; the step's own limits reach a handler as a cancellation.
///
/// A handler that timed the step's limit as well could report it under a code of its own, which `skip` rescues.
pub(crate) fn own_limit(timeout_ms: Option<u64>) -> Duration {
    timeout_ms.map_or(Duration::MAX, Duration::from_millis)
}

/// Reads a text file that is one of the step's inputs.
pub(crate) async fn read_text(config: &Config, path: &str) -> Result<String, StepError> {
    String::from_utf8(read_input(config, path).await?).map_err(|_| wrong_content(path, "is no UTF-8 text"))
}

/// Reads the content of a JSON file. No digit of an integer is lost: one that a double does not hold is a text.
pub(crate) fn parse_json(path: &str, content: &[u8]) -> Result<Value, StepError> {
    outside::value(content).map_err(|error| wrong_content(path, format_args!("is no JSON: {error}")))
}

/// `INVALID_PAYLOAD` for inputs that decode and still make no sense.
pub(crate) fn invalid(message: impl Into<String>) -> StepError {
    StepError::new(codes::INVALID_PAYLOAD, message).fatal()
}

/// Takes bytes out of JSON.
pub(crate) fn decode(text: String, encoding: Encoding) -> Result<Vec<u8>, StepError> {
    match encoding {
        Encoding::Text => Ok(text.into_bytes()),
        Encoding::Base64 => STANDARD
            .decode(text)
            .map_err(|error| invalid(format!("no valid Base64: {error}"))),
    }
}

/// Puts bytes into JSON: text if they are UTF-8 without zero bytes, Base64 otherwise.
pub(crate) fn encode(bytes: Vec<u8>) -> (String, Encoding) {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => (text, Encoding::Text),
        Ok(text) => (STANDARD.encode(text), Encoding::Base64),
        Err(error) => (STANDARD.encode(error.as_bytes()), Encoding::Base64),
    }
}

/// Returns the beginning of a remote side's text, for the context of an error.
pub(crate) fn excerpt(bytes: &[u8], bytes_max: usize) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(bytes_max)]).into_owned();
    // A byte that is no UTF-8 has become three.
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
