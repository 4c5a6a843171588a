//! What becomes of an execution, interpreted rule by rule with scans over all steps.
//! Keeps no texts and no record.

use super::decided::{Command, Ended, Said};
use super::errors::{Classified, is_listed, settle_severity, severity_of};
use super::lists::mandatory_actions;
use super::objects::is_object;
use super::rules::Rules;
use super::timers::{Timer, first_due};
use super::words::{Input, Moment, NotCompleted, Outcome, Phase, Status, StepState, WithdrawReason};
use crate::planted::misreads;
use escapement_model::{Opaque, Severity};
use std::collections::BTreeMap;

/// An execution.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// What was asked for.
    pub rules: Rules,
    /// The canonical order.
    pub order: Vec<usize>,
    /// Where it stands.
    pub phase: Phase,
    /// Where its steps stand, by their places in the plan's list.
    pub states: Vec<StepState>,
    step_due: Vec<Option<u64>>,
    limit_due: Option<u64>,
    started_at: Option<i64>,
    errors: Vec<Option<Classified>>,
    /// Every error in the order in which it was settled, with its attempt.
    pub trace: Vec<(Classified, Option<u32>)>,
    /// Step, attempt to come, delay.
    pub retries: Vec<(usize, u32, u64)>,
    /// Outputs of completed steps.
    pub outputs: BTreeMap<usize, Opaque>,
    /// Reason why a step did not complete, and after how many attempts.
    pub not_completed: BTreeMap<usize, (NotCompleted, u32)>,
    /// Attempts that completed steps took.
    pub completed: BTreeMap<usize, u32>,
    /// What must be done, until somebody takes it.
    pub commands: Vec<Command>,
    /// What the record must say, in order.
    pub said: Vec<Said>,
    /// Once it is decided.
    pub ended: Option<Ended>,
    start_is_being_written: bool,
}

impl Interpreter {
    /// Creates an execution that was accepted.
    pub fn accept(rules: Rules, now: Moment) -> Self {
        let n_steps = rules.depends_on.len();
        let time_left = u64::try_from(rules.deadline_ms - now.unix_ms).unwrap_or(0);
        Self {
            order: rules.canonical_order(),
            phase: Phase::Queued,
            states: vec![StepState::Pending; n_steps],
            step_due: vec![None; n_steps],
            limit_due: Some(now.monotonic_ms + time_left),
            started_at: None,
            errors: vec![None; n_steps],
            trace: Vec::new(),
            retries: Vec::new(),
            outputs: BTreeMap::new(),
            not_completed: BTreeMap::new(),
            completed: BTreeMap::new(),
            commands: Vec::new(),
            said: Vec::new(),
            ended: None,
            start_is_being_written: false,
            rules,
        }
    }

    /// Returns the earliest instant at which time alone changes something.
    pub fn next_due_ms(&self) -> Option<u64> {
        first_due(self.limit_due, &self.step_due, &self.order).map(|(due, _)| due)
    }

    /// Returns the earliest instant at which a step's timer fires.
    pub fn next_step_due_ms(&self) -> Option<u64> {
        self.step_due.iter().flatten().min().copied()
    }

    /// The plan's limit while the execution is under way.
    pub fn plan_due_ms(&self) -> Option<u64> {
        self.limit_due.filter(|_| self.phase > Phase::Queued)
    }

    /// Returns the time at which the timer of a step fires: the limit of its attempt, or the end of its sleep.
    pub fn step_due_ms(&self, step: usize) -> Option<u64> {
        self.step_due[step]
    }

    /// Returns the error that a step ended with.
    pub fn error_of(&self, step: usize) -> Option<&Classified> {
        self.errors[step].as_ref()
    }

    /// True from the wish that the start be written until its answer.
    pub fn start_is_being_written(&self) -> bool {
        self.start_is_being_written
    }

    ///
    pub fn time_left_ms(&self, step: usize, now: Moment) -> u64 {
        let of_plan = self.limit_due.unwrap_or(0).saturating_sub(now.monotonic_ms);
        let of_step = match self.step_due[step] {
            Some(due) => due.saturating_sub(now.monotonic_ms),
            None => self.rules.step_timeout_ms[step].unwrap_or(u64::MAX),
        };
        of_step.min(of_plan).max(1)
    }

