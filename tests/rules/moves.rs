//! What can happen to an execution in a state: the inputs that fit, those that do not, and how time may pass.
//! Knows no outcome of any of it.

use crate::plans::{Case, PLAN_LIMIT_MS};
use escapement_contract::{AbstractState, Evidence, Input, Outcome, Phase, Reported, StepIndex, StepState};
use escapement_model::{Opaque, Severity};

/// Limits further away than this are alike: no timer of a step reaches so far.
pub(crate) const FAR_MS: u64 = 100;

/// A kind of input, as the tables of transitions list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Start,
    StartPersisted,
    Assigned,
    Started,
    Returned,
    NotFound,
    Completed,
    Warned,
    Failed,
    Fatal,
    Lost,
    SettlePersisted,
    Time,
}

/// Returns the inputs that fit; each is accepted.
pub(crate) fn that_fit(state: &AbstractState, index: &[StepIndex]) -> Vec<Input> {
    let mut inputs = Vec::new();
    match state.phase {
        Phase::Queued => inputs.push(Input::Start),
        Phase::Starting => {}
        Phase::Running => {
            for (step, index) in state.steps.iter().zip(index) {
                of_step(step.state, *index, &mut inputs);
            }
        }
        Phase::Settling => inputs.push(Input::SettlePersisted),
        Phase::Settled => {}
    }
    if state.start_is_being_written {
        inputs.push(Input::StartPersisted);
    }
    inputs
}

fn of_step(state: StepState, step: StepIndex, inputs: &mut Vec<Input>) {
    match state {
        StepState::Waiting { attempt } => inputs.extend([
            Input::Assigned {
                step,
                attempt,
                worker: "worker-1".into(),
            },
            Input::ActionNotFound { step, attempt },
        ]),
        StepState::Assigned { attempt } => {
            inputs.extend([
                Input::AttemptStarted { step, attempt },
                returned(step, attempt, Evidence::Released),
            ]);
            inputs.extend(outcomes().map(|outcome| ended(step, attempt, outcome)));
        }
        StepState::Started { attempt } => {
            inputs.push(returned(step, attempt, Evidence::Refused));
            let outcomes = outcomes().into_iter().chain([Outcome::Lost]);
            inputs.extend(outcomes.map(|outcome| ended(step, attempt, outcome)));
        }
        StepState::Pending
        | StepState::BackingOff { .. }
        | StepState::Completed
        | StepState::NotCompleted
        | StepState::Stopped => {}
    }
}

fn ended(step: StepIndex, attempt: u32, outcome: Outcome) -> Input {
    Input::AttemptEnded {
        step,
        attempt,
        outcome,
    }
}

/// One outcome of each kind that section 4 tells apart.
fn outcomes() -> [Outcome; 7] {
    let report = |code: &str, severity| Reported {
        code: code.into(),
        severity,
        ..Reported::default()
    };
    [
        completed(),
        // whatever the warning's code says.
        Outcome::Completed {
            output: Opaque::default(),
            warnings: vec![report("INVALID_PAYLOAD", Some(Severity::Fatal))],
        },
        Outcome::Failed(report("NOTE", Some(Severity::Warn))),
        // Eligible where the policy lists anything.
        Outcome::Failed(report("BUSY", None)),
        // Eligible where the policy lists everything.
        Outcome::Failed(report("ODD", Some(Severity::Error))),
        // fatal, whatever the worker says.
        Outcome::Failed(report("INVALID_PAYLOAD", Some(Severity::Warn))),
        Outcome::Undecodable {
            detail: "not a report".into(),
        },
    ]
}

/// Inputs of every kind for every step, and for one that the plan does not have, that do not fit: other phases,
/// other states, attempts that are over and attempts to come.
pub(crate) fn that_do_not_fit(case: &Case, state: &AbstractState, index: &[StepIndex]) -> Vec<Input> {
    let mut inputs = Vec::new();
    if state.phase != Phase::Queued {
        inputs.push(Input::Start);
    }
    if !state.start_is_being_written {
        inputs.push(Input::StartPersisted);
    }
    if state.phase != Phase::Settling {
        inputs.push(Input::SettlePersisted);
    }
    for (place, step) in index.iter().enumerate() {
        if place >= case.shape.n_steps && place != index.len() - 1 {
            continue;
        }
        let running = state.steps.get(place).filter(|_| state.phase == Phase::Running);
        let state = running.map_or(StepState::Pending, |step| step.state);
        let attempts = attempt_of(state).map_or(1..=1, |attempt| attempt - 1..=attempt + 1);
        for attempt in attempts {
            of_other_states(state, *step, attempt, &mut inputs);
        }
    }
    inputs
}

