//! Ids of runs, and the ids that follow from them. Draws no random number: what a run sends is derived, so that sending it
//! again attaches.

use escapement_model::encoder::Encoder;
use escapement_model::{ExecutionId, PlanId, StepId};

pub use escapement_model::{ArtifactId, InputRequestId, RunId};

/// One try of one unit: what its ids are derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptName<'a> {
    /// The run.
    pub run_id: RunId,
    /// The step's key, or [`AttemptName::PLANNER`].
    pub step: &'a str,
    /// The unit of the step, or the generation.
    pub index: u32,
    /// How often the step was reset.
    pub epoch: u32,
    /// The number of the attempt in this epoch, from 1.
    pub attempt: u32,
}

impl AttemptName<'_> {
    /// What the planner's generations have for a step's key; no step has it.
    pub const PLANNER: &'static str = "$planner";

    // RUN-4.3
    /// The execution that carries the attempt out.
    pub fn execution_id(&self) -> ExecutionId {
        ExecutionId::from_random(self.derived("escapement run execution id 1"))
    }

    /// The plan of that execution.
    pub fn plan_id(&self) -> PlanId {
        PlanId::from_random(self.derived("escapement run plan id 1"))
    }

    /// The only step of that plan.
    pub fn step_id(&self) -> StepId {
        StepId::from_random(self.derived("escapement run step id 1"))
    }

    /// The run that carries a `sub_plan` out.
    pub fn child_run_id(&self) -> RunId {
        RunId::from_random(self.derived("escapement run child id 1"))
    }

    fn derived(&self, purpose: &str) -> [u8; 16] {
        first_half(Encoder::named(purpose, |encoder| {
            encoder.bytes(self.run_id.as_bytes());
            encoder.text(self.step);
            encoder.number(u64::from(self.index));
            encoder.number(u64::from(self.epoch));
            encoder.number(u64::from(self.attempt));
        }))
    }
}

/// The id of the nth question that a run asks people, from 1; never used for another one.
pub fn input_request_id(run_id: RunId, n: u32) -> InputRequestId {
    let hash = Encoder::named("escapement run input request id 1", |encoder| {
        encoder.bytes(run_id.as_bytes());
        encoder.number(u64::from(n));
    });
    InputRequestId::from_random(first_half(hash))
}

/// The id of the nth artifact that a run declares, from 1; never used for another one.
pub fn artifact_id(run_id: RunId, n: u32) -> ArtifactId {
    let hash = Encoder::named("escapement run artifact id 1", |encoder| {
        encoder.bytes(run_id.as_bytes());
        encoder.number(u64::from(n));
    });
    ArtifactId::from_random(first_half(hash))
}

fn first_half(hash: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    half
}
