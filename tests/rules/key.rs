//! States as numbers: two with the same number are explored once. Compares no states.
//!
//! [`whole`] is everything that the future of an execution of one plan depends on: what `AbstractState` shows and the
//! states of the steps do not imply (`invariants::check_derived` looks that they do), with limits that are far
//! away taken as one. [`rest`] leaves out the steps that ended but for what they leave behind, so that plans
//! which are alike from there on share their states; `explore` looks that it decides the future as well.

use crate::moves::FAR_MS;
use crate::plans::{Case, Options, Policy};
use escapement_contract::{AbstractState, Phase, Status, StepState};
use escapement_model::Severity;

/// Packs small numbers into one; the same numbers in the same ranges give the same sum, others another.
struct Packer(u128);

impl Packer {
    fn push(&mut self, value: u64, below: u64) {
        assert!(value < below, "{value} is not below {below}");
        let room = u128::MAX / u128::from(below);
        assert!(self.0 < room, "the key is full");
        self.0 = self.0 * u128::from(below) + u128::from(value);
    }

    fn flag(&mut self, value: bool) {
        self.push(u64::from(value), 2);
    }
}

/// Returns the state of an execution of this very plan.
pub(crate) fn whole(state: &AbstractState) -> u128 {
    let mut key = Packer(1);
    of_execution(&mut key, state);
    for step in &state.steps {
        of_step(&mut key, step.state, step.timer_left_ms);
        key.push(step.severity.map_or(0, |severity| of_severity(severity) + 1), 4);
    }
    key.0
}

/// Returns the rest of an execution: options, steps that have not ended, and what the others leave behind.
pub(crate) fn rest(case: &Case, state: &AbstractState, status: Option<Status>) -> u128 {
    let mut key = Packer(1);
    let Options {
        policy,
        n_slots,
        has_step_limits,
    } = case.options;
    key.push(
        match policy {
            Policy::Off => 0,
            Policy::Listed => 1,
            Policy::Everything(attempts) => u64::from(attempts) + 1,
        },
        6,
    );
    key.push(u64::from(n_slots), 3);
    key.flag(has_step_limits);
    key.flag(case.context_is_missing);
    of_execution(&mut key, state);
    if state.phase > Phase::Running {
        // Only the deliveries are left.
        key.push(status.map_or(0, |status| status as u64 + 1), 4);
        return key.0;
    }
    let state_of = |step: usize| {
        state
            .steps
            .get(step)
            .map_or(StepState::Pending, |step| step.state)
    };
    let live: Vec<usize> = (0..case.shape.n_steps)
        .filter(|step| !matches!(state_of(*step), StepState::Completed | StepState::NotCompleted))
        .collect();
    // all that is left to say of the others at the end.
    key.flag(state.n_completed > 0);
    key.flag(state.n_ended > state.n_completed);
    key.push(live.len() as u64, 5);
    for (place, step) in live.iter().enumerate() {
        key.push(u64::from(case.shape.on_failure[*step]), 3);
        for other in &live[..place] {
            key.flag(case.depends_on(*step, *other));
        }
        let timer = state.steps.get(*step).and_then(|step| step.timer_left_ms);
        of_step(&mut key, state_of(*step), timer);
        key.flag(
            state
                .steps
                .get(*step)
                .is_some_and(|step| step.failed_dependency.is_some()),
        );
    }
    key.0
}

fn of_execution(key: &mut Packer, state: &AbstractState) {
    key.push(state.phase as u64, 5);
    key.flag(state.start_is_being_written);
    let left_ms = state.limit_left_ms.map_or(0, |left_ms| left_ms + 1);
    // While queued every millisecond counts: the start looks at what is left.
    let counts = state.phase == Phase::Queued;
    key.push(if counts { left_ms } else { left_ms.min(FAR_MS) }, 1 << 11);
}

fn of_step(key: &mut Packer, state: StepState, timer_left_ms: Option<u64>) {
    let (number, attempt) = match state {
        StepState::Pending => (0, 0),
        StepState::Waiting { attempt } => (1, attempt),
        StepState::Assigned { attempt } => (2, attempt),
        StepState::Started { attempt } => (3, attempt),
        StepState::BackingOff { next_attempt } => (4, next_attempt),
        StepState::Completed => (5, 0),
        StepState::NotCompleted => (6, 0),
        StepState::Stopped => (7, 0),
    };
    key.push(number, 8);
    key.push(u64::from(attempt), 5);
    key.push(timer_left_ms.map_or(0, |left_ms| left_ms + 1), 5);
}

fn of_severity(severity: Severity) -> u64 {
    match severity {
        Severity::Warn => 0,
        Severity::Error => 1,
        Severity::Fatal => 2,
    }
}
