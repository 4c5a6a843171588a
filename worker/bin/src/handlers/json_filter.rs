//! `json.filter`: `json.query` over what stands in the payload. Sees no file: it computes, and does nothing else.

use super::json_query;
use crate::config::Config;
use crate::limits::{RESULTS_DEFAULT, RESULTS_MAX};
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// What to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The jq filter.
    pub filter: String,
    /// Input. Default: null.
    #[serde(default)]
    pub input: Value,
    /// Results that the filter may have. Default 1000, at most 100000.
    #[serde(default = "default_results_max")]
    pub results_max: usize,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Runs a jq filter over JSON of the payload.")
        .effect(Effect::Pure)
        .risk(Risk::Safe)
        .idempotent()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["filter"],
            "properties": {
                "filter": { "type": "string", "minLength": 1 },
                "input": {},
                "results_max": {
                    "type": "integer", "minimum": 1, "maximum": RESULTS_MAX, "default": RESULTS_DEFAULT
                }
            }
        }))
}

/// Runs the filter.
///
/// # Errors
/// Those of [`json_query::run`] without files.
pub async fn run(
    input: Input,
    context: StepContext,
    config: Arc<Config>,
) -> Result<json_query::Output, StepError> {
    let query = json_query::Input {
        filter: input.filter,
        input: input.input,
        input_file: None,
        raw_input: false,
        output_file: None,
        raw: false,
        results_max: input.results_max,
    };
    json_query::run(query, context, config).await
}

fn default_results_max() -> usize {
    RESULTS_DEFAULT
}

/// Name.
pub const NAME: &str = "json.filter";
