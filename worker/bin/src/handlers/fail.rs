//! `fail`: fails as its input says. For demonstrations and tests of plans.

use escapement_sdk::{Action, Effect, Risk, Severity, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How to fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The code, 1 to 50 characters. Default: `DEMO_FAILURE`.
    #[serde(default = "default_code")]
    pub code: String,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// How bad it is. Default: `error`.
    #[serde(default)]
    pub severity: Weight,
    /// Another worker may do the step; nothing was done here.
    #[serde(default)]
    pub not_here: bool,
    /// Diagnostic data.
    #[serde(default)]
    pub context: Map<String, Value>,
    /// The attempt from which on it succeeds, counted over the run where there is one. Absent: never.
    pub succeed_on_attempt: Option<u32>,
}

/// The contract's severities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The execution goes on.
    Warn,
    /// The step's `on_failure` decides.
    #[default]
    Error,
    /// The execution stops.
    Fatal,
}

/// That it succeeded after all.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// The attempt that succeeded.
    pub attempt: u32,
    /// What all attempts had in common.
    pub idempotency_key: String,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Fails as it is told to.")
        .effect(Effect::Pure)
        .risk(Risk::Safe)
        .idempotent()
        .not_for_planners()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "code": { "type": "string", "minLength": 1, "maxLength": 50, "default": "DEMO_FAILURE" },
                "message": { "type": "string", "maxLength": 1000 },
                "severity": { "enum": ["warn", "error", "fatal"], "default": "error" },
                "not_here": { "type": "boolean", "default": false },
                "context": { "type": "object" },
                "succeed_on_attempt": { "type": "integer", "minimum": 1 }
            }
        }))
}

/// Fails, or succeeds from `succeed_on_attempt` on.
///
/// # Errors
/// What the input says.
pub async fn run(input: Input, context: StepContext) -> Result<Output, StepError> {
    let attempt = context.run_attempt();
    if input.succeed_on_attempt.is_some_and(|first| attempt >= first) {
        let idempotency_key = context.idempotency_key().to_owned();
        return Ok(Output {
            attempt,
            idempotency_key,
        });
    }
    let severity = match input.severity {
        Weight::Warn => Severity::Warn,
        Weight::Error => Severity::Error,
        Weight::Fatal => Severity::Fatal,
    };
    let message = if input.message.is_empty() {
        format!("attempt {attempt} fails as told")
    } else {
        input.message
    };
    let error = StepError::new(input.code, message)
        .severity(severity)
        .context(Value::Object(input.context));
    Err(if input.not_here { error.not_here() } else { error })
}

fn default_code() -> String {
    "DEMO_FAILURE".to_owned()
}

/// Name.
pub const NAME: &str = "fail";
