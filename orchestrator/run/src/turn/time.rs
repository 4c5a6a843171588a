//! Limits and timers: what is due next, and what happens then.

use super::Turn;
use crate::journal::{Event, Failure, Limit, RequestKind, RunFailed, TimeoutError};
use crate::plan::{Plan, Step};
use crate::spec::{ActionProfile, Limits};
use crate::state::{RunState, Stage, StepStage, StepState, UnitStage};
use alloc::format;
use alloc::string::String;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};

/// What a time is due for. At the same instant the first in this order goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A unit's next attempt.
    Retry,
    /// A request's end.
    Request(Bytes),
    /// A limit of the run.
    Limit(LimitOrder),
}

/// The limits of a run, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LimitOrder {
    Generation,
    Watchdog,
    Revision,
    Run,
    Pause,
    Lifetime,
}

impl RunState {
    // RUN-2.5
    /// What is due next and when, in Unix milliseconds; `None` once the run has ended.
    pub(crate) fn due(&self, plan: &Plan) -> Option<(i64, Due)> {
        if self.stage().is_end() {
            return None;
        }
        let limits = &self.spec.limits;
        let begins_at = match planted::is_on(Bug::RunLifeAnew) {
            true => self.updated_at,
            false => self.created_at,
        };
        let mut earliest = (
            begins_at.saturating_add(signed(limits.lifetime_ms)),
            Due::Limit(LimitOrder::Lifetime),
        );
        let mut consider = |at: i64, due: Due| {
            if (at, &due) < (earliest.0, &earliest.1) {
                earliest = (at, due);
            }
        };
        let untimed = planted::is_on(Bug::RunQuestionUntimed);
        for request in self.open_requests().filter(|_| !untimed) {
            consider(request.expires_at, Due::Request(request.id.clone()));
        }
        if self.paused_at != 0 {
            consider(
                self.paused_at.saturating_add(signed(limits.pause_ms)),
                Due::Limit(LimitOrder::Pause),
            );
            return Some(earliest);
        }
        // A retry that will not be dispatched is not due.
        let starts =
            self.stage() == Stage::Executing && !self.pause_wanted && (self.cause.is_none() || self.drains);
        if starts {
            let running = self
                .steps
                .iter()
                .filter(|step| step.stage() == StepStage::Running);
            let units = running.flat_map(StepState::all_units).map(|(_, unit)| unit);
            for unit in units.filter(|unit| unit.stage() == UnitStage::BackingOff) {
                consider(unit.retry_at, Due::Retry);
            }
            for artifact in self.looks_again() {
                consider(artifact.again_at, Due::Retry);
            }
        }
        if self.is_active() {
            let at = |since: u64, limit: u64| {
                let left = since.saturating_add(limit).saturating_sub(self.active_ms);
                self.updated_at.saturating_add(signed(left))
            };
            consider(at(0, limits.run_ms), Due::Limit(LimitOrder::Run));
            if let (Some(planning), Some(planner)) = (self.planning.as_ref(), self.spec.planner.as_ref())
                && planning.is_open
                && !planted::is_on(Bug::RunGenerationUntimed)
            {
                let at = at(planning.began_ms, planner.limit_ms);
                consider(at, Due::Limit(LimitOrder::Generation));
            }
            if limits.revision_ms > 0 && self.stage() == Stage::Executing {
                consider(
                    at(self.revision_ms, limits.revision_ms),
                    Due::Limit(LimitOrder::Revision),
                );
            }
            if let Some(watchdog) = self.watchdog_ms(plan) {
                consider(at(self.progress_ms, watchdog), Due::Limit(LimitOrder::Watchdog));
            }
        }
        Some(earliest)
    }

