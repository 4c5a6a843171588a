//! Section 3: which step has its turn, and what a branch or a failure means for the others.

use super::misreading::Misreading;
use super::plan::{Expression, Kind, OnDependencyFailure, OnFailure};
use super::run::{Evaluation, Failing, Run, UnitState};
use super::words::{Code, Command, End, Reason, RequestKind, StepState, Value};

/// What becomes of a pending step.
enum Decision {
    Starts,
    IsSkipped(Reason),
    IsLeft,
}

impl Run {
    /// RUN-3.2: one pass over the steps. Returns whether anything changed.
    pub(super) fn turn(&mut self) -> bool {
        for step in 0..self.steps.len() {
            if self.is_aborting() || self.wants_pause || self.end.is_some() {
                return false;
            }
            let changed = match self.steps[step].state {
                StepState::Running => self.serve(step),
                StepState::Pending => match self.decide(step) {
                    Decision::Starts => self.start(step),
                    Decision::IsSkipped(reason) => self.skip(step, reason),
                    Decision::IsLeft => false,
                },
                _ => false,
            };
            if changed {
                return true;
            }
        }
        false
    }

    fn is_aborting(&self) -> bool {
        self.failing.is_some_and(|failing| !failing.drains)
    }

    fn decide(&self, step: usize) -> Decision {
        let is_open = |other: usize| !self.steps[other].has_ended();
        // RUN-3.3
        if (0..step).any(|other| self.plan.is_barrier(other) && is_open(other))
            && !self.reads(Misreading::NoBarriers)
        {
            return Decision::IsLeft;
        }
        // RUN-3.4
        let depends_on = &self.plan.steps[step].depends_on;
        if depends_on.iter().any(|on| is_open(*on)) {
            return Decision::IsLeft;
        }
        // RUN-4.10
        let expression = match &self.plan.steps[step].kind {
            Kind::Condition { expression, .. } => Some(expression),
            Kind::Loop { condition, .. } => condition.as_ref(),
            _ => None,
        };
        if let Some(Expression::ResultOf(other)) = expression
            && is_open(*other)
        {
            return Decision::IsLeft;
        }
        // RUN-3.5
        match self.word_on_failed(step) {
            Some(OnDependencyFailure::Skip) => return Decision::IsSkipped(Reason::DependencyFailed),
            Some(OnDependencyFailure::Block) => return Decision::IsLeft,
            _ => {}
        }
        // RUN-3.6
        let went_past = |on: &usize| self.steps[*on].state == StepState::Skipped && !self.is_for_failure(*on);
        let any = depends_on.iter().any(went_past);
        let all = depends_on.iter().all(went_past);
        let all = if self.reads(Misreading::OneSkippedDependencySkips) {
            any
        } else {
            all
        };
        if !depends_on.is_empty() && all {
            return Decision::IsSkipped(Reason::Branch);
        }
        // RUN-3.7
        if self.has_room(step) {
            Decision::Starts
        } else {
            Decision::IsLeft
        }
    }

    fn is_for_failure(&self, step: usize) -> bool {
        self.steps[step].reason == Some(Reason::DependencyFailed)
    }

    /// RUN-3.5: what the failed dependencies lead to, if there are any.
    fn word_on_failed(&self, step: usize) -> Option<OnDependencyFailure> {
        let has_failed = |on: &usize| match self.steps[*on].state {
            StepState::Failed => {
                let is_optional = !self.limits.is_required(&self.plan.steps[*on]);
                !(is_optional && self.reads(Misreading::OptionalFailureSatisfies))
            }
            StepState::Blocked => true,
            StepState::Skipped => {
                self.is_for_failure(*on) && !self.reads(Misreading::SkipForFailureSatisfies)
            }
            _ => false,
        };
        let spec = &self.plan.steps[step];
        let failed: Vec<usize> = spec.depends_on.iter().copied().filter(has_failed).collect();
        if failed.is_empty() {
            return None;
        }
        let word = spec
            .on_dependency_failure
            .unwrap_or(self.limits.on_dependency_failure);
        if word != OnDependencyFailure::ByRequired {
            return Some(word);
        }
        let skips = |on: usize| {
            let is_required = self.limits.is_required(&self.plan.steps[on]);
            self.steps[on].state != StepState::Failed || is_required
        };
        let skips = failed.into_iter().any(skips);
        Some(if skips {
            OnDependencyFailure::Skip
        } else {
            OnDependencyFailure::Null
        })
    }

