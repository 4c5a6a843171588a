//! The units of a step, and those that a turn of a model has: the calls of tools that it asks for.

use super::{RunState, StepState, UnitState};
use crate::journal::{
    ChildRunEnded, OutcomeClass, StepRetrying, ToolCalled, ToolsAsked, UnitMemoized, UnitRef, UnitResult,
};
use alloc::string::String;
use bytes::Bytes;
use prost::{Enumeration, Message};

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum UnitStage {
    /// To be dispatched.
    Ready = 0,
    /// An attempt, an evaluation or a child run lives.
    Live = 1,
    /// Waits for its next attempt.
    BackingOff = 2,
    /// Waits for a person.
    Waiting = 3,
    /// An attempt ended, and what follows is not decided yet.
    Judged = 4,
    /// Has an output.
    Completed = 5,
    /// Failed for good.
    Failed = 6,
}

/// An expression that waits for its value.
#[derive(Clone, PartialEq, Message)]
pub struct PendingEvaluation {
    /// Which one.
    #[prost(uint32, tag = "1")]
    pub evaluation: u32,
    /// The step, from 0.
    #[prost(uint32, tag = "2")]
    pub step: u32,
    /// The unit.
    #[prost(uint32, tag = "3")]
    pub index: u32,
    /// The text.
    #[prost(string, tag = "4")]
    pub expression: String,
}

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
    /// Every attempt that is in flight, or was when the run ended: of units, of a generation, and looks at artifacts.
    pub fn live_attempts(&self) -> impl Iterator<Item = &ToolCalled> {
        let units = self.steps.iter().flat_map(StepState::all_units);
        let units = units.filter_map(|(_, unit)| unit.live.as_ref());
        let generation = self.planning.iter();
        let generation = generation.filter_map(|planning| planning.live.as_ref());
        let looks = self.artifacts.iter();
        let looks = looks.filter_map(|artifact| artifact.live.as_ref());
        units.chain(generation).chain(looks)
    }

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

impl RunState {
    // RUN-12.6
    pub(super) fn unit_memoized(&mut self, memo: &UnitMemoized) {
        let result = &memo.result;
        let taken = self.results.iter().position(|known| known == result);
        self.results
            .remove(taken.expect("a result that is taken was there"));
        let unit = self.unit_mut(memo.unit);
        unit.set_stage(UnitStage::Completed);
        unit.output = Some(result.output.clone());
        unit.result_key = result.key.clone();
        unit.memo_of = result.execution_id.clone();
        self.progress();
    }

    // RUN-4.12
    pub(super) fn child_ended(&mut self, ended: &ChildRunEnded) {
        self.settle_child(ended);
        self.child_tells_doubts(ended);
        let unit = self.unit_mut(ended.unit);
        unit.child = Bytes::new();
        unit.child_input = None;
        unit.error = ended.error.clone();
        unit.output = ended.output.clone();
        let (class, stage) = match &unit.error {
            Some(_) => (OutcomeClass::Failed, UnitStage::Judged),
            None => (OutcomeClass::Completed, UnitStage::Completed),
        };
        unit.set_class(class);
        unit.set_stage(stage);
        self.progress();
    }

    pub(super) fn unit_retries(&mut self, retrying: &StepRetrying) {
        let unit = self.unit_mut(retrying.unit);
        unit.set_stage(UnitStage::BackingOff);
        unit.retry_at = retrying.due_at;
        unit.error = Some(retrying.error.clone());
        if retrying.retry > 0 {
            unit.retries = retrying.retry;
            unit.never_ran = 0;
        } else {
            unit.never_ran += 1;
        }
    }
}

/// A unit as the other run left it. It has no attempt here.
pub(super) fn memoized(result: &UnitResult) -> UnitState {
    let stage = match result.output {
        Some(_) => UnitStage::Completed,
        None => UnitStage::Failed,
    };
    UnitState {
        stage: stage.into(),
        output: result.output.clone(),
        result_key: result.result_key.clone(),
        memo_of: result.execution_id.clone(),
        ..UnitState::default()
    }
}