    // RUN-7.3
    /// The watchdog's limit as it is now; `None` while a child run is under way and no limit is given.
    fn watchdog_ms(&self, plan: &Plan) -> Option<u64> {
        if self.spec.limits.watchdog_ms > 0 {
            return Some(self.spec.limits.watchdog_ms);
        }
        let mut longest = 0;
        if let (Stage::Planning, Some(planner)) = (self.stage(), &self.spec.planner) {
            longest = planner
                .limit_ms
                .saturating_mul(u64::from(self.spec.limits.max_generations));
        }
        for (state, spec) in self.steps.iter().zip(&plan.steps) {
            if state.stage() != StepStage::Running {
                continue;
            }
            for (_, unit) in state.all_units() {
                if !unit.child.is_empty() {
                    return None;
                }
                if matches!(unit.stage(), UnitStage::Live | UnitStage::BackingOff) {
                    let attempt_ms = unit.live.as_ref().map(|live| live.attempt_ms);
                    let extensions = unit.extensions;
                    longest = longest.max(self.unit_budget_ms(spec, attempt_ms, extensions));
                }
            }
        }
        for live in self
            .artifacts
            .iter()
            .filter_map(|artifact| artifact.live.as_ref())
        {
            let waits = self
                .spec
                .limits
                .queue_wait_ms
                .saturating_add(self.spec.limits.worker_wait_ms);
            longest = longest.max(waits.saturating_add(live.attempt_ms));
        }
        Some(WATCHDOG_MS_MIN.max(longest.saturating_add(WATCHDOG_MARGIN_MS)))
    }

    /// The longest that a unit takes with all its retries.
    fn unit_budget_ms(&self, spec: &Step, attempt_ms: Option<u64>, extensions: u32) -> u64 {
        let limits = &self.spec.limits;
        let retries = spec
            .retry
            .max_retries
            .unwrap_or(limits.max_retries)
            .saturating_mul(1 + extensions);
        let attempt = attempt_ms.or(spec.timeout_ms).unwrap_or(limits.attempt_ms);
        let longest_delay = spec.retry.max_backoff_ms.unwrap_or(limits.max_backoff_ms);
        let one = limits
            .queue_wait_ms
            .saturating_add(limits.worker_wait_ms)
            .saturating_add(attempt);
        one.saturating_mul(u64::from(retries) + 1)
            .saturating_add(longest_delay.saturating_mul(u64::from(retries)))
    }
}

