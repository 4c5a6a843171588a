//! Submits a child and waits for its result over any number of broken calls. Does not judge the result.

use super::super::invalid;
use crate::limits::CHILD_WAIT_MS;
use escapement_sdk::{StepContext, StepError};
use escapement_wire::v1::{PlanResult, SubmitPlanRequest, WaitExecutionRequest};
use serde_json::json;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Submits `request` and waits until its execution is settled.
///
/// `own_id` says that the execution id follows from the parent's attempt,
/// so whatever has it is this attempt's child.
pub(super) async fn settle(
    request: SubmitPlanRequest,
    own_id: bool,
    context: &StepContext,
) -> Result<PlanResult, StepError> {
    let execution_id = request.execution_id.clone().unwrap_or_default();
    let submitted = submit(request, context).await;
    match submitted {
        Ok(()) => wait(&execution_id, context)
            .await?
            .map_err(|status| refused(&status)),
        // Sent before by this very attempt, whose worker has been lost since:
        // the times in it differ, the child is ours.
        Err(Ended::Refused(status)) if own_id && is_in_use(&status) => {
            wait(&execution_id, context).await?.map_err(|_| refused(&status))
        }
        Err(Ended::Refused(status)) => Err(refused(&status)),
        Err(Ended::TimeUp(status)) => Err(unavailable(&status)),
    }
}

/// Reason why a call was given up.
enum Ended {
    /// Asking again would not help.
    Refused(Status),
    /// The step's time ran out while the orchestrator did not answer.
    TimeUp(Status),
}

async fn submit(request: SubmitPlanRequest, context: &StepContext) -> Result<(), Ended> {
    let mut pause = PAUSE_MIN;
    loop {
        let mut client = context
            .caller()
            .plans()
            .map_err(|error| Ended::Refused(not_connected(&error)))?;
        match client.submit_plan(request.clone()).await {
            Ok(_) => return Ok(()),
            Err(status) if !may_pass(&status) => return Err(Ended::Refused(status)),
            Err(status) => rest(&mut pause, &status, context).await.map_err(Ended::TimeUp)?,
        }
    }
}

/// The outer error ends the step; the inner one is an answer of the orchestrator.
async fn wait(execution_id: &str, context: &StepContext) -> Result<Result<PlanResult, Status>, StepError> {
    let mut pause = PAUSE_MIN;
    loop {
        let client = context.caller().waiting_plans(execution_id);
        let mut client = client.map_err(|error| refused(&not_connected(&error)))?;
        let request = WaitExecutionRequest {
            execution_id: execution_id.to_owned(),
            timeout_ms: Some(CHILD_WAIT_MS),
        };
        match client.wait_execution(request).await {
            Ok(answer) => {
                let result = answer
                    .into_inner()
                    .execution
                    .and_then(|execution| execution.result);
                if let Some(result) = result {
                    return Ok(Ok(result));
                }
                pause = PAUSE_MIN;
            }
            Err(status) if !may_pass(&status) => return Ok(Err(status)),
            Err(status) => rest(&mut pause, &status, context)
                .await
                .map_err(|status| unavailable(&status))?,
        }
        if context.time_left().is_zero() {
            return Err(unavailable(&Status::deadline_exceeded(
                "the child did not end in time",
            )));
        }
    }
}

/// Returns true for answers that another call may not get: the orchestrator is away, stopping, or full.
fn may_pass(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::ResourceExhausted
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Internal
    )
}

fn is_in_use(status: &Status) -> bool {
    matches!(status.code(), Code::AlreadyExists | Code::FailedPrecondition)
}

/// Pauses before the next call, longer each time, or gives the status back if no time is left.
async fn rest(pause: &mut Duration, status: &Status, context: &StepContext) -> Result<(), Status> {
    if context.time_left() <= *pause {
        return Err(status.clone());
    }
    let asked = status.get_details_retry_info().and_then(|info| info.retry_delay);
    tokio::time::sleep(asked.map_or(*pause, |asked| asked.min(PAUSE_MAX))).await;
    *pause = (*pause * 2).min(PAUSE_MAX);
    Ok(())
}

fn refused(status: &Status) -> StepError {
    let violations: Vec<_> = status.get_details_bad_request().map_or_else(Vec::new, |details| {
        let fields = details.field_violations.iter().take(VIOLATIONS_MAX);
        fields
            .map(|found| json!({ "field": found.field, "message": found.description }))
            .collect()
    });
    let facts = json!({
        "status": format!("{:?}", status.code()),
        "reason": status.get_details_error_info().map(|info| info.reason),
        "violations": violations,
    });
    let message = format!("the orchestrator refuses the child: {}", status.message());
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange => invalid(message).context(facts),
        _ => StepError::new("CHILD_REJECTED", message).context(facts).fatal(),
    }
}

fn unavailable(status: &Status) -> StepError {
    let message = format!("no answer about the child: {}", status.message());
    StepError::new("CHILD_UNAVAILABLE", message).context(json!({ "status": format!("{:?}", status.code()) }))
}

fn not_connected(problem: &str) -> Status {
    Status::failed_precondition(problem)
}

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const VIOLATIONS_MAX: usize = 32;
