//! Facts about a state that are expensive to find: its size, and the unit of each execution. Follow from the state alone.

use super::Turn;
use crate::bounds::{INLINE_BYTES_FEW, STATE_BYTES_MANY, STATE_BYTES_MAX};
use crate::ids::{AttemptName, RunId};
use crate::journal::sizes::too_large;
use crate::journal::{Event, ToolCalled, UnitRef};
use crate::plan::Plan;
use crate::state::{Region, RunState, Stage};
use alloc::collections::BTreeMap;
use escapement_model::ExecutionId;

/// Facts about a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    size: usize,
    /// Executions of attempts of units. Some may have ended.
    attempts: BTreeMap<ExecutionId, UnitRef>,
}

impl Held {
    /// Finds the facts in a state of this plan.
    pub(crate) fn of(state: &RunState, plan: &Plan) -> Self {
        let mut held = Self {
            size: state.size(),
            attempts: BTreeMap::new(),
        };
        let units = state.steps.iter().flat_map(crate::state::StepState::all_units);
        for live in units.filter_map(|(_, unit)| unit.live.as_ref()) {
            held.called(state, plan, live);
        }
        held
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn called(&mut self, state: &RunState, plan: &Plan, live: &ToolCalled) {
        if let Some(id) = execution_of(state, plan, live.unit, live.attempt) {
            self.attempts.insert(id, live.unit.of_step());
        }
    }

    /// Updates the facts after an entry was applied. `before` is the size of the region before it.
    pub(super) fn learn(
        &mut self,
        state: &RunState,
        plan: &Plan,
        event: &Event,
        region: &Region,
        before: usize,
    ) {
        self.size = (self.size + state.size_of(region)).saturating_sub(before);
        match event {
            Event::ToolCalled(called) => self.called(state, plan, called),
            Event::ToolOutput(output) => {
                if let Some(id) = execution_of(state, plan, output.unit, output.attempt) {
                    self.attempts.remove(&id);
                }
            }
            Event::StepReset(reset) => self.attempts.retain(|_, unit| unit.step != reset.step),
            Event::PlanCreated(_) => self.attempts.clear(),
            _ => {}
        }
    }
}

/// Returns the id of the execution of an attempt; `None` for a generation and for a check of an artifact.
fn execution_of(state: &RunState, plan: &Plan, unit: UnitRef, attempt: u32) -> Option<ExecutionId> {
    if unit.is_generation() || unit.is_verification() {
        return None;
    }
    let name = AttemptName {
        run_id: RunId::from_bytes(state.run_id[..].try_into().ok()?)?,
        seed: state.spec.seed(),
        step: &plan.steps.get(unit.step as usize)?.key,
        index: unit.index,
        epoch: unit.epoch,
        attempt,
    };
    Some(name.execution_id())
}

impl Turn<'_> {
    /// Returns the unit whose attempt may run as that execution; `None` also without facts.
    pub(super) fn held_attempt(&self, execution_id: ExecutionId) -> Option<UnitRef> {
        self.held.as_ref()?.attempts.get(&execution_id).copied()
    }

    // RUN-9.13
    /// Returns the maximum number of bytes that are kept inline.
    pub(super) fn inline_bytes_max(&self) -> usize {
        match self
            .held
            .as_ref()
            .is_some_and(|held| held.size > STATE_BYTES_MANY)
        {
            true => INLINE_BYTES_FEW,
            false => super::INLINE_BYTES_MAX,
        }
    }

    // RUN-9.13
    /// Returns true if the state is larger than its bound.
    pub(super) fn is_too_large(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.size > STATE_BYTES_MAX)
    }

    // RUN-9.13
    /// Fails a run that is too large; returns true if it did.
    pub(super) fn fails_as_too_large(&mut self) -> bool {
        let goes_on = matches!(self.state.stage(), Stage::Planning | Stage::Executing);
        if !goes_on || !self.is_too_large() {
            return false;
        }
        let most = STATE_BYTES_MAX >> 20;
        self.fail(too_large(&alloc::format!(
            "what the run keeps of its units, their outputs and its open requests has more than {most} MiB"
        )));
        true
    }
}
