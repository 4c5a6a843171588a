//! Sections 4 and 5: units, what their outcomes are, and what follows from a failure.

use super::misreading::Misreading;
use super::plan::{Action, Doubt, Kind, Risk};
use super::run::{Run, Unit, UnitState};
use super::words::{AttemptId, Code, Command, Outcome, RequestKind, SAFETY_INDEX, StepState, UnitId, Value};

impl Run {
    pub(super) fn add_unit(&mut self, step: usize) {
        let max_retries = self.max_retries(step);
        self.steps[step].units.push(Unit {
            state: UnitState::Due,
            n_attempts: 0,
            n_retries: 0,
            max_retries,
            n_uncounted: 0,
            is_approved: false,
            handler_is_approved: false,
            n_checks: 0,
            is_checked_now: false,
            verdict: None,
            is_cut: false,
            last: "",
        });
    }

    pub(super) fn max_retries(&self, step: usize) -> u32 {
        self.plan.steps[step]
            .max_retries
            .unwrap_or(self.limits.max_retries)
    }

    pub(super) fn action(&self, step: usize) -> Option<Action> {
        match &self.plan.steps[step].kind {
            Kind::Call(action) | Kind::Parallel { action, .. } | Kind::Loop { action, .. } => Some(*action),
            Kind::Decision(_) => Some(Action {
                repeatable: true,
                has_effect: false,
                risk: Risk::Safe,
            }),
            Kind::Question { .. } | Kind::Condition { .. } | Kind::Child => None,
        }
    }

    /// RUN-6.2.
    fn needs_approval(&self, step: usize) -> bool {
        let Some(action) = self.action(step) else {
            return false;
        };
        match self.limits.autonomy {
            0 => true,
            1 | 2 => action.risk >= Risk::Unusual,
            3 => action.risk >= Risk::Destructive,
            _ => false,
        }
    }

    /// RUN-6.11: at level 3, what is destructive, if an action is named.
    fn is_put_to_check(&self, step: usize) -> bool {
        let is_destructive = self
            .action(step)
            .is_some_and(|action| action.risk == Risk::Destructive);
        self.limits.autonomy == 3 && self.limits.checks && is_destructive
    }

    /// RUN-6.11.
    fn check_safety(&mut self, id: UnitId) {
        let unit = self.unit(id);
        unit.state = UnitState::InFlight;
        unit.is_checked_now = true;
        unit.n_checks += 1;
        let number = unit.n_checks;
        self.commands
            .push(Command::Dispatch((id.0, SAFETY_INDEX + id.1), number));
    }

    /// RUN-6.11: what a safety check said, if it is one that somebody waits for.
    fn check_ended(&mut self, attempt: AttemptId, outcome: &Outcome) {
        let (step, index) = (attempt.unit.0, attempt.unit.1 - SAFETY_INDEX);
        let Some(it) = self.steps.get(step).filter(|it| it.epoch == attempt.epoch) else {
            return;
        };
        let is_running = it.state == StepState::Running;
        let is_it = |unit: &Unit| unit.is_checked_now && unit.n_checks == attempt.number;
        if !is_running || !it.units.get(index).is_some_and(is_it) {
            return;
        }
        let is_misread = self.reads(Misreading::SilentChecksClear);
        let unit = self.unit((step, index));
        unit.is_checked_now = false;
        unit.state = UnitState::Due;
        unit.verdict = Some(match outcome {
            Outcome::Completed(value) => *value == Value::Bool(true),
            _ => is_misread,
        });
        self.progress();
    }

    /// One more attempt, or the question that comes before.
    pub(super) fn dispatch(&mut self, id: UnitId) {
        let (step, _) = id;
        let is_gated = self.needs_approval(step) && !self.unit(id).is_approved;
        let verdict = self.unit(id).verdict;
        let is_checked = is_gated && self.is_put_to_check(step);
        if is_gated && !(is_checked && verdict != Some(false)) {
            return self.ask(RequestKind::Gate, Some(id));
        }
        // RUN-7.4
        if let Some(limit) = self.limit_that_is_near() {
            return self.time_out(limit);
        }
        if is_checked && verdict.is_none() {
            return self.check_safety(id);
        }
        if self.takes_result(id) {
            return;
        }
        let is_child = self.plan.steps[step].kind == Kind::Child;
        let is_cut = !is_child && self.cuts(step);
        let unit = self.unit(id);
        unit.state = UnitState::InFlight;
        unit.is_cut = is_cut;
        unit.n_attempts += 1;
        let number = unit.n_attempts;
        let command = if is_child {
            Command::StartChild(id, number)
        } else {
            Command::Dispatch(id, number)
        };
        self.commands.push(command);
        if self.reads(Misreading::DispatchIsProgress) {
            self.progress();
        }
    }