    /// Returns true if somebody must answer a write.
    pub fn waits_for_a_write(&self) -> bool {
        self.start_is_being_written || self.phase == Phase::Settling
    }

    /// Takes in what happened; false if it is refused.
    pub fn handle(&mut self, now: Moment, input: &Input) -> bool {
        self.fire_due(now);
        match (self.phase, input) {
            (_, Input::Tick) => true,
            (Phase::Queued, Input::Start) => {
                self.start(now);
                true
            }
            (Phase::Starting, Input::StartPersisted) => {
                self.start_is_being_written = false;
                self.phase = Phase::Running;
                self.take_up(now);
                true
            }
            // The write that was asked for is answered, too late to matter.
            (Phase::Settling | Phase::Settled, Input::StartPersisted) => {
                std::mem::take(&mut self.start_is_being_written)
            }
            (Phase::Settling, Input::SettlePersisted) => {
                self.deliver();
                true
            }
            (Phase::Running, input) => self.handle_step(now, input),
            (Phase::Queued | Phase::Starting | Phase::Settling | Phase::Settled, _) => false,
        }
    }

    /// The limit ends now, whatever the clock says: the deadline while queued, the plan's limit afterwards.
    pub fn fire_limit(&mut self, now: Moment) {
        match self.phase {
            Phase::Queued => self.stop_plan("DEADLINE_EXCEEDED", now),
            Phase::Starting | Phase::Running => self.stop_plan("PLAN_TIMEOUT", now),
            Phase::Settling | Phase::Settled => {}
        }
    }

    /// The sleep of a step ends now, whatever the clock says; false if it does not sleep.
    pub fn wake(&mut self, step: usize, now: Moment) -> bool {
        let StepState::BackingOff { .. } = self.states[step] else {
            return false;
        };
        self.fire_step(step, now.monotonic_ms, now);
        true
    }

    /// another process accepted the execution, and this one must not run it any more.
    pub fn interrupted(&mut self, now: Moment) {
        self.stop_plan("UNKNOWN_ERROR", now);
    }

    fn fire_due(&mut self, now: Moment) {
        if now.unix_ms >= self.rules.deadline_ms && misreads("wall-clock-deadline") {
            self.fire_limit(now);
        }
        while let Some((due, timer)) = first_due(self.limit_due, &self.step_due, &self.order) {
            if due > now.monotonic_ms {
                return;
            }
            match timer {
                Timer::Limit => self.fire_limit(now),
                Timer::Step(step) => self.fire_step(step, due, now),
            }
            self.take_up(now);
        }
    }

    fn fire_step(&mut self, step: usize, due: u64, now: Moment) {
        self.step_due[step] = None;
        match self.states[step] {
            StepState::BackingOff { next_attempt } => self.dispatch(step, next_attempt),
            StepState::Assigned { attempt } | StepState::Started { attempt } => {
                //
                if !misreads("timeout-not-withdrawn") {
                    self.commands
                        .push(Command::Withdraw(step, attempt, WithdrawReason::StepTimeout));
                }
                let severity = severity_of("STEP_TIMEOUT", None, &self.rules.retryable);
                self.attempt_failed(step, attempt, "STEP_TIMEOUT", severity, due, now);
            }
            state => panic!("no timer runs for a step that is {state:?}"),
        }
    }

    fn start(&mut self, now: Moment) {
        self.said.push(Said::Started(now.unix_ms));
        let time_left = self.rules.deadline_ms - now.unix_ms;
        // before
        let has_deadline = self.rules.deadline_ms < i64::MAX;
        if has_deadline && (time_left < self.rules.plan_timeout_ms as i64 || time_left <= 0) {
            return self.stop_plan("DEADLINE_EXCEEDED", now);
        }
        if self.rules.context_is_missing {
            return self.stop_plan("CONTEXT_MISSING", now);
        }
        self.phase = Phase::Starting;
        self.started_at = Some(now.unix_ms);
        self.limit_due = Some(now.monotonic_ms + self.rules.plan_timeout_ms);
        self.start_is_being_written = true;
        self.commands.push(Command::PersistStart(now.unix_ms));
    }

