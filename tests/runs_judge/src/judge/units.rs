//! Attempts, evaluations and children: what is intended, how it ends, and what may follow.

use super::book::{Book, Stage};
use super::{Desk, Execution, ledger, payload};
use crate::canonical::Attempt;
use crate::journal::{Called, Event, Output, Unit};
use crate::wire::Value;

impl Book {
    pub(super) fn take_of_unit(&mut self, event: Event, desk: &mut Desk<'_>) {
        match event {
            Event::EvaluationRequested { evaluation, unit } => {
                if self.in_epoch(unit, desk).is_some() {
                    self.evaluations.insert(evaluation, unit);
                }
            }
            Event::Evaluated {
                evaluation,
                value,
                failed,
            } => self.evaluated(evaluation, value, failed, desk),
            Event::Called(called) => self.called(&called, desk),
            Event::Output(output) => self.ended(&output, desk),
            Event::Retrying {
                unit,
                retry,
                due_at,
                budget,
            } => {
                self.check_retry(unit, retry, budget, desk);
                self.doings.n_uncounted += u64::from(retry == 0);
                self.is_excused(unit, None, desk);
                if let Some(it) = self.in_epoch(unit, desk) {
                    it.retry_at = Some(due_at);
                    it.retries = it.retries.max(retry);
                }
            }
            Event::UnitFailed(unit) => {
                // The condition after an iteration has no value, or the answer of a model is none of the choices.
                let of_kind = |kinds: &[&str], kind: &str| kinds.contains(&kind);
                let step = self.steps.get(unit.step as usize);
                let may_fail_yet = step.is_some_and(|step| of_kind(&["loop", "llm_decision"], &step.kind));
                if let Some(it) = self.in_epoch(unit, desk) {
                    if it.completed && !may_fail_yet {
                        desk.finds("RI4", &format!("{unit:?} completed, and fails"));
                    }
                    (it.failed, it.retry_at, it.waits) = (true, None, false);
                }
            }
            Event::UnitMemoized { unit, output, key } => {
                self.takes_over(unit.step, &key, desk);
                self.memoized(unit, &output, desk);
            }
            Event::ToolsAsked { unit, calls } => self.tools_asked(unit, calls, desk),
            Event::BudgetAwaited(unit) => {
                if let Some(it) = self.in_epoch(unit, desk) {
                    it.retry_at = None;
                }
            }
            Event::ChildStarted { unit, run, reserved } => {
                self.doings.makes_child(desk);
                self.gives(unit, &run, reserved, desk);
                self.has_child(unit, &run, desk);
                self.child_started(unit, run, desk);
            }
            Event::ChildEnded {
                unit,
                output,
                usage,
                n_doubts,
            } => {
                let output = output.map(|output| desk.value(&output));
                if let Some(it) = self.in_epoch(unit, desk) {
                    let child = it.child.take();
                    it.completed = output.is_some();
                    it.output = output;
                    match child {
                        Some(child) => {
                            Self::child_is_over(&child, n_doubts, desk);
                            self.takes_back(unit, &child, usage, desk);
                        }
                        None => desk.finds("RI3", &format!("a child of {unit:?} ends that does not live")),
                    }
                }
            }
            _ => unreachable!("{event:?} is not about a unit"),
        }
    }

    // RUN-4.10
    fn evaluated(&mut self, evaluation: u32, value: bool, failed: bool, desk: &mut Desk<'_>) {
        let Some(unit) = self.evaluations.remove(&evaluation) else {
            return desk.finds(
                "RI3",
                &format!("evaluation {evaluation} has a value that nobody waits for"),
            );
        };
        if failed || self.steps[unit.step as usize].kind != "condition" {
            return;
        }
        if let Some(it) = self.in_epoch(unit, desk) {
            (it.completed, it.output) = (true, Some(Value::Bool(value)));
        }
    }

    // RI3, RI4, RI5
    /// An attempt is intended.
    fn called(&mut self, called: &Called, desk: &mut Desk<'_>) {
        desk.count("attempts");
        let unit = called.unit;
        if unit.is_look() {
            self.looks(called, desk);
            return self.is_sent(called, desk);
        }
        let repeats = if called.action == self.spec.llm_action || unit.is_generation() {
            "RI5"
        } else {
            "RI4"
        };
        let Some(stage) = self.stage_of(unit) else {
            return desk.finds("RI13", &format!("there is no {unit:?}"));
        };
        if stage != Stage::Running {
            let invariant = if stage == Stage::Completed { repeats } else { "RI7" };
            desk.finds(
                invariant,
                &format!("{unit:?} is called, and its step is {stage:?}"),
            );
        }
        let Some(it) = self.in_epoch(unit, desk) else {
            return;
        };
        if let Some(live) = it.live {
            desk.finds(
                "RI3",
                &format!("{unit:?} has attempt {live}, which lives, and one more"),
            );
        }
        if it.completed {
            desk.finds(repeats, &format!("{unit:?} completed, and is called again"));
        }
        if it.failed {
            desk.finds("RI7", &format!("{unit:?} failed for good, and is called again"));
        }
        if it.waits {
            desk.finds("RI6", &format!("{unit:?} waits for a person, and is called"));
        }
        if called.attempt != it.attempts + 1 {
            let text = format!("attempt {} of {unit:?} follows {}", called.attempt, it.attempts);
            desk.finds("RI9", &text);
        }
        (it.live, it.attempts, it.retry_at) = (Some(called.attempt), called.attempt, None);
        it.subject.clone_from(&called.subject);
        self.check_called(called, desk);
        self.check_action(called, desk);
        self.spends(called, desk);
        self.is_sent(called, desk);
    }

