//! What the end of an attempt leads to: nothing more, another try, a question, or the end of its unit.

use super::Turn;
use super::sessions::has_patch;
use super::time::attempt_ms;
use crate::ids::RunId;
use crate::journal::sizes::newest_doubts;
use crate::journal::{
    ChildRunEnded, Doubt, Event, Failure, OutcomeClass, StepRetrying, ToolCalled, ToolOutput, UnitRef, Usage,
};
use crate::outcome::AttemptOutcome;
use crate::plan::Step;
use crate::spec::{InDoubt, Limits};
use crate::state::{StepStage, UnitStage};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::ExecutionId;
use escapement_model::codes::WORKER_LOST;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-4.4
    /// A contract execution ended.
    pub(super) fn settled(&mut self, execution_id: ExecutionId, outcome: AttemptOutcome) {
        if let Some(live) = self.live_generation(execution_id) {
            return self.planner_settled(&live, outcome);
        }
        self.unit_settled(execution_id, outcome);
    }

    /// The attempt of the planner that the execution carries out.
    fn live_generation(&self, execution_id: ExecutionId) -> Option<ToolCalled> {
        let live = self.state.planning.as_ref()?.live.as_ref()?;
        let name = self.generation_name(live.unit.index, live.attempt);
        (name.execution_id() == execution_id).then(|| live.clone())
    }

    // RUN-4.13
    /// True if the run goes on by what that execution comes to: it is not fenced.
    pub(crate) fn awaits(&self, execution_id: ExecutionId) -> bool {
        let goes_on = !self.state.stage().is_end();
        let is_of_unit = || {
            let live = self.live_attempt(execution_id);
            live.is_some_and(|(unit, live)| {
                live.unit.is_verification() || self.step_state(unit.step).stage() == StepStage::Running
            })
        };
        goes_on && (self.live_generation(execution_id).is_some() || is_of_unit())
    }

    fn unit_settled(&mut self, execution_id: ExecutionId, outcome: AttemptOutcome) {
        let Some((unit, live)) = self.live_attempt(execution_id) else {
            return;
        };
        if live.unit.is_safety_check() {
            return self.checked(&live, outcome);
        }
        if live.unit.is_verification() {
            return self.looked(&live, outcome);
        }
        let step_runs = self.step_state(unit.step).stage() == StepStage::Running;
        self.retry_after_ms = outcome.retry_after_ms.min(RETRY_AFTER_MS_MAX);
        let outcome = self.declaring(bounded(outcome, &live), step_runs);
        let (outcome, fits_schema) = self.fitting(&live, outcome);
        let declaring = outcome
            .output
            .clone()
            .filter(|_| outcome.class == OutcomeClass::Completed);
        let class = outcome.class;
        let patches = class == OutcomeClass::Completed && outcome.output.as_deref().is_some_and(has_patch);
        let usage = self.used_by(&live, &outcome);
        let output = outcome.output.map(|output| self.store(output));
        let failed = class != OutcomeClass::Completed;
        let error = failed.then(|| Failure::of_step(unit.step, &outcome.code, &outcome.message));
        self.emit(Event::ToolOutput(ToolOutput {
            unit,
            attempt: live.attempt,
            class: class.into(),
            output: output.clone(),
            error: error.clone(),
            pause: outcome.pause,
            is_safe: false,
            patches,
            fits_schema,
            usage,
            mistakes: Vec::new(),
            retry_after_ms: self.retry_after_ms,
        }));
        self.warn_of_budget();
        if !step_runs {
            // The step has ended without it; what it says is kept and changes nothing.
            return;
        }
        self.skill_did(&live.action, class, &outcome.code);
        if let Some(output) = declaring {
            self.declare(unit, &live.action, &output);
        }
        match error {
            None => self.unit_ended(unit),
            Some(error) if class == OutcomeClass::ApprovalRequired => {
                self.ask_for_handler(unit, &error, output)
            }
            Some(error) => self.attempt_failed(unit, class, error, &live),
        }
    }

    fn live_attempt(&self, execution_id: ExecutionId) -> Option<(UnitRef, ToolCalled)> {
        let misjudges = planted::is_on(Bug::RunFencedCounts) || planted::is_on(Bug::RunLateCounts);
        match self.held.is_some() && !misjudges {
            true => self
                .known_attempt(execution_id)
                .or_else(|| self.look_attempt(execution_id)),
            false => self
                .found_attempt(execution_id)
                .or_else(|| self.look_attempt(execution_id)),
        }
    }

    /// Returns the same without reading every unit.
    fn known_attempt(&self, execution_id: ExecutionId) -> Option<(UnitRef, ToolCalled)> {
        let unit = self.held_attempt(execution_id)?;
        let live = self.step_state(unit.step).unit(unit)?.live.as_ref()?;
        let is_live = self.attempt_name(live.unit, live.attempt).execution_id() == execution_id;
        let unit = self.unit_ref(unit.step, unit.index);
        is_live.then(|| (unit, live.clone()))
    }

    fn found_attempt(&self, execution_id: ExecutionId) -> Option<(UnitRef, ToolCalled)> {
        for step in 0..self.n_steps() {
            for (index, unit) in self.step_state(step).all_units() {
                if let Some(live) = &unit.live {
                    let unit = self.unit_ref(step, index);
                    let fenced = UnitRef {
                        epoch: unit.epoch.saturating_sub(1),
                        ..live.unit
                    };
                    let is_fenced = planted::is_on(Bug::RunFencedCounts)
                        && self.attempt_name(fenced, live.attempt).execution_id() == execution_id;
                    let is_late = planted::is_on(Bug::RunLateCounts)
                        && self.attempt_name(live.unit, live.attempt - 1).execution_id() == execution_id;
                    let is_live = self.attempt_name(live.unit, live.attempt).execution_id() == execution_id;
                    if is_live || is_fenced || is_late {
                        return Some((unit, live.clone()));
                    }
                }
            }
        }
        None
    }

    fn look_attempt(&self, execution_id: ExecutionId) -> Option<(UnitRef, ToolCalled)> {
        let looks = self
            .state
            .artifacts
            .iter()
            .filter_map(|artifact| artifact.live.as_ref());
        let mut looks = looks.filter(|live| {
            let is_of_epoch = live.unit.epoch == self.step_state(live.unit.step).epoch;
            is_of_epoch && self.attempt_name(live.unit, live.attempt).execution_id() == execution_id
        });
        looks.next().map(|live| (live.unit, live.clone()))
    }

    // RUN-5.2
    fn attempt_failed(&mut self, unit: UnitRef, class: OutcomeClass, error: Failure, live: &ToolCalled) {
        let profile = self.profile(&live.action);
        let repeatable = !live.effect().is_effect() || profile.idempotent;
        let own_ms = attempt_ms(self.step(unit.step), &profile, &self.state.spec.limits);
        let is_cut = live.attempt_ms < own_ms;
        match class {
            OutcomeClass::Completed | OutcomeClass::ApprovalRequired => {
                unreachable!("an attempt that completed or asks did not fail")
            }
            OutcomeClass::NeverRan => self.try_again_uncounted(unit, error),
            OutcomeClass::FailedForGood => self.unit_fails(unit, &error.code, &error.message),
            OutcomeClass::Failed => self.try_again(unit, error),
            OutcomeClass::TimedOut if repeatable && is_cut => self.try_again_or_await_end(unit, error),
            OutcomeClass::TimedOut if repeatable => self.try_again(unit, error),
            OutcomeClass::TimedOut => self.in_doubt(live, error, self.state.spec.policy.ambiguous_timeout()),
            OutcomeClass::Unknown if repeatable && error.code == WORKER_LOST => self.try_again(unit, error),
            OutcomeClass::Unknown if repeatable => self.try_again_uncounted(unit, error),
            OutcomeClass::Unknown => self.in_doubt(live, error, self.state.spec.policy.ambiguity()),
        }
    }

    fn in_doubt(&mut self, live: &ToolCalled, error: Failure, policy: InDoubt) {
        match policy {
            InDoubt::Ask => self.ask_about_effect(live, error),
            InDoubt::Fail => self.unit_fails(live.unit, "AMBIGUOUS_EFFECT", &error.message),
            InDoubt::Retry => self.try_again(live.unit, error),
        }
    }

    // RUN-7.4
    /// Retries the unit after its reduced time is over, which does not count as a failure of the step.
    /// Without a retry it waits for the end of the outer limit, which ends the run.
    fn try_again_or_await_end(&mut self, unit: UnitRef, error: Failure) {
        let base = self.max_retries(unit.step);
        let state = self.unit(unit);
        let budget = base.saturating_mul(1 + state.extensions);
        let asks = base > 0 && self.escalates(unit.step);
        if state.retries < budget || asks {
            return self.try_again(unit, error);
        }
        let left = i64::try_from(self.remaining_ms()).unwrap_or(i64::MAX);
        self.emit(Event::StepRetrying(StepRetrying {
            unit,
            retry: 0,
            due_at: self.now.saturating_add(left),
            error,
            budget,
        }));
    }

    // RUN-5.3
    /// Another try if one is left, else what follows from that.
    pub(super) fn try_again(&mut self, unit: UnitRef, error: Failure) {
        let state = self.unit(unit);
        let base = self.max_retries(unit.step);
        let budget = base.saturating_mul(1 + state.extensions);
        let too_many = u32::from(planted::is_on(Bug::RunRetryTooMany));
        if state.retries < budget + too_many {
            let retry = state.retries + 1;
            let delay_ms = retry_delay_ms(self.step(unit.step), &self.state.spec.limits, retry);
            let delay_ms = delay_ms.max(self.retry_after_ms);
            let due_at = self.now.saturating_add(delay_ms.cast_signed());
            self.emit(Event::StepRetrying(StepRetrying {
                unit,
                retry,
                due_at,
                error,
                budget,
            }));
        } else if base > 0 && self.escalates(unit.step) {
            // RUN-5.4
            self.ask_for_retries(unit, error);
        } else {
            self.unit_fails(unit, &error.code, &error.message);
        }
    }

    fn try_again_uncounted(&mut self, unit: UnitRef, error: Failure) {
        let state = self.unit(unit);
        let delay = delay_ms(UNCOUNTED_MS, 2.0, UNCOUNTED_MS_MAX, state.never_ran);
        self.emit(Event::StepRetrying(StepRetrying {
            unit,
            retry: 0,
            due_at: self.now.saturating_add(delay.cast_signed()),
            error,
            budget: self.max_retries(unit.step).saturating_mul(1 + state.extensions),
        }));
    }

    // RUN-4.12
    /// A child run ended.
    pub(super) fn child_ended(
        &mut self,
        run_id: RunId,
        result: Result<Bytes, String>,
        used: Option<Usage>,
        doubts: Option<Vec<Doubt>>,
    ) {
        let found = (0..self.n_steps()).find_map(|step| {
            let units = (0..).zip(&self.step_state(step).units);
            let mut of_child = units.filter(|(_, unit)| unit.child[..] == run_id.as_bytes()[..]);
            of_child.next().map(|(index, _)| self.unit_ref(step, index))
        });
        let Some(unit) = found else {
            return;
        };
        let step_runs = self.step_state(unit.step).stage() == StepStage::Running;
        let declaring = result.clone().ok();
        let (output, error) = match result {
            Ok(output) => (Some(self.store(output)), None),
            Err(message) => (None, Some(Failure::of_step(unit.step, "CHILD_FAILED", &message))),
        };
        self.emit(Event::ChildRunEnded(ChildRunEnded {
            unit,
            output,
            error: error.clone(),
            usage: self.settled_by_child(unit, used),
            tells_doubts: doubts.is_some(),
            doubts: newest_doubts(doubts.unwrap_or_default()),
        }));
        self.warn_of_budget();
        match error {
            _ if !step_runs => {}
            None => {
                if let Some(output) = declaring {
                    self.declare(unit, "", &output);
                }
                self.unit_ended(unit);
            }
            Some(error) => self.try_again(unit, error),
        }
    }

    pub(super) fn max_retries(&self, step: u32) -> u32 {
        let asked = self.step(step).retry.max_retries;
        asked.unwrap_or(self.state.spec.limits.max_retries)
    }

    fn escalates(&self, step: u32) -> bool {
        let asked = self.step(step).retry.escalate;
        asked.unwrap_or(self.state.spec.policy.escalate)
    }

    /// Stops waiting for the children of a step.
    pub(super) fn cancel_children(&mut self, step: u32) {
        for index in 0..self.step_state(step).units.len() {
            let unit = &self.step_state(step).units[index];
            if unit.stage() == UnitStage::Live && !unit.child.is_empty() {
                let bytes: [u8; 16] = unit.child[..].try_into().expect("an id has 16 bytes");
                let run_id = RunId::from_bytes(bytes).expect("it was an id");
                self.effect(crate::input::Effect::CancelChild { run_id });
            }
        }
    }
}