    fn handle_step(&mut self, now: Moment, input: &Input) -> bool {
        let (step, attempt) = match input {
            Input::Assigned { step, attempt, .. }
            | Input::AttemptStarted { step, attempt }
            | Input::AttemptReturned { step, attempt, .. }
            | Input::AttemptEnded { step, attempt, .. }
            | Input::ActionNotFound { step, attempt } => (*step, *attempt),
            Input::Start | Input::StartPersisted | Input::SettlePersisted | Input::Tick => return false,
        };
        let Some(state) = self.states.get(step).copied() else {
            return false;
        };
        //
        match (state, input) {
            (StepState::Waiting { attempt: current }, Input::Assigned { .. }) if current == attempt => {
                self.said.push(Said::Assigned(step, attempt));
                self.states[step] = StepState::Assigned { attempt };
                //
                self.step_due[step] =
                    self.rules.step_timeout_ms[step].map(|ms| now.monotonic_ms.saturating_add(ms));
            }
            (StepState::Waiting { attempt: current }, Input::ActionNotFound { .. }) if current == attempt => {
                //
                self.attempt_failed(
                    step,
                    attempt,
                    "ACTION_NOT_FOUND",
                    Severity::Fatal,
                    now.monotonic_ms,
                    now,
                );
            }
            (StepState::Assigned { attempt: current }, Input::AttemptStarted { .. })
                if current == attempt =>
            {
                self.said.push(Said::AttemptStarted(step, attempt));
                self.states[step] = StepState::Started { attempt };
            }
            (StepState::Assigned { attempt: current }, Input::AttemptReturned { is_refused, .. })
            | (
                StepState::Started { attempt: current },
                Input::AttemptReturned {
                    is_refused: is_refused @ true,
                    ..
                },
            ) if current == attempt => {
                //
                self.said.push(Said::Returned(step, attempt, *is_refused));
                self.step_due[step] = None;
                self.dispatch(step, attempt);
            }
            (
                StepState::Assigned { attempt: current } | StepState::Started { attempt: current },
                Input::AttemptEnded { outcome, .. },
            ) if current == attempt || misreads("stale-outcome") => {
                // before the attempt was acknowledged as started it can only be returned.
                if *outcome == Outcome::Lost && !matches!(state, StepState::Started { .. }) {
                    return false;
                }
                self.step_due[step] = None;
                self.attempt_ended(step, attempt, outcome, now);
            }
            _ => return false,
        }
        self.take_up(now);
        true
    }

    fn attempt_ended(&mut self, step: usize, attempt: u32, outcome: &Outcome, now: Moment) {
        let instant = now.monotonic_ms;
        match outcome {
            Outcome::Completed { output, .. } if output.len() > 1 << 20 => {
                //
                self.attempt_failed(step, attempt, "RESOURCE_EXHAUSTED", Severity::Fatal, instant, now);
            }
            Outcome::Completed { output, .. } if !is_object(output, None) => {
                //
                self.attempt_failed(step, attempt, "UNKNOWN_ERROR", Severity::Fatal, instant, now);
            }
            Outcome::Completed { output, .. } => {
                self.states[step] = StepState::Completed;
                self.outputs.insert(step, output.clone());
                self.completed.insert(step, attempt);
                self.said.push(Said::Completed(step, attempt));
            }
            Outcome::Failed(reported) => {
                let (code, severity) = settle_severity(reported, &self.rules.retryable);
                self.attempt_failed(step, attempt, &code, severity, instant, now);
            }
            Outcome::Undecodable => {
                self.attempt_failed(step, attempt, "UNKNOWN_ERROR", Severity::Fatal, instant, now);
            }
            Outcome::Lost => {
                self.attempt_failed(step, attempt, "WORKER_LOST", Severity::Error, instant, now);
            }
        }
    }

