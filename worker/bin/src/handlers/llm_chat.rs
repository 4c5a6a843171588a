//! `llm.chat`: one answer of a model behind an endpoint that speaks the OpenAI protocol.
//! Keeps no conversation and calls no tools: it says which calls the model asks for.

mod tools;

use super::http_request::step_error;
use super::{carry_trace, excerpt, invalid, own_limit, read_text, root_of, until_cancelled};
use crate::config::{Config, LlmEndpoint, read_api_key};
use crate::http_client::{Answer, Ask, HttpFault, send};
use crate::limits::{LLM_ANSWER_BYTES_MAX, REMOTE_TEXT_BYTES, RETRY_AFTER_BYTES, TOOLS_MAX};
use crate::output_size::fitting;
use crate::sandbox::Written;
use crate::secrets::Hidden;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use escapement_wire::json::outside;
use http::{HeaderMap, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tools::Names;
pub use tools::{NamedTool, Tool, ToolCall, ToolChoice};

/// What to ask the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The model, as the endpoint names it. Default: what `--llm-model` says; without that it is required.
    #[serde(default)]
    pub model: String,
    /// The conversation, at least one message.
    pub messages: Vec<Message>,
    /// 0 and more; the endpoint's default if absent.
    pub temperature: Option<f64>,
    /// Tokens of the answer, at least 1; the endpoint's default if absent.
    pub max_tokens: Option<u32>,
    /// The same as newer models want it.
    pub max_completion_tokens: Option<u32>,
    /// An object with a `type`, passed on as it is, for example `{"type": "json_object"}`.
    pub response_format: Option<Value>,
    /// What the model may call, at most 128 tools.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// True if it has to; the endpoint's default if absent, which is `auto` with tools.
    pub tool_choice: Option<ToolChoice>,
    /// Milliseconds, at least 1. Default: none; the step's limits bound it as well.
    pub timeout_ms: Option<u64>,
    /// Parse the answer as JSON into `json`. Default: false.
    #[serde(default)]
    pub parse_json: bool,
    /// Write the answer's text into this file below the root instead of into the output.
    pub output_file: Option<String>,
}

/// A message of the conversation, with its text or with the file that holds it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or what else the endpoint knows.
    pub role: String,
    /// Text, or the list of parts that the protocol allows.
    pub content: Option<Value>,
    /// A text file below the root instead of `content`; both together: the text first, then the file.
    pub content_file: Option<String>,
    /// With `assistant` alone: the calls that the model asked for, in place of a content or beside it.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// With `tool` alone, and needed there: the call that the content is the result of.
    pub tool_call_id: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// The model that answered, as the endpoint says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Text. Absent with `output_file`, and if the model only calls tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The calls that it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Its text as JSON, with `parse_json`. Absent with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Reason why it ended there, such as `stop`, `length` or `tool_calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Tokens, as the endpoint counts them: an object, mostly with `prompt_tokens`, `completion_tokens` and `total_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// The file, with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<Written>,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Asks a language model.")
        .effect(Effect::Llm)
        .risk(Risk::Safe)
        .not_for_planners()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["messages"],
            "properties": {
                "model": { "type": "string" },
                "messages": {
                    "type": "array", "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["role"],
                        "anyOf": [
                            { "required": ["content"] },
                            { "required": ["content_file"] },
                            { "required": ["tool_calls"] }
                        ],
                        "properties": {
                            "role": { "type": "string", "minLength": 1 },
                            "content": { "type": ["string", "array", "null"] },
                            "content_file": { "type": "string", "minLength": 1 },
                            "tool_calls": { "type": "array", "items": call_schema() },
                            "tool_call_id": { "type": "string", "minLength": 1 }
                        }
                    }
                },
                "temperature": { "type": "number", "minimum": 0 },
                "max_tokens": { "type": "integer", "minimum": 1 },
                "timeout_ms": { "type": "integer", "minimum": 1 },
                "max_completion_tokens": { "type": "integer", "minimum": 1 },
                "response_format": {
                    "type": "object",
                    "required": ["type"],
                    "properties": { "type": { "type": "string" } }
                },
                "tools": { "type": "array", "maxItems": TOOLS_MAX, "items": tool_schema() },
                "tool_choice": {
                    "anyOf": [{ "enum": ["auto", "none", "required"] }, { "type": "object", "required": ["name"] }]
                },
                "parse_json": { "type": "boolean", "default": false },
                "output_file": { "type": "string", "minLength": 1 }
            }
        }))
}

fn tool_schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100 },
            "description": { "type": "string" },
            "parameters": { "type": "object" }
        }
    })
}

fn call_schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id", "name", "arguments"],
        "properties": {
            "id": { "type": "string", "minLength": 1 },
            "name": { "type": "string", "minLength": 1 },
            "arguments": { "type": ["object", "string"] }
        }
    })
}