    /// RUN-3.7.
    fn has_room(&self, step: usize) -> bool {
        let runs = |other: &usize| self.steps[*other].state == StepState::Running;
        let running: Vec<usize> = (0..self.steps.len()).filter(runs).collect();
        if running.is_empty() {
            return true;
        }
        let n_marked = self.plan.steps.iter().filter(|it| it.is_async).count();
        let counts_all = self.limits.async_by_default
            && match n_marked {
                0 => !self.reads(Misreading::OnlyMarkedStepsOverlap),
                _ => self.reads(Misreading::MarksAreOverruled),
            };
        let is_async = |other: &usize| counts_all || self.plan.steps[*other].is_async;
        let all_async = running.iter().chain([&step]).all(is_async);
        let counts_waiting = self.reads(Misreading::WaitingStepsTakeRoom);
        let takes_room = |other: &&usize| counts_waiting || self.shown_step(**other) != StepState::Waiting;
        let n_taken = running.iter().filter(takes_room).count();
        self.plan.parallel && all_async && n_taken < self.limits.max_concurrency
    }

    fn start(&mut self, step: usize) -> bool {
        self.steps[step].state = StepState::Running;
        match self.plan.steps[step].kind.clone() {
            Kind::Call(_) | Kind::Decision(_) | Kind::Child => self.add_unit(step),
            Kind::Question { .. } => {
                self.add_unit(step);
                self.ask(RequestKind::Question, Some((step, 0)));
            }
            Kind::Condition { .. } => {
                self.add_unit(step);
                self.unit((step, 0)).state = UnitState::InFlight;
                self.steps[step].question = Evaluation::Needed;
            }
            Kind::Parallel { n_items, .. } => {
                if n_items == 0 {
                    self.complete_step(step, Value::List(Vec::new()));
                }
            }
            Kind::Loop { max_iterations, .. } => {
                if max_iterations == 0 {
                    self.complete_step(step, Value::List(Vec::new())); // RUN-4.9
                } else {
                    self.add_unit(step);
                }
            }
        }
        true
    }

    /// Gives a running step what is due. Returns whether anything changed.
    fn serve(&mut self, step: usize) -> bool {
        if self.steps[step].question == Evaluation::Needed {
            self.ask_expression(step);
            return true;
        }
        if self.begins_batch(step) {
            return true;
        }
        for index in 0..self.steps[step].units.len() {
            let is_due = match self.steps[step].units[index].state {
                UnitState::Due => true,
                UnitState::BackingOff(at) => at <= self.now,
                _ => false,
            };
            if is_due {
                self.dispatch((step, index));
                return true;
            }
        }
        false
    }

    /// RUN-4.8: a batch begins once all of the one before have ended.
    fn begins_batch(&mut self, step: usize) -> bool {
        let Kind::Parallel {
            n_items, batch_size, ..
        } = self.plan.steps[step].kind
        else {
            return false;
        };
        let n_units = self.steps[step].units.len();
        let n_live = self.steps[step]
            .units
            .iter()
            .filter(|unit| !unit.has_ended())
            .count();
        let overlaps = self.reads(Misreading::BatchesOverlap);
        if n_units == n_items || (n_live > 0 && !overlaps) || n_live >= batch_size {
            return false;
        }
        let n_more = if overlaps { batch_size - n_live } else { batch_size };
        for _ in 0..n_more.min(n_items - n_units) {
            self.add_unit(step);
        }
        true
    }

    /// After an iteration: what needs nobody outside is known at once.
    pub(super) fn look_at_condition(&mut self, step: usize) {
        self.steps[step].question = Evaluation::Needed;
        if let Kind::Loop {
            condition: Some(Expression::Literal(_) | Expression::ResultOf(_)),
            ..
        } = self.plan.steps[step].kind
        {
            self.ask_expression(step);
        }
    }

    /// RUN-4.10.
    fn ask_expression(&mut self, step: usize) {
        let expression = match &self.plan.steps[step].kind {
            Kind::Condition { expression, .. } => *expression,
            Kind::Loop {
                condition: Some(expression),
                ..
            } => *expression,
            _ => return,
        };
        let epoch = self.steps[step].epoch;
        self.steps[step].question = Evaluation::Asked;
        match expression {
            Expression::Literal(value) => self.evaluated(step, epoch, Some(value)),
            Expression::ResultOf(other) => {
                let other = &self.steps[other];
                let counts = other.output.as_ref().is_some_and(Value::counts_as_true);
                self.evaluated(step, epoch, Some(counts && other.state == StepState::Completed));
            }
            Expression::Outside => self.commands.push(Command::Evaluate(step)),
        }
    }

    /// What an expression came to.
    pub(super) fn evaluated(&mut self, step: usize, epoch: u32, value: Option<bool>) {
        let Some(it) = self.steps.get_mut(step) else {
            return;
        };
        let is_awaited =
            it.state == StepState::Running && it.epoch == epoch && it.question == Evaluation::Asked;
        if !is_awaited {
            return;
        }
        it.question = Evaluation::None;
        let is_condition = matches!(self.plan.steps[step].kind, Kind::Condition { .. });
        match value {
            None if is_condition => self.fail_unit((step, 0), "EXPRESSION_FAILED"),
            None => self.fail_step(step, "EXPRESSION_FAILED"),
            Some(value) if is_condition => {
                self.unit((step, 0)).state = UnitState::Completed(Value::Bool(value));
                self.complete_step(step, Value::Bool(value));
            }
            Some(true) => self.add_unit(step),
            Some(false) => self.complete_with_list(step),
        }
    }

