//! The units of a step, and those that a turn of a model has: the calls of tools that it asks for.

use super::{RunState, StepState, UnitStage, UnitState};
use crate::journal::{ToolsAsked, UnitRef};

impl StepState {
    /// Every unit with its index: each that the step dispatches, and behind it the calls that it asks for.
    pub fn all_units(&self) -> impl Iterator<Item = (u32, &UnitState)> {
        (0..).zip(&self.units).flat_map(|(index, unit)| {
            let turn = UnitRef {
                index,
                ..UnitRef::default()
            };
            let calls = (0..).zip(&unit.calls);
            let calls = calls.map(move |(n, call)| (turn.tool_call(n).index, call));
            core::iter::once((index, unit)).chain(calls)
        })
    }

    /// The unit; `None` if nothing has happened to it yet.
    pub fn unit(&self, unit: UnitRef) -> Option<&UnitState> {
        match unit.as_tool_call() {
            Some((turn, n)) => self.units.get(turn as usize)?.calls.get(n as usize),
            None => self.units.get(unit.index as usize),
        }
    }
}

impl RunState {
    /// The unit, with those before it. The calls of a turn are there once it has asked for them.
    pub(super) fn unit_mut(&mut self, unit: UnitRef) -> &mut UnitState {
        let step = &mut self.steps[unit.step as usize];
        assert_eq!(
            step.epoch, unit.epoch,
            "an entry is about the epoch that it was decided in"
        );
        if let Some((turn, n)) = unit.as_tool_call() {
            return &mut step.units[turn as usize].calls[n as usize];
        }
        while step.units.len() <= unit.index as usize {
            step.units.push(UnitState::default());
        }
        &mut step.units[unit.index as usize]
    }

    // RUN-13.2, RUN-13.3
    /// A turn asks for tools: a call that is refused has failed before it began.
    pub(super) fn tools_asked(&mut self, asked: &ToolsAsked) {
        let turn = self.unit_mut(asked.unit);
        turn.calls_left_out = asked.n_left_out;
        turn.calls = asked.calls.iter().map(UnitState::of_call).collect();
    }
}

impl UnitState {
    fn of_call(asked: &crate::journal::AskedCall) -> Self {
        let stage = match &asked.refusal {
            Some(_) => UnitStage::Failed,
            None => UnitStage::Ready,
        };
        Self {
            stage: stage.into(),
            error: asked.refusal.clone(),
            asked: Some(asked.clone()),
            ..Self::default()
        }
    }
}
