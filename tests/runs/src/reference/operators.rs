//! Sections 8 and 9: what callers and operators do, and what a restart means.

use super::misreading::Misreading;
use super::plan::{Expression, Kind};
use super::run::{Refusal, Run, Step, Unit, UnitState};
use super::words::{Command, End, Reason, RequestKind, Scope, Shown, StepState, Word};

impl Run {
    /// RUN-8.1.
    pub(super) fn pause(&mut self) -> Result<(), Refusal> {
        if self.wants_pause {
            return Err("");
        }
        self.intervene()?;
        self.wants_pause = true;
        Ok(())
    }

    /// Counts a pause, a rewind or a rollback: RUN-8.10.
    fn intervene(&mut self) -> Result<(), Refusal> {
        if self.n_interventions >= 10_000 {
            return Err("RUN_TOO_LARGE");
        }
        self.n_interventions += 1;
        Ok(())
    }

    /// RUN-8.2: what was due meanwhile is due at once.
    pub(super) fn resume(&mut self) -> Result<(), Refusal> {
        if !self.wants_pause {
            return Err("NOT_PAUSED");
        }
        self.wants_pause = false;
        self.progress(); // RUN-7.3
        Ok(())
    }

    /// RUN-8.4.
    pub(super) fn rewind(&mut self, step: usize, scope: Scope, repeats: bool) -> Result<(), Refusal> {
        if step >= self.steps.len() || !self.is_admitted {
            return Err("");
        }
        if self.planning.is_wanted {
            return Err("NOT_PAUSED");
        }
        let changed: Vec<usize> = match scope {
            Scope::Later => (step..self.steps.len()).collect(),
            Scope::Dependents => vec![step],
        };
        let set = self.with_what_follows(&changed, Some(step));
        self.intervene()?;
        if !repeats && self.would_repeat(&set) && !self.reads(Misreading::RewindRepeatsEffects) {
            return Err("EFFECTS_WOULD_REPEAT");
        }
        self.set_back(&set);
        Ok(())
    }

    /// RUN-8.4: an effect completed, or nobody knows whether it did.
    fn would_repeat(&self, set: &[usize]) -> bool {
        let mut steps = set.iter();
        steps.any(|step| {
            let is_child = self.plan.steps[*step].kind == Kind::Child;
            let action = self.action(*step);
            let has_effect = is_child || action.as_ref().is_some_and(|action| action.has_effect);
            let may_be_in_doubt = !is_child && action.as_ref().is_some_and(|action| !action.repeatable);
            let is_in_doubt = |unit| may_be_in_doubt && self.is_in_doubt(unit);
            let mut units = self.steps[*step].units.iter();
            let is_done = |unit: &Unit| matches!(unit.state, UnitState::Completed(_));
            let is_under_way = |unit: &Unit| is_child && matches!(unit.state, UnitState::InFlight);
            has_effect && units.any(|unit| is_done(unit) || is_under_way(unit) || is_in_doubt(unit))
        })
    }

    /// RUN-12.14.
    fn is_in_doubt(&self, unit: &Unit) -> bool {
        match unit.state {
            UnitState::InFlight => !unit.is_checked_now,
            UnitState::Asking(request) => self.requests[request].kind == RequestKind::Effect,
            UnitState::Failed(code) => code == "AMBIGUOUS_EFFECT",
            UnitState::Due | UnitState::BackingOff(_) | UnitState::Completed(_) => false,
        }
    }

    /// RUN-8.4: these steps and those that one of them has a part in. Expressions that are evaluated outside are about the input here,
    /// and no model is shown results.
    fn with_what_follows(&self, changed: &[usize], named: Option<usize>) -> Vec<usize> {
        let mut set: Vec<usize> = Vec::new();
        for (step, spec) in self.plan.steps.iter().enumerate() {
            let asked = match &spec.kind {
                Kind::Condition { expression, .. } => Some(*expression),
                Kind::Loop { condition, .. } => *condition,
                _ => None,
            };
            let asks = matches!(asked, Some(Expression::ResultOf(on)) if set.contains(&on))
                && !self.reads(Misreading::DecisionsSurviveRewind);
            let depends = spec.depends_on.iter().any(|on| set.contains(on));
            let is_behind_barrier = set.iter().any(|it| self.plan.is_barrier(*it));
            let is_in = changed.contains(&step) || asks || depends || is_behind_barrier;
            if is_in && !self.stays_passed(step, &set, named) {
                set.push(step);
            }
        }
        set
    }

    /// RUN-8.4: what a branch went past stays skipped as long as the step with the branch stays as it is; one that went past the
    /// named step holds nothing back.
    fn stays_passed(&self, step: usize, set: &[usize], named: Option<usize>) -> bool {
        let overruled = named.and_then(|named| self.steps[named].passed_by);
        let it = &self.steps[step];
        let is_passed = it.state == StepState::Skipped && it.reason == Some(Reason::Branch);
        let by = it
            .passed_by
            .filter(|by| Some(*by) != overruled && !set.contains(by));
        is_passed && by.is_some() && !self.reads(Misreading::OtherArmComesBack)
    }