    pub(super) fn complete_with_list(&mut self, step: usize) {
        let output = |unit: &super::run::Unit| match &unit.state {
            UnitState::Completed(value) => value.clone(),
            _ => Value::Null,
        };
        let list = self.steps[step].units.iter().map(output).collect();
        self.complete_step(step, Value::List(list));
    }

    /// A step completes, and leads where it leads.
    pub(super) fn complete_step(&mut self, step: usize, output: Value) {
        let side = output.counts_as_true();
        self.steps[step].state = StepState::Completed;
        self.steps[step].output = Some(output);
        self.after_step(step);
        if self.steps[step].pauses {
            self.wants_pause = true; // RUN-4.7
        }
        let spec = self.plan.steps[step].clone();
        if let Kind::Condition {
            true_step,
            false_step,
            ..
        } = spec.kind
        {
            self.take_side(step, side, true_step, false_step);
        }
        if let Some(target) = spec.on_success {
            self.jump(step, target);
        }
    }

    /// RUN-3.8: the pending steps up to the target, and the target that was not taken.
    fn take_side(&mut self, step: usize, side: bool, true_step: Option<usize>, false_step: Option<usize>) {
        let (taken, other) = if side {
            (true_step, false_step)
        } else {
            (false_step, true_step)
        };
        if let Some(target) = taken {
            self.jump(step, target);
        }
        let keeps_other = self.reads(Misreading::OtherArmStays);
        if let Some(other) = other.filter(|other| Some(*other) != taken && !keeps_other) {
            self.go_past(step, other);
        }
    }

    fn jump(&mut self, step: usize, target: usize) {
        for between in step + 1..target {
            self.go_past(step, between);
        }
    }

    fn go_past(&mut self, branch: usize, step: usize) {
        if self.steps[step].state == StepState::Pending {
            self.skip(step, Reason::Branch);
            self.steps[step].passed_by = Some(branch);
        }
    }

    pub(super) fn skip(&mut self, step: usize, reason: Reason) -> bool {
        self.steps[step].state = StepState::Skipped;
        self.steps[step].reason = Some(reason);
        self.progress();
        true
    }

    /// RUN-5.5: a step fails, and leads where it leads.
    pub(super) fn fail_step(&mut self, step: usize, code: Code) {
        self.steps[step].state = StepState::Failed;
        self.steps[step].code = Some(code);
        self.after_step(step);
        match self.limits.on_failure_of(&self.plan.steps[step]) {
            OnFailure::Abort => self.fail_revision(code, false),
            OnFailure::Drain => self.fail_revision(code, !self.reads(Misreading::DrainAborts)),
            OnFailure::Skip => {}
            OnFailure::Jump(target) => self.jump(step, target),
        }
    }

    /// RUN-5.6: the first failure stays the cause, and an abort ends a drain.
    fn fail_revision(&mut self, code: Code, drains: bool) {
        let was_aborting = self.is_aborting();
        let first = self.failing.unwrap_or(Failing { drains, code });
        let code = if self.reads(Misreading::LastFailureIsTheCause) {
            code
        } else {
            first.code
        };
        self.failing = Some(Failing {
            drains: first.drains && drains,
            code,
        });
        // RUN-5.6
        if self.is_aborting() && !was_aborting {
            (0..self.steps.len()).for_each(|step| self.cancel_children(step));
        }
    }

    /// What every end of a step means.
    fn after_step(&mut self, step: usize) {
        self.progress();
        self.cancel_children(step);
        self.close_requests(step);
        self.steps[step].question = Evaluation::None;
    }

    /// RUN-3.9, RUN-10.1: what is left once nothing changes any more. Returns whether another revision begins.
    pub(super) fn end_if_done(&mut self) -> bool {
        if self.wants_pause || self.end.is_some() || self.has_in_flight() {
            return false;
        }
        if self.is_aborting() {
            return self.end_failed();
        }
        if self.steps.iter().any(|step| step.state == StepState::Running) {
            return false;
        }
        if self.steps.iter().any(|step| step.state == StepState::Pending) {
            for step in self
                .steps
                .iter_mut()
                .filter(|step| step.state == StepState::Pending)
            {
                step.state = StepState::Blocked;
            }
            self.fail_revision("DEADLOCK", false);
        }
        if self.failing.is_some() {
            return self.end_failed();
        }
        let completed = self
            .steps
            .iter()
            .rev()
            .find(|step| step.state == StepState::Completed);
        let output = completed.and_then(|step| step.output.clone()); // RUN-10.2
        let is_partial = self.steps.iter().any(|step| step.state == StepState::Failed);
        match self.first_failure {
            Some(code) => self.fell_back(code, output),
            None => self.end_with(End::Completed { is_partial, output }),
        }
        false
    }

    fn end_failed(&mut self) -> bool {
        let code = self.failing.map_or("", |failing| failing.code);
        self.revision_failed(code)
    }
}
