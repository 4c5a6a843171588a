//! `http.request`: one request to an allowed host. Follows no redirect and keeps no cookie.

use super::{
    Encoding, carry_trace, encode, excerpt, invalid, own_limit, read_input, root_of, until_cancelled,
};
use crate::config::Config;
use crate::http_client::{Answer, Ask, HttpFault, Target, send};
use crate::limits::{
    CONTENT_BYTES_DEFAULT, CONTENT_BYTES_MAX, OUTPUT_FILE_BYTES_MAX, REMOTE_HEADERS_BYTES, REMOTE_TEXT_BYTES,
};
use crate::output_size::fitting;
use crate::sandbox::Written;
use bytes::Bytes;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use escapement_wire::json::outside;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What to ask.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The method. Default: GET.
    #[serde(default = "default_method")]
    pub method: String,
    /// An http:// or https:// URL whose host is allowed.
    pub url: Option<String>,
    /// The environment's top-level key that holds the URL instead, so that one document serves several places.
    pub url_from_environment: Option<String>,
    /// Parameters that are added to the URL: texts, numbers, booleans, or lists of them.
    #[serde(default)]
    pub query: BTreeMap<String, Value>,
    /// Headers. `host`, `content-length`, `connection` and `transfer-encoding` are set by the handler.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A text is sent as it is, anything else as JSON.
    pub body: Option<Value>,
    /// A file below the root as the body instead.
    pub body_file: Option<String>,
    /// Statuses that count as success, single ones or ranges such as `[200, 299]`. Default: 200 to 299.
    #[serde(default = "default_statuses")]
    pub expected_statuses: Vec<Statuses>,
    /// Milliseconds, at least 1. Default and at most: what the step has left.
    pub timeout_ms: Option<u64>,
    /// Bytes that the answer's body may have. Default 512 KiB, at most 1000 KiB; 16 MiB with `output_file`.
    pub body_bytes_max: Option<usize>,
    /// Write the answer's body into this file below the root instead of into the output.
    pub output_file: Option<String>,
}

/// A status, or all from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Statuses {
    /// This one.
    One(u16),
    /// These and all between.
    Range(u16, u16),
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Status.
    pub status: u16,
    /// Headers, names in lower case; repeated ones joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// Body. Absent with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What `body` is: `json`, `text` or `base64`. Absent with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_kind: Option<&'static str>,
    /// The file, with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<Written>,
}

/// Returns the action.
pub fn action() -> Action {
    let description = "Sends an HTTP request to a host that the worker allows.";
    let one = json!({ "type": "integer", "minimum": 100, "maximum": 599 });
    let range = json!({ "type": "array", "items": one, "minItems": 2, "maxItems": 2 });
    Action::new(NAME)
        .description(description)
        .effect(Effect::External)
        .risk(Risk::Unusual)
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "oneOf": [{ "required": ["url"] }, { "required": ["url_from_environment"] }],
            "properties": {
                "method": { "type": "string", "default": "GET" },
                "url": { "type": "string", "format": "uri" },
                "url_from_environment": { "type": "string", "minLength": 1 },
                "query": { "type": "object" },
                "headers": { "type": "object", "additionalProperties": { "type": "string" } },
                "body": {},
                "body_file": { "type": "string", "minLength": 1 },
                "expected_statuses": {
                    "type": "array",
                    "default": [[200, 299]],
                    "items": { "oneOf": [one, range] }
                },
                "timeout_ms": { "type": "integer", "minimum": 1 },
                "body_bytes_max": { "type": "integer", "minimum": 0, "default": CONTENT_BYTES_DEFAULT },
                "output_file": { "type": "string", "minLength": 1 }
            }
        }))
}

/// Sends the request.
///
/// # Errors
/// `HTTP_HOST_NOT_ALLOWED`, `INVALID_PAYLOAD` and the file codes;
/// `HTTP_STATUS`, `HTTP_CONNECT`,
/// `HTTP_BROKEN`, `HTTP_TIMEOUT`, `HTTP_TOO_LARGE`.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    let uri = uri(&input, &url(&input, &context)?)?;
    let target = Target::of(&uri).map_err(|why| invalid(format!("the URL {why}")))?;
    if !config.hosts.contains(&target) {
        let message = format!(
            "{}:{} is not allowed here; this worker has --allow-host {}",
            target.host, target.port, config.hosts
        );
        return Err(StepError::new("HTTP_HOST_NOT_ALLOWED", message).not_here());
    }
    let (body, is_json) = body(&input, &config).await?;
    let mut headers = headers(&input.headers, is_json)?;
    carry_trace(&context, &mut headers);
    let ask = Ask {
        method: Method::from_bytes(input.method.as_bytes())
            .map_err(|_| invalid("the method is not valid"))?,
        uri,
        headers,
        body,
        time_max: own_limit(input.timeout_ms),
        answer_bytes_max: answer_bytes_max(&input, &config)?,
    };
    let asking = async { send(ask).await.map_err(step_error) };
    let hidden = config.secrets.now();
    let answer = hidden.answer(until_cancelled(&context, asking).await?);
    let status = answer.status.as_u16();
    if !input
        .expected_statuses
        .iter()
        .any(|expected| expected.contains(status))
    {
        return Err(unexpected(&answer));
    }
    let mut output = output(&input, &config, answer).await?;
    output.body = output.body.map(|body| hidden.value(body));
    fitting(output, "HTTP_TOO_LARGE")
}