    /// The attempt is sent as what it is.
    fn is_sent(&mut self, called: &Called, desk: &mut Desk<'_>) {
        let unit = called.unit;
        let request = desk.load(&called.request);
        self.check_request(called, &request, desk);
        let id = self.attempt(unit, called.attempt).id("execution");
        if let Ok(payload) = payload::sent(&request) {
            self.intends(id, called, &payload, self.at, desk);
        }
        let execution = Execution::new(self.id, unit, called, request);
        if desk.executions.insert(id, execution).is_some() {
            desk.finds("RI9", &format!("{unit:?} has an id that was used before"));
        }
    }

    pub(super) fn attempt(&self, unit: Unit, attempt: u32) -> Attempt<'_> {
        Attempt {
            run: &self.id,
            step: match unit.is_generation() {
                true => "$planner",
                false => &self.steps[unit.step as usize].key,
            },
            index: unit.index,
            epoch: unit.epoch,
            attempt,
        }
    }

    // RI3, RI7, RI14
    /// An attempt ended.
    fn ended(&mut self, output: &Output, desk: &mut Desk<'_>) {
        desk.count("outcomes");
        // It is called again with an approval.
        self.doings.n_uncounted += u64::from(output.class == 6);
        let unit = output.unit;
        let value = output.output.as_ref().map(|output| desk.value(output));
        if unit.is_look() {
            self.has_looked(output, value.clone(), desk);
            return self.check_given(output, value, desk);
        }
        let stage = self.stage_of(unit);
        self.settles(output, value.as_ref(), desk);
        let Some(it) = self.in_epoch(unit, desk) else {
            return;
        };
        if it.live.take() != Some(output.attempt) {
            let text = format!("attempt {} of {unit:?} ends, and does not live", output.attempt);
            desk.finds("RI3", &text);
        }
        let completed = output.class == 0;
        if completed != value.is_some() {
            desk.finds(
                "RI14",
                &format!("{unit:?} completed without an output, or failed with one"),
            );
        }
        if stage == Some(Stage::Running) {
            it.completed = completed;
            it.output.clone_from(&value);
        }
        self.checked(unit, value.as_ref());
        self.check_given(output, value, desk);
    }

    // RI3, RI14
    /// An output is what a worker gave, in an execution that has ended.
    fn check_given(&self, output: &Output, value: Option<Value>, desk: &mut Desk<'_>) {
        let (unit, completed) = (output.unit, output.class == 0);
        let id = self.attempt(unit, output.attempt).id("execution");
        desk.deeds.ended(&id, output.class, self.at);
        if let Some(execution) = desk.executions.get_mut(&id) {
            execution.is_over = true;
            execution.outcome = Some(completed);
            let (reported, has_settled) = (execution.reported.clone(), execution.has_settled);
            if !has_settled {
                let text = format!("{unit:?} has an outcome, and its execution has not ended");
                desk.finds("RI3", &text);
            }
            if completed && (value.is_none() || reported != value) {
                let text = format!("{unit:?} has an output that no worker gave: {value:?}, not {reported:?}");
                desk.finds("RI14", &text);
            }
        }
    }

    // RI8
    fn check_retry(&self, unit: Unit, retry: u32, budget: u32, desk: &mut Desk<'_>) {
        desk.count("retries");
        let Some(step) = self.steps.get(unit.step as usize) else {
            return;
        };
        let asked = step
            .document
            .as_ref()
            .and_then(|document| document.field("retry"));
        let base = asked.and_then(|retry| retry.whole("max_retries"));
        let base = base.unwrap_or(self.spec.max_retries);
        let (retries, extensions) = step
            .units
            .get(&unit.index)
            .map_or((0, 0), |unit| (unit.retries, unit.extensions));
        let allowed = base * (1 + extensions);
        if retry > allowed || budget > allowed || (retry > 0 && retry != retries + 1) {
            let text = format!("retry {retry} of {unit:?} behind {retries} of {allowed}");
            desk.finds("RI8", &text);
        }
    }

    // RI4
    fn child_started(&mut self, unit: Unit, run: Vec<u8>, desk: &mut Desk<'_>) {
        desk.count("children");
        let Some(it) = self.in_epoch(unit, desk) else {
            return;
        };
        if it.completed {
            desk.finds("RI4", &format!("{unit:?} completed, and has another child"));
        }
        if it.child.is_some() {
            desk.finds("RI3", &format!("{unit:?} has a child that lives, and one more"));
        }
        it.attempts += 1;
        (it.child, it.retry_at) = (Some(run.clone()), None);
        let attempt = it.attempts;
        if self.attempt(unit, attempt).id("child")[..] != run {
            desk.finds(
                "RI9",
                &format!("the child of {unit:?} has an id that does not follow from it"),
            );
        }
    }

    /// True if the journal waits for the end of this execution.
    pub(super) fn awaits(&self, execution: &ledger::Execution) -> bool {
        if execution.unit.is_look() {
            return !self.has_ended() && self.artifacts.awaits(execution.unit, execution.attempt);
        }
        let runs = self.stage_of(execution.unit) == Some(Stage::Running);
        let unit = self.unit(execution.unit);
        runs && !self.has_ended() && unit.is_some_and(|unit| unit.live == Some(execution.attempt))
    }
}