    /// The table of section 4.
    fn attempt_failed(
        &mut self,
        step: usize,
        attempt: u32,
        code: &str,
        severity: Severity,
        instant: u64,
        now: Moment,
    ) {
        let error = Classified::new(code, Some(step), severity);
        self.trace.push((error.clone(), Some(attempt)));
        self.said.push(Said::Failed(step, attempt, error.clone()));
        let on_failure = self.rules.on_failure[step];
        let is_eligible = is_listed(code, &self.rules.retryable);
        let attempts_max = self.rules.max_attempts + u32::from(misreads("retry-too-many"));
        let attempts_are_left = attempt < attempts_max;
        let reason = match (severity, on_failure) {
            (Severity::Warn, _) => NotCompleted::WarnedWithoutOutput,
            (Severity::Fatal, _) | (Severity::Error, 0) => NotCompleted::Failed,
            (Severity::Error, 1) => NotCompleted::Skipped,
            (Severity::Error, _) if !is_eligible => NotCompleted::NotRetryable,
            (Severity::Error, _) if !attempts_are_left => NotCompleted::RetriesExhausted,
            (Severity::Error, _) => return self.retry(step, attempt, instant),
        };
        self.end_step(step, error.clone(), reason, attempt);
        match severity {
            Severity::Fatal => self.settle(Some(error), now),
            Severity::Error if on_failure == 0 && !misreads("halt-goes-on") => {
                self.settle(Some(error.promoted()), now)
            }
            Severity::Error | Severity::Warn => {}
        }
    }

    fn retry(&mut self, step: usize, attempt: u32, instant: u64) {
        let delay = self.rules.delay_ms(attempt);
        self.retries.push((step, attempt + 1, delay));
        self.said.push(Said::Retry(step, attempt + 1, delay));
        if delay == 0 {
            return self.dispatch(step, attempt + 1);
        }
        self.states[step] = StepState::BackingOff {
            next_attempt: attempt + 1,
        };
        self.step_due[step] = Some(instant + delay);
    }

    fn end_step(&mut self, step: usize, error: Classified, reason: NotCompleted, attempts: u32) {
        self.states[step] = StepState::NotCompleted;
        self.step_due[step] = None;
        self.said
            .push(Said::NotCompleted(step, attempts, reason, error.clone()));
        self.errors[step] = Some(error);
        self.not_completed.insert(step, (reason, attempts));
    }

    fn dispatch(&mut self, step: usize, attempt: u32) {
        self.states[step] = StepState::Waiting { attempt };
        self.commands.push(Command::Dispatch(step, attempt));
        self.said.push(Said::Waiting(step, attempt));
    }

    /// whose turn it is, until a slot is missing or nothing is left.
    fn take_up(&mut self, now: Moment) {
        while self.phase == Phase::Running {
            let next = self
                .order
                .iter()
                .copied()
                .find(|step| self.states[*step] == StepState::Pending && self.is_ready(*step));
            let Some(step) = next else { break };
            //
            let failed = self.order.iter().copied().find(|other| {
                self.rules.depends_on[step].contains(other) && self.states[*other] == StepState::NotCompleted
            });
            match failed {
                // to the letter: nothing is taken up while no slot is free, not even a step that needs none.
                _ if self.slots_held() >= self.rules.n_slots => break,
                Some(other) => self.cannot_run(step, other, now),
                None => self.dispatch(step, 1),
            }
        }
        let all_ended = self
            .states
            .iter()
            .all(|s| matches!(s, StepState::Completed | StepState::NotCompleted));
        if self.phase == Phase::Running && all_ended {
            self.settle(None, now);
        }
    }

    fn is_ready(&self, step: usize) -> bool {
        let has_ended =
            |step: &usize| matches!(self.states[*step], StepState::Completed | StepState::NotCompleted);
        let mut depends_on = self.rules.depends_on[step].iter();
        if misreads("eager-step") && depends_on.clone().any(has_ended) {
            return true;
        }
        depends_on.all(has_ended)
    }

    ///
    pub fn slots_held(&self) -> usize {
        self.states.iter().filter(|state| is_under_way(**state)).count()
    }