fn unexpected(answer: &Answer) -> StepError {
    let status = answer.status.as_u16();
    // An error whose context is too large loses all of it, so a header that does not fit is left out.
    let mut bytes_left = REMOTE_HEADERS_BYTES;
    let mut headers = headers_of(&answer.headers);
    let n_headers = headers.len();
    headers.retain(|name, value| {
        let left = bytes_left.checked_sub(name.len() + value.len());
        bytes_left = left.unwrap_or(bytes_left);
        left.is_some()
    });
    StepError::new("HTTP_STATUS", format!("status {status} is not expected")).context(json!({
        "status": status,
        "headers_truncated": headers.len() < n_headers,
        "headers": headers,
        "body": excerpt(&answer.body, REMOTE_TEXT_BYTES),
    }))
}

/// Returns the code that a fault has in a step.
pub(crate) fn step_error(fault: HttpFault) -> StepError {
    let code = match &fault {
        HttpFault::WrongUrl(_) => return invalid(fault.to_string()),
        HttpFault::Connect(_) => "HTTP_CONNECT",
        HttpFault::Broken(_) => "HTTP_BROKEN",
        HttpFault::TimeUp(_) => "HTTP_TIMEOUT",
        HttpFault::TooLarge(_) => "HTTP_TOO_LARGE",
    };
    StepError::new(code, fault.to_string())
}

impl Statuses {
    fn contains(self, status: u16) -> bool {
        match self {
            Statuses::One(one) => one == status,
            Statuses::Range(first, last) => (first..=last).contains(&status),
        }
    }
}

/// Returns the URL as the payload or the environment gives it.
fn url(input: &Input, context: &StepContext) -> Result<String, StepError> {
    match (&input.url, &input.url_from_environment) {
        (Some(url), None) => Ok(url.clone()),
        (None, Some(key)) => match context.environment()?.get(key) {
            Some(Value::String(url)) => Ok(url.clone()),
            Some(_) => Err(invalid(format!("the environment's {key:?} is no text"))),
            None => Err(invalid(format!("the environment has no {key:?}"))),
        },
        _ => Err(invalid("one of url and url_from_environment is required")),
    }
}

fn uri(input: &Input, url: &str) -> Result<Uri, StepError> {
    let mut text = url.split('#').next().unwrap_or_default().to_owned();
    for (name, value) in &input.query {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => {
                    return Err(invalid(format!(
                        "the query parameter {name:?} is no text, number or boolean"
                    )));
                }
            };
            text.push(if text.contains('?') { '&' } else { '?' });
            text.extend(utf8_percent_encode(name, RESERVED));
            text.push('=');
            text.extend(utf8_percent_encode(&value, RESERVED));
        }
    }
    text.parse()
        .map_err(|error| invalid(format!("the URL is not valid: {error}")))
}

/// The body and whether it is JSON that was made here.
async fn body(input: &Input, config: &Config) -> Result<(Bytes, bool), StepError> {
    Ok(match (&input.body, &input.body_file) {
        (None, None) => (Bytes::new(), false),
        (Some(_), Some(_)) => return Err(invalid("body and body_file exclude each other")),
        (None, Some(path)) => (read_input(config, path).await?.into(), false),
        (Some(Value::String(text)), None) => (text.clone().into(), false),
        (Some(value), None) => (value.to_string().into(), true),
    })
}

fn headers(given: &BTreeMap<String, String>, is_json: bool) -> Result<HeaderMap, StepError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let wrong = || invalid(format!("the header {name:?} is not valid"));
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        if FRAMING.contains(&parsed) {
            return Err(invalid(format!("the header {name:?} is set by the handler")));
        }
        headers.append(parsed, HeaderValue::from_str(value).map_err(|_| wrong())?);
    }
    if is_json && !headers.contains_key(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(headers)
}

fn answer_bytes_max(input: &Input, config: &Config) -> Result<usize, StepError> {
    let (default, limit) = match &input.output_file {
        Some(_) => root_of(config).map(|_| (OUTPUT_FILE_BYTES_MAX, OUTPUT_FILE_BYTES_MAX))?,
        None => (CONTENT_BYTES_DEFAULT, CONTENT_BYTES_MAX),
    };
    let bytes_max = input.body_bytes_max.unwrap_or(default);
    if bytes_max > limit {
        Err(invalid(format!("body_bytes_max is at most {limit}")))
    } else {
        Ok(bytes_max)
    }
}

async fn output(input: &Input, config: &Config, answer: Answer) -> Result<Output, StepError> {
    let (status, headers) = (answer.status.as_u16(), headers_of(&answer.headers));
    if let Some(path) = &input.output_file {
        let written = root_of(config)?.write_output(path, answer.body.to_vec()).await?;
        return Ok(Output {
            status,
            headers,
            body: None,
            body_kind: None,
            output_file: Some(written),
        });
    }
    let parsed = if says_json(&answer.headers) {
        outside::value(&answer.body).ok()
    } else {
        None
    };
    let (body, kind) = parsed.map_or_else(
        || match encode(answer.body.to_vec()) {
            (text, Encoding::Text) => (Value::String(text), "text"),
            (text, Encoding::Base64) => (Value::String(text), "base64"),
        },
        |value: Value| (value, "json"),
    );
    Ok(Output {
        status,
        headers,
        body: Some(body),
        body_kind: Some(kind),
        output_file: None,
    })
}

fn says_json(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

fn headers_of(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text_of = |name: &HeaderName| {
        let values = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        values.collect::<Vec<_>>().join(", ")
    };
    headers
        .keys()
        .map(|name| (name.as_str().to_owned(), text_of(name)))
        .collect()
}

fn default_method() -> String {
    "GET".to_owned()
}

fn default_statuses() -> Vec<Statuses> {
    vec![Statuses::Range(200, 299)]
}

/// Name.
pub const NAME: &str = "http.request";
const FRAMING: [HeaderName; 4] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
];
/// Everything but the characters that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
