//! What a worker's report counts as, and what follows from it: pure leaves without state.
//! Does not look at what an output or a context means.

use crate::audit::NotCompleted;
use crate::error::{ExecutionError, cut};
use crate::plan::{OnFailure, RetryPolicy};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::limits::{
    ERROR_CODE_CHARS_MAX, ERROR_CONTEXT_BYTES_MAX, MESSAGE_CHARS_MAX, OUTPUT_BYTES_MAX, WARNINGS_MAX,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity, StepId, codes};

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The handler gave an output.
    Completed {
        /// At most 1 MiB encoded.
        output: Opaque,
        /// What it warns of; at most 64 are kept.
        warnings: Vec<Reported>,
    },
    /// The handler failed.
    Failed(Reported),
    /// The worker's report cannot be read.
    Undecodable {
        /// What is wrong with it.
        detail: String,
    },
    /// The worker vanished after it had started the attempt.
    Lost,
}

/// A failure or a warning as the worker reports it, not classified yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reported {
    /// 1 to 50 code points, or it counts as `UNKNOWN_ERROR`.
    pub code: String,
    /// Cut after 1000 code points.
    pub message: String,
    /// `None`: the worker did not say.
    pub severity: Option<Severity>,
    /// Diagnostic data.
    pub context: Opaque,
}

impl Outcome {
    /// Returns a completion with this output and without warnings.
    pub fn completed(output: Opaque) -> Self {
        let warnings = Vec::new();
        Self::Completed { output, warnings }
    }

    /// Without what classification does not keep, and without the room of it; it counts as before.
    pub(crate) fn bounded(&self) -> Self {
        match self {
            Outcome::Completed { output, warnings } => Outcome::Completed {
                output: output.clone(),
                //
                warnings: warnings
                    .iter()
                    .take(WARNINGS_MAX)
                    .map(Reported::bounded)
                    .collect(),
            },
            Outcome::Failed(reported) => Outcome::Failed(reported.bounded()),
            Outcome::Undecodable { detail } => Outcome::Undecodable {
                detail: cut(detail, MESSAGE_CHARS_MAX).to_string(),
            },
            Outcome::Lost => Outcome::Lost,
        }
    }
}

impl Reported {
    fn bounded(&self) -> Self {
        Self {
            // Longer than a code may be, and so unusable still.
            code: cut(&self.code, MESSAGE_CHARS_MAX).to_string(),
            message: cut(&self.message, MESSAGE_CHARS_MAX).to_string(),
            severity: self.severity,
            context: bounded_context(self.context.clone()),
        }
    }
}

/// What follows from a classified error of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Back off and attempt the step again.
    Retry,
    /// The step is not completed; the plan goes on.
    GoOn(NotCompleted),
    /// `on_failure = halt`: the plan stops, and its error names this one as cause.
    StopByHalt,
    /// The plan stops with this error.
    StopByFatal,
}

/// Returns the table of section 4 of `CONTRACT.md`.
pub(crate) fn judge(
    error: &ExecutionError,
    on_failure: OnFailure,
    policy: &RetryPolicy,
    attempt: u32,
) -> Verdict {
    match (error.severity, on_failure) {
        //
        (Severity::Warn, OnFailure::Halt | OnFailure::Skip | OnFailure::Retry) => {
            Verdict::GoOn(NotCompleted::WarnedWithoutOutput)
        }
        //
        (Severity::Error, OnFailure::Retry) if !policy.lists(&error.code) => {
            Verdict::GoOn(NotCompleted::NotRetryable)
        }
        (Severity::Error, OnFailure::Retry) if attempt < policy.max_attempts => Verdict::Retry,
        (Severity::Error, OnFailure::Retry) => Verdict::GoOn(NotCompleted::RetriesExhausted),
        //
        (Severity::Error, OnFailure::Skip) => Verdict::GoOn(NotCompleted::Skipped),
        //
        (Severity::Error, OnFailure::Halt) => Verdict::StopByHalt,
        //
        (Severity::Fatal, OnFailure::Halt | OnFailure::Skip | OnFailure::Retry) => Verdict::StopByFatal,
    }
}

/// Returns the severity that an error code has in this plan.
pub(crate) fn severity_of(code: &str, reported: Option<Severity>, policy: &RetryPolicy) -> Severity {
    // a timeout is fatal unless the plan lists it.
    if code == codes::STEP_TIMEOUT && policy.lists(code) {
        return Severity::Error;
    }
    //
    codes::reserved_severity(code)
        .or(reported)
        .unwrap_or(Severity::Error)
}