    fn cannot_run(&mut self, step: usize, failed: usize, now: Moment) {
        let cause = self.errors[failed]
            .clone()
            .expect("a step that did not complete has an error");
        let is_skipped = self.rules.on_failure[step] == 1;
        let (code, severity, reason) = if is_skipped {
            ("STEP_SKIPPED", Severity::Warn, NotCompleted::Skipped)
        } else {
            (
                "DEPENDENCY_UNRESOLVED",
                Severity::Fatal,
                NotCompleted::DependencyUnresolved,
            )
        };
        let error = Classified::new(code, Some(step), severity).because_of(&cause);
        self.trace.push((error.clone(), None));
        self.end_step(step, error.clone(), reason, 0);
        if !is_skipped {
            self.settle(Some(error), now);
        }
    }

    fn stop_plan(&mut self, code: &str, now: Moment) {
        let error = Classified::new(code, None, Severity::Fatal);
        self.trace.push((error.clone(), None));
        self.settle(Some(error), now);
    }

    ///
    fn settle(&mut self, stopped_by: Option<Classified>, now: Moment) {
        for step in self.order.clone() {
            match self.states[step] {
                StepState::Completed | StepState::NotCompleted => continue,
                StepState::Waiting { attempt }
                | StepState::Assigned { attempt }
                | StepState::Started { attempt } => {
                    //
                    self.commands
                        .push(Command::Withdraw(step, attempt, WithdrawReason::ExecutionEnded));
                }
                StepState::Pending | StepState::BackingOff { .. } | StepState::Stopped => {}
            }
            self.states[step] = StepState::Stopped;
            self.step_due[step] = None;
        }
        self.limit_due = None;
        let n_completed = self
            .states
            .iter()
            .filter(|state| **state == StepState::Completed)
            .count();
        let by_position = || self.order.iter().filter_map(|step| self.errors[*step].clone());
        let (status, error) = match stopped_by {
            Some(error) => (Status::Failure, Some(error)),
            None if n_completed == self.states.len() => (Status::Success, None),
            // of equal severities the first stays.
            None if n_completed > 0 || misreads("empty-partial") => {
                let worst = by_position().reduce(|worst, next| {
                    if next.severity > worst.severity {
                        next
                    } else {
                        worst
                    }
                });
                (Status::Partial, worst)
            }
            //
            None => (
                Status::Failure,
                by_position().next().map(|error| error.promoted()),
            ),
        };
        self.say_the_end(status);
        let started_at = self.started_at.unwrap_or(now.unix_ms);
        //
        self.ended = Some(Ended {
            status,
            error,
            //
            steps_executed: match misreads("skipped-counts-as-executed") {
                true => n_completed + self.not_completed.len(),
                false => n_completed,
            },
            started_at,
            completed_at: now.unix_ms.max(started_at),
        });
        if misreads("emit-before-persist") {
            self.commands.push(Command::EmitEvent);
        }
        self.commands.push(Command::PersistResult);
        self.phase = Phase::Settling;
    }

    ///
    fn say_the_end(&mut self, status: Status) {
        self.said.extend(
            mandatory_actions(status)
                .into_iter()
                .map(|(rule_set, number, action)| Said::Action(rule_set, number, action)),
        );
        if status != Status::Success {
            let incomplete = self
                .order
                .iter()
                .copied()
                .filter(|step| self.states[*step] != StepState::Completed)
                .collect();
            self.said.push(Said::Incomplete(incomplete));
        }
        self.said.push(Said::Settled(status));
    }

    /// what follows the commit point.
    fn deliver(&mut self) {
        self.phase = Phase::Settled;
        let status = self.ended.as_ref().expect("only what ended is settled").status;
        self.commands.push(Command::EmitEvent);
        self.commands.extend(match status {
            Status::Success | Status::Partial => vec![Command::UpdatePlanRegistry, Command::ReleaseResources],
            Status::Failure => {
                vec![
                    Command::ReleaseResources,
                    Command::NotifyErrorHandler,
                    Command::UpdatePlanRegistry,
                ]
            }
        });
        self.commands.push(Command::ReturnResult);
    }
}

/// Returns true if a step holds a slot.
pub fn is_under_way(state: StepState) -> bool {
    match state {
        StepState::Waiting { .. }
        | StepState::Assigned { .. }
        | StepState::Started { .. }
        | StepState::BackingOff { .. } => true,
        StepState::Pending | StepState::Completed | StepState::NotCompleted | StepState::Stopped => false,
    }
}
