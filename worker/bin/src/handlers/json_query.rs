//! `json.query`: a jq filter over JSON from the payload or a file.
//! Loads no modules and reads no further files.

use super::{invalid, read_input, read_text, root_of, until_cancelled};
use crate::config::Config;
use crate::eval::parent::{Program, Reply, Request, evaluate};
use crate::limits::{CONTENT_BYTES_DEFAULT, OUTPUT_FILE_BYTES_MAX, RESULTS_DEFAULT, RESULTS_MAX};
use crate::output_size::fitting;
use crate::sandbox::Written;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// What to ask of what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The jq filter.
    pub filter: String,
    /// Any JSON. Default: null.
    #[serde(default)]
    pub input: Value,
    /// A JSON file below the root instead of `input`.
    pub input_file: Option<String>,
    /// With `input_file`: the whole file is one text, not JSON. Default: false.
    #[serde(default)]
    pub raw_input: bool,
    /// Write the first result into this file below the root instead of into the output.
    pub output_file: Option<String>,
    /// With `output_file`: write a text as it is, not as JSON. Default: false.
    #[serde(default)]
    pub raw: bool,
    /// Results that the filter may have. Default 1000, at most 100000.
    #[serde(default = "default_results_max")]
    pub results_max: usize,
}

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// How many there are.
    pub count: usize,
    /// The first one, or null. Absent with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// All of them. Absent with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<Value>>,
    /// The file, with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<Written>,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Runs a jq filter over JSON.")
        // It can write a file.
        .effect(Effect::SideEffect)
        .risk(Risk::Unusual)
        .idempotent()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["filter"],
            "properties": {
                "filter": { "type": "string", "minLength": 1 },
                "input": {},
                "input_file": { "type": "string", "minLength": 1 },
                "raw_input": { "type": "boolean", "default": false },
                "output_file": { "type": "string", "minLength": 1 },
                "raw": { "type": "boolean", "default": false },
                "results_max": {
                    "type": "integer", "minimum": 1, "maximum": RESULTS_MAX, "default": RESULTS_DEFAULT
                }
            }
        }))
}

/// Runs the filter.
///
/// # Errors
/// `INVALID_PAYLOAD` (fatal) for a filter that does not compile;
/// `JQ_ERROR` for one that fails or gives too much; `JQ_TIMEOUT` for one that takes too long;
/// `RESOURCE_EXHAUSTED` (fatal) for one that needs too much memory or stack; the file codes.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    if !(1..=RESULTS_MAX).contains(&input.results_max) {
        return Err(invalid(format!("results_max is 1 to {RESULTS_MAX}")));
    }
    if input.raw && input.output_file.is_none() {
        return Err(invalid("raw needs output_file"));
    }
    if input.raw_input && input.input_file.is_none() {
        return Err(invalid("raw_input needs input_file"));
    }
    let document = match (&input.input, &input.input_file) {
        (Value::Null, Some(path)) if input.raw_input => {
            serde_json::to_vec(&read_text(&config, path).await?).map_err(StepError::unknown)?
        }
        (Value::Null, Some(path)) => read_input(&config, path).await?,
        (_, Some(_)) => return Err(invalid("input and input_file exclude each other")),
        (value, None) => serde_json::to_vec(value).map_err(StepError::unknown)?,
    };
    let output_bytes_max = match &input.output_file {
        Some(_) => root_of(&config).map(|_| OUTPUT_FILE_BYTES_MAX)?,
        // As text, so that the evaluation ends early; what counts is the whole output, encoded.
        None => CONTENT_BYTES_DEFAULT,
    };
    let program = Program::Jq {
        filter: input.filter.clone(),
        results_max: input.results_max,
    };
    let request = Request {
        program,
        output_bytes_max,
    };
    let evaluating = evaluate(
        &config.evaluator,
        &config.evaluations,
        &request,
        &document,
        &context,
        "JQ_TIMEOUT",
    );
    let results = match until_cancelled(&context, evaluating).await? {
        Reply::Results(results) => results,
        Reply::Malformed(why) => return Err(invalid(format!("the filter does not compile: {why}"))),
        Reply::WrongInput(why) => return Err(invalid(format!("the filter's input {why}"))),
        Reply::Failed(why) => return Err(StepError::new("JQ_ERROR", why)),
        Reply::Text(_) => return Err(StepError::unknown("the evaluator answered a filter with a text")),
    };
    let count = results.len();
    match &input.output_file {
        None => {
            let result = Some(results.first().cloned().unwrap_or_default());
            let output = Output {
                count,
                result,
                results: Some(results),
                output_file: None,
            };
            fitting(output, "JQ_ERROR")
        }
        Some(path) => {
            let content = file_content(results.into_iter().next().unwrap_or_default(), input.raw)?;
            let written = root_of(&config)?.write_output(path, content).await?;
            Ok(Output {
                count,
                result: None,
                results: None,
                output_file: Some(written),
            })
        }
    }
}

fn file_content(result: Value, raw: bool) -> Result<Vec<u8>, StepError> {
    match result {
        Value::String(text) if raw => Ok(text.into_bytes()),
        other => {
            let mut content = serde_json::to_vec(&other).map_err(StepError::unknown)?;
            content.push(b'\n');
            Ok(content)
        }
    }
}

fn default_results_max() -> usize {
    RESULTS_DEFAULT
}

/// Name.
pub const NAME: &str = "json.query";