/// Classifies what a worker reported.
pub(crate) fn classify(reported: Reported, step_id: StepId, policy: &RetryPolicy) -> ExecutionError {
    let context = bounded_context(reported.context);
    let code_is_usable =
        !reported.code.is_empty() && cut(&reported.code, ERROR_CODE_CHARS_MAX) == reported.code;
    let (code, context) = if code_is_usable {
        (reported.code, context)
    } else {
        //
        let original = cut(&reported.code, MESSAGE_CHARS_MAX);
        let context = StructBuilder::from_opaque(&context)
            .text("original_code", original)
            .build();
        (codes::UNKNOWN_ERROR.to_string(), context)
    };
    let severity = severity_of(&code, reported.severity, policy);
    //
    let message = cut(&reported.message, MESSAGE_CHARS_MAX).to_string();
    ExecutionError {
        code,
        message,
        step_id: Some(step_id),
        severity,
        cause: None,
        context,
    }
}

/// Classifies the warnings of a completed attempt: whatever their codes, they warn.
pub(crate) fn classify_warnings(
    warnings: Vec<Reported>,
    step_id: StepId,
    policy: &RetryPolicy,
) -> Vec<ExecutionError> {
    //
    let classified = warnings
        .into_iter()
        .take(WARNINGS_MAX)
        .map(|warning| classify(warning, step_id, policy));
    classified
        .map(|error| ExecutionError {
            severity: Severity::Warn,
            ..error
        })
        .collect()
}

/// Returns the error of an attempt whose report cannot be read.
pub(crate) fn undecodable(detail: &str, step_id: StepId) -> ExecutionError {
    //
    let detail = cut(detail, MESSAGE_CHARS_MAX);
    let context = StructBuilder::new().text("detail", detail).build();
    ExecutionError::new(
        codes::UNKNOWN_ERROR,
        Severity::Fatal,
        "The worker's report cannot be read.",
    )
    .at_step(step_id)
    .with_context(context)
}

/// Returns the error of an attempt whose worker vanished.
pub(crate) fn lost(step_id: StepId) -> ExecutionError {
    //
    ExecutionError::new(
        codes::WORKER_LOST,
        Severity::Error,
        "The worker vanished while the attempt ran.",
    )
    .at_step(step_id)
}

/// Returns the error of an output that cannot be kept; `None` if it can. `payload_left` is the room in
/// `result_payload`.
pub(crate) fn refuse_output(output: &Opaque, payload_left: usize, step_id: StepId) -> Option<ExecutionError> {
    //
    let exhausted = |limit: &str| {
        let message = format!("The output of {} bytes exceeds {limit}.", output.len());
        ExecutionError::new(codes::RESOURCE_EXHAUSTED, Severity::Fatal, &message).at_step(step_id)
    };
    if output.len() > OUTPUT_BYTES_MAX {
        return Some(exhausted(&format!("the limit of {OUTPUT_BYTES_MAX} bytes")));
    }
    if let Err(malformed) = output.check() {
        return Some(undecodable(&format!("The output {malformed}."), step_id));
    }
    let too_much = payload_entry_bytes(output.len()) > payload_left;
    too_much.then(|| exhausted("what is left of the result's limit"))
}

/// Bytes that an output of so many bytes takes in `result_payload`: its map entry with a 36 character key and the headers
/// around it.
pub(crate) fn payload_entry_bytes(output_bytes: usize) -> usize {
    let delimited = |length: usize| 1 + varint_bytes(length as u64) + length;
    delimited(delimited(36) + delimited(delimited(output_bytes)))
}

/// Returns the bytes of a number in the variable-length encoding of Protocol Buffers.
pub(crate) const fn varint_bytes(number: u64) -> usize {
    let bits = u64::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Returns a worker's diagnostic data, or a note if it cannot be kept.
fn bounded_context(context: Opaque) -> Opaque {
    //
    let why = if context.len() > ERROR_CONTEXT_BYTES_MAX {
        format!(
            "was {} bytes, the limit is {ERROR_CONTEXT_BYTES_MAX}",
            context.len()
        )
    } else if let Err(malformed) = context.check_context() {
        malformed.to_string()
    } else {
        return context;
    };
    StructBuilder::new().text("context_dropped", &why).build()
}
