//! What a result of the contract says of the only step of its plan.

use escapement_model::opaque::{ValueView, value_of};
use escapement_model::{ExecutionId, Opaque, codes};
use escapement_run::outcome::{ContractEnd, ContractError};
use escapement_wire::v1;

/// The end as the result has it.
pub(super) fn end(result: v1::PlanResult, step_id: &str, assigned: bool) -> ContractEnd {
    let outputs = result.result_payload.unwrap_or_default();
    let output = match value_of(outputs.as_encoded(), step_id) {
        Some(ValueView::Struct(output)) => Some(Opaque::from_encoded(outputs.as_encoded().slice_ref(output))),
        _ => None,
    };
    let error = result.error.map(own_error);
    let data = error
        .as_ref()
        .filter(|error| error.error_code == APPROVAL_REQUIRED);
    let data = data.and_then(|error| error.context.clone());
    ContractEnd {
        output: output.filter(|_| error.is_none()).or(data),
        error: error.map(self::error),
        steps_executed: u32::try_from(result.steps_executed).unwrap_or(0),
        assigned,
    }
}

/// What the step reported counts, and not that its failure stopped the plan: makes each of these fatal and keeps the
/// step's own error, with its severity, as the cause.
fn own_error(mut error: v1::ExecutionError) -> v1::ExecutionError {
    match error.cause.take() {
        Some(cause) if cause.error_code == error.error_code => *cause,
        _ => error,
    }
}

fn error(error: v1::ExecutionError) -> ContractError {
    let reason = error.context.as_ref().and_then(|context| {
        let Some(ValueView::Text(reason)) = value_of(context.as_encoded(), "reason") else {
            return None;
        };
        Some(reason.to_owned())
    });
    let wanted = error.context.as_ref().and_then(retry_after_ms);
    ContractError {
        retry_after_ms: wanted.unwrap_or(0),
        fatal: error.severity() == v1::execution_error::Severity::Fatal,
        code: error.error_code,
        message: error.message,
        reason,
    }
}

// RUN-5.3
/// Milliseconds of a header `Retry-After` that is a number of seconds, as handlers pass it on; a date is none.
fn retry_after_ms(context: &Opaque) -> Option<u64> {
    let seconds = match value_of(context.as_encoded(), "retry_after")? {
        ValueView::Text(text) => text.trim().parse::<u64>().ok()?,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it saturates"
        )]
        ValueView::Number(seconds) if seconds >= 0.0 => seconds.ceil() as u64,
        _ => return None,
    };
    Some(seconds.saturating_mul(1_000))
}

/// True if the end shows that a worker had the attempt.
pub(super) fn was_offered(end: &ContractEnd) -> bool {
    match &end.error {
        None => true,
        Some(error) => {
            let never = [
                codes::ACTION_NOT_FOUND,
                codes::DEADLINE_EXCEEDED,
                codes::UNKNOWN_ERROR,
                NOT_PERMITTED,
            ];
            end.assigned && !never.contains(&error.code.as_str())
        }
    }
}

pub(super) fn names_an_assignment(entries: &[v1::AuditEntry]) -> bool {
    entries
        .iter()
        .any(|entry| matches!(entry.event, Some(v1::audit_entry::Event::AttemptAssigned(_))))
}

/// It was never accepted, and its deadline has passed: as if it had been, and had not started.
pub(super) fn never_accepted(execution_id: ExecutionId) -> ContractEnd {
    with_error(
        codes::DEADLINE_EXCEEDED,
        format!("execution {execution_id} was not accepted before its deadline"),
    )
}

/// The code of an attempt that the author of its run may not make.
pub(super) const NOT_PERMITTED: &str = "ACTION_NOT_PERMITTED";

/// It was accepted, and its content is gone.
pub(super) fn removed() -> ContractEnd {
    with_error(
        "EXECUTION_REMOVED",
        "the execution was accepted, and its result was removed".to_owned(),
    )
}

/// Another request was executed under the id.
pub(super) fn unknown() -> ContractEnd {
    let mut end = with_error(
        codes::UNKNOWN_ERROR,
        "another request was executed under the id of this attempt".to_owned(),
    );
    if let Some(error) = &mut end.error {
        error.reason = Some("restored_from_backup".to_owned());
    }
    end
}

fn with_error(code: &str, message: String) -> ContractEnd {
    ContractEnd {
        output: None,
        error: Some(ContractError {
            retry_after_ms: 0,
            code: code.to_owned(),
            message,
            fatal: true,
            reason: None,
        }),
        steps_executed: 0,
        assigned: false,
    }
}

/// What the plan says that would be done.
pub(super) fn subject_of(plan: &v1::Plan) -> Option<String> {
    let metadata = plan.metadata.as_ref()?;
    match value_of(metadata.as_encoded(), "subject") {
        Some(ValueView::Text(subject)) => Some(subject.to_owned()),
        _ => None,
    }
}

/// True if a record names the subject; it has it in the accepted request alone.
pub(super) fn is_about(record: &[u8], subject: &str) -> bool {
    let subject = subject.as_bytes();
    !subject.is_empty() && record.windows(subject.len()).any(|bytes| bytes == subject)
}

/// The code of a handler that asks for an approval; the context of its error is what a person is shown.
const APPROVAL_REQUIRED: &str = "APPROVAL_REQUIRED";