    /// RUN-5.1 has made the outcome; this is RUN-5.2.
    pub(super) fn settle(&mut self, attempt: AttemptId, outcome: &Outcome) {
        if attempt.unit.1 >= SAFETY_INDEX {
            return self.check_ended(attempt, outcome);
        }
        self.note_fenced(attempt, outcome);
        if !self.waits_for(attempt) {
            return; // RUN-4.4
        }
        let id = attempt.unit;
        let repeatable = self.action(id.0).is_none_or(|action| action.repeatable);
        let has_no_retry = self.has_no_retry(id);
        let waits = *outcome == Outcome::TimedOut && repeatable && self.unit(id).is_cut && has_no_retry;
        let waits = waits && !self.reads(Misreading::CutIsFailure);
        if !matches!(outcome, Outcome::NeverRan(_) | Outcome::Unknown { .. }) && !waits {
            self.unit(id).n_uncounted = 0;
        }
        match outcome {
            Outcome::Completed(output) => self.complete_unit(id, output.clone()),
            Outcome::NeverRan(_) if self.reads(Misreading::NeverRanCounts) => self.retry(id, "NEVER_RAN"),
            Outcome::NeverRan(_) => self.try_again(id),
            Outcome::Failed(code) => self.retry(id, code),
            Outcome::ForGood(code) => self.fail_unit(id, code),
            Outcome::ApprovalRequired if self.unit(id).handler_is_approved || self.unit(id).is_approved => {
                self.fail_unit(id, "APPROVAL_REQUIRED")
            }
            Outcome::ApprovalRequired => self.ask(RequestKind::HandlerApproval, Some(id)), // RUN-6.7
            Outcome::TimedOut if waits => self.await_end(id),
            Outcome::TimedOut if repeatable => self.retry(id, "TOOL_TIMEOUT"),
            Outcome::TimedOut => self.doubt(id, self.limits.timed_out, "TOOL_TIMEOUT"),
            Outcome::Unknown { of_restart: true, .. } if repeatable => self.try_again(id),
            Outcome::Unknown { code, .. } if repeatable => self.retry(id, code),
            Outcome::Unknown { code, .. } => self.doubt(id, self.limits.unknown, code),
        }
    }

    /// RUN-4.8: an item of a step that has ended says what it says, and changes nothing.
    fn note_fenced(&mut self, attempt: AttemptId, outcome: &Outcome) {
        let (step, index) = attempt.unit;
        let Some(it) = self
            .steps
            .get_mut(step)
            .filter(|step| step.has_ended() && step.epoch == attempt.epoch)
        else {
            return;
        };
        let unit = it.units.get_mut(index);
        let is_it = |unit: &&mut Unit| unit.state == UnitState::InFlight && unit.n_attempts == attempt.number;
        if let Some(unit) = unit.filter(is_it) {
            unit.state = match outcome {
                Outcome::Completed(output) => UnitState::Completed(output.clone()),
                _ => UnitState::Failed("FENCED"),
            };
        }
    }

    fn doubt(&mut self, id: UnitId, word: Doubt, code: Code) {
        self.unit(id).n_uncounted = 0;
        match word {
            Doubt::Retry => self.retry(id, code),
            Doubt::Fail if self.reads(Misreading::DoubtIsRetried) => self.retry(id, code),
            Doubt::Fail => self.fail_unit(id, "AMBIGUOUS_EFFECT"),
            Doubt::Ask => self.ask(RequestKind::Effect, Some(id)),
        }
    }

    /// RUN-5.3: uncounted.
    fn try_again(&mut self, id: UnitId) {
        let now = self.now;
        let unit = self.unit(id);
        let delay_ms = (1_000_u64 << unit.n_uncounted.min(5)).min(30_000);
        unit.n_uncounted += 1;
        unit.state = UnitState::BackingOff(now + delay_ms);
    }

    fn has_no_retry(&mut self, id: UnitId) -> bool {
        let escalate = self.limits.escalate;
        let unit = self.unit(id);
        unit.n_retries >= unit.max_retries && !(escalate && unit.n_retries > 0)
    }

    /// Makes a unit whose time was cut wait for the end of the outer limit (RUN-7.4).
    fn await_end(&mut self, id: UnitId) {
        let at = self.now + self.left_ms();
        let unit = self.unit(id);
        unit.n_uncounted += 1;
        unit.state = UnitState::BackingOff(at);
    }

