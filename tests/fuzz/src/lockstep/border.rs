//! The contract crate's words in those of the second interpreter. Decides nothing.

use escapement_contract as core;
use escapement_model::Severity;
use escapement_tests::reference::rules::{Facts, Rules};
use escapement_tests::reference::words::{
    Input, Moment, NotCompleted, Outcome, Phase, Reported, Status, StepState, WithdrawReason,
};
use escapement_wire::v1;

/// Reads a valid draft.
pub fn rules(draft: &core::RequestDraft, deadline_ms: i64) -> Rules {
    let (plan, facts) = plan_and_facts(draft);
    Rules::of(&plan, &facts, deadline_ms)
}

/// What decides anything in a draft, in the wire's words.
pub fn plan_and_facts(draft: &core::RequestDraft) -> (v1::Plan, Facts) {
    let plan = draft.plan.as_ref().expect("a valid draft has a plan");
    let step = |step: &core::StepDraft| v1::PlanStep {
        id: step.id.clone(),
        depends_on: step.depends_on.clone(),
        on_failure: step.on_failure,
        timeout_ms: step.timeout_ms,
        // They decide nothing.
        action: String::new(),
        payload: None,
    };
    let policy = |policy: &core::RetryPolicyDraft| v1::RetryPolicy {
        max_attempts: policy.max_attempts,
        backoff_ms: policy.backoff_ms,
        backoff_multiplier: policy.backoff_multiplier,
        max_backoff_ms: policy.max_backoff_ms,
        retryable_error_codes: policy.retryable_error_codes.clone(),
    };
    let plan = v1::Plan {
        id: plan.id.clone(),
        steps: plan.steps.iter().map(step).collect(),
        timeout_ms: plan.timeout_ms,
        retry_policy: plan.retry_policy.as_ref().map(policy),
        context_requirements: plan.context_requirements.clone(),
        ..v1::Plan::default()
    };
    let facts = Facts {
        environment: draft.environment.clone(),
        max_concurrent_steps: draft.max_concurrent_steps,
        slack_ms: None,
    };
    (plan, facts)
}

/// Returns a result in the wire's words.
pub fn result(result: &core::PlanResult) -> v1::PlanResult {
    v1::PlanResult {
        plan_id: result.plan_id.to_string(),
        execution_id: result.execution_id.to_string(),
        status: match result.status {
            core::Status::Success => v1::plan_result::Status::Success,
            core::Status::Partial => v1::plan_result::Status::Partial,
            core::Status::Failure => v1::plan_result::Status::Failure,
        }
        .into(),
        completed_at: result.completed_at,
        duration_ms: result.duration_ms,
        steps_executed: i32::try_from(result.steps_executed).expect("a plan has 1024 steps at most"),
        steps_total: i32::try_from(result.steps_total).expect("a plan has 1024 steps at most"),
        result_payload: Some(result.result_payload.clone()),
        error: result.error.as_ref().map(error),
    }
}

fn error(of: &core::ExecutionError) -> v1::ExecutionError {
    v1::ExecutionError {
        error_code: of.code.clone(),
        message: of.message.clone(),
        step_id: of.step_id.map(|id| id.to_string()),
        severity: match of.severity {
            Severity::Warn => v1::execution_error::Severity::Warn,
            Severity::Error => v1::execution_error::Severity::Error,
            Severity::Fatal => v1::execution_error::Severity::Fatal,
        }
        .into(),
        recoverable: of.recoverable(),
        cause: of.cause.as_deref().map(|cause| Box::new(error(cause))),
        context: Some(of.context.clone()),
    }
}

pub(super) fn moment(now: core::Moment) -> Moment {
    Moment {
        monotonic_ms: now.monotonic_ms,
        unix_ms: now.unix_ms,
    }
}

pub(super) fn phase(phase: core::Phase) -> Phase {
    match phase {
        core::Phase::Queued => Phase::Queued,
        core::Phase::Starting => Phase::Starting,
        core::Phase::Running => Phase::Running,
        core::Phase::Settling => Phase::Settling,
        core::Phase::Settled => Phase::Settled,
    }
}

pub(super) fn state(state: core::StepState) -> StepState {
    match state {
        core::StepState::Pending => StepState::Pending,
        core::StepState::Waiting { attempt } => StepState::Waiting { attempt },
        core::StepState::Assigned { attempt } => StepState::Assigned { attempt },
        core::StepState::Started { attempt } => StepState::Started { attempt },
        core::StepState::BackingOff { next_attempt } => StepState::BackingOff { next_attempt },
        core::StepState::Completed => StepState::Completed,
        core::StepState::NotCompleted => StepState::NotCompleted,
        core::StepState::Stopped => StepState::Stopped,
    }
}

pub(super) fn input(input: &core::Input) -> Input {
    match input {
        core::Input::Start => Input::Start,
        core::Input::StartPersisted => Input::StartPersisted,
        core::Input::SettlePersisted => Input::SettlePersisted,
        core::Input::Tick => Input::Tick,
        core::Input::Assigned { step, attempt, .. } => Input::Assigned {
            step: step.as_usize(),
            attempt: *attempt,
        },
        core::Input::AttemptStarted { step, attempt } => Input::AttemptStarted {
            step: step.as_usize(),
            attempt: *attempt,
        },
        core::Input::AttemptReturned {
            step,
            attempt,
            evidence,
        } => Input::AttemptReturned {
            step: step.as_usize(),
            attempt: *attempt,
            is_refused: *evidence == core::Evidence::Refused,
        },
        core::Input::AttemptEnded {
            step,
            attempt,
            outcome: ended,
        } => Input::AttemptEnded {
            step: step.as_usize(),
            attempt: *attempt,
            outcome: outcome(ended),
        },
        core::Input::ActionNotFound { step, attempt } => Input::ActionNotFound {
            step: step.as_usize(),
            attempt: *attempt,
        },
    }
}

fn outcome(outcome: &core::Outcome) -> Outcome {
    match outcome {
        core::Outcome::Completed { output, .. } => Outcome::Completed {
            output: output.clone(),
        },
        core::Outcome::Failed(reported) => Outcome::Failed(Reported {
            code: reported.code.clone(),
            severity: reported.severity,
        }),
        core::Outcome::Undecodable { .. } => Outcome::Undecodable,
        core::Outcome::Lost => Outcome::Lost,
    }
}

pub(super) fn status(status: core::Status) -> Status {
    match status {
        core::Status::Success => Status::Success,
        core::Status::Partial => Status::Partial,
        core::Status::Failure => Status::Failure,
    }
}

pub(super) fn not_completed(reason: core::NotCompleted) -> NotCompleted {
    match reason {
        core::NotCompleted::Failed => NotCompleted::Failed,
        core::NotCompleted::Skipped => NotCompleted::Skipped,
        core::NotCompleted::RetriesExhausted => NotCompleted::RetriesExhausted,
        core::NotCompleted::NotRetryable => NotCompleted::NotRetryable,
        core::NotCompleted::WarnedWithoutOutput => NotCompleted::WarnedWithoutOutput,
        core::NotCompleted::DependencyUnresolved => NotCompleted::DependencyUnresolved,
    }
}

pub(super) fn withdraw_reason(reason: core::WithdrawReason) -> WithdrawReason {
    match reason {
        core::WithdrawReason::StepTimeout => WithdrawReason::StepTimeout,
        core::WithdrawReason::ExecutionEnded => WithdrawReason::ExecutionEnded,
    }
}
