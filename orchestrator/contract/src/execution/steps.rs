//! What each step of a running execution is doing, and which steps are ready. Decides no outcome.

use super::timers::Timers;
use super::{Evidence, Execution, Phase};
use crate::audit::NotCompleted;
use crate::error::ExecutionError;
use crate::plan::{Plan, StepIndex};
use crate::time::Moment;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::Opaque;

/// What a step is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Waits for dependencies, or for its turn.
    Pending,
    /// Dispatched; waits for a worker.
    Waiting {
        /// 1 for the first.
        attempt: u32,
    },
    /// Handed to a worker.
    Assigned {
        /// 1 for the first.
        attempt: u32,
    },
    /// Handler runs.
    Started {
        /// 1 for the first.
        attempt: u32,
    },
    /// Sleeps before its next attempt.
    BackingOff {
        /// The attempt to come.
        next_attempt: u32,
    },
    /// Ended with an output.
    Completed,
    /// Ended without one.
    NotCompleted,
    /// The execution ended before the step did.
    Stopped,
}

/// Number of steps by activity. The counts add up to `steps_total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps of the plan.
    pub steps_total: u32,
    /// Wait for dependencies, or for their turn.
    pub steps_pending: u32,
    /// Dispatched; wait for a worker.
    pub steps_waiting: u32,
    /// Handed to a worker.
    pub steps_running: u32,
    /// Sleep before their next attempt.
    pub steps_backing_off: u32,
    /// Ended with an output.
    pub steps_completed: u32,
    /// Ended without one, or stopped with the execution.
    pub steps_not_completed: u32,
}

/// All steps of a running execution.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) records: Vec<StepRecord>,
    /// Canonical positions of the pending steps whose dependencies have all ended.
    pub(super) ready: BTreeSet<u16>,
    pub(super) timers: Timers,
    pub(super) n_slots_free: u32,
    pub(super) n_ended: u32,
    pub(super) n_completed: u32,
    /// Bytes that `result_payload` will have.
    pub(super) payload_bytes: usize,
}

/// A step of a running execution.
#[derive(Clone, Debug)]
pub(super) struct StepRecord {
    pub(super) state: StepState,
    pub(super) n_dependencies_open: u16,
    /// Canonical position of the earliest dependency that did not complete.
    pub(super) failed_dependency: Option<u16>,
    /// When its one timer is due: the attempt's limit, or the end of the sleep.
    pub(super) timer_due_ms: Option<u64>,
    /// kept for the result and never looked into.
    pub(super) output: Option<Opaque>,
    pub(super) error: Option<Arc<ExecutionError>>,
    pub(super) account: StepDiagnostics,
}

/// What an explanation of a step says beside its state. Nothing is decided by it.
#[derive(Clone, Debug, Default)]
pub(super) struct StepDiagnostics {
    /// Number of attempts that were made, once it has ended.
    pub(super) attempts: u32,
    /// Reason why it did not complete.
    pub(super) reason: Option<NotCompleted>,
    /// Warnings in the record, once it has completed.
    pub(super) n_warnings: u8,
    /// The evidence with which the attempt under way was given back before, if it was.
    pub(super) returned: Option<Evidence>,
    /// It ended because nobody offers its action.
    pub(super) was_not_offered: bool,
    /// The error of the last attempt that is repeated.
    pub(super) repeated: Option<Arc<ExecutionError>>,
}

impl Steps {
    pub(super) fn new(plan: &Plan, n_slots: u32) -> Self {
        let record = |dependencies: &[StepIndex]| StepRecord {
            state: StepState::Pending,
            n_dependencies_open: u16::try_from(dependencies.len()).expect("a plan has at most 1024 steps"),
            failed_dependency: None,
            timer_due_ms: None,
            output: None,
            error: None,
            account: StepDiagnostics::default(),
        };
        let positions = (0u16..).zip(plan.canonical_order());
        let ready = positions.filter(|(_, step)| plan.step(**step).depends_on().is_empty());
        Self {
            records: plan
                .steps()
                .iter()
                .map(|step| record(step.depends_on()))
                .collect(),
            ready: ready.map(|(position, _)| position).collect(),
            timers: Timers::default(),
            n_slots_free: n_slots,
            n_ended: 0,
            n_completed: 0,
            payload_bytes: 0,
        }
    }

    pub(super) fn record(&mut self, step: StepIndex) -> &mut StepRecord {
        &mut self.records[step.as_usize()]
    }

    /// Replaces the step's timer; `None` takes it away.
    pub(super) fn set_timer(&mut self, plan: &Plan, step: StepIndex, due_ms: Option<u64>) {
        let before = core::mem::replace(&mut self.record(step).timer_due_ms, due_ms);
        self.timers.replace(plan.position(step), before, due_ms);
    }

