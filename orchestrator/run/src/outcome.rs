//! What the end of a contract execution means for the attempt that it carried out. Does not know what follows from it.

use crate::fields::field;
use crate::journal::{OutcomeClass, RefusedPart};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::opaque::{ValueView, encode_value};
use escapement_model::planted::{self, Bug};
use escapement_model::{Opaque, codes};

/// The end of a contract execution, as its result says.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractEnd {
    /// The output of the only step, if the execution succeeded; the context of its error, if the handler asks for an approval.
    pub output: Option<Opaque>,
    /// Why it did not succeed.
    pub error: Option<ContractError>,
    /// Steps that a worker began.
    pub steps_executed: u32,
    /// True if a worker was ever given the attempt.
    pub assigned: bool,
}

/// The error of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractError {
    /// The code.
    pub code: String,
    /// The sentence.
    pub message: String,
    /// True if its severity is fatal.
    pub fatal: bool,
    /// `context.reason`, if it is there.
    pub reason: Option<String>,
    /// Milliseconds for which the called side wants no further call: `context.retry_after`, if that is there; else 0.
    pub retry_after_ms: u64,
}

/// How an attempt ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptOutcome {
    /// As far as the run is concerned.
    pub class: OutcomeClass,
    /// The output of a completed one, or what a handler that asks for an approval says about that: an encoded
    /// `google.protobuf.Value`.
    pub output: Option<Bytes>,
    /// The code of any other; empty for a completed one.
    pub code: String,
    /// The sentence.
    pub message: String,
    /// True if the output asks for a pause.
    pub pause: bool,
    /// Milliseconds for which the next attempt waits at least.
    pub retry_after_ms: u64,
    /// Expressions that are none in the plan of a planner's output, as the shell found them; empty for any other attempt.
    pub mistakes: Vec<RefusedPart>,
}

// RUN-5.1
/// Judges the end of an execution. `attempt_ms` is what a worker had; `seen` is true if a worker has offered the action before.
pub fn classify(end: &ContractEnd, attempt_ms: u64, seen: bool) -> AttemptOutcome {
    let Some(error) = &end.error else {
        let result = end
            .output
            .clone()
            .filter(|_| !planted::is_on(Bug::RunResultIgnored));
        let output = result.unwrap_or_default();
        return AttemptOutcome {
            class: OutcomeClass::Completed,
            pause: asks_for_pause(&output),
            output: Some(value_of_object(&output)),
            code: String::new(),
            message: String::new(),
            ..AttemptOutcome::default()
        };
    };
    let class = class(error, end, seen);
    let (code, message) = match class {
        OutcomeClass::TimedOut => (
            String::from("TOOL_TIMEOUT"),
            format!("Step timed out after {attempt_ms}ms"),
        ),
        _ => (error.code.clone(), error.message.clone()),
    };
    // RUN-6.7
    let data = end
        .output
        .as_ref()
        .filter(|_| class == OutcomeClass::ApprovalRequired);
    AttemptOutcome {
        class,
        output: data.map(value_of_object),
        code,
        message,
        pause: false,
        retry_after_ms: error.retry_after_ms,
        ..AttemptOutcome::default()
    }
}

fn class(error: &ContractError, end: &ContractEnd, seen: bool) -> OutcomeClass {
    match error.code.as_str() {
        codes::DEADLINE_EXCEEDED if end.steps_executed == 0 => OutcomeClass::NeverRan,
        codes::PLAN_TIMEOUT if !end.assigned => OutcomeClass::NeverRan,
        codes::ACTION_NOT_FOUND if seen => OutcomeClass::NeverRan,
        codes::ACTION_NOT_FOUND | codes::INVALID_PAYLOAD | codes::CONTEXT_MISSING => {
            OutcomeClass::FailedForGood
        }
        "JQ_ERROR" | "TEMPLATE_ERROR" | "LLM_REJECTED" | "LLM_REFUSED" => OutcomeClass::FailedForGood,
        "APPROVAL_REQUIRED" => OutcomeClass::ApprovalRequired,
        codes::STEP_TIMEOUT | codes::PLAN_TIMEOUT | codes::DEADLINE_EXCEEDED => OutcomeClass::TimedOut,
        codes::WORKER_LOST | EXECUTION_REMOVED => OutcomeClass::Unknown,
        codes::UNKNOWN_ERROR if error.reason.as_deref().is_some_and(is_interruption) => OutcomeClass::Unknown,
        code if NEVER_AGAIN.iter().any(|ending| code.ends_with(ending)) => OutcomeClass::FailedForGood,
        _ if error.fatal => OutcomeClass::FailedForGood,
        _ => OutcomeClass::Failed,
    }
}

fn is_interruption(reason: &str) -> bool {
    matches!(reason, "orchestrator_restarted" | "restored_from_backup")
}

/// The contract's answer for an execution whose content was removed.
const EXECUTION_REMOVED: &str = "EXECUTION_REMOVED";
/// Endings of codes that a repetition would meet again.
const NEVER_AGAIN: [&str; 3] = ["_NOT_ALLOWED", "_OFF", "_NOT_CONFIGURED"];

fn asks_for_pause(output: &Opaque) -> bool {
    field(output.as_encoded(), "$pause") == Some(ValueView::Bool(true))
}

/// An object as an encoded `google.protobuf.Value`.
pub fn value_of_object(object: &Opaque) -> Bytes {
    encoded(ValueView::Struct(object.as_encoded()))
}

/// A value as an encoded `google.protobuf.Value`.
pub fn encoded(value: ValueView<'_>) -> Bytes {
    let mut bytes = Vec::new();
    encode_value(value, &mut bytes);
    Bytes::from(bytes)
}

/// A text, cut to at most `chars_max` code points.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => text[..at].to_string(),
        None => text.to_string(),
    }
}