// RUN-4.6
/// The outcome, unless its output is too large.
pub(super) fn bounded(outcome: AttemptOutcome, live: &ToolCalled) -> AttemptOutcome {
    let too_large = |output: &Bytes| output.len() > OUTPUT_BYTES_MAX;
    if !outcome.output.as_ref().is_some_and(too_large) {
        return outcome;
    }
    AttemptOutcome {
        class: OutcomeClass::FailedForGood,
        output: None,
        code: String::from("OUTPUT_INVALID"),
        message: alloc::format!("the output of {} is larger than the contract allows", live.action),
        pause: false,
        ..AttemptOutcome::default()
    }
}

// RUN-5.3
/// Milliseconds before the nth retry of a unit, from 1.
pub(crate) fn retry_delay_ms(step: &Step, limits: &Limits, retry: u32) -> u64 {
    delay_ms(
        step.retry.backoff_ms.unwrap_or(limits.backoff_ms),
        step.retry.multiplier.unwrap_or(limits.multiplier),
        step.retry.max_backoff_ms.unwrap_or(limits.max_backoff_ms),
        retry - 1,
    )
}

/// `base × multiplier^n`, at most `max`, in whole milliseconds.
fn delay_ms(base: u64, multiplier: f64, max: u64, n: u32) -> u64 {
    let (mut delay, longest) = (base as f64, max as f64);
    for _ in 0..n {
        delay = (delay * multiplier).min(longest);
    }
    // Both are below 2^53.
    delay.min(longest) as u64
}

/// Before an attempt is repeated that provably had no effect.
const UNCOUNTED_MS: u64 = 1_000;
const UNCOUNTED_MS_MAX: u64 = 30_000;
/// The contract allows outputs of 1 MiB; as a value it takes a few bytes more.
const OUTPUT_BYTES_MAX: usize = escapement_model::limits::OUTPUT_BYTES_MAX + 8;
/// The longest delay that who is called may ask for: a day.
const RETRY_AFTER_MS_MAX: u64 = 86_400_000;
