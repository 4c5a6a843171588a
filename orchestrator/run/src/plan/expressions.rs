//! The expressions of a plan that the law does not read. Evaluates nothing.

use super::{Expression, Plan, Step, StepKind};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The expressions of a plan that are evaluated outside, each with its path in the document, in document order.
pub fn expressions(plan: &Plan) -> Vec<(String, String)> {
    let mut steps: Vec<&Step> = plan.steps.iter().collect();
    steps.sort_by_key(|step| step.place);
    let found = steps.into_iter().filter_map(|step| {
        let (field, expression) = match &step.kind {
            StepKind::Condition(condition) => ("condition", Some(&condition.condition)),
            StepKind::Loop(repeated) => ("loop_condition", repeated.loop_condition.as_ref()),
            StepKind::ToolCall(_)
            | StepKind::Parallel(_)
            | StepKind::LlmDecision(_)
            | StepKind::UserInput(_)
            | StepKind::SubPlan(_) => return None,
        };
        let Expression::Text(text) = expression? else {
            return None;
        };
        Some((format!("steps[{}].config.{field}", step.place), text.clone()))
    });
    found.collect()
}
