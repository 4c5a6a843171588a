//! Models that ask for tools, calls that are checked before, and results that are taken over.

use super::Desk;
use super::book::Book;
use crate::journal::{AskedCall, Called, RANGE, Stored, Unit};
use crate::wire::Value;

impl Book {
    pub(super) fn tools_asked(&mut self, turn: Unit, calls: Vec<AskedCall>, desk: &mut Desk<'_>) {
        desk.count("turns that ask for tools");
        if calls.len() > CALLS_MAX {
            desk.finds("RI8", &format!("{turn:?} has {} calls", calls.len()));
        }
        if self.in_epoch(turn, desk).is_none() {
            return;
        }
        for (n, call) in (0..).zip(calls) {
            let arguments = call.arguments.filter(|_| !call.is_refused);
            let arguments = arguments.map(|arguments| desk.object(&arguments));
            let step = &mut self.steps[turn.step as usize];
            step.asked
                .insert(turn.tool_call(n).index, (call.action, arguments));
        }
    }

    // RI6, RI8
    /// A turn is one of those that the step may have, and a tool one that the step offers and the model asked for.
    pub(super) fn check_turn(&self, called: &Called, desk: &mut Desk<'_>) {
        let unit = called.unit;
        let step = &self.steps[unit.step as usize];
        let config = step.document.as_ref().and_then(|step| step.field("config"));
        let Some(config) = config.filter(|_| step.kind == "llm_decision") else {
            return;
        };
        if unit.index < RANGE {
            let most = config
                .whole("max_iterations")
                .unwrap_or(self.spec.max_turns)
                .max(1);
            if unit.index >= most {
                desk.finds("RI8", &format!("{unit:?} is turn {} of {most}", unit.index + 1));
            }
        }
        if !unit.is_tool_call() {
            return;
        }
        desk.count("tools that models call");
        let is_offered = |tool: &Value| *tool == Value::Text(called.action.clone());
        let asked = step.asked.get(&unit.index);
        let is_asked =
            asked.is_some_and(|(action, arguments)| *action == called.action && arguments.is_some());
        if !is_asked || !config.items("tools").iter().any(is_offered) {
            desk.finds("RI6", &format!("{unit:?} calls {} for a model", called.action));
        }
    }

    // RI6
    /// A safety check ended: only `safe: true` lets through exactly what was asked about.
    pub(super) fn checked(&mut self, unit: Unit, output: Option<&Value>) {
        if unit.is_generation() || !unit.is_check() {
            return;
        }
        let is_safe = output.and_then(|output| output.field("safe")) == Some(&Value::Bool(true));
        let subject = self.unit(unit).map(|unit| unit.subject.clone());
        let step = &mut self.steps[unit.step as usize];
        if let Some(subject) = subject.filter(|_| is_safe) {
            step.cleared.insert(subject);
        }
    }

    // RI10
    /// The payload of a planner names its goal, that of a safety check one call.
    pub(super) fn check_own_payload(&self, called: &Called, payload: &Value, desk: &mut Desk<'_>) {
        let unit = called.unit;
        if unit.is_generation() {
            if payload.field("goal").is_none() {
                desk.finds("RI10", &format!("{unit:?} does not say what for"));
            }
            return;
        }
        let Value::Object(told) = payload else { return };
        let strange = told.keys().find(|key| !TOLD_TO_CHECKS.contains(&key.as_str()));
        if called.action != self.spec.safety_action || strange.is_some() {
            desk.finds(
                "RI10",
                &format!("{unit:?} asks {} about {strange:?}", called.action),
            );
        }
    }

    // RI14
    /// A unit takes a result over, which a worker gave.
    pub(super) fn memoized(&mut self, unit: Unit, output: &Stored, desk: &mut Desk<'_>) {
        desk.count("units that take a result over");
        let value = desk.value(output);
        // What is no object is the word of a person.
        let is_given = !matches!(value, Value::Object(_))
            || desk
                .executions
                .values()
                .any(|execution| execution.reported.as_ref() == Some(&value));
        if !is_given {
            desk.finds(
                "RI14",
                &format!("{unit:?} takes a result over that no worker gave"),
            );
        }
        if let Some(it) = self.in_epoch(unit, desk) {
            if it.completed {
                desk.finds("RI4", &format!("{unit:?} completed, and takes a result over"));
            }
            (it.completed, it.output) = (true, Some(value));
        }
    }
}

/// Calls of one turn that are looked at.
const CALLS_MAX: usize = 16;
/// What a safety check is told.
const TOLD_TO_CHECKS: [&str; 5] = ["action", "payload", "plan", "goal", "step"];
