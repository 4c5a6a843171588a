//! What is compared of a run: everything that somebody can see of it, and when it changes by itself.

use super::run::{RequestState, Run, Unit, UnitState};
use super::words::{Code, End, Reason, RequestKind, Shown, StepState, UnitId};

/// How a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// How it shows.
    pub shown: Shown,
    /// Its steps in canonical order.
    pub steps: Vec<StepView>,
    /// The open requests, by kind and unit.
    pub open: Vec<(RequestKind, Option<UnitId>)>,
    /// The end.
    pub end: Option<End>,
    /// When it changes by itself at the latest.
    pub due_at: Option<u64>,
}

/// How a step stands.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// How it shows.
    pub state: StepState,
    /// Why it did not run.
    pub reason: Option<Reason>,
    /// Why it failed.
    pub code: Option<Code>,
    /// How often it was set back.
    pub epoch: u32,
    /// Its units.
    pub units: Vec<UnitView>,
}

/// How a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitView {
    /// Where it is.
    pub state: UnitWord,
    /// Attempts in this epoch.
    pub n_attempts: u32,
    /// Counted retries.
    pub n_retries: u32,
}

/// Where a unit is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitWord {
    /// Due, or backing off.
    Idle,
    /// Under way.
    InFlight,
    /// A person is asked.
    Asking,
    /// Done.
    Completed,
    /// Failed for good.
    Failed,
}

impl Run {
    /// What is compared of it.
    #[must_use]
    pub fn view(&self) -> View {
        let is_open = |request: &&super::run::Request| request.state == RequestState::Open;
        let open = self.requests.iter().filter(is_open);
        let mut open: Vec<_> = open.map(|request| (request.kind, request.unit)).collect();
        open.sort_unstable();
        View {
            shown: self.shown(),
            steps: (0..self.steps.len()).map(|step| self.step_view(step)).collect(),
            open,
            end: self.end.clone(),
            due_at: self.due_at(),
        }
    }

    fn step_view(&self, index: usize) -> StepView {
        let step = &self.steps[index];
        // What becomes of the units of a step that has ended matters to nobody.
        let units = if step.has_ended() {
            &[][..]
        } else {
            &step.units[..]
        };
        let units = trimmed(units.iter().map(Unit::view).collect());
        StepView {
            state: self.shown_step(index),
            reason: step.reason,
            code: step.code,
            epoch: step.epoch,
            units,
        }
    }
}

impl Unit {
    fn view(&self) -> UnitView {
        let state = match self.state {
            UnitState::Due | UnitState::BackingOff(_) => UnitWord::Idle,
            UnitState::InFlight => UnitWord::InFlight,
            UnitState::Asking(_) => UnitWord::Asking,
            UnitState::Completed(_) => UnitWord::Completed,
            UnitState::Failed(_) => UnitWord::Failed,
        };
        UnitView {
            state,
            n_attempts: self.n_attempts,
            n_retries: self.n_retries,
        }
    }
}

/// Without the last ones that nothing happened to yet.
#[must_use]
pub fn trimmed(mut units: Vec<UnitView>) -> Vec<UnitView> {
    while units
        .last()
        .is_some_and(|unit| unit.state == UnitWord::Idle && unit.n_attempts == 0)
    {
        units.pop();
    }
    units
}
