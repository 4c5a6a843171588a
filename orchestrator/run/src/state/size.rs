//! Sizes of the parts of a state that grow with the work of its run. Changes nothing.

use super::{RunState, StepState, UnitState};
use crate::bounds::UNIT_BYTES;
use crate::journal::{Event, InputRequest, RequestState, UnitRef};
use bytes::Bytes;
use prost::Message;

/// The part of a state that an entry changes, as far as it counts.
pub(crate) enum Region {
    /// None.
    Nothing,
    /// A unit, and the request of that id, if any.
    Unit(Option<UnitRef>, Bytes),
    /// Output and error of a step.
    Result(u32),
    /// A step and its units.
    Step(u32),
    /// All of it.
    All,
}

impl RunState {
    // RUN-9.13
    /// Returns the approximate bytes of the work of the run: units, results of steps, and open requests.
    pub fn size(&self) -> usize {
        let steps: usize = self.steps.iter().map(StepState::size).sum();
        steps + self.open_requests().map(Message::encoded_len).sum::<usize>()
    }

    /// Returns the part that the entry changes.
    pub(crate) fn region_of(&self, event: &Event) -> Region {
        let unit = |unit: UnitRef| match unit.is_generation() || unit.is_verification() {
            true => Region::Nothing,
            false => Region::Unit(Some(unit), Bytes::new()),
        };
        match event {
            Event::EvaluationRequested(requested) => unit(requested.unit),
            Event::Evaluated(evaluated) => {
                let mut pending = self.evaluations.iter();
                let asked = pending.find(|one| one.evaluation == evaluated.evaluation);
                asked.map_or(Region::Nothing, |one| Region::Step(one.step))
            }
            Event::BudgetAwaited(awaited) => unit(awaited.unit),
            Event::ToolsAsked(asked) => unit(asked.unit),
            Event::UnitMemoized(memo) => unit(memo.unit),
            Event::ToolCalled(called) => unit(called.unit),
            Event::ToolOutput(output) => unit(output.unit),
            Event::StepRetrying(retrying) => unit(retrying.unit),
            Event::UnitFailed(failed) => unit(failed.unit),
            Event::ChildRunStarted(started) => unit(started.unit),
            Event::ChildRunEnded(ended) => unit(ended.unit),
            Event::InputRequested(request) => Region::Unit(request.unit, request.id.clone()),
            Event::DecisionRecorded(answer) | Event::InputReceived(answer) => {
                Region::Unit(self.unit_of_request(&answer.id), answer.id.clone())
            }
            Event::InputExpired(request) | Event::InputClosed(request) => {
                Region::Unit(self.unit_of_request(&request.id), request.id.clone())
            }
            Event::StepCompleted(completed) => Region::Result(completed.step),
            Event::StepFailed(failed) => Region::Result(failed.step),
            Event::StepReset(step) => Region::Step(step.step),
            Event::StepMemoized(memo) => Region::Step(memo.step),
            Event::PlanCreated(_) => Region::All,
            _ => Region::Nothing,
        }
    }

    /// Returns the bytes of that part.
    pub(crate) fn size_of(&self, region: &Region) -> usize {
        match region {
            Region::Nothing => 0,
            Region::Unit(unit, request) => {
                let unit = unit.map_or(0, |unit| self.size_of_unit(unit));
                let mut open = self.open_requests();
                let request = open.find(|open| !request.is_empty() && open.id == *request);
                unit + request.map_or(0, Message::encoded_len)
            }
            Region::Result(step) => self
                .steps
                .get(*step as usize)
                .map_or(0, StepState::size_of_result),
            Region::Step(step) => self.steps.get(*step as usize).map_or(0, StepState::size),
            Region::All => self.size(),
        }
    }

    /// Returns the bytes of the unit, or of the turn of a model that asks for it. Adds the fixed bytes of
    /// each unit of its step.
    fn size_of_unit(&self, unit: UnitRef) -> usize {
        let Some(step) = self.steps.get(unit.step as usize) else {
            return 0;
        };
        let unit = unit.of_step();
        let index = unit.as_tool_call().map_or(unit.index, |(turn, _)| turn);
        let of_unit = step.units.get(index as usize).map_or(0, UnitState::size);
        // New units before it are empty.
        step.units.len() * UNIT_BYTES + of_unit
    }

    fn unit_of_request(&self, id: &Bytes) -> Option<UnitRef> {
        let mut requests = self.requests.iter();
        let known = requests.find(|request| request.id == *id);
        known.filter(is_open).and_then(|request| request.unit)
    }
}

fn is_open(request: &&InputRequest) -> bool {
    request.state() == RequestState::Open
}

impl StepState {
    fn size(&self) -> usize {
        let units: usize = self.units.iter().map(|unit| UNIT_BYTES + unit.size()).sum();
        self.size_of_result() + units
    }

    fn size_of_result(&self) -> usize {
        let output = self.output.as_ref().map_or(0, Message::encoded_len);
        output + self.error.as_ref().map_or(0, Message::encoded_len)
    }
}

impl UnitState {
    fn size(&self) -> usize {
        self.encoded_len() + self.calls.len() * UNIT_BYTES
    }
}
