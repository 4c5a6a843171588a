//! What a run is now: everything that its next decision depends on, as one message that is also its snapshot.
//! Changes by entries of the journal alone (`apply`). Decides nothing.

mod apply;
mod artifacts;
mod budget;
mod checkpoint;
mod contents;
mod planning;
mod requests;
mod revisions;
mod sessions;
mod size;
mod under_way;
mod units;

pub use artifacts::{ArtifactState, Verdict};
pub use checkpoint::Checkpoint;
pub use revisions::{BegunRevision, Replan};
pub use sessions::SessionView;
pub(crate) use size::Region;
pub use units::{PendingEvaluation, UnitStage};

use crate::journal::{AskedCall, Failure, InputRequest, OutcomeClass, Stored, ToolCalled, Usage};
use crate::spec::{ActionProfile, Spec};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::{Enumeration, Message};

pub use planning::{Planning, PreviousPlan};

/// A run as it is after an entry.
#[derive(Clone, PartialEq, Message)]
pub struct RunState {
    /// The run, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub run_id: Bytes,
    /// What it is made from, without input and environment.
    #[prost(message, required, tag = "2")]
    pub spec: Spec,
    /// Where it is.
    #[prost(enumeration = "Stage", tag = "3")]
    pub stage: i32,
    /// True if it shall pause or is paused.
    #[prost(bool, tag = "4")]
    pub pause_wanted: bool,
    /// Unix milliseconds at which it paused; 0 if it is not paused.
    #[prost(int64, tag = "5")]
    pub paused_at: i64,
    /// SHA-256 of the plan, 32 bytes.
    #[prost(bytes = "bytes", tag = "6")]
    pub revision: Bytes,
    /// The number of the revision, from 1; 0 as long as its first plan is to be made.
    #[prost(uint32, tag = "7")]
    pub revision_number: u32,
    /// What is known of the actions that it uses, sorted by name.
    #[prost(message, repeated, tag = "8")]
    pub profiles: Vec<ActionProfile>,
    /// The steps in canonical order.
    #[prost(message, repeated, tag = "9")]
    pub steps: Vec<StepState>,
    /// Requests in the order in which they were made: those that are open, and the newest of the others.
    #[prost(message, repeated, tag = "10")]
    pub requests: Vec<InputRequest>,
    /// Expressions that wait for their value.
    #[prost(message, repeated, tag = "11")]
    pub evaluations: Vec<PendingEvaluation>,
    /// Evaluations that were asked for.
    #[prost(uint32, tag = "12")]
    pub n_evaluations: u32,
    /// Checkpoints.
    #[prost(message, repeated, tag = "13")]
    pub checkpoints: Vec<Checkpoint>,
    /// The first final failure that ends the revision; absent while it goes on.
    #[prost(message, optional, tag = "14")]
    pub cause: Option<Failure>,
    /// True if independent steps still run before that end.
    #[prost(bool, tag = "15")]
    pub drains: bool,
    /// Unix milliseconds of the first entry.
    #[prost(int64, tag = "16")]
    pub created_at: i64,
    /// Unix milliseconds at which it left the queue; 0 before.
    #[prost(int64, tag = "17")]
    pub started_at: i64,
    /// Unix milliseconds of the last entry.
    #[prost(int64, tag = "18")]
    pub updated_at: i64,
    /// Unix milliseconds of the end; 0 before.
    #[prost(int64, tag = "19")]
    pub ended_at: i64,
    /// Milliseconds of active time until the last entry.
    #[prost(uint64, tag = "20")]
    pub active_ms: u64,
    /// Active time at the last progress.
    #[prost(uint64, tag = "21")]
    pub progress_ms: u64,
    /// Active time at the beginning of the revision.
    #[prost(uint64, tag = "22")]
    pub revision_ms: u64,
    /// The number of the last entry.
    #[prost(uint64, tag = "23")]
    pub sequence: u64,
    /// The hash of the last entry, 32 bytes.
    #[prost(bytes = "bytes", tag = "24")]
    pub chain: Bytes,
    /// Restarts since the last progress.
    #[prost(uint32, tag = "25")]
    pub recoveries: u32,
    /// How the end is to be shown.
    #[prost(message, optional, tag = "26")]
    pub end: Option<End>,
    /// Requests that were made.
    #[prost(uint32, tag = "27")]
    pub n_requests: u32,
    /// The caller's input: an encoded object.
    #[prost(message, required, tag = "28")]
    pub input: Stored,
    /// What every attempt's environment begins with: an encoded object.
    #[prost(message, required, tag = "29")]
    pub environment: Stored,
    /// The document of the revision: an encoded object.
    #[prost(message, required, tag = "30")]
    pub document: Stored,
    /// How plans are made; absent until one is to be.
    #[prost(message, optional, tag = "44")]
    pub planning: Option<Planning>,
    /// No step of a later revision begins in an epoch before this one.
    #[prost(uint32, tag = "45")]
    pub epoch_floor: u32,
    /// What all attempts used; of those in flight what they reserved. Absent before the first.
    #[prost(message, optional, tag = "55")]
    pub usage: Option<Usage>,
    /// How often people gave each part of the budget again, by the kind of the part.
    #[prost(uint32, repeated, tag = "56")]
    pub budget_extensions: Vec<u32>,
    /// True once somebody did not extend the budget.
    #[prost(bool, tag = "57")]
    pub budget_denied: bool,
    /// Parts of the budget that were warned of: a bit for each kind.
    #[prost(uint32, tag = "58")]
    pub budget_warned: u32,
    /// Actions that the run does without because they failed for good, sorted. Never fewer.
    #[prost(string, repeated, tag = "60")]
    pub disabled_actions: Vec<String>,
    /// Actions that took the place of others, in their order.
    #[prost(message, repeated, tag = "61")]
    pub substitutions: Vec<crate::journal::Substituted>,
    /// What it sees of its session; absent as long as that is empty.
    #[prost(message, optional, tag = "80")]
    pub session: Option<SessionView>,
    /// Results of earlier revisions that units may take, each once; the newest last, at most 1,024.
    #[prost(message, repeated, tag = "62")]
    pub results: Vec<crate::journal::CarriedResult>,
    /// Effects of earlier revisions, or of the run that this one is a fork of, that are in doubt; the newest last, at most 1,024.
    #[prost(message, repeated, tag = "70")]
    pub doubts: Vec<crate::journal::Doubt>,
    /// The artifacts of the results that count, at most 256.
    #[prost(message, repeated, tag = "64")]
    pub artifacts: Vec<ArtifactState>,
    /// Artifacts that were declared.
    #[prost(uint32, tag = "65")]
    pub n_artifacts: u32,
    /// True while artifacts are looked at before the run completes.
    #[prost(bool, tag = "66")]
    pub is_verifying: bool,
    /// Why the fallback is called, once it is.
    #[prost(message, optional, tag = "69")]
    pub fallback_of: Option<Failure>,
    /// Its revisions with a plan, the current one last.
    #[prost(message, repeated, tag = "67")]
    pub revisions: Vec<BegunRevision>,
    /// What other revisions took the place of earlier ones for.
    #[prost(message, repeated, tag = "68")]
    pub replans: Vec<Replan>,
    // RUN-7.8
    /// Milliseconds by which all times of the run are ahead of the clock since the last start.
    #[prost(uint64, tag = "71")]
    pub ahead_ms: u64,
    // RUN-7.2
    /// Active milliseconds that the last entry added, if it is `session_read`.
    #[prost(uint64, tag = "72")]
    pub read_ms: u64,
    /// Pauses, rewinds and rollbacks.
    #[prost(uint32, tag = "90")]
    pub n_interventions: u32,
    /// Bytes of the data of all checkpoints, forgotten ones included.
    #[prost(uint64, tag = "91")]
    pub checkpoint_bytes: u64,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Stage {
    /// Waits for admission.
    Queued = 0,
    /// Its steps have their turn.
    Executing = 1,
    /// Ended well.
    Completed = 2,
    /// Failed.
    Failed = 3,
    /// Ran out of time.
    TimedOut = 4,
    /// Was cancelled.
    Cancelled = 5,
    /// A plan is being made.
    Planning = 6,
}

impl Stage {
    /// True for the four ends.
    pub fn is_end(self) -> bool {
        match self {
            Stage::Queued | Stage::Planning | Stage::Executing => false,
            Stage::Completed | Stage::Failed | Stage::TimedOut | Stage::Cancelled => true,
        }
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Message)]
pub struct End {
    /// What went wrong, or the reason of a cancelled run.
    #[prost(message, optional, tag = "1")]
    pub error: Option<Failure>,
    /// True if a step failed on the way of a completed run.
    #[prost(bool, tag = "2")]
    pub partial: bool,
    /// An encoded `google.protobuf.Value`; absent if there is none.
    #[prost(message, optional, tag = "3")]
    pub output: Option<Stored>,
}

/// One step.
#[derive(Clone, PartialEq, Message)]
pub struct StepState {
    /// Where it is.
    #[prost(enumeration = "StepStage", tag = "1")]
    pub stage: i32,
    /// How often it was reset.
    #[prost(uint32, tag = "2")]
    pub epoch: u32,
    /// Its units by index. A step that did not begin has none.
    #[prost(message, repeated, tag = "3")]
    pub units: Vec<UnitState>,
    /// The last failure.
    #[prost(message, optional, tag = "4")]
    pub error: Option<Failure>,
    /// What it came to, unless its units say: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "5")]
    pub output: Option<Stored>,
    /// Unix milliseconds of its beginning; 0 before.
    #[prost(int64, tag = "6")]
    pub started_at: i64,
    /// Unix milliseconds of its end; 0 before.
    #[prost(int64, tag = "7")]
    pub ended_at: i64,
    /// Why it was skipped, as `SkipReason`.
    #[prost(enumeration = "crate::journal::SkipReason", tag = "8")]
    pub skip_reason: i32,
}

// RUN-3.1
/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum StepStage {
    /// Waits for its turn.
    Pending = 0,
    /// Under way: an attempt, an evaluation or a child lives, or a unit waits for its next attempt.
    Running = 1,
    /// Has a result.
    Completed = 2,
    /// Failed for good.
    Failed = 3,
    /// Will not run.
    Skipped = 4,
    /// Can never run.
    Blocked = 5,
}

impl StepStage {
    /// True if it changes no more.
    pub fn is_settled(self) -> bool {
        match self {
            StepStage::Pending | StepStage::Running => false,
            StepStage::Completed | StepStage::Failed | StepStage::Skipped | StepStage::Blocked => true,
        }
    }
}

/// One unit.
#[derive(Clone, PartialEq, Message)]
pub struct UnitState {
    /// Where it is.
    #[prost(enumeration = "UnitStage", tag = "1")]
    pub stage: i32,
    /// Attempts of this epoch.
    #[prost(uint32, tag = "2")]
    pub attempts: u32,
    /// Retries that counted.
    #[prost(uint32, tag = "3")]
    pub retries: u32,
    /// How often a person allowed the base limit of retries again.
    #[prost(uint32, tag = "4")]
    pub extensions: u32,
    /// Attempts in a row that were not counted.
    #[prost(uint32, tag = "5")]
    pub never_ran: u32,
    /// Not before this, in Unix milliseconds, while it backs off.
    #[prost(int64, tag = "6")]
    pub retry_at: i64,
    /// The attempt that lives: its own, or that of its safety check.
    #[prost(message, optional, tag = "7")]
    pub live: Option<ToolCalled>,
    /// How the last attempt ended.
    #[prost(enumeration = "OutcomeClass", tag = "8")]
    pub class: i32,
    /// The output of a completed one: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "9")]
    pub output: Option<Stored>,
    /// The last failure.
    #[prost(message, optional, tag = "10")]
    pub error: Option<Failure>,
    /// The request that it waits for, 16 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "11")]
    pub request: Bytes,
    /// The approval that counts for it, 16 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "12")]
    pub approval: Bytes,
    /// What that approval is for, 32 bytes.
    #[prost(bytes = "bytes", tag = "13")]
    pub approved_digest: Bytes,
    /// The payload that a person put in the place of the rendered one: an encoded object.
    #[prost(message, optional, tag = "14")]
    pub edited: Option<Stored>,
    /// The child run that lives, 16 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "15")]
    pub child: Bytes,
    /// True if the last output asked for a pause.
    #[prost(bool, tag = "16")]
    pub pause: bool,
    /// True if the loop's condition after this iteration is known, and its value.
    #[prost(bool, optional, tag = "17")]
    pub goes_on: Option<bool>,
    /// The child run's input: an encoded object.
    #[prost(message, optional, tag = "18")]
    pub child_input: Option<Stored>,
    /// Safety checks of this epoch.
    #[prost(uint32, tag = "19")]
    pub checks: u32,
    /// What the last safety check was about, 32 bytes; empty if there was none.
    #[prost(bytes = "bytes", tag = "20")]
    pub checked_digest: Bytes,
    /// True if that check said that it is safe.
    #[prost(bool, tag = "21")]
    pub is_cleared: bool,
    /// The calls of tools that this turn of a model asks for, each a unit of its own.
    #[prost(message, repeated, tag = "55")]
    pub calls: Vec<UnitState>,
    /// Calls that it asks for beyond those.
    #[prost(uint32, tag = "56")]
    pub calls_left_out: u32,
    /// What the model asks for, if this is such a call.
    #[prost(message, optional, tag = "57")]
    pub asked: Option<AskedCall>,
    /// True if the output has a patch of the session's state.
    #[prost(bool, tag = "40")]
    pub patches: bool,
    /// True while it waits for a part of the budget that others reserved.
    #[prost(bool, tag = "58")]
    pub awaits_budget: bool,
    /// What the child run that lives may spend; absent if that is not limited.
    #[prost(message, optional, tag = "59")]
    pub child_reserved: Option<Usage>,
    /// What a later revision knows its result by, 32 bytes; empty if there will be none.
    #[prost(bytes = "bytes", tag = "60")]
    pub result_key: Bytes,
    /// The execution of an earlier revision that its result comes from, 16 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "61")]
    pub memo_of: Bytes,
    /// The output of an effect that completed once its step had ended: an encoded `google.protobuf.Value`.
    #[prost(message, optional, tag = "62")]
    pub late_output: Option<Stored>,
    /// Effects of the child runs of the unit that are in doubt.
    #[prost(message, repeated, tag = "63")]
    pub child_doubts: Vec<crate::journal::Doubt>,
}
