//! What a run is asked to do, resolved: every limit and policy with its value, stored with the run.
//! A preset is looked up once; changing it never changes an existing run.

mod actions;
mod author;
mod derived;
mod planning;
mod trace;

use crate::budget::Budget;
use crate::journal::{Doubt, Responder};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use prost::{Enumeration, Message};

pub use actions::{ActionProfile, EffectClass, Risk};
pub use author::{
    ActionPatterns, Author, AuthorKind, DEFAULT_USER, SEPARATOR, namespace_named, namespace_of_session,
    session_key, stored_name,
};
pub use planning::{Fallback, FallbackAction, FallbackKind, Planner, Templates};
pub use trace::TraceContext;

/// What a run is made from.
#[derive(Clone, PartialEq, Message)]
pub struct Spec {
    /// The caller's input, an object. Kept beside the rest once the run is made.
    #[prost(message, required, tag = "1")]
    pub input: Opaque,
    /// What every attempt's environment begins with, an object. The key `escapement_run` is reserved.
    /// Kept beside the rest once the run is made.
    #[prost(message, required, tag = "2")]
    pub environment: Opaque,
    /// All limits.
    #[prost(message, required, tag = "3")]
    pub limits: Limits,
    /// What failure and doubt lead to.
    #[prost(message, required, tag = "4")]
    pub policy: Policy,
    /// 0 to 4: which steps wait for an approval.
    #[prost(uint32, tag = "5")]
    pub autonomy_level: u32,
    /// Whose run it is.
    #[prost(string, tag = "6")]
    pub user_id: String,
    /// The caller's id of the request; goes into what the run sends.
    #[prost(string, tag = "7")]
    pub request_id: String,
    /// 1 to 10; the highest is admitted first.
    #[prost(uint32, tag = "8")]
    pub priority: u32,
    /// The action that `llm_decision` steps call.
    #[prost(string, tag = "9")]
    pub llm_action: String,
    /// The model that they ask, unless the step names one; may be empty.
    #[prost(string, tag = "10")]
    pub llm_model: String,
    /// The run that waits for this one, 16 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "11")]
    pub parent_run_id: Bytes,
    /// The execution within which this run was created, as its caller says; empty if there is none.
    #[prost(string, tag = "12")]
    pub parent_execution_id: String,
    /// Levels of runs above this one.
    #[prost(uint32, tag = "13")]
    pub depth: u32,
    /// The run that this one was forked from, 16 bytes; empty if there is none.
    #[prost(bytes = "bytes", tag = "14")]
    pub forked_from: Bytes,
    /// The name of the preset that filled in what the caller did not say.
    #[prost(string, tag = "15")]
    pub preset: String,
    /// The shell's own about the run: names, labels, links. Never looked at.
    #[prost(bytes = "bytes", tag = "16")]
    pub header: Bytes,
    /// The action that says whether a destructive call is safe, at level 3; empty if there is none.
    #[prost(string, tag = "17")]
    pub safety_action: String,
    /// What makes plans; absent if the run makes none.
    #[prost(message, optional, boxed, tag = "18")]
    pub planner: Option<Box<Planner>>,
    /// What the run has for an output if its plans failed; absent if it has none.
    #[prost(message, optional, tag = "19")]
    pub fallback: Option<Fallback>,
    /// What the planner makes the first plan for; empty if the run was given one.
    #[prost(string, tag = "20")]
    pub goal: String,
    /// The session that it shares with other runs; empty if it has one of its own.
    #[prost(string, tag = "27")]
    pub session_id: String,
    /// The language of its notices, as in `en` or `ja-JP`; empty for English.
    #[prost(string, tag = "28")]
    pub locale: String,
    /// What its user is told.
    #[prost(enumeration = "Notices", tag = "29")]
    pub notices: i32,
    /// What it may spend; without one as much as its plan leads to.
    #[prost(message, optional, tag = "23")]
    pub budget: Option<Budget>,
    /// What every revision must keep to, beside what its plan says itself.
    #[prost(message, required, tag = "30")]
    pub constraints: Constraints,
    /// The namespace that it belongs to; empty for the default one.
    #[prost(string, tag = "31")]
    pub namespace: String,
    /// Who started it; absent if nobody proved anything and nothing was held against its actions.
    #[prost(message, optional, boxed, tag = "32")]
    pub author: Option<Box<Author>>,
    /// The trace that it belongs to; absent if what made it named none. Goes with what it sends, and changes none of it.
    #[prost(message, optional, boxed, tag = "70")]
    pub trace: Option<Box<TraceContext>>,
    // RUN-12.14
    /// Effects that are in doubt in the run that waits for this one. Kept with the first plan once the run is made.
    #[prost(message, repeated, tag = "33")]
    pub doubts: Vec<Doubt>,
    // RUN-6.8
    /// Responder that fired the trigger of the run, by hand or by an event; absent if that is not known.
    /// For an event of a run it has the names of all starters of that run.
    #[prost(message, optional, boxed, tag = "34")]
    pub fired_by: Option<Box<Responder>>,
    // RUN-4.3
    /// What the ids of its executions are derived from besides its own: 16 random bytes, or none in a run of an earlier version.
    #[prost(bytes = "bytes", tag = "35")]
    pub id_seed: Bytes,
    // RUN-9.8
    /// True if that execution was running when the run was created, in the run's namespace and known to its caller. Absent in a run of
    /// an earlier version, which waits as others do.
    #[prost(bool, tag = "36")]
    pub is_nested: bool,
}

