//! `execute_plan`: executes a plan through the API and waits for its result. Runs no step itself.
//!
//! The child's execution id follows from the parent's attempt,
//! so a call that is repeated attaches to the same child.
//! A child cannot be cancelled; it ends by itself within the time that the parent's step had left.

mod call;
mod document;
mod verdict;

use super::{invalid, read_input, root_of, until_cancelled};
use crate::config::Config;
use crate::limits::CHILDREN_MAX;
use crate::sandbox::Written;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Which plan to execute, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The plan document.
    pub plan: Option<Map<String, Value>>,
    /// A JSON file below the root that holds it instead.
    pub plan_file: Option<String>,
    /// The child's environment. Default: the parent's, unchanged.
    pub environment: Option<Map<String, Value>>,
    /// UUID v4 of the child, for the first attempt. Default: one that follows from the parent's attempt.
    pub execution_id: Option<String>,
    /// Give the plan a new id and a new `created_at`.
    /// Default: only if the plan has no id, and from the second attempt on.
    #[serde(default)]
    pub fresh_ids: bool,
    /// Options of the execution.
    #[serde(default)]
    pub options: Options,
    /// Write the child's result into this file below the root; the output is a summary then.
    pub output_file: Option<String>,
}

/// Options of the child execution.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Steps that may run at a time. Default: 1.
    pub max_concurrent_steps: Option<i32>,
}

/// The child's result.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Output {
    /// The whole `PlanResult`, as the contract writes it.
    Whole(Value),
    /// What is left beside the file.
    Summary {
        /// The child.
        execution_id: String,
        /// Plan.
        plan_id: String,
        /// `success` or `partial`.
        status: Value,
        /// Steps that completed.
        steps_executed: i32,
        /// Steps of the plan.
        steps_total: i32,
        /// The file that holds the whole result.
        output_file: Written,
    },
}

/// Returns the action. Its attempts wait for other steps, so they take no slot from them.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Executes a plan and waits for its result.")
        .effect(Effect::SideEffect)
        .risk(Risk::Unusual)
        .not_for_planners()
        .waits()
        .max_in_flight(CHILDREN_MAX)
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "oneOf": [{ "required": ["plan"] }, { "required": ["plan_file"] }],
            "properties": {
                "plan": { "type": "object" },
                "plan_file": { "type": "string", "minLength": 1 },
                "environment": { "type": "object" },
                "execution_id": { "type": "string", "format": "uuid" },
                "fresh_ids": { "type": "boolean", "default": false },
                "options": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": { "max_concurrent_steps": { "type": "integer", "minimum": 1 } }
                },
                "output_file": { "type": "string", "minLength": 1 }
            }
        }))
}

/// Submits the plan and waits until it is settled.
///
/// # Errors
/// `INVALID_PAYLOAD` (fatal) if the document is no plan or breaks a rule;
/// `CHILD_REJECTED` (fatal) if its ids are
/// in use or plans are nested too deep; `CHILD_UNAVAILABLE`;
/// `CHILD_FAILED` if the child ended as `failure`;
/// the file codes.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    let plan = match (&input.plan, &input.plan_file) {
        (Some(plan), None) => plan.clone(),
        (None, Some(path)) => document::in_file(path, &read_input(&config, path).await?)?,
        _ => return Err(invalid("exactly one of plan and plan_file is needed")),
    };
    if input.output_file.is_some() {
        root_of(&config)?;
    }
    let request = document::request(plan, &input, &context)?;
    let own_id = !(input.execution_id.is_some() && context.run_attempt() == 1);
    let result = until_cancelled(&context, call::settle(request, own_id, &context)).await?;
    verdict::judge(&result, &context)?;
    let document = verdict::to_json(&result)?;
    let Some(path) = &input.output_file else {
        return Ok(Output::Whole(document));
    };
    let output_file = root_of(&config)?
        .write_output(path, document.to_string().into_bytes())
        .await?;
    Ok(Output::Summary {
        execution_id: result.execution_id,
        plan_id: result.plan_id,
        status: document["status"].clone(),
        steps_executed: result.steps_executed,
        steps_total: result.steps_total,
        output_file,
    })
}

/// Name.
pub const NAME: &str = "execute_plan";
