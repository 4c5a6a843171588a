//! The plan of a fallback that is an action. Decides not when it is called.

use super::{Plan, Violations, read};
use crate::spec::FallbackAction;
use escapement_model::opaque::{ListBuilder, StructBuilder};

// RUN-11.11
/// The plan that calls the action: one step, `fallback`.
///
/// # Errors
/// The name of the action is none, or a template in its payload is none or refers to another step.
pub fn fallback(action: &FallbackAction) -> Result<Plan, Violations> {
    let config = StructBuilder::new()
        .text("tool_name", &action.action)
        .object("tool_args", action.payload.as_encoded());
    let step = StructBuilder::new()
        .text("key", "fallback")
        .text("type", "tool_call")
        .object("config", config.build().as_encoded());
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Fallback")
        .list("steps", ListBuilder::new().object(step.build().as_encoded()));
    read(&document.build())
}
