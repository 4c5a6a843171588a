//! What becomes of a revision that fails, as the journal has it.

use super::{CompletedStep, FailedStep, Failure, Stored, UnitRef};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::Message;

/// A revision that failed, and what takes its place.
#[derive(Clone, PartialEq, Message)]
pub struct ReplanTriggered {
    /// The number of the revision that failed.
    #[prost(uint32, tag = "1")]
    pub revision: u32,
    /// `substitution`, `fallback`, `planner` if a planner is asked, or `revise` if it is because a person wants another plan.
    #[prost(string, tag = "2")]
    pub cause: String,
    /// What went wrong.
    #[prost(message, required, tag = "3")]
    pub error: Failure,
    /// Actions that failed for good with it, sorted: the run does without them from now on.
    #[prost(string, repeated, tag = "4")]
    pub disabled: Vec<String>,
    /// What a substitution changes.
    #[prost(message, optional, tag = "5")]
    pub substituted: Option<Substituted>,
    /// The generation that made the plan; 0 if no planner did.
    #[prost(uint32, tag = "6")]
    pub generation: u32,
    /// Steps that failed, in canonical order; the first ones, if a planner is asked.
    #[prost(message, repeated, tag = "7")]
    pub failed: Vec<FailedStep>,
    /// Steps that completed, in canonical order; the first ones, if a planner is asked.
    #[prost(message, repeated, tag = "8")]
    pub completed: Vec<CompletedStep>,
    /// What the person says who wants another plan.
    #[prost(string, tag = "9")]
    pub comment: String,
}

/// An action that takes the place of another one in a step.
#[derive(Clone, PartialEq, Message)]
pub struct Substituted {
    /// The key of the step.
    #[prost(string, tag = "1")]
    pub step_key: String,
    /// The action that failed.
    #[prost(string, tag = "2")]
    pub from: String,
    /// The one in its place.
    #[prost(string, tag = "3")]
    pub to: String,
}

/// A result of an earlier revision that a unit of a later one may take.
#[derive(Clone, PartialEq, Message)]
pub struct CarriedResult {
    /// SHA-256 of the action, the payload and the environment that it is the result of, 32 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The result: an encoded `google.protobuf.Value`.
    #[prost(message, required, tag = "2")]
    pub output: Stored,
    /// The execution that it comes from, 16 bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub execution_id: Bytes,
}

// RUN-12.14
/// An effect of which nobody knows whether it happened: what makes it again asks first.
#[derive(Clone, PartialEq, Message)]
pub struct Doubt {
    /// SHA-256 of the action, the payload and the environment of the attempt, 32 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The execution of the attempt, 16 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub execution_id: Bytes,
    /// True if the attempt is known to have taken too long; false if nothing is known of its end.
    #[prost(bool, tag = "3")]
    pub timed_out: bool,
}

/// A unit that has the result of an earlier revision.
#[derive(Clone, PartialEq, Message)]
pub struct UnitMemoized {
    /// Which one.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// The action that is not called again.
    #[prost(string, tag = "2")]
    pub action: String,
    /// The result that it takes.
    #[prost(message, required, tag = "3")]
    pub result: CarriedResult,
}
