//! The end of an execution for the only step of its plan.

use escapement_model::encoder::sha256;
use escapement_model::opaque::{ValueView, value_of};
use escapement_model::{ExecutionId, Opaque, codes};
use escapement_run::outcome::{ContractEnd, ContractError};
use escapement_wire::v1;
use prost::Message;

/// Returns the end that a result describes.
pub(crate) fn contract_end(result: v1::PlanResult, step_id: &str, assigned: bool) -> ContractEnd {
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

/// Returns the error that the step reported. wraps that error in a fatal one and keeps the step's own severity in the
/// cause.
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
/// Returns the milliseconds of a header `Retry-After` with a number of seconds, as handlers pass it on;
/// `None` for a date.
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

/// Returns true if the end shows that a worker had the attempt.
pub(crate) fn was_offered(end: &ContractEnd) -> bool {
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

/// Returns the end of an attempt that was not accepted before its deadline. It equals the end of one that never started.
pub(crate) fn never_accepted(execution_id: ExecutionId) -> ContractEnd {
    with_error(
        codes::DEADLINE_EXCEEDED,
        format!("execution {execution_id} was not accepted before its deadline"),
    )
}

/// The code of an attempt that the author of its run may not make.
pub(crate) const NOT_PERMITTED: &str = "ACTION_NOT_PERMITTED";

/// Returns the end of an attempt whose content was removed.
pub(crate) fn removed() -> ContractEnd {
    with_error(
        "EXECUTION_REMOVED",
        "the execution was accepted, and its result was removed".to_owned(),
    )
}

/// Returns the end of an attempt whose id another request has.
pub(crate) fn unknown() -> ContractEnd {
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

/// Computes a digest of the requested work, equal for an attempt that is sent again with other times.
pub(crate) fn work_of(request: &v1::SubmitPlanRequest) -> [u8; 32] {
    let plan = request.plan.as_ref();
    let steps = plan.into_iter().flat_map(|plan| &plan.steps);
    let steps = steps.map(|step| v1::PlanStep {
        id: step.id.clone(),
        action: step.action.clone(),
        payload: Some(step.payload.clone().unwrap_or_default()),
        ..v1::PlanStep::default()
    });
    let asked = v1::SubmitPlanRequest {
        plan: plan.map(|plan| v1::Plan {
            id: plan.id.clone(),
            metadata: Some(plan.metadata.clone().unwrap_or_default()),
            steps: steps.collect(),
            ..v1::Plan::default()
        }),
        environment: Some(request.environment.clone().unwrap_or_default()),
        execution_id: request.execution_id.clone(),
        parent_execution_id: request.parent_execution_id.clone(),
        user_id: request.user_id.clone(),
        ..v1::SubmitPlanRequest::default()
    };
    sha256(&asked.encode_to_vec())
}

/// The code of a handler that asks for an approval; the context of its error is what a person is shown.
const APPROVAL_REQUIRED: &str = "APPROVAL_REQUIRED";

#[cfg(test)]
mod tests {
    use super::*;
    use escapement_model::opaque::StructBuilder;

    fn request(created_at: i64, payload: &str, subject: &str) -> v1::SubmitPlanRequest {
        let step = v1::PlanStep {
            id: "s".to_owned(),
            action: "pay".to_owned(),
            payload: Some(StructBuilder::new().text("to", payload).build()),
            timeout_ms: Some(created_at),
            ..v1::PlanStep::default()
        };
        v1::SubmitPlanRequest {
            plan: Some(v1::Plan {
                id: "p".to_owned(),
                created_at,
                steps: vec![step],
                metadata: Some(StructBuilder::new().text("subject", subject).build()),
                ..v1::Plan::default()
            }),
            deadline_ms: Some(created_at + 1),
            ..v1::SubmitPlanRequest::default()
        }
    }

    // RUN-4.14
    #[test]
    fn work_is_compared_by_its_fields_and_not_by_a_text_in_them() {
        let own = work_of(&request(1, "anna", "sha256:1"));
        assert_eq!(work_of(&request(2, "anna", "sha256:1")), own, "sent again later");
        assert_ne!(work_of(&request(1, "anna", "sha256:2")), own);
        // The subject stands in it all the same.
        assert_ne!(work_of(&request(1, "sha256:1", "another")), own);
    }
}
