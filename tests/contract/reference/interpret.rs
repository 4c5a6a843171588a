//! What becomes of an execution, interpreted rule by rule with scans over all steps.
//! Keeps no texts and no record.

use super::errors::{Classified, is_listed, settle_severity, severity_of};
use super::timers::{Timer, first_due};
use super::validate::is_object;
use escapement_contract::{
    Input, Moment, NotCompleted, Outcome, Phase, RequestDraft, Status, StepState, WithdrawReason,
};
use escapement_model::{Opaque, Severity};
use std::collections::BTreeMap;

/// A plan and its options as far as they decide anything.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) depends_on: Vec<Vec<usize>>,
    /// 0 halt, 1 skip, 2 retry.
    on_failure: Vec<i32>,
    step_timeout_ms: Vec<Option<u64>>,
    plan_timeout_ms: u64,
    max_attempts: u32,
    backoff_ms: f64,
    backoff_multiplier: f64,
    max_backoff_ms: f64,
    retryable: Vec<String>,
    pub(crate) n_slots: usize,
    context_is_missing: bool,
    deadline_ms: i64,
}

/// What must be done, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    PersistStart(i64),
    Dispatch(usize, u32),
    Withdraw(usize, u32, WithdrawReason),
    PersistResult,
    EmitEvent,
    UpdatePlanRegistry,
    ReleaseResources,
    NotifyErrorHandler,
    ReturnResult,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) error: Option<Classified>,
    pub(crate) started_at: i64,
    pub(crate) completed_at: i64,
}

/// One execution.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    pub(crate) rules: Rules,
    pub(crate) order: Vec<usize>,
    pub(crate) phase: Phase,
    pub(crate) states: Vec<StepState>,
    step_due: Vec<Option<u64>>,
    limit_due: Option<u64>,
    started_at: Option<i64>,
    errors: Vec<Option<Classified>>,
    /// Every error in the order in which it was settled, with its attempt.
    pub(crate) trace: Vec<(Classified, Option<u32>)>,
    /// Step, attempt to come, delay.
    pub(crate) retries: Vec<(usize, u32, u64)>,
    pub(crate) outputs: BTreeMap<usize, Opaque>,
    /// Why a step did not complete, and after how many attempts.
    pub(crate) not_completed: BTreeMap<usize, (NotCompleted, u32)>,
    /// Attempts that completed steps took.
    pub(crate) completed: BTreeMap<usize, u32>,
    pub(crate) commands: Vec<Command>,
    pub(crate) ended: Option<Ended>,
    start_is_being_written: bool,
}

impl Rules {
    /// Reads a valid draft.
    pub(crate) fn of(draft: &RequestDraft, deadline_ms: i64) -> Self {
        let plan = draft.plan.as_ref().unwrap();
        let place = |id: &String| {
            plan.steps
                .iter()
                .position(|step| step.id.eq_ignore_ascii_case(id))
                .unwrap()
        };
        let policy = plan.retry_policy.clone().unwrap_or_default();
        let environment = draft.environment.clone().unwrap_or_default();
        Self {
            depends_on: plan
                .steps
                .iter()
                .map(|step| step.depends_on.iter().map(place).collect())
                .collect(),
            on_failure: plan.steps.iter().map(|step| step.on_failure).collect(),
            step_timeout_ms: plan
                .steps
                .iter()
                .map(|step| step.timeout_ms.map(|ms| ms as u64))
                .collect(),
            plan_timeout_ms: plan.timeout_ms.unwrap_or(300_000) as u64,
            max_attempts: policy.max_attempts.unwrap_or(1) as u32,
            backoff_ms: policy.backoff_ms.unwrap_or(0) as f64,
            backoff_multiplier: policy.backoff_multiplier.unwrap_or(1.0),
            max_backoff_ms: policy.max_backoff_ms.unwrap_or(60_000) as f64,
            retryable: policy.retryable_error_codes,
            n_slots: draft.max_concurrent_steps.unwrap_or(1) as usize,
            context_is_missing: plan
                .context_requirements
                .iter()
                .any(|key| !environment.has_key(key)),
            deadline_ms,
        }
    }

    /// again and again the first step of the list whose dependencies all stand in the order already.
    fn canonical_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        while order.len() < self.depends_on.len() {
            let next = (0..self.depends_on.len())
                .find(|step| {
                    !order.contains(step) && self.depends_on[*step].iter().all(|other| order.contains(other))
                })
                .expect("a valid plan has no cycle");
            order.push(next);
        }
        order
    }

    ///
    fn delay_ms(&self, retry: u32) -> u64 {
        let factor = (1..retry).fold(1.0, |factor, _| factor * self.backoff_multiplier);
        (self.backoff_ms * factor).min(self.max_backoff_ms) as u64
    }
}

