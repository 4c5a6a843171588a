//! The abstract state of an execution: everything that its future depends on, apart from its request and its ids.
//! Decides nothing; the exhaustive exploration tells by it which executions of a plan are alike.

use super::steps::{StepRecord, Steps};
use super::{Execution, Phase, StepState};
use crate::time::Moment;
use alloc::vec::Vec;
use escapement_model::Severity;

/// Two executions of one request with equal abstract states take the same inputs, each with the same delay, and have
/// equal states afterwards; what they decide differs in times and texts only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbstractState {
    /// The phase.
    pub phase: Phase,
    /// The start has not been answered yet.
    pub start_is_being_written: bool,
    /// What is left of the limit that is armed; `None` after the end.
    pub limit_left_ms: Option<u64>,
    /// By place in the plan's list; empty until the first step may run.
    pub steps: Vec<AbstractStep>,
    /// Canonical positions of the steps that may be taken up.
    pub ready: Vec<u16>,
    /// What is left, and canonical position, in the order in which they fire.
    pub timers: Vec<(u64, u16)>,
    /// Slots that no step holds.
    pub n_slots_free: u32,
    /// Steps that ended.
    pub n_ended: u32,
    /// Steps that completed.
    pub n_completed: u32,
}

/// The abstract state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbstractStep {
    /// What it is doing.
    pub state: StepState,
    /// Dependencies that have not ended.
    pub n_dependencies_open: u16,
    /// Canonical position of the earliest dependency that did not complete.
    pub failed_dependency: Option<u16>,
    /// What is left of its own timer.
    pub timer_left_ms: Option<u64>,
    /// True once it has an output.
    pub has_output: bool,
    /// The severity of the error that it ended with.
    pub severity: Option<Severity>,
}

impl Execution {
    /// Returns its abstract state at `now`, once everything that is due has happened.
    pub fn abstract_state(&self, now: Moment) -> AbstractState {
        // Without `..`, so that a new field is either shown here or found to be history.
        let Self {
            request: _,
            execution_id: _,
            accepted_at_unix_ms: _,
            // While queued `limit_due_ms` says the same; later it only stands in errors.
            deadline_unix_ms: _,
            phase,
            // A lower bound of timestamps.
            started_at_unix_ms: _,
            start_is_being_written,
            limit_due_ms,
            steps,
            // What was said; read by the result alone, except for the bounds of.
            trace: _,
            audit: _,
            inputs: _,
            settlement: _,
            n_entries_before_settling: _,
            // The caller takes them before it looks.
            effects: _,
        } = self;
        let is_over = matches!(phase, Phase::Settling | Phase::Settled);
        let mut seen = AbstractState {
            phase: *phase,
            start_is_being_written: *start_is_being_written,
            limit_left_ms: (!is_over).then(|| limit_due_ms.saturating_sub(now.monotonic_ms)),
            steps: Vec::new(),
            ready: Vec::new(),
            timers: Vec::new(),
            n_slots_free: 0,
            n_ended: 0,
            n_completed: 0,
        };
        if let Some(steps) = steps {
            let Steps {
                records,
                ready,
                timers,
                n_slots_free,
                n_ended,
                n_completed,
                // Compared with a limit of 12 MiB only.
                payload_bytes: _,
            } = &**steps;
            seen.steps = records.iter().map(|record| record.abstract_state(now)).collect();
            seen.ready = ready.iter().copied().collect();
            // After the end no timer fires, whatever is left of them.
            if !is_over {
                let left = |(due_ms, position)| (u64::saturating_sub(due_ms, now.monotonic_ms), position);
                seen.timers = timers.all().map(left).collect();
            }
            seen.n_slots_free = *n_slots_free;
            seen.n_ended = *n_ended;
            seen.n_completed = *n_completed;
        }
        seen
    }
}

impl StepRecord {
    fn abstract_state(&self, now: Moment) -> AbstractStep {
        let Self {
            state,
            n_dependencies_open,
            failed_dependency,
            timer_due_ms,
            output,
            error,
            // What explanations say.
            account: _,
        } = self;
        let left = |due_ms: u64| due_ms.saturating_sub(now.monotonic_ms);
        AbstractStep {
            state: *state,
            n_dependencies_open: *n_dependencies_open,
            failed_dependency: *failed_dependency,
            timer_left_ms: timer_due_ms.filter(|_| *state != StepState::Stopped).map(left),
            has_output: output.is_some(),
            severity: error.as_ref().map(|error| error.severity),
        }
    }
}