impl Turn<'_> {
    // RUN-7.5
    /// Does everything that is due.
    pub(super) fn time(&mut self) {
        while let Some((at, due)) = self.state.due(self.plan)
            && at <= self.now
        {
            match due {
                Due::Retry => {
                    let before = self.state.sequence;
                    self.advance();
                    assert!(self.state.sequence > before, "a retry that is due is dispatched");
                }
                Due::Request(id) => self.request_expires(&id),
                Due::Limit(limit) => return self.limit_is_over(limit),
            }
            if self.state.stage().is_end() || self.revised.is_some() {
                return;
            }
        }
    }

    /// Milliseconds that the outermost limits leave to an attempt.
    pub(super) fn remaining_ms(&self) -> u64 {
        self.outer_limits()
            .into_iter()
            .map(|(_, left)| left)
            .min()
            .expect("there are two at least")
    }

    // RUN-7.4
    /// What an attempt may take, out of a limit for it: the rest is left to the contract, which starts nothing whose deadline
    /// leaves less than its plan's limit.
    pub(super) fn cut_ms(&self, limit_ms: u64) -> u64 {
        limit_ms.min(self.remaining_ms() - self.queue_share_ms(limit_ms))
    }

    /// The part of what is left that an attempt may spend in the contract's queue: half of what it does not need, and an eighth
    /// at least.
    pub(super) fn queue_share_ms(&self, attempt_ms: u64) -> u64 {
        let left = self.remaining_ms();
        let share = (left.saturating_sub(attempt_ms) / 2).max(left / 8);
        share.min(self.state.spec.limits.queue_wait_ms)
    }

    fn outer_limits(&self) -> [(LimitOrder, u64); 3] {
        let limits = &self.state.spec.limits;
        let lived = u64::try_from(self.now.saturating_sub(self.state.created_at)).unwrap_or(0);
        let since = u64::try_from(self.now.saturating_sub(self.state.updated_at)).unwrap_or(0);
        let active = self.state.active_ms.saturating_add(since);
        let revision = match limits.revision_ms {
            0 => u64::MAX,
            _ if self.state.stage() == Stage::Planning => u64::MAX,
            limit => self
                .state
                .revision_ms
                .saturating_add(limit)
                .saturating_sub(active),
        };
        [
            (LimitOrder::Revision, revision),
            (LimitOrder::Run, limits.run_ms.saturating_sub(active)),
            (LimitOrder::Lifetime, limits.lifetime_ms.saturating_sub(lived)),
        ]
    }

    // RUN-7.4
    /// Too little is left of an outer limit to begin anything: it is over.
    pub(super) fn outer_limit_is_over(&mut self) {
        let shortest = self.outer_limits().into_iter().min_by_key(|(_, left)| *left);
        let (limit, _) = shortest.expect("there are limits");
        self.limit_is_over(limit);
    }

    // RUN-7.6
    fn limit_is_over(&mut self, order: LimitOrder) {
        let limits = &self.state.spec.limits;
        let (limit, limit_ms, what) = match order {
            // RUN-11.2
            LimitOrder::Generation => return self.generation_is_over(),
            LimitOrder::Watchdog => {
                let limit_ms = self.state.watchdog_ms(self.plan).unwrap_or(limits.watchdog_ms);
                (Limit::Watchdog, limit_ms, "no step has ended for")
            }
            LimitOrder::Revision => (Limit::Revision, limits.revision_ms, "the plan was active for"),
            LimitOrder::Run => (Limit::Run, limits.run_ms, "the run was active for"),
            LimitOrder::Pause => (Limit::Pause, limits.pause_ms, "the run was paused for"),
            LimitOrder::Lifetime => (Limit::Lifetime, limits.lifetime_ms, "the run has lived for"),
        };
        let error = Failure {
            code: String::from(match limit {
                Limit::Watchdog => "WATCHDOG",
                Limit::Revision => "REVISION_TIMEOUT",
                Limit::Run => "RUN_TIMEOUT",
                Limit::Pause => "PAUSE_TIMEOUT",
                Limit::Lifetime => "LIFETIME_EXCEEDED",
            }),
            message: format!("{what} {limit_ms} ms, its limit"),
            step: None,
        };
        // RUN-11.8
        if order == LimitOrder::Revision && self.has_generations_left() {
            return self.replan(Some(error), "");
        }
        self.end_steps();
        self.emit(Event::TimeoutError(TimeoutError {
            limit: limit.into(),
            limit_ms,
        }));
        self.emit(Event::RunFailed(RunFailed {
            error,
            timed_out: true,
            output: None,
        }));
    }

    fn request_expires(&mut self, id: &Bytes) {
        let request = self.state.request(id).clone();
        self.emit(Event::InputExpired(request.reference()));
        match (request.kind(), request.unit) {
            (RequestKind::Question, Some(unit)) => self.question_expired(unit),
            // RUN-6.6
            (RequestKind::Approval, Some(unit)) => {
                self.unit_fails(unit, "APPROVAL_DENIED", "nobody approved in time");
            }
            (RequestKind::Approval, None) => self.cancel(String::from("plan_rejected")),
            (RequestKind::RetryExtension | RequestKind::BudgetExtension, Some(unit)) => {
                self.give_up(unit, &request);
            }
            (RequestKind::AmbiguousEffect, Some(unit)) => {
                self.unit_fails(unit, "AMBIGUOUS_EFFECT", "nobody said in time what became of it");
            }
            (RequestKind::BudgetExtension, None) => self.planner_goes_without(&request),
            (RequestKind::Question | RequestKind::RetryExtension | RequestKind::AmbiguousEffect, None) => {
                unreachable!("only a plan is approved as a whole")
            }
        }
    }

    /// True while the run executes.
    pub(super) fn executes(&self) -> bool {
        self.state.stage() == Stage::Executing
    }
}

/// Milliseconds that a worker has for an attempt of the step.
pub(crate) fn attempt_ms(step: &Step, profile: &ActionProfile, limits: &Limits) -> u64 {
    let of_profile = (profile.attempt_ms > 0).then_some(profile.attempt_ms);
    step.timeout_ms.or(of_profile).unwrap_or(limits.attempt_ms)
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The shortest limit that the watchdog computes.
const WATCHDOG_MS_MIN: u64 = 30_000;
/// What it gives beyond the longest that a unit takes.
const WATCHDOG_MARGIN_MS: u64 = 5_000;