impl Interpreter {
    pub(crate) fn accept(rules: Rules, now: Moment) -> Self {
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
            ended: None,
            start_is_being_written: false,
            rules,
        }
    }

    /// The earliest instant at which time alone changes something.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        first_due(self.limit_due, &self.step_due, &self.order).map(|(due, _)| due)
    }

    /// The earliest instant at which a step's timer fires.
    pub(crate) fn next_step_due_ms(&self) -> Option<u64> {
        self.step_due.iter().flatten().min().copied()
    }

    /// The plan's limit while the execution is under way.
    pub(crate) fn plan_due_ms(&self) -> Option<u64> {
        self.limit_due.filter(|_| self.phase > Phase::Queued)
    }

    ///
    pub(crate) fn time_left_ms(&self, step: usize, now: Moment) -> u64 {
        let of_plan = self.limit_due.unwrap_or(0).saturating_sub(now.monotonic_ms);
        let of_step = match self.step_due[step] {
            Some(due) => due.saturating_sub(now.monotonic_ms),
            None => self.rules.step_timeout_ms[step].unwrap_or(u64::MAX),
        };
        of_step.min(of_plan).max(1)
    }

    /// True where somebody must answer a write.
    pub(crate) fn waits_for_a_write(&self) -> bool {
        self.start_is_being_written || self.phase == Phase::Settling
    }

    /// Takes in what happened; false where it is refused.
    pub(crate) fn handle(&mut self, now: Moment, input: &Input) -> bool {
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

    fn fire_due(&mut self, now: Moment) {
        while let Some((due, timer)) = first_due(self.limit_due, &self.step_due, &self.order) {
            if due > now.monotonic_ms {
                return;
            }
            match timer {
                Timer::Limit if self.phase == Phase::Queued => self.stop_plan("DEADLINE_EXCEEDED", now),
                Timer::Limit => self.stop_plan("PLAN_TIMEOUT", now),
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
                self.commands
                    .push(Command::Withdraw(step, attempt, WithdrawReason::StepTimeout));
                let severity = severity_of("STEP_TIMEOUT", None, &self.rules.retryable);
                self.attempt_failed(step, attempt, "STEP_TIMEOUT", severity, due, now);
            }
            state => panic!("no timer runs for a step that is {state:?}"),
        }
    }

    fn start(&mut self, now: Moment) {
        let time_left = self.rules.deadline_ms - now.unix_ms;
        // before
        if time_left < self.rules.plan_timeout_ms as i64 || time_left <= 0 {
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
            | Input::ActionNotFound { step, attempt } => (step.as_usize(), *attempt),
            Input::Start | Input::StartPersisted | Input::SettlePersisted | Input::Tick => return false,
        };
        let Some(state) = self.states.get(step).copied() else {
            return false;
        };
        //
        match (state, input) {
            (StepState::Waiting { attempt: current }, Input::Assigned { .. }) if current == attempt => {
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
                self.states[step] = StepState::Started { attempt };
            }
            (StepState::Assigned { attempt: current }, Input::AttemptReturned { .. })
                if current == attempt =>
            {
                //
                self.step_due[step] = None;
                self.dispatch(step, attempt);
            }
            (
                StepState::Assigned { attempt: current } | StepState::Started { attempt: current },
                Input::AttemptEnded { outcome, .. },
            ) if current == attempt => {
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
            }
            Outcome::Failed(reported) => {
                let (code, severity) = settle_severity(reported, &self.rules.retryable);
                self.attempt_failed(step, attempt, &code, severity, instant, now);
            }
            Outcome::Undecodable { .. } => {
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
        let on_failure = self.rules.on_failure[step];
        let is_eligible = is_listed(code, &self.rules.retryable);
        let attempts_are_left = attempt < self.rules.max_attempts;
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
            Severity::Error if on_failure == 0 => self.settle(Some(error.promoted()), now),
            Severity::Error | Severity::Warn => {}
        }
    }

    fn retry(&mut self, step: usize, attempt: u32, instant: u64) {
        let delay = self.rules.delay_ms(attempt);
        self.retries.push((step, attempt + 1, delay));
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
        self.errors[step] = Some(error);
        self.not_completed.insert(step, (reason, attempts));
    }

    fn dispatch(&mut self, step: usize, attempt: u32) {
        self.states[step] = StepState::Waiting { attempt };
        self.commands.push(Command::Dispatch(step, attempt));
    }

    /// whose turn it is, until a slot is missing or nothing is left.
    fn take_up(&mut self, now: Moment) {
        while self.phase == Phase::Running {
            let has_ended =
                |step: &usize| matches!(self.states[*step], StepState::Completed | StepState::NotCompleted);
            let next = self.order.iter().copied().find(|step| {
                self.states[*step] == StepState::Pending && self.rules.depends_on[*step].iter().all(has_ended)
            });
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

    ///
    pub(crate) fn slots_held(&self) -> usize {
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
            None if n_completed > 0 => {
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
        let started_at = self.started_at.unwrap_or(now.unix_ms);
        //
        self.ended = Some(Ended {
            status,
            error,
            started_at,
            completed_at: now.unix_ms.max(started_at),
        });
        self.commands.push(Command::PersistResult);
        self.phase = Phase::Settling;
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

/// True where a step holds a slot.
pub(crate) fn is_under_way(state: StepState) -> bool {
    match state {
        StepState::Waiting { .. }
        | StepState::Assigned { .. }
        | StepState::Started { .. }
        | StepState::BackingOff { .. } => true,
        StepState::Pending | StepState::Completed | StepState::NotCompleted | StepState::Stopped => false,
    }
}
