//! Ids of runs, and the ids that follow from them. Draws no random number: what a run sends is derived, so that sending it
//! again attaches.

use escapement_model::encoder::Encoder;
use escapement_model::{ExecutionId, PlanId, StepId};

/// Names one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(ExecutionId);

impl RunId {
    /// Makes a UUID v4 of 16 random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(ExecutionId::from_random(bytes))
    }

    /// Takes 16 bytes that were an id before; `None` if they are no UUID v4.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        ExecutionId::from_bytes(bytes).map(Self)
    }

    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl core::str::FromStr for RunId {
    type Err = escapement_model::InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl core::fmt::Display for RunId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// One try of one unit: what its ids are derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptName<'a> {
    /// The run.
    pub run_id: RunId,
    /// The step's key.
    pub step: &'a str,
    /// The unit of the step.
    pub index: u32,
    /// How often the step was reset.
    pub epoch: u32,
    /// The number of the attempt in this epoch, from 1.
    pub attempt: u32,
}

impl AttemptName<'_> {
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
pub fn input_request_id(run_id: RunId, n: u32) -> RunId {
    let hash = Encoder::named("escapement run input request id 1", |encoder| {
        encoder.bytes(run_id.as_bytes());
        encoder.number(u64::from(n));
    });
    RunId::from_random(first_half(hash))
}

fn first_half(hash: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    half
}