/// Asks the model once.
///
/// # Errors
/// `LLM_NOT_CONFIGURED` and `INVALID_PAYLOAD` (both fatal); `LLM_UNAVAILABLE` if another attempt may help;
/// `LLM_REJECTED` if it would not; `LLM_REFUSED` if the model does not want to; `LLM_INVALID_RESPONSE`; the file codes.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    let endpoint = config.llm.as_ref().ok_or_else(|| {
        StepError::new(
            "LLM_NOT_CONFIGURED",
            "this worker knows no model; start it with --llm-endpoint",
        )
        .fatal()
    })?;
    if input.output_file.is_some() {
        root_of(&config)?;
    }
    let names = Names::of(&input.tools)?;
    let (mut headers, hidden) = headers(endpoint, config.secrets.now())?;
    carry_trace(&context, &mut headers);
    let ask = Ask {
        method: Method::POST,
        uri: endpoint.url.clone(),
        headers,
        body: request(&input, &names, &config).await?.to_string().into(),
        time_max: own_limit(input.timeout_ms),
        answer_bytes_max: LLM_ANSWER_BYTES_MAX,
    };
    let asking = async { send(ask).await.map_err(unavailable) };
    let answer = hidden.answer(until_cancelled(&context, asking).await?);
    let reply = hidden.value(Value::Object(judge(&answer)?));
    fitting(
        output(&input, &names, &config, &reply).await?,
        "LLM_INVALID_RESPONSE",
    )
}

async fn request(input: &Input, names: &Names, config: &Config) -> Result<Value, StepError> {
    if input.messages.is_empty() {
        return Err(invalid("messages must not be empty"));
    }
    let mut messages = Vec::with_capacity(input.messages.len());
    for (index, message) in input.messages.iter().enumerate() {
        messages.push(spoken(index, message, names, config).await?);
    }
    let own_model = || config.llm.as_ref().and_then(|endpoint| endpoint.model.as_deref());
    let model = Some(input.model.as_str()).filter(|model| !model.is_empty());
    let model = model
        .or_else(own_model)
        .ok_or_else(|| invalid("model is required, since this worker has no --llm-model"))?;
    let mut request = json!({ "model": model, "messages": messages, "stream": false });
    let format = input.response_format.as_ref();
    if format.is_some_and(|format| !format["type"].is_string()) {
        return Err(invalid("response_format is an object with the text type"));
    }
    let choice = match &input.tool_choice {
        Some(_) if input.tools.is_empty() => return Err(invalid("tool_choice goes together with tools")),
        choice => choice.as_ref().map(|choice| names.choice(choice)).transpose()?,
    };
    let optional = [
        ("temperature", input.temperature.map(Value::from)),
        ("max_tokens", input.max_tokens.map(Value::from)),
        (
            "max_completion_tokens",
            input.max_completion_tokens.map(Value::from),
        ),
        ("response_format", format.cloned()),
        (
            "tools",
            (!input.tools.is_empty()).then(|| names.tools(&input.tools)),
        ),
        ("tool_choice", choice),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            request[name] = value;
        }
    }
    Ok(request)
}

/// Returns a message as the protocol has it.
async fn spoken(index: usize, message: &Message, names: &Names, config: &Config) -> Result<Value, StepError> {
    let wrong = |why: &str| Err(invalid(format!("messages[{index}].{why}")));
    if !message.tool_calls.is_empty() && message.role != "assistant" {
        return wrong("tool_calls goes together with the role assistant");
    }
    if message.tool_calls.len() > TOOLS_MAX {
        return wrong(&format!("tool_calls has at most {TOOLS_MAX} entries"));
    }
    if message.tool_call_id.is_some() != (message.role == "tool") {
        return wrong("tool_call_id is needed with the role tool, and goes together with no other");
    }
    let content = match (&message.content, &message.content_file) {
        (Some(content @ (Value::String(_) | Value::Array(_))), None) => content.clone(),
        (None | Some(Value::Null), Some(path)) => read_text(config, path).await?.into(),
        (Some(Value::String(text)), Some(path)) => {
            format!("{text}\n\n{}", read_text(config, path).await?).into()
        }
        (None | Some(Value::Null), None) if !message.tool_calls.is_empty() => Value::Null,
        (None | Some(Value::Null), None) => return wrong("content is required, or content_file"),
        (Some(_), None) => return wrong("content is a text or a list of parts"),
        (Some(_), Some(_)) => return wrong("content_file goes together with a content that is a text"),
    };
    let mut spoken = json!({ "role": message.role, "content": content });
    if !message.tool_calls.is_empty() {
        spoken["tool_calls"] = names.earlier(&message.tool_calls);
    }
    if let Some(id) = &message.tool_call_id {
        spoken["tool_call_id"] = id.as_str().into();
    }
    Ok(spoken)
}