/// What the plans of a run must keep to.
#[derive(Clone, PartialEq, Message)]
pub struct Constraints {
    /// Types of artifacts, such as `image`; there must be one artifact of each.
    #[prost(string, repeated, tag = "1")]
    pub must_produce: Vec<String>,
    /// The type of the artifact that the answer is; empty if it may be any.
    #[prost(string, tag = "2")]
    pub expected_artifact_type: String,
    /// The actions that steps may call; all of them if it is empty.
    #[prost(string, repeated, tag = "3")]
    pub allowed_actions: Vec<String>,
    /// Actions that no step may call.
    #[prost(string, repeated, tag = "4")]
    pub forbidden_actions: Vec<String>,
}

// RUN-14.8
/// What the user of a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Notices {
    /// Nothing.
    None = 0,
    /// How it ended, and what it asks.
    End = 1,
    /// Each step, too.
    All = 2,
}

/// The action that looks at the files of artifacts.
pub const LOOK_ACTION: &str = "file.stat";

/// Times in milliseconds, and numbers. 0 means none for `revision_ms`, and the computed value for `watchdog_ms`.
#[derive(Clone, PartialEq, Message)]
pub struct Limits {
    /// One attempt in the hands of a worker.
    #[prost(uint64, tag = "1")]
    pub attempt_ms: u64,
    /// Waiting for admission by the contract.
    #[prost(uint64, tag = "2")]
    pub queue_wait_ms: u64,
    /// Waiting for a worker.
    #[prost(uint64, tag = "3")]
    pub worker_wait_ms: u64,
    /// Active time without progress.
    #[prost(uint64, tag = "4")]
    pub watchdog_ms: u64,
    /// Active time of one revision.
    #[prost(uint64, tag = "5")]
    pub revision_ms: u64,
    /// Active time of the run.
    #[prost(uint64, tag = "6")]
    pub run_ms: u64,
    /// Everything, waits and downtime included.
    #[prost(uint64, tag = "7")]
    pub lifetime_ms: u64,
    /// One pause.
    #[prost(uint64, tag = "8")]
    pub pause_ms: u64,
    /// A question, unless the step says.
    #[prost(uint64, tag = "9")]
    pub question_ms: u64,
    /// An approval.
    #[prost(uint64, tag = "10")]
    pub approval_ms: u64,
    /// Additional attempts of a unit.
    #[prost(uint32, tag = "11")]
    pub max_retries: u32,
    /// Before the first retry.
    #[prost(uint64, tag = "12")]
    pub backoff_ms: u64,
    /// What each further delay is multiplied with.
    #[prost(double, tag = "13")]
    pub multiplier: f64,
    /// The longest delay.
    #[prost(uint64, tag = "14")]
    pub max_backoff_ms: u64,
    /// Steps that run at a time, if the plan lets them overlap.
    #[prost(uint32, tag = "15")]
    pub max_concurrency: u32,
    /// Items of a parallel step at a time.
    #[prost(uint32, tag = "16")]
    pub batch_size: u32,
    /// Iterations of a loop.
    #[prost(uint32, tag = "17")]
    pub max_iterations: u32,
    /// Turns of a language model.
    #[prost(uint32, tag = "18")]
    pub max_turns: u32,
    /// Plans that a planner may make.
    #[prost(uint32, tag = "19")]
    pub max_generations: u32,
    /// Tools that may be replaced by an alternative.
    #[prost(uint32, tag = "20")]
    pub max_substitutions: u32,
    /// What the limit of an attempt is multiplied with while its skill is degraded; below 1 as 1.
    #[prost(double, tag = "21")]
    pub degraded_timeout_factor: f64,
}

