//! Ids of runs, and the ids that follow from them. Draws no random number: what a run sends is derived, so that sending it
//! again attaches.

use core::fmt;
use escapement_model::encoder::Encoder;
use escapement_model::{ExecutionId, PlanId, StepId};

pub use escapement_model::{ArtifactId, InputRequestId, RunId};

/// Secret random bytes of one run: a caller that does not read the run cannot know the ids of its executions before they are there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdSeed([u8; 16]);

impl IdSeed {
    /// Takes 16 random bytes; `None` for any other number.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the seed of a run that a run with this seed has made.
    pub fn of_child(self, run_id: RunId) -> Self {
        Self(first_half(Encoder::named(
            "escapement run child seed 1",
            |encoder| {
                encoder.bytes(&self.0);
                encoder.bytes(run_id.as_bytes());
            },
        )))
    }

    /// Returns the bytes, as a run's spec keeps them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Hides the seed.
impl fmt::Debug for IdSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdSeed(…)")
    }
}

/// One try of one unit: what its ids are derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptName<'a> {
    /// The run.
    pub run_id: RunId,
    /// The run's seed; `None` for a run that was begun before there were any.
    pub seed: Option<IdSeed>,
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
            // Last of all fields: without a seed the ids are those of earlier versions.
            if let Some(seed) = &self.seed {
                encoder.bytes(&seed.0);
            }
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
