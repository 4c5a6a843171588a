//! `echo`: gives its input back. For demonstrations and tests of a fleet.

use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde_json::{Map, Value, json};

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Gives its input back.")
        .effect(Effect::Pure)
        .risk(Risk::Safe)
        .idempotent()
        .not_for_planners()
        .input_schema(json!({ "type": "object" }))
}

/// Returns the input.
///
/// # Errors
/// None.
pub async fn run(input: Map<String, Value>, _context: StepContext) -> Result<Map<String, Value>, StepError> {
    Ok(input)
}

/// Name.
pub const NAME: &str = "echo";
