//! Requests of attempts, and outcomes from the ends of their executions.

pub(crate) mod end;

use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace, RunId, codes};
use escapement_run::outcome::{AttemptOutcome, ContractEnd, ContractError, classify};
use escapement_wire::v1;
use prost::Message;

use crate::clock::Clock;
use crate::contract_port::EndedExecution;
use crate::rights::Origin;
use crate::seen::SeenActions;

/// Attempt that leaves a run.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Run of the attempt.
    pub run_id: RunId,
    /// Namespace and author of that run.
    pub origin: Origin,
    /// Execution.
    pub execution_id: ExecutionId,
    /// Encoded `escapement.v1.SubmitPlanRequest`.
    pub request: Bytes,
    /// Lead of the times in it over the clock of runs, milliseconds.
    pub ahead_ms: u64,
    /// Time that a worker has, milliseconds; for `classify`.
    pub attempt_ms: u64,
    /// True if a worker has offered the action before; for `classify`.
    pub seen: bool,
    /// True if an execution waits for this run, so that the attempt must not wait for others.
    pub is_nested: bool,
    /// True if the output may hold a plan, whose expressions are checked then.
    pub plans: bool,
}

/// Request of an attempt for the contract, with the names that its end needs.
pub(crate) struct PreparedAttempt {
    pub(crate) request: v1::SubmitPlanRequest,
    pub(crate) step_id: String,
    pub(crate) action: String,
}

/// Takes an attempt's request, which is not needed until the end, and reads it.
pub(crate) fn prepared(attempt: &mut Attempt, clock: Clock) -> Result<PreparedAttempt, prost::DecodeError> {
    let mut request = v1::SubmitPlanRequest::decode(std::mem::take(&mut attempt.request))?;
    // RUN-7.8: for runs a deadline is a time of theirs, and the contract goes by the wall clock.
    if let Some(deadline_ms) = &mut request.deadline_ms {
        let wall_ahead_ms = clock.wall_ahead_ms();
        *deadline_ms = deadline_ms
            .saturating_add(wall_ahead_ms)
            .saturating_sub_unsigned(attempt.ahead_ms);
    }
    let step = request.plan.as_ref().and_then(|plan| plan.steps.first());
    let (step_id, action) = step
        .map(|step| (step.id.clone(), step.action.clone()))
        .unwrap_or_default();
    let namespace = &attempt.origin.namespace;
    if *namespace != Namespace::default() || request.parent_execution_id.is_some() {
        // What is nested would lie in the namespace of what it is nested in.
        request.namespace = namespace.to_string();
    }
    Ok(PreparedAttempt {
        request,
        step_id,
        action,
    })
}

/// Returns what an attempt came to whose end is known with its record.
pub(crate) fn outcome_of(
    ended: EndedExecution,
    attempt: &Attempt,
    (step_id, action): (&str, &str),
    seen: &SeenActions,
) -> AttemptOutcome {
    let assigned = known_as_assigned(&ended).unwrap_or(true);
    let end = end::contract_end(ended.result, step_id, assigned);
    judged_by_action(&end, attempt, action, seen)
}

/// Returns false if no worker had the attempt; `None` if only the record shows that.
pub(crate) fn known_as_assigned(ended: &EndedExecution) -> Option<bool> {
    let error = ended.result.error.as_ref();
    match error.map(|error| error.error_code.as_str()) {
        Some(codes::PLAN_TIMEOUT) => ended.assigned,
        code => Some(code != Some(codes::DEADLINE_EXCEEDED)),
    }
}

/// Judges the end of an attempt, and notes that its action was offered if it shows that.
pub(crate) fn judged_by_action(
    end: &ContractEnd,
    attempt: &Attempt,
    action: &str,
    seen: &SeenActions,
) -> AttemptOutcome {
    if end::was_offered(end) {
        seen.add(action);
    }
    judged(end, attempt, attempt.seen || seen.contains(action))
}

/// Returns the outcome of an attempt that its run no longer waits for.
pub(crate) fn not_submitted(attempt: &Attempt) -> AttemptOutcome {
    judged(&end::never_accepted(attempt.execution_id), attempt, attempt.seen)
}

pub(crate) fn judged(end: &ContractEnd, attempt: &Attempt, seen: bool) -> AttemptOutcome {
    classify(end, attempt.attempt_ms, seen)
}

/// Returns the end of an attempt whose request the contract refuses.
pub(crate) fn failed(reason: &str, message: &str) -> ContractEnd {
    ContractEnd {
        output: None,
        error: Some(ContractError {
            retry_after_ms: 0,
            code: reason.to_owned(),
            message: message.to_owned(),
            fatal: true,
            reason: None,
        }),
        steps_executed: 0,
        assigned: false,
    }
}