impl Limits {
    // RUN-14.7
    /// The limit of an attempt whose skill is degraded.
    pub fn longest_ms(&self, limit_ms: u64) -> u64 {
        match self.degraded_timeout_factor {
            // Both are below 2^53.
            factor if factor > 1.0 => (limit_ms as f64 * factor) as u64,
            _ => limit_ms,
        }
    }
}

/// What failure and doubt lead to.
#[derive(Clone, PartialEq, Message)]
pub struct Policy {
    /// An effect that a crash or a lost worker leaves in doubt.
    #[prost(enumeration = "InDoubt", tag = "1")]
    pub ambiguity: i32,
    /// An effect that took too long.
    #[prost(enumeration = "InDoubt", tag = "2")]
    pub ambiguous_timeout: i32,
    /// A final failure, unless the step says.
    #[prost(enumeration = "FailureDefault", tag = "3")]
    pub on_failure: i32,
    /// A failed dependency, unless the step says.
    #[prost(enumeration = "DependencyDefault", tag = "4")]
    pub on_dependency_failure: i32,
    /// True if a person is asked for more retries.
    #[prost(bool, tag = "5")]
    pub escalate: bool,
    /// True if the one who started the run cannot approve what it asks.
    #[prost(bool, tag = "6")]
    pub four_eyes: bool,
    /// Who may approve; everybody but agents if it is empty.
    #[prost(string, repeated, tag = "7")]
    pub approvers: Vec<String>,
    /// Approvals that are needed, at least 1.
    #[prost(uint32, tag = "8")]
    pub quorum: u32,
    /// What a restart does with the run.
    #[prost(enumeration = "ResumePolicy", tag = "9")]
    pub resume: i32,
    // RUN-3.7
    /// True if all steps of a plan that is `parallel` and marks none `async` count as `async`; false in runs of earlier versions.
    #[prost(bool, tag = "10")]
    pub async_by_default: bool,
}

/// What is done about an effect that may or may not have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum InDoubt {
    /// A person says what happened.
    Ask = 0,
    /// The unit fails.
    Fail = 1,
    /// The unit is repeated.
    Retry = 2,
}

/// What a final failure of a step leads to, unless the step says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum FailureDefault {
    /// Nothing further starts.
    Abort = 0,
    /// Independent steps go on, then the revision fails.
    Drain = 1,
    /// The run goes on.
    Skip = 2,
}

/// What a failed dependency leads to, unless the step says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum DependencyDefault {
    /// The step is skipped.
    Skip = 0,
    /// The step runs with null if what failed was optional, and is skipped otherwise.
    NullIfOptional = 1,
    /// The step runs with the text of the failure.
    Synthetic = 2,
    /// The step never runs.
    Block = 3,
    /// The step runs with null.
    Null = 4,
}

/// What a restart does with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum ResumePolicy {
    /// What completed stays, the rest goes on.
    RetryPending = 0,
    /// The run is cancelled.
    Discard = 1,
}