    /// RUN-5.3, RUN-5.4: counted.
    fn retry(&mut self, id: UnitId, code: Code) {
        let escalate = self.limits.escalate;
        let unit = self.unit(id);
        unit.n_uncounted = 0;
        unit.last = code;
        if unit.n_retries < unit.max_retries {
            unit.n_retries += 1;
            self.back_off(id);
        } else if escalate && unit.n_retries > 0 {
            self.ask(RequestKind::Extension, Some(id));
        } else {
            self.fail_unit(id, code);
        }
    }

    pub(super) fn back_off(&mut self, id: UnitId) {
        let k = self.unit(id).n_retries;
        let k = if self.reads(Misreading::FirstRetryWaitsTwice) {
            k + 1
        } else {
            k
        };
        let at = self.now + self.limits.delay_ms(k);
        self.unit(id).state = UnitState::BackingOff(at);
    }

    pub(super) fn complete_unit(&mut self, id: UnitId, output: Value) {
        let (step, _) = id;
        self.steps[step].pauses |= output == Value::Pause;
        self.unit(id).state = UnitState::Completed(output.clone());
        self.progress();
        match self.plan.steps[step].kind.clone() {
            Kind::Call(_) | Kind::Question { .. } | Kind::Condition { .. } | Kind::Child => {
                self.complete_step(step, output);
            }
            Kind::Decision(choices) => self.choose(step, &choices, output),
            Kind::Parallel { wait_all, .. } => {
                if wait_all {
                    self.finish_parallel(step);
                } else {
                    self.complete_with_list(step);
                }
            }
            Kind::Loop {
                max_iterations,
                condition,
                ..
            } => {
                if self.steps[step].units.len() >= max_iterations {
                    self.complete_with_list(step);
                } else if condition.is_some() {
                    self.look_at_condition(step);
                } else {
                    self.add_unit(step);
                }
            }
        }
    }

    /// RUN-4.11.
    fn choose(&mut self, step: usize, choices: &[String], output: Value) {
        let given = match &output {
            Value::Text(text) => text.trim().to_owned(),
            _ => String::new(),
        };
        let exactly = choices.iter().find(|choice| **choice == given);
        let but_for_case = || {
            choices
                .iter()
                .find(|choice| choice.to_lowercase() == given.to_lowercase())
        };
        if choices.is_empty() {
            self.complete_step(step, output);
        } else if let Some(choice) = exactly.or_else(but_for_case) {
            self.complete_step(step, Value::Text(choice.clone()));
        } else if self.steps[step].units.len() == 1 {
            self.add_unit(step);
        } else {
            self.fail_step(step, "DECISION_INVALID");
        }
    }

    pub(super) fn fail_unit(&mut self, id: UnitId, code: Code) {
        let (step, _) = id;
        self.unit(id).state = UnitState::Failed(code);
        if let Kind::Call(action) | Kind::Parallel { action, .. } | Kind::Loop { action, .. } =
            self.plan.steps[step].kind
            && self.unit(id).n_attempts > 0
        {
            self.given_up.push(action);
        }
        self.progress();
        match self.plan.steps[step].kind {
            Kind::Parallel { .. } => self.finish_parallel(step),
            _ => self.fail_step(step, code),
        }
    }

    /// RUN-4.8: once all have ended.
    fn finish_parallel(&mut self, step: usize) {
        let Kind::Parallel { n_items, .. } = self.plan.steps[step].kind else {
            return;
        };
        let units = &self.steps[step].units;
        let has_failed = |unit: &Unit| matches!(unit.state, UnitState::Failed(_));
        let at_once = self.reads(Misreading::FirstFailedItemFails) && units.iter().any(has_failed);
        if !at_once && (units.len() < n_items || !units.iter().all(Unit::has_ended)) {
            return;
        }
        if units.iter().any(has_failed) {
            self.fail_step(step, "PARALLEL_FAILED");
        } else {
            self.complete_with_list(step);
        }
    }

    /// RUN-4.12: a child that nobody waits for.
    pub(super) fn cancel_children(&mut self, step: usize) {
        if self.plan.steps[step].kind != Kind::Child || self.steps[step].state == StepState::Pending {
            return;
        }
        for index in 0..self.steps[step].units.len() {
            let unit = &self.steps[step].units[index];
            if unit.state == UnitState::InFlight {
                self.commands
                    .push(Command::CancelChild((step, index), unit.n_attempts));
            }
        }
    }
}