/// Inputs for this attempt that do not fit this state of its step.
fn of_other_states(state: StepState, step: StepIndex, attempt: u32, inputs: &mut Vec<Input>) {
    let is_waiting = state == StepState::Waiting { attempt };
    let is_assigned = state == StepState::Assigned { attempt };
    let is_started = state == StepState::Started { attempt };
    if !is_waiting {
        of_step(StepState::Waiting { attempt }, step, inputs);
    }
    if !is_assigned {
        inputs.extend([
            Input::AttemptStarted { step, attempt },
            returned(step, attempt, Evidence::Released),
        ]);
    }
    if !is_assigned && !is_started {
        inputs.push(ended(step, attempt, completed()));
    }
    if !is_started {
        inputs.push(ended(step, attempt, Outcome::Lost));
    }
}

fn returned(step: StepIndex, attempt: u32, evidence: Evidence) -> Input {
    Input::AttemptReturned {
        step,
        attempt,
        evidence,
    }
}

fn completed() -> Outcome {
    Outcome::Completed {
        output: Opaque::default(),
        warnings: vec![],
    }
}

fn attempt_of(state: StepState) -> Option<u32> {
    match state {
        StepState::Waiting { attempt } | StepState::Assigned { attempt } | StepState::Started { attempt } => {
            Some(attempt)
        }
        StepState::BackingOff { next_attempt } => Some(next_attempt),
        StepState::Pending | StepState::Completed | StepState::NotCompleted | StepState::Stopped => None,
    }
}

/// How long nothing may happen but time.
///
/// While a step's timer runs: one millisecond, and two, which is late for a timer that was due after one.
/// Anywhere: until just before the limit, and until after it.
pub(crate) fn waits(state: &AbstractState) -> Vec<u64> {
    let Some(left_ms) = state.limit_left_ms else {
        return Vec::new();
    };
    let mut waits = Vec::new();
    if left_ms <= FAR_MS {
        // Whatever else is due, the limit is due now.
        waits.push(left_ms);
        return waits;
    }
    // Until the queue has taken too long.
    let takes_long = state.phase == Phase::Queued && left_ms >= PLAN_LIMIT_MS;
    if takes_long || !state.timers.is_empty() {
        waits.push(1);
    }
    if !state.timers.is_empty() {
        waits.push(2);
    }
    waits.extend([left_ms - 1, left_ms + 3]);
    waits
}

/// Its kind; the outcomes as the core classifies them.
pub(crate) fn kind_of(input: &Input) -> Kind {
    match input {
        Input::Start => Kind::Start,
        Input::StartPersisted => Kind::StartPersisted,
        Input::SettlePersisted => Kind::SettlePersisted,
        Input::Assigned { .. } => Kind::Assigned,
        Input::AttemptStarted { .. } => Kind::Started,
        Input::AttemptReturned { .. } => Kind::Returned,
        Input::ActionNotFound { .. } => Kind::NotFound,
        Input::Tick => Kind::Time,
        Input::AttemptEnded { outcome, .. } => match outcome {
            Outcome::Completed { .. } => Kind::Completed,
            Outcome::Lost => Kind::Lost,
            Outcome::Undecodable { .. } => Kind::Fatal,
            Outcome::Failed(reported) => match reported.code.as_str() {
                "NOTE" => Kind::Warned,
                "INVALID_PAYLOAD" => Kind::Fatal,
                _ => Kind::Failed,
            },
        },
    }
}

/// Returns the place of the step that it is about.
pub(crate) fn place_in(input: &Input) -> Option<usize> {
    match input {
        Input::Assigned { step, .. }
        | Input::AttemptStarted { step, .. }
        | Input::AttemptReturned { step, .. }
        | Input::AttemptEnded { step, .. }
        | Input::ActionNotFound { step, .. } => Some(step.as_usize()),
        Input::Start | Input::StartPersisted | Input::Tick | Input::SettlePersisted => None,
    }
}
