//! `template.fill`: `template.render` with what stands in the payload. Sees no file: it computes, and does nothing else.

use super::template_render;
use crate::config::Config;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What to render.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The template.
    pub template: String,
    /// What its names stand for.
    #[serde(default)]
    pub data: Map<String, Value>,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Renders a Jinja template with data of the payload.")
        .effect(Effect::Pure)
        .risk(Risk::Safe)
        .idempotent()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["template"],
            "properties": {
                "template": { "type": "string" },
                "data": { "type": "object" }
            }
        }))
}

/// Renders the template.
///
/// # Errors
/// Those of [`template_render::run`] without files.
pub async fn run(
    input: Input,
    context: StepContext,
    config: Arc<Config>,
) -> Result<template_render::Output, StepError> {
    let render = template_render::Input {
        template: Some(input.template),
        template_file: None,
        data: input.data,
        data_files: BTreeMap::new(),
        output_file: None,
    };
    template_render::run(render, context, config).await
}

/// Name.
pub const NAME: &str = "template.fill";