    fn set_back(&mut self, set: &[usize]) {
        for step in set {
            // What a branch went past before it was set back, it has not gone past any more.
            let passed_by = self.steps[*step].passed_by.filter(|by| !set.contains(by));
            self.steps[*step].passed_by = passed_by;
            if self.steps[*step].state == StepState::Pending {
                continue;
            }
            self.cancel_children(*step);
            self.close_requests(*step);
            let keeps = self.reads(Misreading::ApprovalSurvivesRewind) && self.was_approved(*step);
            let epoch = self.steps[*step].epoch + 1;
            self.steps[*step] = Step {
                passed_by,
                ..Step::pending(epoch)
            };
            if keeps {
                self.limits.autonomy = 4;
            }
        }
        let still_fails = (0..self.steps.len()).any(|step| {
            let stops = self.limits.on_failure_of(&self.plan.steps[step]);
            let stops = matches!(
                stops,
                super::plan::OnFailure::Abort | super::plan::OnFailure::Drain
            );
            stops && self.steps[step].state == StepState::Failed
        });
        if !still_fails {
            self.failing = None;
        }
    }

    fn was_approved(&self, step: usize) -> bool {
        self.steps[step].units.iter().any(|unit| unit.is_approved)
    }

    fn stands_still(&self) -> Result<(), Refusal> {
        match self.shown() {
            Shown::Paused | Shown::Waiting if !self.planning.is_wanted => Ok(()),
            _ => Err("NOT_PAUSED"),
        }
    }

    /// RUN-8.5.
    pub(super) fn roll_back(&mut self, restores: bool, repeats: bool) -> Result<(), Refusal> {
        self.stands_still()?;
        let Some(completed) = self.checkpoint.clone() else {
            return Err("NO_CHECKPOINT");
        };
        if restores && self.is_checkpoint_old {
            return Err("NO_CHECKPOINT"); // The steps of another revision are others.
        }
        let all = 0..self.steps.len();
        let changed: Vec<usize> = all.filter(|step| !(restores && completed[*step])).collect();
        let set = self.with_what_follows(&changed, None);
        self.intervene()?;
        if !repeats && self.would_repeat(&set) {
            return Err("EFFECTS_WOULD_REPEAT"); // RUN-8.5
        }
        self.set_back(&set);
        self.wants_pause = true;
        Ok(())
    }

    /// RUN-8.6.
    pub(super) fn override_step(&mut self, step: usize, word: &Word) -> Result<(), Refusal> {
        self.stands_still()?;
        if self.steps.get(step).is_none_or(Step::has_ended) {
            return Err("");
        }
        match word {
            Word::Complete(output) => self.complete_step(step, output.clone()),
            Word::Fail => self.fail_step(step, "OPERATOR"),
            Word::Skip => {
                self.close_requests(step);
                self.skip(step, Reason::Operator);
            }
        }
        Ok(())
    }

    /// RUN-8.7.
    pub(super) fn keep_checkpoint(&mut self, n_bytes: usize) -> Result<(), Refusal> {
        if n_bytes > 512_000 {
            return Err("");
        }
        if self.n_checkpoints >= 1_000 || self.checkpoint_bytes + n_bytes > 67_108_864 {
            return Err("RUN_TOO_LARGE"); // RUN-8.10
        }
        self.n_checkpoints += 1;
        self.checkpoint_bytes += n_bytes;
        let completed = self.steps.iter().map(|step| step.state == StepState::Completed);
        self.checkpoint = Some(completed.collect());
        self.is_checkpoint_old = false;
        Ok(())
    }

    /// RUN-9.4, RUN-9.5.
    pub(super) fn recovered(&mut self, was_stopped: bool) {
        if self.limits.discards {
            return self.end_with(End::Cancelled("discarded"));
        }
        if self.waits_for_actions() {
            self.commands.push(Command::LearnActions);
        }
        if self.has_own_in_flight() && !was_stopped {
            self.restarts += 1;
        }
        if self.restarts >= 10 {
            self.wants_pause = true;
        }
        match self.planning.open {
            Some(open) if !open.knows_actions => {
                self.commands
                    .push(Command::ListActions(self.planning.n_generations));
            }
            Some(open) if open.is_asked => {
                let asked = Command::AskPlanner(self.planning.n_generations, open.n_attempts);
                self.commands.push(asked);
            }
            Some(_) | None => {}
        }
        // RUN-9.4: what a step does not wait for any more does not live.
        for step in 0..self.steps.len() {
            if self.steps[step].state == StepState::Running {
                self.ask_again(step);
                if self.failing.is_some_and(|failing| !failing.drains) {
                    self.cancel_children(step);
                }
            }
        }
    }

    fn ask_again(&mut self, step: usize) {
        if self.steps[step].question == super::run::Evaluation::Asked {
            self.commands.push(Command::Evaluate(step));
            return;
        }
        let is_child = self.plan.steps[step].kind == Kind::Child;
        for (index, unit) in self.steps[step].units.iter().enumerate() {
            if unit.state == UnitState::InFlight {
                let (id, number) = match unit.is_checked_now {
                    true => ((step, super::words::SAFETY_INDEX + index), unit.n_checks),
                    false => ((step, index), unit.n_attempts),
                };
                let child = Command::StartChild(id, number);
                self.commands.push(if is_child {
                    child
                } else {
                    Command::Dispatch(id, number)
                });
            }
        }
    }
}
