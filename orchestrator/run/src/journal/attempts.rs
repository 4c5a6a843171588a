//! Expressions, attempts and their outcomes, as the journal has them.

use super::{RefusedPart, UnitRef, Usage};
use crate::outcome::cut;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::limits::{ERROR_CODE_CHARS_MAX, MESSAGE_CHARS_MAX};
use prost::{Enumeration, Message};

/// An expression to be evaluated over the results as they are now.
#[derive(Clone, PartialEq, Message)]
pub struct EvaluationRequested {
    /// Counts from 1 in the run.
    #[prost(uint32, tag = "1")]
    pub evaluation: u32,
    /// Whose expression it is.
    #[prost(message, required, tag = "2")]
    pub unit: UnitRef,
    /// The text.
    #[prost(string, tag = "3")]
    pub expression: String,
}

/// What an expression came to.
#[derive(Clone, PartialEq, Message)]
pub struct Evaluated {
    /// Which one.
    #[prost(uint32, tag = "1")]
    pub evaluation: u32,
    /// Its truth.
    #[prost(bool, tag = "2")]
    pub value: bool,
    /// Why it has none; empty if it has.
    #[prost(string, tag = "3")]
    pub error: String,
}

/// Bytes, in place up to 32,768 of them, else by their hash.
#[derive(Clone, PartialEq, Message)]
pub struct Stored {
    /// In place.
    #[prost(bytes = "bytes", tag = "1")]
    pub inline: Bytes,
    /// SHA-256 of what is stored elsewhere, 32 bytes; empty if it is in place.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// How many bytes there are.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

impl Stored {
    /// The SHA-256 of what is stored elsewhere; `None` if the bytes are in place.
    pub fn content(&self) -> Option<[u8; 32]> {
        self.digest[..].try_into().ok()
    }
}

/// An attempt that is intended.
#[derive(Clone, PartialEq, Message)]
pub struct ToolCalled {
    /// Whose attempt it is.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// Its number in the epoch, from 1.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    /// The action.
    #[prost(string, tag = "3")]
    pub action: String,
    /// The `escapement.v1.SubmitPlanRequest`, byte for byte as it is sent.
    #[prost(message, required, tag = "4")]
    pub request: Stored,
    /// SHA-256 of what would be done: what an approval is bound to. 32 bytes.
    #[prost(bytes = "bytes", tag = "5")]
    pub subject_digest: Bytes,
    /// What repeating it would mean.
    #[prost(enumeration = "crate::spec::EffectClass", tag = "6")]
    pub effect: i32,
    /// Milliseconds that a worker has.
    #[prost(uint64, tag = "7")]
    pub attempt_ms: u64,
    /// The approval that opened the gate, 16 bytes; empty if none was needed.
    #[prost(bytes = "bytes", tag = "8")]
    pub approval: Bytes,
    /// What it is taken to use until it ends, if it asks a language model; any other uses one call of a tool.
    #[prost(message, optional, tag = "55")]
    pub reserved: Option<Usage>,
    /// The model that it asks; empty if it asks none or names none.
    #[prost(string, tag = "56")]
    pub model: String,
    /// What a later revision knows its result by, 32 bytes; empty if there will be none.
    #[prost(bytes = "bytes", tag = "12")]
    pub result_key: Bytes,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Message)]
pub struct ToolOutput {
    /// Whose attempt it was.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// Its number.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    /// How it ended.
    #[prost(enumeration = "OutcomeClass", tag = "3")]
    pub class: i32,
    /// The output of a completed one, or what a handler that asks for an approval says about that: an encoded
    /// `google.protobuf.Value`.
    #[prost(message, optional, tag = "4")]
    pub output: Option<Stored>,
    /// What went wrong with any other.
    #[prost(message, optional, tag = "5")]
    pub error: Option<Failure>,
    /// True if the output asks for a pause.
    #[prost(bool, tag = "6")]
    pub pause: bool,
    /// The verdict of a safety check: true if what it was asked about is safe.
    #[prost(bool, tag = "7")]
    pub is_safe: bool,
    /// True if the output has a patch of the session's state.
    #[prost(bool, tag = "20")]
    pub patches: bool,
    /// Milliseconds for which the next attempt waits at least, as the called side wants it.
    #[prost(uint64, tag = "8")]
    pub retry_after_ms: u64,
    /// Whether the output is what the schema of its action says; absent if there is none, or no output. One that is not is kept
    /// although the attempt has failed.
    #[prost(bool, optional, tag = "30")]
    pub fits_schema: Option<bool>,
    /// What it used, if it asked a language model.
    #[prost(message, optional, tag = "55")]
    pub usage: Option<Usage>,
    /// Expressions that are none in the plan of a planner's output, at most 20.
    #[prost(message, repeated, tag = "57")]
    pub mistakes: Vec<RefusedPart>,
}

// RUN-5.1
/// How an attempt ended, as far as the run is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum OutcomeClass {
    /// With an output.
    Completed = 0,
    /// It surely had no effect: no worker ever had it.
    NeverRan = 1,
    /// It failed, and may succeed another time.
    Failed = 2,
    /// It failed, and would fail again.
    FailedForGood = 3,
    /// It took too long: it may have had its effect.
    TimedOut = 4,
    /// Nobody knows.
    Unknown = 5,
    /// The handler asks for an approval first.
    ApprovalRequired = 6,
}

impl OutcomeClass {
    /// As events and figures spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeClass::Completed => "completed",
            OutcomeClass::NeverRan => "never_ran",
            OutcomeClass::Failed => "failed",
            OutcomeClass::FailedForGood => "failed_for_good",
            OutcomeClass::TimedOut => "timed_out",
            OutcomeClass::Unknown => "unknown",
            OutcomeClass::ApprovalRequired => "approval_required",
        }
    }
}

/// What went wrong.
#[derive(Clone, PartialEq, Message)]
pub struct Failure {
    /// The code, at most 50 code points.
    #[prost(string, tag = "1")]
    pub code: String,
    /// A sentence, at most 1,000 code points.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The step, from 0; absent if the run as a whole went wrong.
    #[prost(uint32, optional, tag = "3")]
    pub step: Option<u32>,
}

/// A unit that will be tried again.
#[derive(Clone, PartialEq, Message)]
pub struct StepRetrying {
    /// Which one.
    #[prost(message, required, tag = "1")]
    pub unit: UnitRef,
    /// The number of the retry, from 1; 0 if this one is not counted.
    #[prost(uint32, tag = "2")]
    pub retry: u32,
    /// Not before this, in Unix milliseconds.
    #[prost(int64, tag = "3")]
    pub due_at: i64,
    /// Why.
    #[prost(message, required, tag = "4")]
    pub error: Failure,
    /// Retries that are allowed now.
    #[prost(uint32, tag = "5")]
    pub budget: u32,
}

impl Failure {
    /// A failure of a step; code and message are cut to what the contract allows.
    pub fn of_step(step: u32, code: &str, message: &str) -> Self {
        Self {
            code: cut(code, ERROR_CODE_CHARS_MAX),
            message: cut(message, MESSAGE_CHARS_MAX),
            step: Some(step),
        }
    }
}