    /// The step ended: its slot is free again, and its dependents know.
    pub(super) fn end(&mut self, plan: &Plan, step: StepIndex, state: StepState) {
        assert!(
            matches!(state, StepState::Completed | StepState::NotCompleted),
            "a step ends in one of two ways"
        );
        self.set_timer(plan, step, None);
        let before = core::mem::replace(&mut self.record(step).state, state);
        // the slot is held from the dispatch to the end, sleeps included.
        if before.holds_slot() {
            self.n_slots_free += 1;
        }
        self.n_ended += 1;
        let completed = state == StepState::Completed;
        self.n_completed += u32::from(completed);
        let position = plan.position(step);
        for dependent in plan.dependents(step) {
            let record = self.record(*dependent);
            if !completed {
                // the earliest in canonical order is the cause.
                let earliest = record
                    .failed_dependency
                    .map_or(position, |earlier| earlier.min(position));
                record.failed_dependency = Some(earliest);
            }
            record.n_dependencies_open -= 1;
            if record.n_dependencies_open == 0 {
                self.ready.insert(plan.position(*dependent));
            }
        }
    }
}

impl StepState {
    /// True from the dispatch to the end.
    pub(super) fn holds_slot(self) -> bool {
        match self {
            StepState::Waiting { .. }
            | StepState::Assigned { .. }
            | StepState::Started { .. }
            | StepState::BackingOff { .. } => true,
            StepState::Pending | StepState::Completed | StepState::NotCompleted | StepState::Stopped => false,
        }
    }

    /// Returns the attempt that is with a worker or on its way to one.
    pub(super) fn open_attempt(self) -> Option<u32> {
        match self {
            StepState::Waiting { attempt }
            | StepState::Assigned { attempt }
            | StepState::Started { attempt } => Some(attempt),
            StepState::Pending
            | StepState::BackingOff { .. }
            | StepState::Completed
            | StepState::NotCompleted
            | StepState::Stopped => None,
        }
    }
}

impl Execution {
    /// What a step is doing.
    pub fn step_state(&self, step: StepIndex) -> StepState {
        assert!(
            step.as_usize() < self.plan().steps().len(),
            "the step belongs to another plan"
        );
        match (&self.steps, &self.settlement) {
            (Some(steps), _) => steps.records[step.as_usize()].state,
            (None, None) => StepState::Pending,
            (None, Some(_)) => StepState::Stopped,
        }
    }

    /// Returns the number of steps by activity. Checks every step.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        let n_steps = u16::try_from(self.plan().steps().len()).expect("a plan has at most 1024 steps");
        for step in (0..n_steps).map(StepIndex) {
            progress.steps_total += 1;
            *match self.step_state(step) {
                StepState::Pending => &mut progress.steps_pending,
                StepState::Waiting { .. } => &mut progress.steps_waiting,
                StepState::Assigned { .. } | StepState::Started { .. } => &mut progress.steps_running,
                StepState::BackingOff { .. } => &mut progress.steps_backing_off,
                StepState::Completed => &mut progress.steps_completed,
                // that an execution stopped is told once that is durable.
                StepState::Stopped if self.phase() == Phase::Settling => &mut progress.steps_pending,
                StepState::NotCompleted | StepState::Stopped => &mut progress.steps_not_completed,
            } += 1;
        }
        progress
    }

    /// Returns the state of a step that an input names; `None` if there is no such step.
    pub(super) fn state_of(&self, step: Option<StepIndex>) -> Option<StepState> {
        step.filter(|step| step.as_usize() < self.plan().steps().len())
            .map(|step| self.step_state(step))
    }

    /// What is left of a running attempt's own limit.
    pub(super) fn step_timer_left_ms(&self, step: StepIndex, now: Moment) -> Option<u64> {
        let record = self.steps.as_ref()?.records.get(step.as_usize())?;
        match record.state {
            StepState::Assigned { .. } | StepState::Started { .. } => record
                .timer_due_ms
                .map(|due_ms| due_ms.saturating_sub(now.monotonic_ms)),
            StepState::Pending
            | StepState::Waiting { .. }
            | StepState::BackingOff { .. }
            | StepState::Completed
            | StepState::NotCompleted
            | StepState::Stopped => None,
        }
    }

    /// Returns the steps of a running execution with the plan that they belong to.
    pub(super) fn running(&mut self) -> (&mut Steps, &Plan) {
        let steps = self.steps.as_mut().expect("a running execution has its steps");
        (steps, self.request.plan())
    }
}
