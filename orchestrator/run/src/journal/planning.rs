//! How plans are made, as the journal has it.

use super::{Failure, Stored};
use crate::spec::ActionProfile;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::{Enumeration, Message};

/// A plan is to be made.
#[derive(Clone, PartialEq, Message)]
pub struct GenerationStarted {
    /// Counts from 1 in the run.
    #[prost(uint32, tag = "1")]
    pub generation: u32,
    /// SHA-256 of the plan that it follows, 32 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "2")]
    pub parent: Bytes,
}

/// What a generation may choose from.
#[derive(Clone, PartialEq, Message)]
pub struct CatalogueGiven {
    /// The generation.
    #[prost(uint32, tag = "1")]
    pub generation: u32,
    /// An encoded [`crate::catalogue::Catalogue`].
    #[prost(message, required, tag = "2")]
    pub catalogue: Stored,
    /// Actions in it.
    #[prost(uint32, tag = "3")]
    pub n_actions: u32,
    /// How many there was no room for.
    #[prost(uint32, tag = "4")]
    pub n_left_out: u32,
    /// What is known of actions that plans do not name: the planner's, the model's, the safety check's. Sorted by name.
    #[prost(message, repeated, tag = "5")]
    pub own: Vec<ActionProfile>,
}

/// What came of a generation.
#[derive(Clone, PartialEq, Message)]
pub struct GenerationEnded {
    /// The generation.
    #[prost(uint32, tag = "1")]
    pub generation: u32,
    /// What came of it.
    #[prost(enumeration = "Verdict", tag = "2")]
    pub verdict: i32,
    /// What is wrong with a plan that was refused, in document order; the first ones.
    #[prost(message, repeated, tag = "3")]
    pub violations: Vec<RefusedPart>,
    /// Why there was no answer.
    #[prost(message, optional, tag = "4")]
    pub error: Option<Failure>,
    /// SHA-256 of a plan that was accepted, 32 bytes; empty for any other.
    #[prost(bytes = "bytes", tag = "5")]
    pub digest: Bytes,
}

/// What came of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Verdict {
    /// Its plan is the next revision.
    Accepted = 0,
    /// Its answer is no plan that may run.
    Refused = 1,
    /// The planner failed.
    Failed = 2,
    /// The planner took too long.
    TimedOut = 3,
    /// The run's budget has too little left for the planner.
    OutOfBudget = 4,
}

impl Verdict {
    /// As events spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Refused => "refused",
            Verdict::Failed => "failed",
            Verdict::TimedOut => "timed_out",
            Verdict::OutOfBudget => "out_of_budget",
        }
    }
}

/// Something that is wrong with what a planner answered.
#[derive(Clone, PartialEq, Message)]
pub struct RefusedPart {
    /// The path in the document; `document` for all of it.
    #[prost(string, tag = "1")]
    pub path: String,
    /// The code.
    #[prost(string, tag = "2")]
    pub code: String,
    /// A sentence.
    #[prost(string, tag = "3")]
    pub message: String,
}

/// A step that failed, as the planner is told.
#[derive(Clone, PartialEq, Message)]
pub struct FailedStep {
    /// Its key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The action that it called; empty if it called none.
    #[prost(string, tag = "2")]
    pub action: String,
    /// The code.
    #[prost(string, tag = "3")]
    pub code: String,
    /// A sentence.
    #[prost(string, tag = "4")]
    pub message: String,
}

/// A step that completed, as the planner is told.
#[derive(Clone, PartialEq, Message)]
pub struct CompletedStep {
    /// Its key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// What it came to as JSON, with a mark if it is cut; empty if it is left out.
    #[prost(string, tag = "2")]
    pub output: String,
}

/// What a plan that a planner made will do.
#[derive(Clone, PartialEq, Message)]
pub struct PlanSummary {
    /// The number of the revision.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Steps of the plan.
    #[prost(uint32, tag = "2")]
    pub n_steps: u32,
    /// What the plan is called.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The first steps in canonical order: the description of each, else its name, cut.
    #[prost(string, repeated, tag = "4")]
    pub steps: Vec<String>,
}

/// The run's plans failed, and it has an output all the same. Directly before `RunFailed`.
#[derive(Clone, PartialEq, Message)]
pub struct FallbackUsed {
    /// `templates`, `output` or `action`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// An encoded `google.protobuf.Value`.
    #[prost(message, required, tag = "2")]
    pub output: Stored,
}
