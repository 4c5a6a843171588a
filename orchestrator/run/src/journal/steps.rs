//! The ends of steps and units, as the journal has them.

use super::{Failure, Stored, UnitRef};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::{Enumeration, Message};

/// A unit that failed for good.
#[derive(Clone, PartialEq, Message)]
pub struct UnitFailed {
    /// Which one.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// Why.
    #[prost(message, required, tag = "2")]
    pub error: Failure,
}

/// A step that ended well.
#[derive(Clone, PartialEq, Message)]
pub struct StepCompleted {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// What it came to if that is not what its units came to: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "2")]
    pub output: Option<Stored>,
    /// Why, if it was not the step's own doing; otherwise empty.
    #[prost(string, tag = "3")]
    pub reason: String,
}

/// A step that has its result from another run, or from the revision before.
#[derive(Clone, PartialEq, Message)]
pub struct StepMemoized {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// What it came to, unless its units say: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "2")]
    pub output: Option<Stored>,
    /// What its units came to, in their order; without an output if they have none.
    #[prost(message, repeated, tag = "3")]
    pub units: Vec<UnitResult>,
    /// The number of the entry after which it was so, in the other run's journal or in this one.
    #[prost(uint64, tag = "4")]
    pub as_of: u64,
}

/// What a unit came to.
#[derive(Clone, PartialEq, Message)]
pub struct UnitResult {
    /// An encoded `google.protobuf.Value`; absent if it failed.
    #[prost(message, optional, tag = "1")]
    pub output: Option<Stored>,
    /// What a later revision knows it by, 32 bytes; empty if there will be none.
    #[prost(bytes = "bytes", tag = "2")]
    pub result_key: Bytes,
    /// The execution of this run that it comes from, 16 bytes; empty if it comes from another run, or from none.
    #[prost(bytes = "bytes", tag = "3")]
    pub execution_id: Bytes,
}

/// A step that failed for good.
#[derive(Clone, PartialEq, Message)]
pub struct StepFailed {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// Why.
    #[prost(message, required, tag = "2")]
    pub error: Failure,
}

/// A step that will not run.
#[derive(Clone, PartialEq, Message)]
pub struct StepSkipped {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// Why.
    #[prost(enumeration = "SkipReason", tag = "2")]
    pub reason: i32,
    /// What the operator says whose word it is; otherwise empty.
    #[prost(string, tag = "3")]
    pub comment: String,
}

/// Why a step will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum SkipReason {
    /// A branch went past it.
    Branch = 0,
    /// What it depends on failed.
    DependencyFailed = 1,
    /// The revision ended before.
    RunEnded = 2,
    /// An operator said so.
    Override = 3,
}
