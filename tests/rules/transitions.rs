//! What was seen to follow from what: phases and states of steps before and after each kind of input. Renders nothing.

use crate::moves::{Kind, kind_of, place_in};
use crate::plans::Case;
use escapement_contract::{AbstractState, Input, Phase, StepState};

/// The rows of the table of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Assigned,
    Started,
    Returned,
    NotFound,
    Completed,
    Warned,
    FailedHalt,
    FailedSkip,
    FailedRetry,
    Fatal,
    Lost,
    /// The step's own timer fires.
    Timer,
    /// Another step ends, or the start is durable, and the execution goes on.
    Turn,
    /// The execution ends for another reason.
    End,
}

pub(crate) const N_PHASES: usize = 5;
pub(crate) const N_KINDS: usize = Kind::Time as usize + 1;
pub(crate) const N_STATES: usize = 8;
pub(crate) const N_EVENTS: usize = Event::End as usize + 1;

/// The bit of a set that says that the input was refused.
pub(crate) const REFUSED: u16 = 1 << 15;

/// Sets of what came after, as bits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transitions {
    /// By phase before and kind of input.
    pub(crate) phases: [[u16; N_KINDS]; N_PHASES],
    /// By state of the step before and event, while the execution runs.
    pub(crate) steps: [[u16; N_EVENTS]; N_STATES],
}

impl Transitions {
    pub(crate) fn new() -> Self {
        Self {
            phases: [[0; N_KINDS]; N_PHASES],
            steps: [[0; N_EVENTS]; N_STATES],
        }
    }

    /// Takes in what another walk saw.
    pub(crate) fn add(&mut self, other: &Self) {
        let sets = |of: &Self| of.phases.as_flattened().to_vec();
        for (set, more) in self.phases.as_flattened_mut().iter_mut().zip(sets(other)) {
            *set |= more;
        }
        for (set, more) in self
            .steps
            .as_flattened_mut()
            .iter_mut()
            .zip(other.steps.as_flattened())
        {
            *set |= more;
        }
    }

    pub(crate) fn refused(&mut self, before: &AbstractState, input: &Input) {
        self.phases[before.phase as usize][kind_of(input) as usize] |= REFUSED;
        if before.phase != Phase::Running {
            return;
        }
        let state = place_in(input)
            .and_then(|step| before.steps.get(step))
            .map(|step| step.state);
        // An attempt that is over or to come is refused in every state; the table is about the right one.
        let Some(state) = state.filter(|state| names_attempt(*state, input)) else {
            return;
        };
        let events: &[Event] = match kind_of(input) {
            Kind::Assigned => &[Event::Assigned],
            Kind::Started => &[Event::Started],
            Kind::Returned => &[Event::Returned],
            Kind::NotFound => &[Event::NotFound],
            Kind::Lost => &[Event::Lost],
            // One outcome stands for all: what an outcome says is looked at once it is accepted.
            Kind::Completed => OUTCOMES,
            _ => &[],
        };
        for event in events {
            self.steps[number_of(state)][*event as usize] |= REFUSED;
        }
    }

    pub(crate) fn accepted(
        &mut self,
        case: &Case,
        before: &AbstractState,
        wait_ms: u64,
        input: &Input,
        after: &AbstractState,
    ) {
        let kind = kind_of(input);
        let fires = before.limit_left_ms.is_some_and(|left_ms| left_ms <= wait_ms)
            || before
                .timers
                .first()
                .is_some_and(|(left_ms, _)| *left_ms <= wait_ms);
        if kind != Kind::Time || fires {
            self.phases[before.phase as usize][kind as usize] |= 1 << after.phase as u16;
        }
        if after.phase < Phase::Running || before.phase > Phase::Running {
            return;
        }
        for (step, now) in after.steps.iter().enumerate() {
            let was = before
                .steps
                .get(step)
                .map_or(StepState::Pending, |step| step.state);
            let limit_is_over = before.limit_left_ms.is_some_and(|left_ms| left_ms <= wait_ms);
            let timer_left_ms = before.steps.get(step).and_then(|step| step.timer_left_ms);
            let event = if place_in(input) == Some(step) {
                event_of(kind, case.shape.on_failure[step])
            } else if kind == Kind::Time && !limit_is_over && timer_left_ms == Some(wait_ms) {
                // Alone at its instant; what was due before may have led on to more.
                Event::Timer
            } else if kind == Kind::Time && timer_left_ms.is_some_and(|left_ms| left_ms <= wait_ms) {
                continue;
            } else if after.phase == Phase::Settling && now.state == StepState::Stopped {
                Event::End
            } else {
                Event::Turn
            };
            if event == Event::Turn && was != StepState::Pending {
                assert_eq!(was, now.state, "{input:?} changed another step");
                continue;
            }
            self.steps[number_of(was)][event as usize] |= 1 << number_of(now.state);
        }
    }
}

const OUTCOMES: &[Event] = &[
    Event::Completed,
    Event::Warned,
    Event::FailedHalt,
    Event::FailedSkip,
    Event::FailedRetry,
    Event::Fatal,
];

fn event_of(kind: Kind, on_failure: u8) -> Event {
    match (kind, on_failure) {
        (Kind::Assigned, _) => Event::Assigned,
        (Kind::Started, _) => Event::Started,
        (Kind::Returned, _) => Event::Returned,
        (Kind::NotFound, _) => Event::NotFound,
        (Kind::Completed, _) => Event::Completed,
        (Kind::Warned, _) => Event::Warned,
        (Kind::Failed, 0) => Event::FailedHalt,
        (Kind::Failed, 1) => Event::FailedSkip,
        (Kind::Failed, _) => Event::FailedRetry,
        (Kind::Fatal, _) => Event::Fatal,
        (Kind::Lost, _) => Event::Lost,
        (Kind::Start | Kind::StartPersisted | Kind::SettlePersisted | Kind::Time, _) => {
            unreachable!("names no step")
        }
    }
}

fn names_attempt(state: StepState, input: &Input) -> bool {
    let (Input::Assigned { attempt, .. }
    | Input::AttemptStarted { attempt, .. }
    | Input::AttemptReturned { attempt, .. }
    | Input::AttemptEnded { attempt, .. }
    | Input::ActionNotFound { attempt, .. }) = input
    else {
        return false;
    };
    match state {
        StepState::Waiting { attempt: current }
        | StepState::Assigned { attempt: current }
        | StepState::Started { attempt: current } => current == *attempt,
        StepState::Pending
        | StepState::BackingOff { .. }
        | StepState::Completed
        | StepState::NotCompleted
        | StepState::Stopped => true,
    }
}

/// Returns the place of a state in the list of states.
pub(crate) fn number_of(state: StepState) -> usize {
    match state {
        StepState::Pending => 0,
        StepState::Waiting { .. } => 1,
        StepState::Assigned { .. } => 2,
        StepState::Started { .. } => 3,
        StepState::BackingOff { .. } => 4,
        StepState::Completed => 5,
        StepState::NotCompleted => 6,
        StepState::Stopped => 7,
    }
}