/// What goes with the question, and what must not come back: the key that it shows among it.
fn headers(endpoint: &LlmEndpoint, mut hidden: Hidden) -> Result<(HeaderMap, Hidden), StepError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(path) = &endpoint.api_key_file {
        let unusable = |why: String| StepError::new("LLM_NOT_CONFIGURED", why).fatal();
        let key = read_api_key(path).map_err(|error| unusable(error.to_string()))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| unusable("the key is no header value".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        hidden = hidden.and(&key);
    }
    Ok((headers, hidden))
}

fn unavailable(fault: HttpFault) -> StepError {
    match fault {
        HttpFault::Connect(_) | HttpFault::Broken(_) | HttpFault::TimeUp(_) => {
            StepError::new("LLM_UNAVAILABLE", fault.to_string())
        }
        HttpFault::TooLarge(_) => StepError::new("LLM_INVALID_RESPONSE", fault.to_string()),
        HttpFault::WrongUrl(_) => step_error(fault),
    }
}

fn judge(answer: &Answer) -> Result<Map<String, Value>, StepError> {
    let status = answer.status;
    let retry_after = answer.headers.get(header::RETRY_AFTER);
    let details = json!({
        "status": status.as_u16(),
        "body": excerpt(&answer.body, REMOTE_TEXT_BYTES),
        "retry_after": retry_after.map(|value| excerpt(value.as_bytes(), RETRY_AFTER_BYTES)),
    });
    if status.is_success() {
        return serde_json::from_slice(&outside::exact(&answer.body))
            .map_err(|_| nonsense("the answer is no JSON object", details));
    }
    let passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    let code = if passing {
        "LLM_UNAVAILABLE"
    } else {
        "LLM_REJECTED"
    };
    Err(StepError::new(code, format!("the endpoint answered with status {status}")).context(details))
}

async fn output(input: &Input, names: &Names, config: &Config, reply: &Value) -> Result<Output, StepError> {
    let text_of = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let choice = reply.get("choices").and_then(|choices| choices.get(0));
    let message = choice.and_then(|choice| choice.get("message"));
    let wrong = |why: &str| {
        let shown = reply.to_string();
        nonsense(
            why,
            json!({ "body": excerpt(shown.as_bytes(), REMOTE_TEXT_BYTES) }),
        )
    };
    let finish_reason = text_of(choice.and_then(|choice| choice.get("finish_reason")));
    let calls = message.and_then(|message| message.get("tool_calls"));
    let tool_calls = names.wanted(calls).map_err(|why| wrong(&why))?;
    let content = text_of(message.and_then(|message| message.get("content")));
    // Some endpoints put an empty text beside calls.
    let content = content.filter(|content| tool_calls.is_empty() || !content.is_empty());
    let is_empty = content.as_ref().is_none_or(String::is_empty) && tool_calls.is_empty();
    let refusal = text_of(message.and_then(|message| message.get("refusal")));
    let is_filtered = finish_reason.as_deref() == Some("content_filter");
    if is_empty && (is_filtered || refusal.as_ref().is_some_and(|words| !words.is_empty())) {
        return Err(refused(refusal.as_deref(), reply));
    }
    if content.is_none() && tool_calls.is_empty() {
        return Err(wrong("the answer has no choices[0].message.content"));
    }
    let json = match (&content, input.parse_json) {
        (Some(content), true) => Some(outside::value(content.as_bytes()).map_err(|error| {
            let context = json!({ "content": excerpt(content.as_bytes(), REMOTE_TEXT_BYTES) });
            nonsense(&format!("the model's text is no JSON: {error}"), context)
        })?),
        _ => None,
    };
    let output = Output {
        model: text_of(reply.get("model")),
        finish_reason,
        usage: reply.get("usage").filter(|usage| usage.is_object()).cloned(),
        content,
        tool_calls,
        json,
        output_file: None,
    };
    match (&input.output_file, output.content) {
        (Some(path), Some(content)) => Ok(Output {
            output_file: Some(root_of(config)?.write_output(path, content.into_bytes()).await?),
            content: None,
            json: None,
            ..output
        }),
        (_, content) => Ok(Output { content, ..output }),
    }
}

/// The model, or a filter before it, does not answer this question and would not if it were asked again.
fn refused(words: Option<&str>, reply: &Value) -> StepError {
    let words = words.map(|words| excerpt(words.as_bytes(), REMOTE_TEXT_BYTES));
    let message = match &words {
        Some(words) => format!("the model refuses: {words}"),
        None => "a filter of the endpoint kept the model's answer back".to_owned(),
    };
    StepError::new("LLM_REFUSED", message).context(json!({
        "refusal": words,
        "finish_reason": reply["choices"][0]["finish_reason"],
        "usage": reply["usage"],
    }))
}

fn nonsense(message: &str, context: Value) -> StepError {
    StepError::new("LLM_INVALID_RESPONSE", message).context(context)
}

/// Name.
pub const NAME: &str = "llm.chat";
