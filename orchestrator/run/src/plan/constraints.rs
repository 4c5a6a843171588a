//! Whether a plan keeps to what its run and the plan itself demand. Judges what can be seen before anything runs.

use super::violations::{Code, Violation};
use super::{Call, Constraints as OfPlan, Plan, Step, StepKind};
use crate::spec::{ActionProfile, Constraints};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::Opaque;

/// The types of artifacts that a run of the plan must produce, each once.
pub(crate) fn wanted_types<'a>(of_plan: &'a OfPlan, of_run: &'a Constraints) -> Vec<&'a str> {
    let expected = (!of_run.expected_artifact_type.is_empty()).then_some(&of_run.expected_artifact_type);
    let all = of_run.must_produce.iter().chain(expected);
    let all = all
        .chain(&of_plan.must_produce)
        .chain(&of_plan.expected_artifact_type);
    let mut types: Vec<&str> = Vec::new();
    for one in all {
        if !types.contains(&one.as_str()) {
            types.push(one);
        }
    }
    types
}

// RUN-12.5
/// What of the constraints the plan breaks, in document order. `profiles` are sorted by name.
pub fn violations(plan: &Plan, of_run: &Constraints, profiles: &[ActionProfile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for wanted in wanted_types(&plan.constraints, of_run) {
        if !plan.steps.iter().any(|step| may_produce(step, wanted, profiles)) {
            found.push(Violation {
                path: path_of(plan, wanted),
                code: Code::ConstraintViolated,
                message: format!("No step produces an artifact of the type {wanted:?}."),
            });
        }
    }
    let places = in_document_order(plan);
    for step in places {
        for (path, action, _) in calls(step) {
            let is_allowed = of_run.allowed_actions.is_empty() || of_run.allowed_actions.contains(action);
            if !is_allowed || of_run.forbidden_actions.contains(action) {
                found.push(Violation {
                    path,
                    code: Code::ConstraintViolated,
                    message: format!("The run may not call {action:?}."),
                });
            }
        }
    }
    found.truncate(escapement_model::limits::VIOLATIONS_MAX);
    found
}

/// The place in the document that demands the type; the document as a whole if the run demands it.
fn path_of(plan: &Plan, wanted: &str) -> String {
    let types = &plan.constraints.must_produce;
    match types.iter().position(|one| one == wanted) {
        Some(at) => format!("constraints.must_produce[{at}]"),
        None if plan.constraints.expected_artifact_type.as_deref() == Some(wanted) => {
            String::from("constraints.expected_artifact_type")
        }
        None => String::from("steps"),
    }
}

/// True if the step may produce such an artifact. What a plan of its own comes to is seen at the end.
fn may_produce(step: &Step, wanted: &str, profiles: &[ActionProfile]) -> bool {
    let produces = |action: &str| {
        let found = profiles.binary_search_by(|profile| profile.action.as_str().cmp(action));
        found.is_ok_and(|at| profiles[at].produces.iter().any(|one| one == wanted))
    };
    let is_plan = matches!(step.kind, StepKind::SubPlan(_));
    is_plan || calls(step).iter().any(|(_, action, _)| produces(action))
}

/// Returns the actions that a plan names, each with its path in the document, in document order.
pub fn calls_of(plan: &Plan) -> Vec<(String, &str)> {
    let calls = in_document_order(plan).into_iter().flat_map(calls);
    calls.map(|(path, action, _)| (path, action.as_str())).collect()
}

/// Returns the calls of a plan whose arguments it says: the path of the arguments, the action, the arguments.
pub fn arguments_of(plan: &Plan) -> Vec<(String, &str, &Opaque)> {
    let calls = in_document_order(plan).into_iter().flat_map(calls);
    let calls = calls.filter_map(|(path, action, arguments)| {
        let call = path.strip_suffix("tool_name")?;
        Some((format!("{call}tool_args"), action.as_str(), arguments?))
    });
    calls.collect()
}

fn in_document_order(plan: &Plan) -> Vec<&Step> {
    let mut steps: Vec<&Step> = plan.steps.iter().collect();
    steps.sort_by_key(|step| step.place);
    steps
}

/// An action that a step names: its path in the document, its name, and the arguments if the step says them.
type Named<'a> = (String, &'a String, Option<&'a Opaque>);

/// The actions that a step names, each with its path in the document.
fn calls(step: &Step) -> Vec<Named<'_>> {
    let at = |path: &str| format!("steps[{}].{path}", step.place);
    fn named(path: String, call: &Call) -> Named<'_> {
        (path, &call.tool_name, Some(&call.tool_args))
    }
    let mut calls: Vec<Named<'_>> = match &step.kind {
        StepKind::ToolCall(call) => [named(at("config.tool_name"), call)].into(),
        StepKind::Loop(repeated) => [named(at("config.tool_name"), &repeated.call)].into(),
        StepKind::Parallel(parallel) => {
            let items = parallel.items.iter().enumerate();
            items
                .map(|(item, call)| named(at(&format!("config.steps[{item}].tool_name")), call))
                .collect()
        }
        StepKind::LlmDecision(decision) => {
            let tools = decision.tools.iter().enumerate();
            tools
                .map(|(tool, name)| (at(&format!("config.tools[{tool}]")), name, None))
                .collect()
        }
        StepKind::UserInput(_) | StepKind::Condition(_) | StepKind::SubPlan(_) => Vec::new(),
    };
    if let Some(verify) = &step.verify {
        calls.push(named(at("verify.tool_name"), verify));
    }
    calls
}
