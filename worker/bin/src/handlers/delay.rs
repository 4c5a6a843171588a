//! `delay`: waits, and ends early when the attempt is cancelled. For demonstrations and tests of a fleet.

use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::{Duration, Instant};

/// What to wait for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Milliseconds, 0 to 86400000 (a day).
    pub ms: u64,
}

/// How it went.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Milliseconds that passed.
    pub elapsed_ms: u64,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Waits.")
        .effect(Effect::Pure)
        .risk(Risk::Safe)
        .idempotent()
        .not_for_planners()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["ms"],
            "properties": { "ms": { "type": "integer", "minimum": 0, "maximum": MS_MAX } }
        }))
}

/// Waits for `ms` or until the attempt is cancelled.
///
/// # Errors
/// `INVALID_PAYLOAD` (fatal) for more than a day.
pub async fn run(input: Input, context: StepContext) -> Result<Output, StepError> {
    if input.ms > MS_MAX {
        return Err(super::invalid(format!("ms is at most {MS_MAX}")));
    }
    let begin = Instant::now();
    tokio::select! {
        // A delay that is over counts as over, even if the cancellation is there as well.
        biased;
        () = tokio::time::sleep(Duration::from_millis(input.ms)) => {}
        () = context.cancelled() => {}
    }
    Ok(Output {
        elapsed_ms: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// Name.
pub const NAME: &str = "delay";
const MS_MAX: u64 = 86_400_000;
