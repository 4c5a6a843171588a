//! Whether what a planner answered may run: read as a plan, and held against what it may choose from. In a fixed order, and every
//! mistake of the first kind that is found.

use super::answer::document_in;
use crate::catalogue::Catalogue;
use crate::fields::field;
use crate::journal::RefusedPart;
use crate::outcome::cut;
use crate::plan::import::{Format, import};
use crate::plan::{self, Call, Plan, Step, StepKind, Violations};
use crate::spec::{ActionProfile, Constraints};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{StructBuilder, ValueView};
use escapement_model::planted::{self, Bug};

/// What a plan may do.
pub(crate) struct Allowed<'a> {
    /// The actions that it may call, sorted.
    pub(crate) actions: Vec<&'a str>,
    /// Of them, those that it may not call any more, sorted.
    pub(crate) disabled: &'a [String],
    /// The preset of the run.
    pub(crate) preset: &'a str,
    /// What plans must keep to.
    pub(crate) constraints: &'a Constraints,
    /// What is known of the actions.
    pub(crate) catalogue: &'a Catalogue,
}

// RUN-11.5, RUN-11.6
/// The plan in a planner's output, an encoded `google.protobuf.Value`, or what is wrong with it. `mistakes` are those in its
/// expressions, which are not read here.
pub(crate) fn judged(
    output: &Bytes,
    mistakes: &[RefusedPart],
    allowed: &Allowed<'_>,
) -> Result<Plan, Vec<RefusedPart>> {
    let document = document_in(output).map_err(|refused| Vec::from([refused]))?;
    let plan = plan_of(document)
        .and_then(plan::carried_out)
        .and_then(|plan| plan::out_of_size(&plan, allowed.preset).map_or(Ok(plan), Err))
        .map_err(|violations| parts_of(&violations))?;
    if !mistakes.is_empty() {
        return Err(mistakes.to_vec());
    }
    let refused = refused_calls(&plan, allowed);
    if !refused.is_empty() {
        return Err(refused);
    }
    // RUN-12.5
    let profiles = allowed
        .catalogue
        .actions
        .iter()
        .map(|action| action.profile.clone());
    let profiles: Vec<ActionProfile> = profiles.collect();
    let broken = plan::constraints::violations(&plan, allowed.constraints, &profiles);
    match Violations::new(broken).filter(|_| !planted::is_on(Bug::RunConstraintUnchecked)) {
        Some(violations) => Err(parts_of(&violations)),
        None => Ok(plan),
    }
}

// RUN-11.5
/// The expressions of the plan in a planner's output, each with its path, in document order. None if it holds no plan.
pub fn expressions_in(output: &Bytes) -> Vec<(String, String)> {
    let plan = document_in(output)
        .ok()
        .and_then(|document| plan_of(document).ok());
    plan.map(|plan| plan::expressions(&plan)).unwrap_or_default()
}

/// As many mistakes as are kept of one answer, each as long as it may be.
pub(crate) fn bounded_parts(parts: Vec<RefusedPart>) -> Vec<RefusedPart> {
    let parts = parts.into_iter().take(PARTS_MAX).map(|part| RefusedPart {
        path: cut(&part.path, PART_CHARS_MAX),
        code: cut(&part.code, PART_CHARS_MAX),
        message: cut(&part.message, PART_CHARS_MAX),
    });
    parts.collect()
}

/// Reads the document, in the format that it names.
#[expect(
    clippy::disallowed_methods,
    reason = "a document is read once for each answer of a planner"
)]
fn plan_of(document: Opaque) -> Result<Plan, Violations> {
    let format = match field(document.as_encoded(), "schema") {
        Some(ValueView::Text(schema)) => Format::spelled(schema),
        _ => None,
    };
    let Some(format) = format else {
        return plan::read(&document);
    };
    // Other formats do not know the field that names them.
    let mut own = StructBuilder::new();
    for (key, value) in document.entries().filter_map(Result::ok) {
        if key != "schema" {
            own = own.value(key, value);
        }
    }
    plan::read(&import(format, &own.build())?.document)
}

fn parts_of(violations: &Violations) -> Vec<RefusedPart> {
    let parts = violations.iter().take(PARTS_MAX).map(|violation| RefusedPart {
        path: violation.path.clone(),
        code: violation.code.as_str().to_string(),
        message: violation.message.clone(),
    });
    bounded_parts(parts.collect())
}

// RUN-11.6
/// What the plan calls and may not call.
fn refused_calls(plan: &Plan, allowed: &Allowed<'_>) -> Vec<RefusedPart> {
    let mut refused = Vec::new();
    for step in &plan.steps {
        for (path, action) in calls_of(step) {
            if refused.len() == PARTS_MAX {
                return refused;
            }
            let is_disabled = allowed
                .disabled
                .binary_search_by(|known| known.as_str().cmp(action));
            let (code, message) = if is_disabled.is_ok() && !planted::is_on(Bug::RunDisabledForgotten) {
                (
                    "TOOL_DISABLED",
                    "failed before in this run and may not be called again",
                )
            } else if allowed.actions.binary_search(&action).is_err() {
                ("TOOL_NOT_ALLOWED", "is not among the actions")
            } else {
                continue;
            };
            refused.push(RefusedPart {
                path,
                code: String::from(code),
                message: format!("{:?} {message}.", cut(action, ACTION_CHARS_SHOWN)),
            });
        }
        if let StepKind::SubPlan(_) = &step.kind {
            refused.push(RefusedPart {
                path: format!("steps[{}].type", step.place),
                code: String::from("TOOL_NOT_ALLOWED"),
                message: String::from("A plan of a planner runs no other plan."),
            });
        }
    }
    refused.truncate(PARTS_MAX);
    refused
}

/// The actions that a step names, each with its path.
fn calls_of(step: &Step) -> Vec<(String, &str)> {
    let place = step.place;
    let mut calls: Vec<(String, &str)> = match &step.kind {
        StepKind::ToolCall(call) => [(
            format!("steps[{place}].config.tool_name"),
            call.tool_name.as_str(),
        )]
        .into(),
        StepKind::Loop(repeated) => [(
            format!("steps[{place}].config.tool_name"),
            repeated.call.tool_name.as_str(),
        )]
        .into(),
        StepKind::Parallel(parallel) => (0..)
            .zip(&parallel.items)
            .map(|(n, call): (usize, &Call)| {
                (
                    format!("steps[{place}].config.steps[{n}].tool_name"),
                    call.tool_name.as_str(),
                )
            })
            .collect(),
        StepKind::LlmDecision(decision) => (0..)
            .zip(&decision.tools)
            .map(|(n, tool): (usize, &String)| (format!("steps[{place}].config.tools[{n}]"), tool.as_str()))
            .collect(),
        StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => Vec::new(),
    };
    if let Some(verify) = &step.verify {
        calls.push((
            format!("steps[{place}].verify.tool_name"),
            verify.tool_name.as_str(),
        ));
    }
    calls
}

/// Mistakes that are kept of one answer.
const PARTS_MAX: usize = 20;
/// Code points that are kept of a path or a sentence.
const PART_CHARS_MAX: usize = 300;
/// Code points of an action's name that are shown.
const ACTION_CHARS_SHOWN: usize = 100;
