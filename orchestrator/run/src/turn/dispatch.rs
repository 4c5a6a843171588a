//! Which units of a step that runs are due, and what each of them does.

use super::Turn;
use super::contract::Rendered;
use super::gate::Gate;
use super::time::attempt_ms;
use crate::input::Effect;
use crate::journal::{
    ChildRunStarted, Evaluated, EvaluationRequested, Event, Failure, ToolCalled, UnitFailed, UnitRef,
};
use crate::plan::{Condition, Expression, Parallel, StepKind, SubPlan};
use crate::spec::EffectClass;
use crate::state::{PendingEvaluation, StepStage, UnitStage};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-4.1
    /// Dispatches what is ready of a step that runs.
    pub(super) fn dispatch_units(&mut self, step: u32) {
        match &self.step(step).kind {
            StepKind::ToolCall(_) => self.dispatch_if_ready(self.unit_ref(step, 0)),
            StepKind::UserInput(_) => self.ask_if_ready(self.unit_ref(step, 0)),
            StepKind::Condition(condition) => self.evaluate_if_ready(self.unit_ref(step, 0), condition),
            StepKind::SubPlan(sub_plan) => self.start_child_if_ready(self.unit_ref(step, 0), sub_plan),
            StepKind::Parallel(parallel) => self.dispatch_batch(step, parallel),
            StepKind::Loop(_) => self.dispatch_iteration(step),
            StepKind::LlmDecision(_) => self.dispatch_turn(step),
        }
    }

    // RUN-4.8
    /// The items of the first batch that is not settled. Batches are barriers.
    fn dispatch_batch(&mut self, step: u32, parallel: &Parallel) {
        let n_items = u32::try_from(parallel.items.len()).expect("a step has at most 256 items");
        if n_items == 0 {
            self.complete_step(step, None, "");
            return;
        }
        let batch_size = parallel
            .batch_size
            .unwrap_or(self.state.spec.limits.batch_size)
            .max(1);
        let settled = |index: &u32| {
            let stage = self.unit(self.unit_ref(step, *index)).stage();
            matches!(stage, UnitStage::Completed | UnitStage::Failed)
        };
        let Some(first) = (0..n_items).find(|index| !settled(index)) else {
            return;
        };
        let batch = first - first % batch_size;
        for index in batch..n_items.min(batch + batch_size) {
            if self.step_state(step).stage() == StepStage::Running && !self.is_too_large() {
                self.dispatch_if_ready(self.unit_ref(step, index));
            }
        }
    }

    /// The iteration at hand.
    fn dispatch_iteration(&mut self, step: u32) {
        let n_units = u32::try_from(self.step_state(step).units.len()).expect("iterations are at most 1000");
        if n_units == 0 && self.iterations_max(step) == 0 {
            self.complete_step(step, None, "");
            return;
        }
        let last = n_units.saturating_sub(1);
        self.dispatch_if_ready(self.unit_ref(step, last));
        // An iteration that completed is followed by the next one, if the loop goes on.
        if self.owes_question(step, last) {
            self.iteration_ended(self.unit_ref(step, last));
        }
        let unit = self.unit(self.unit_ref(step, last));
        if self.step_state(step).stage() == StepStage::Running
            && unit.stage() == UnitStage::Completed
            && self.loop_goes_on(step, last)
        {
            self.dispatch_if_ready(self.unit_ref(step, last + 1));
        }
    }

    /// True if the condition after an iteration is still to be asked, because the iteration completed during a pause.
    fn owes_question(&self, step: u32, index: u32) -> bool {
        let unit = self.unit(self.unit_ref(step, index));
        let is_asked = |one: &PendingEvaluation| (one.step, one.index) == (step, index);
        self.step_state(step).stage() == StepStage::Running
            && unit.stage() == UnitStage::Completed
            && unit.goes_on.is_none()
            && !self.state.evaluations.iter().any(is_asked)
    }

    /// Iterations that the loop may have.
    pub(super) fn iterations_max(&self, step: u32) -> u32 {
        match &self.step(step).kind {
            StepKind::Loop(spec) => spec
                .max_iterations
                .unwrap_or(self.state.spec.limits.max_iterations),
            _ => unreachable!("only loops have iterations"),
        }
    }

    // RUN-4.9
    /// True if the iteration that completed is not the last one.
    fn loop_goes_on(&self, step: u32, index: u32) -> bool {
        let unit = self.unit(self.unit_ref(step, index));
        let StepKind::Loop(spec) = &self.step(step).kind else {
            unreachable!("only loops have iterations")
        };
        let asked = spec.loop_condition.is_none() || unit.goes_on == Some(true);
        asked && index + 1 < self.iterations_max(step)
    }

    // RUN-4.9
    /// An iteration completed: asks the condition, or ends the step.
    pub(super) fn iteration_ended(&mut self, unit: UnitRef) {
        let StepKind::Loop(spec) = &self.step(unit.step).kind else {
            unreachable!("only loops have iterations")
        };
        let state = self.unit(unit);
        let (error, goes_on) = (state.error.clone(), state.goes_on);
        if unit.index + 1 >= self.iterations_max(unit.step) {
            self.complete_step(unit.step, None, "");
            return;
        }
        if let Some(error) = error.filter(|_| goes_on.is_none()) {
            self.fail_step(unit.step, error);
            return;
        }
        match (&spec.loop_condition, goes_on) {
            (None, _) | (Some(_), Some(true)) => {}
            (Some(_), Some(false)) => self.complete_step(unit.step, None, ""),
            // RUN-5.6, RUN-8.1: nothing is asked outside while nothing new is intended.
            (Some(Expression::Text(_)), None) if self.starts_nothing() => {}
            (Some(condition), None) => self.ask_expression(unit, condition),
        }
    }

    fn evaluate_if_ready(&mut self, unit: UnitRef, condition: &Condition) {
        if self.unit(unit).stage() == UnitStage::Ready {
            self.ask_expression(unit, &condition.condition);
        }
    }

    // RUN-4.10
    /// Has an expression evaluated; what follows from the state itself is answered at once.
    fn ask_expression(&mut self, unit: UnitRef, expression: &Expression) {
        let evaluation = self.state.n_evaluations + 1;
        let (text, known) = match expression {
            Expression::Literal(value) => (value.to_string(), Some(*value)),
            Expression::ResultOf(step) => {
                let key = &self.plan.steps[*step].key;
                (alloc::format!("result:{key}"), Some(self.is_truthy(*step)))
            }
            Expression::Text(text) => (text.clone(), None),
        };
        self.emit(Event::EvaluationRequested(EvaluationRequested {
            evaluation,
            unit,
            expression: text.clone(),
        }));
        match known {
            Some(value) => self.evaluated(evaluation, Ok(value)),
            None => self.effect(Effect::Evaluate {
                evaluation,
                expression: text,
            }),
        }
    }

    /// An expression has its value.
    pub(super) fn evaluated(&mut self, evaluation: u32, result: Result<bool, String>) {
        let pending = self
            .state
            .evaluations
            .iter()
            .find(|one| one.evaluation == evaluation);
        let Some(unit) = pending.map(|one| self.unit_ref(one.step, one.index)) else {
            return;
        };
        let (value, error) = match result {
            Ok(value) => (value, String::new()),
            Err(why) => (false, crate::outcome::cut(&why, MESSAGE_CHARS_MAX)),
        };
        self.emit(Event::Evaluated(Evaluated {
            evaluation,
            value,
            error: error.clone(),
        }));
        if error.is_empty() {
            self.unit_ended(unit);
        } else {
            self.unit_fails(unit, "EXPRESSION_FAILED", &error);
        }
    }

    /// The unit fails for good.
    pub(super) fn unit_fails(&mut self, unit: UnitRef, code: &str, message: &str) {
        let error = Failure::of_step(unit.step, code, message);
        self.skill_gives_up(unit);
        self.emit(Event::UnitFailed(UnitFailed { unit, error }));
        self.unit_ended(unit);
    }

    /// Sends the unit's next attempt if it is its turn, its gate is open, and there is time left.
    pub(super) fn dispatch_if_ready(&mut self, unit: UnitRef) {
        let state = self.unit(unit);
        let due = match state.stage() {
            UnitStage::Ready => true,
            UnitStage::BackingOff => state.retry_at <= self.now,
            UnitStage::Completed => self.state.recoveries > 0 && planted::is_on(Bug::RunCompletedRepeated),
            UnitStage::Live | UnitStage::Waiting | UnitStage::Judged | UnitStage::Failed => false,
        };
        if !due || self.step_state(unit.step).stage() != StepStage::Running {
            return;
        }
        let rendered = match self.render_call(unit) {
            Ok(rendered) => rendered,
            Err((code, message)) => return self.unit_fails(unit, code, &message),
        };
        if let Some(result) = self.carried(unit, &rendered) {
            return self.take_result(unit, rendered.action, result);
        }
        if let Some(doubt) = self.doubt_about(&rendered) {
            return self.meets_doubt(unit, &rendered, &doubt);
        }
        let subject = self.subject_digest(unit, &rendered);
        // RUN-6.2
        let gate = self.gate(unit, &rendered, &subject);
        if gate == Gate::Asks {
            return self.ask_for_approval(unit, &rendered, &subject);
        }
        let check = (gate == Gate::Checks).then(|| self.safety_check_of(unit, &rendered));
        // RUN-13.7
        if !self.has_budget(unit, check.as_ref().unwrap_or(&rendered)) {
            return;
        }
        // RUN-7.4
        if self.remaining_ms() < DISPATCH_MS_MIN {
            return self.outer_limit_is_over();
        }
        match check {
            Some(check) => self.send_safety_check(unit, check, &subject),
            None => self.send(unit, &rendered, &subject),
        }
        self.warn_of_budget();
    }

    // RUN-4.2
    fn send(&mut self, unit: UnitRef, rendered: &Rendered, subject: &[u8; 32]) {
        let state = self.unit(unit);
        let (attempt, approval) = (state.attempts + 1, self.approval_of(unit, subject));
        let profile = self.profile(&rendered.action);
        let limit_ms = attempt_ms(self.step(unit.step), &profile, &self.state.spec.limits);
        let skill = profile.skill();
        let skill = if skill.is_empty() { &rendered.action } else { skill };
        let attempt_ms = self.cut_ms(self.degraded_ms(limit_ms, skill));
        let request = self.contract_request(unit, attempt, rendered, subject, attempt_ms);
        let stored = self.store(request.clone());
        self.emit(Event::ToolCalled(ToolCalled {
            unit,
            attempt,
            action: rendered.action.clone(),
            request: stored,
            subject_digest: Bytes::copy_from_slice(subject),
            effect: profile.effect,
            attempt_ms,
            approval,
            reserved: self.reserved(rendered),
            model: self.model_asked(rendered),
            // RUN-12.6: another revision or a fork may take what comes of it.
            result_key: Bytes::copy_from_slice(&self.result_key(rendered)),
        }));
        self.effect(Effect::Submit {
            execution_id: self.attempt_name(unit, attempt).execution_id(),
            request,
            attempt_ms,
            seen: profile.seen,
        });
    }

    // RUN-4.12
    fn start_child_if_ready(&mut self, unit: UnitRef, sub_plan: &SubPlan) {
        let state = self.unit(unit);
        let attempts = state.attempts;
        let due = state.stage() == UnitStage::Ready
            || (state.stage() == UnitStage::BackingOff && state.retry_at <= self.now);
        if !due {
            return;
        }
        let input = match self.render_object(unit, &sub_plan.input) {
            Ok(input) => input,
            Err((code, message)) => return self.unit_fails(unit, code, &message),
        };
        // RUN-13.11
        if !self.has_budget_for(unit, &self.needed_by_child()) {
            return;
        }
        // RUN-7.4
        if self.remaining_ms() < DISPATCH_MS_MIN {
            return self.outer_limit_is_over();
        }
        let attempts = if planted::is_on(Bug::RunChildReused) {
            0
        } else {
            attempts
        };
        let run_id = self.attempt_name(unit, attempts + 1).child_run_id();
        let stored = self.store(input.as_encoded().clone());
        self.emit(Event::ChildRunStarted(ChildRunStarted {
            unit,
            run_id: Bytes::copy_from_slice(run_id.as_bytes()),
            input: stored,
            reserved: self.left_for_child(),
        }));
        self.child_effect(unit, input);
    }

    /// Has the child run of a unit made.
    fn child_effect(&mut self, unit: UnitRef, input: Opaque) {
        let StepKind::SubPlan(sub_plan) = &self.step(unit.step).kind else {
            unreachable!("only sub_plan steps have children")
        };
        let run_id = self.attempt_name(unit, self.unit(unit).attempts).child_run_id();
        self.effect(Effect::StartChild {
            run_id,
            plan_id: sub_plan.plan_id.clone(),
            revision_digest: sub_plan.revision_digest.clone(),
            input,
            budget: self.budget_of_child(unit),
            doubts: self.doubts_for_child(unit),
        });
    }

    // RUN-9.4
    /// Everything that is outstanding, as it was intended.
    pub(crate) fn outstanding(mut self) -> alloc::vec::Vec<Effect> {
        if self.state.stage().is_end() {
            return alloc::vec::Vec::new();
        }
        self.ask_for_actions();
        for evaluation in self.state.evaluations.clone() {
            self.effect(Effect::Evaluate {
                evaluation: evaluation.evaluation,
                expression: evaluation.expression,
            });
        }
        self.outstanding_planning();
        let stops_children = self.state.cause.is_some() && !self.state.drains;
        for step in 0..self.n_steps() {
            // What belongs to a step that has ended is fenced.
            if self.step_state(step).stage() != StepStage::Running {
                continue;
            }
            let units = self.step_state(step).all_units();
            let units: Vec<UnitRef> = units.map(|(index, _)| self.unit_ref(step, index)).collect();
            for unit in units {
                let state = self.unit(unit).clone();
                if let Some(live) = &state.live {
                    let seen = self.profile(&live.action).seen;
                    let request = match planted::is_on(Bug::RunRequestRebuilt) {
                        true => self.rebuilt(unit, live),
                        false => self.load(&live.request),
                    };
                    let execution_id = self.attempt_name(live.unit, live.attempt).execution_id();
                    self.effect(Effect::Submit {
                        execution_id,
                        request,
                        attempt_ms: live.attempt_ms,
                        seen,
                    });
                } else if let Some(input) = &state.child_input {
                    let input = Opaque::from_encoded(self.load(input));
                    self.child_effect(unit, input);
                }
            }
            if stops_children {
                self.cancel_children(step);
            }
        }
        let looks = self
            .state
            .artifacts
            .iter()
            .filter_map(|artifact| artifact.live.clone());
        for live in looks.collect::<alloc::vec::Vec<_>>() {
            let effect = Effect::Submit {
                execution_id: self.attempt_name(live.unit, live.attempt).execution_id(),
                request: self.load(&live.request),
                attempt_ms: live.attempt_ms,
                seen: self.profile(&live.action).seen,
            };
            self.effect(effect);
        }
        self.into_commit().effects
    }

    /// The request as it would be made now: a planted fault.
    fn rebuilt(&self, unit: UnitRef, live: &ToolCalled) -> Bytes {
        let Ok(rendered) = self.render_call(unit) else {
            return self.load(&live.request);
        };
        let subject = self.subject_digest(unit, &rendered);
        self.contract_request(unit, live.attempt, &rendered, &subject, live.attempt_ms)
    }

    /// The class of what the unit would do.
    pub(super) fn effect_of(&self, action: &str) -> EffectClass {
        self.profile(action).effect()
    }
}

/// With less time than this nothing is dispatched.
pub(super) const DISPATCH_MS_MIN: u64 = 50;
const MESSAGE_CHARS_MAX: usize = escapement_model::limits::MESSAGE_CHARS_MAX;
