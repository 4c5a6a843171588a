//! What every revision of a run keeps to: the actions that it may call, what it must make, and how large it may be.

use super::Desk;
use super::book::Book;
use crate::journal::Called;
use crate::wire::Value;
use std::collections::BTreeMap;

impl Book {
    // RI18
    /// A revision begins. What stands for the plan of a goal keeps to nothing yet.
    pub(super) fn check_constraints(
        &mut self,
        document: &Value,
        generation: u32,
        produces: &BTreeMap<String, Vec<String>>,
        desk: &mut Desk<'_>,
    ) {
        let steps = document.items("steps");
        self.wanted = wanted(&self.spec.must_produce, document);
        if steps.is_empty() && !self.spec.goal.is_empty() && generation == 0 {
            return;
        }
        let is_bound = !self.spec.allowed.is_empty() || !self.spec.forbidden.is_empty();
        if is_bound || !self.wanted.is_empty() {
            desk.count("revisions within constraints");
        }
        for wanted in &self.wanted {
            let makes = |action: &&str| produces.get(*action).is_some_and(|kinds| kinds.contains(wanted));
            let may_make =
                |step: &Value| step.text("type") == Some("sub_plan") || calls(step).iter().any(makes);
            if !steps.iter().any(may_make) {
                desk.finds("RI18", &format!("no step of the revision makes {wanted:?}"));
            }
        }
        let called = steps.iter().flat_map(calls);
        for action in called.filter(|action| !self.may_call(action)) {
            desk.finds(
                "RI18",
                &format!("the revision calls {action}, which the run may not"),
            );
        }
        let is_sized = generation > 0 && self.spec.preset == "plan_mode";
        if is_sized {
            desk.count("plans of a bounded size");
        }
        if is_sized && !(2..=7).contains(&steps.len()) {
            desk.finds("RI18", &format!("a planner's plan has {} steps", steps.len()));
        }
    }

    fn may_call(&self, action: &str) -> bool {
        let is_named = |names: &[String]| names.iter().any(|name| name == action);
        let spec = &self.spec;
        (spec.allowed.is_empty() || is_named(&spec.allowed)) && !is_named(&spec.forbidden)
    }

    // RI18
    /// A unit of the plan is called: its action is one that the run may call. Models are the run's own.
    pub(super) fn check_action(&self, called: &Called, desk: &mut Desk<'_>) {
        let unit = called.unit;
        let step = self.steps.get(unit.step as usize);
        let is_own = unit.is_generation() || unit.is_check() || unit.is_look();
        let is_turn = step.is_some_and(|step| step.kind == "llm_decision") && !unit.is_tool_call();
        if is_own || is_turn {
            return;
        }
        if !self.spec.allowed.is_empty() || !self.spec.forbidden.is_empty() {
            desk.count("attempts within constraints");
        }
        if !self.may_call(&called.action) {
            desk.finds(
                "RI18",
                &format!("{unit:?} calls {}, which the run may not", called.action),
            );
        }
    }
}

/// The types of artifacts that a run and its plan want, each once: those of the run first.
fn wanted(of_run: &[String], document: &Value) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    let constraints = document.field("constraints");
    let listed = constraints.map_or(&[][..], |of_plan| of_plan.items("must_produce"));
    let listed = listed.iter().filter_map(|kind| match kind {
        Value::Text(kind) => Some(kind.as_str()),
        _ => None,
    });
    let expected = constraints.and_then(|of_plan| of_plan.text("expected_artifact_type"));
    for kind in of_run.iter().map(String::as_str).chain(listed).chain(expected) {
        if !kind.is_empty() && !wanted.iter().any(|known| known == kind) {
            wanted.push(kind.to_owned());
        }
    }
    wanted
}

/// The actions that a step names.
fn calls(step: &Value) -> Vec<&str> {
    let Some(config) = step.field("config") else {
        return Vec::new();
    };
    let tools = config.items("tools").iter().filter_map(|tool| match tool {
        Value::Text(tool) => Some(tool.as_str()),
        _ => None,
    });
    let items = config
        .items("steps")
        .iter()
        .filter_map(|item| item.text("tool_name"));
    config
        .text("tool_name")
        .into_iter()
        .chain(items)
        .chain(tools)
        .collect()
}
