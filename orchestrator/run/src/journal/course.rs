//! Restarts, checkpoints and ways back of a run, as the journal has them.

use super::{Doubt, Failure, Stored, UnitRef, Usage};
use crate::spec::ActionProfile;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::Message;

/// What a restart found.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct RunRecovered {
    /// Steps that wait for their turn.
    #[prost(uint32, tag = "1")]
    pub pending: u32,
    /// Steps with a result.
    #[prost(uint32, tag = "2")]
    pub completed: u32,
    /// Steps that failed.
    #[prost(uint32, tag = "3")]
    pub failed: u32,
    /// Steps with a run of their own that lives.
    #[prost(uint32, tag = "4")]
    pub interrupted_with_child: u32,
    /// Attempts whose effect may have happened.
    #[prost(uint32, tag = "5")]
    pub ambiguous: u32,
    /// Attempts that are sent again.
    #[prost(uint32, tag = "6")]
    pub resubmitted: u32,
    /// True if the stop before it was asked for and came to its end.
    #[prost(bool, tag = "7")]
    pub orderly: bool,
    /// True if only child runs were in flight.
    #[prost(bool, tag = "8")]
    pub children_alone: bool,
    // RUN-7.8
    /// Milliseconds by which the times of the run are ahead of the clock of this start.
    #[prost(uint64, tag = "9")]
    pub ahead_ms: u64,
}

// RUN-7.2
/// A time in which the orchestrator stood still, or could write nothing.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct RunStalled {
    /// Milliseconds since the previous entry that do not count as active time.
    #[prost(uint64, tag = "1")]
    pub stalled_ms: u64,
}

// RUN-2.6
/// Knowledge of the actions of a run that waited for it.
#[derive(Clone, PartialEq, Message)]
pub struct ActionsKnown {
    /// Profiles that replace all earlier ones, sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub profiles: Vec<ActionProfile>,
}

/// A checkpoint.
#[derive(Clone, PartialEq, Message)]
pub struct CheckpointCreated {
    /// Counts from 1.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// The caller's data: an encoded object.
    #[prost(message, required, tag = "2")]
    pub data: Stored,
}

/// A run that was set back.
#[derive(Clone, PartialEq, Message)]
pub struct RunRolledBack {
    /// `reset`, `restore` or `rewind`.
    #[prost(string, tag = "1")]
    pub mode: String,
    /// The checkpoint; 0 if none is meant.
    #[prost(uint32, tag = "2")]
    pub checkpoint: u32,
    /// The first step that a rewind sets back, from 0; absent for the others.
    #[prost(uint32, optional, tag = "3")]
    pub step: Option<u32>,
    /// True if a rewind sets back those that depend on that step, false if all later ones.
    #[prost(bool, tag = "4")]
    pub dependents: bool,
    /// The data of the checkpoint, if one is meant: an encoded object. What earlier versions wrote has none.
    #[prost(message, optional, tag = "5")]
    pub data: Option<Stored>,
}

/// The run of a `sub_plan`.
#[derive(Clone, PartialEq, Message)]
pub struct ChildRunStarted {
    /// Whose it is.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// The run, 16 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub run_id: Bytes,
    /// Its input: an encoded object.
    #[prost(message, required, tag = "3")]
    pub input: Stored,
    /// What it may spend, which counts as used while it lives; absent if there is no budget.
    #[prost(message, optional, tag = "4")]
    pub reserved: Option<Usage>,
}

/// How it ended.
#[derive(Clone, PartialEq, Message)]
pub struct ChildRunEnded {
    /// Whose it was.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// The output of a completed one: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "2")]
    pub output: Option<Stored>,
    /// What went wrong with any other.
    #[prost(message, optional, tag = "3")]
    pub error: Option<Failure>,
    /// What it used of what it might spend; absent if it might spend nothing or nobody knows.
    #[prost(message, optional, tag = "4")]
    pub usage: Option<Usage>,
    // RUN-12.14
    /// Effects that are in doubt: its own, and those that were when it began.
    #[prost(message, repeated, tag = "5")]
    pub doubts: Vec<Doubt>,
    /// True if those are all; false if nobody knows.
    #[prost(bool, tag = "6")]
    pub tells_doubts: bool,
}
