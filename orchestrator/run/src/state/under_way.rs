//! What of a run is under way, and what it waits for.

use super::{ArtifactState, Planning, RunState, Stage, StepStage, StepState, UnitStage};
use crate::journal::InputRequest;
use bytes::Bytes;

impl RunState {
    /// True while active time passes: something is in flight or can be, and nothing waits for people or a pause.
    // RUN-7.2
    pub fn is_active(&self) -> bool {
        match self.stage() {
            Stage::Planning | Stage::Executing => self.paused_at == 0 && !self.waits_for_people(),
            Stage::Queued | Stage::Completed | Stage::Failed | Stage::TimedOut | Stage::Cancelled => false,
        }
    }

    /// True if at least one request is open and nothing else is under way.
    pub fn waits_for_people(&self) -> bool {
        self.has_open_request() && !self.is_in_flight() && !self.backs_off()
    }

    /// True if an attempt, an evaluation or a child run lives, or a generation of the planner is under way.
    pub fn is_in_flight(&self) -> bool {
        let plans = self.planning.as_ref().is_some_and(Planning::is_in_flight);
        // The condition of a loop is evaluated while its last iteration stays completed.
        let looks = self.artifacts.iter().any(|artifact| artifact.live.is_some());
        plans || self.has_unit(UnitStage::Live) || !self.evaluations.is_empty() || looks
    }

    // RUN-9.5
    /// Returns true if child runs are in flight and no other work is.
    pub(crate) fn has_children_alone_in_flight(&self) -> bool {
        let plans = self.planning.as_ref().is_some_and(Planning::is_in_flight);
        let looks = self.artifacts.iter().any(|artifact| artifact.live.is_some());
        let own = plans || !self.evaluations.is_empty() || looks;
        let mut live = self
            .steps
            .iter()
            .filter(|step| step.stage() == StepStage::Running)
            .flat_map(StepState::all_units)
            .map(|(_, unit)| unit)
            .filter(|unit| unit.stage() == UnitStage::Live)
            .peekable();
        !own && live.peek().is_some() && live.all(|unit| !unit.child.is_empty())
    }

    // RUN-2.6
    /// Returns true if the run waits in the queue until its actions are known.
    pub fn waits_for_actions(&self) -> bool {
        self.stage() == Stage::Queued && self.profiles.iter().any(|profile| profile.unknown)
    }

    /// True if a unit waits for its next attempt.
    pub fn backs_off(&self) -> bool {
        self.has_unit(UnitStage::BackingOff) || self.looks_again().next().is_some()
    }

    // RUN-12.8
    /// Artifacts that wait for their next look. While steps run again, or another plan is made, nothing is looked at.
    pub(crate) fn looks_again(&self) -> impl Iterator<Item = &ArtifactState> {
        let looks = self.is_verifying && self.stage() == Stage::Executing && self.cause.is_none();
        let waits = move |artifact: &&ArtifactState| looks && artifact.again_at > 0;
        self.artifacts.iter().filter(waits)
    }

    /// True if child runs are all that is in flight or backing off.
    pub fn waits_for_children_alone(&self) -> bool {
        let running = self
            .steps
            .iter()
            .filter(|step| step.stage() == StepStage::Running);
        let mut units = running
            .flat_map(StepState::all_units)
            .map(|(_, unit)| unit)
            .filter(|unit| match unit.stage() {
                UnitStage::Live | UnitStage::BackingOff => true,
                UnitStage::Ready
                | UnitStage::Waiting
                | UnitStage::Judged
                | UnitStage::Completed
                | UnitStage::Failed => false,
            });
        let first = units.next();
        first.is_some_and(|unit| !unit.child.is_empty()) && units.all(|unit| !unit.child.is_empty())
    }

    /// The request with this id.
    ///
    /// # Panics
    /// If the run never asked it.
    pub fn request(&self, id: &Bytes) -> &InputRequest {
        let mut requests = self.requests.iter();
        requests
            .find(|request| request.id == *id)
            .expect("the request is known")
    }

    fn has_unit(&self, stage: UnitStage) -> bool {
        let running = self
            .steps
            .iter()
            .filter(|step| step.stage() == StepStage::Running);
        running
            .flat_map(|step| step.units.iter().rev())
            .any(|unit| unit.stage() == stage || unit.calls.iter().any(|call| call.stage() == stage))
    }
}
