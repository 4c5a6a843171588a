//! `template.render`: a Jinja template with data from the payload and from JSON files.
//! Templates reach no file by themselves.

use super::{invalid, parse_json, read_input, read_text, root_of, until_cancelled};
use crate::config::Config;
use crate::eval::parent::{Program, Reply, Request, evaluate};
use crate::limits::{CONTENT_BYTES_MAX, INPUT_FILE_BYTES_MAX, OUTPUT_FILE_BYTES_MAX};
use crate::sandbox::Written;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What to render.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The template's text.
    pub template: Option<String>,
    /// A file below the root instead of `template`.
    pub template_file: Option<String>,
    /// What the template may use.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// More of it: from a name to a JSON file below the root. At most 64.
    #[serde(default)]
    pub data_files: BTreeMap<String, String>,
    /// Write the text into this file below the root instead of into the output.
    pub output_file: Option<String>,
}

/// The text.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// The text. Absent with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The file, with `output_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<Written>,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Renders a Jinja template.")
        // It can write a file.
        .effect(Effect::SideEffect)
        .risk(Risk::Unusual)
        .idempotent()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "oneOf": [{ "required": ["template"] }, { "required": ["template_file"] }],
            "properties": {
                "template": { "type": "string" },
                "template_file": { "type": "string", "minLength": 1 },
                "data": { "type": "object" },
                "data_files": {
                    "type": "object",
                    "maxProperties": DATA_FILES_MAX,
                    "additionalProperties": { "type": "string" }
                },
                "output_file": { "type": "string", "minLength": 1 }
            }
        }))
}

/// Renders the template.
///
/// # Errors
/// `INVALID_PAYLOAD` (fatal) for a template with a syntax error;
/// `TEMPLATE_ERROR` for one that uses what is not defined,
/// fails, takes too long or gives too much; `RESOURCE_EXHAUSTED` (fatal) for too much memory; the file codes.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    let template = match (input.template, &input.template_file) {
        (Some(text), None) => text,
        (None, Some(path)) => read_text(&config, path).await?,
        _ => return Err(invalid("exactly one of template and template_file is needed")),
    };
    let data = Value::Object(gather(input.data, &input.data_files, &config).await?);
    let document = serde_json::to_vec(&data).map_err(StepError::unknown)?;
    let output_bytes_max = match &input.output_file {
        Some(_) => root_of(&config).map(|_| OUTPUT_FILE_BYTES_MAX)?,
        None => CONTENT_BYTES_MAX,
    };
    let request = Request {
        program: Program::Template { template },
        output_bytes_max,
    };
    let evaluating = evaluate(
        &config.evaluator,
        &config.evaluations,
        &request,
        &document,
        &context,
        "TEMPLATE_TIMEOUT",
    );
    let text = match until_cancelled(&context, evaluating).await? {
        Reply::Text(text) => text,
        Reply::Malformed(why) => return Err(invalid(format!("the template is not well-formed: {why}"))),
        Reply::Failed(why) => return Err(StepError::new("TEMPLATE_ERROR", why)),
        Reply::WrongInput(_) | Reply::Results(_) => {
            return Err(StepError::unknown(
                "the evaluator did not answer a template with a text",
            ));
        }
    };
    match &input.output_file {
        None => Ok(Output {
            text: Some(text),
            output_file: None,
        }),
        Some(path) => {
            let written = root_of(&config)?.write_output(path, text.into_bytes()).await?;
            Ok(Output {
                text: None,
                output_file: Some(written),
            })
        }
    }
}

async fn gather(
    mut data: Map<String, Value>,
    files: &BTreeMap<String, String>,
    config: &Config,
) -> Result<Map<String, Value>, StepError> {
    if files.len() > DATA_FILES_MAX {
        return Err(invalid(format!(
            "data_files has at most {DATA_FILES_MAX} entries"
        )));
    }
    let mut bytes = 0;
    for (name, path) in files {
        let content = read_input(config, path).await?;
        bytes += content.len();
        if bytes > INPUT_FILE_BYTES_MAX {
            return Err(invalid(format!(
                "data_files have more than {INPUT_FILE_BYTES_MAX} bytes together"
            )));
        }
        if data.insert(name.clone(), parse_json(path, &content)?).is_some() {
            return Err(invalid(format!("{name:?} stands in data and in data_files")));
        }
    }
    Ok(data)
}

/// Name.
pub const NAME: &str = "template.render";
const DATA_FILES_MAX: usize = 64;
