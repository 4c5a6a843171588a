//! Encodes the end of a handler task as an outcome within the limits of the protocol.

use crate::error::StepError;
use crate::session::TaskEnd;
use escapement_model::limits::{ERROR_CONTEXT_BYTES_MAX, MESSAGE_CHARS_MAX};
use escapement_model::{AttemptToken, Severity, codes};
use escapement_wire::v1::execution_error;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::{AttemptOutcome, Failure, Released, SessionLimits, Success, released};
use prost::Message;

/// Returns the largest encoded item of `Outcomes` that fits into one message.
pub(super) fn item_bytes_max(limits: &SessionLimits) -> usize {
    usize::try_from(limits.message_bytes_max)
        .unwrap_or(0)
        .saturating_sub(MESSAGE_OVERHEAD_BYTES)
}

/// Returns the outcome of a handler task that ended without being stopped, within the limits.
pub(super) fn outcome_of(
    token: AttemptToken,
    run_time_ms: u64,
    end: TaskEnd,
    limits: &SessionLimits,
) -> AttemptOutcome {
    let outcome = match end {
        TaskEnd::Success { output, warnings } => {
            let bytes_max = usize::try_from(limits.output_bytes_max).unwrap_or(0);
            if output.len() > bytes_max {
                let message = format!(
                    "the output has {} bytes encoded, more than {bytes_max}",
                    output.len()
                );
                Outcome::Failure(failure(
                    &StepError::new(codes::RESOURCE_EXHAUSTED, message).fatal(),
                ))
            } else {
                let warnings = warnings.iter().map(failure).collect();
                Outcome::Success(Success {
                    output: Some(output),
                    warnings,
                })
            }
        }
        TaskEnd::Failure(error) => Outcome::Failure(failure(&error)),
        TaskEnd::Aborted => {
            let message = "the task of the handler was aborted from outside";
            Outcome::Failure(failure(&StepError::new(codes::UNKNOWN_ERROR, message).fatal()))
        }
    };
    let mut outcome = item(token, run_time_ms, outcome);
    fit(&mut outcome, limits);
    outcome
}

/// Returns the outcome of an attempt that was abandoned.
pub(super) fn release_of(token: AttemptToken, run_time_ms: u64, reason: released::Reason) -> AttemptOutcome {
    item(
        token,
        run_time_ms,
        Outcome::Released(Released {
            reason: reason.into(),
        }),
    )
}

/// Replaces an outcome that would not fit into one message. Gives the encoded bytes of what it is then.
pub(super) fn fit(outcome: &mut AttemptOutcome, limits: &SessionLimits) -> usize {
    let bytes = outcome.encoded_len();
    let bytes_max = item_bytes_max(limits);
    if bytes > bytes_max {
        let message =
            format!("the outcome has {bytes} bytes encoded, more than the {bytes_max} of one message");
        let error = StepError::new(codes::RESOURCE_EXHAUSTED, message).fatal();
        outcome.outcome = Some(Outcome::Failure(failure(&error)));
        return outcome.encoded_len();
    }
    bytes
}

fn item(token: AttemptToken, run_time_ms: u64, outcome: Outcome) -> AttemptOutcome {
    AttemptOutcome {
        attempt_token: super::token_bytes(token),
        run_time_ms: i64::try_from(run_time_ms).unwrap_or(i64::MAX),
        outcome: Some(outcome),
    }
}

fn failure(error: &StepError) -> Failure {
    let severity = match error.stated_severity() {
        None => execution_error::Severity::Unspecified,
        Some(Severity::Warn) => execution_error::Severity::Warn,
        Some(Severity::Error) => execution_error::Severity::Error,
        Some(Severity::Fatal) => execution_error::Severity::Fatal,
    };
    let context =
        (!error.diagnostics().is_empty()).then(|| escapement_wire::json::to_opaque(error.diagnostics()));
    let (context, note) = match context {
        Some(context) if context.len() > ERROR_CONTEXT_BYTES_MAX => {
            let bytes = context.len();
            (
                None,
                format!(" (context dropped: {bytes} bytes, more than {ERROR_CONTEXT_BYTES_MAX})"),
            )
        }
        Some(context) => match context.check_context() {
            Ok(()) => (Some(context), String::new()),
            Err(malformed) => (None, format!(" (context dropped: it {malformed})")),
        },
        None => (None, String::new()),
    };
    let chars_left = MESSAGE_CHARS_MAX - note.chars().count();
    let message = error
        .message()
        .chars()
        .take(chars_left)
        .chain(note.chars())
        .collect();
    // One character above the limit: the orchestrator sees that the code is too long, and the rest is not sent.
    let code = error
        .code()
        .chars()
        .take(escapement_model::limits::ERROR_CODE_CHARS_MAX + 1)
        .collect();
    Failure {
        code,
        message,
        severity: severity.into(),
        context,
        not_here: error.is_not_here(),
    }
}

/// Bytes of a message around one item: `seq`, and the keys and lengths of the nested messages.
const MESSAGE_OVERHEAD_BYTES: usize = 64;
