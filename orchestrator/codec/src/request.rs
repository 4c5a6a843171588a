//! Requests: from the wire to a draft, and from a valid request back to the wire for its record.
//! Checks nothing.

use escapement_contract::{
    OnFailure, Plan, PlanDraft, Request, RequestDraft, RetryPolicyDraft, Step, StepDraft,
};
use escapement_model::limits::{BACKOFF_MS_MAX_DEFAULT, PLAN_TIMEOUT_MS_DEFAULT};
use escapement_model::{ExecutionId, Opaque};
use escapement_wire::v1;

/// Returns a request as `SubmitPlan` takes it; the fields of both messages are the same.
pub fn submit_of_execute(request: v1::ExecutePlanRequest) -> v1::SubmitPlanRequest {
    let v1::ExecutePlanRequest {
        plan,
        environment,
        execution_id,
        deadline_ms,
        parent_execution_id,
        user_id,
        request_id,
        correlation_context,
        options,
        namespace,
    } = request;
    v1::SubmitPlanRequest {
        plan,
        environment,
        execution_id,
        deadline_ms,
        parent_execution_id,
        user_id,
        request_id,
        correlation_context,
        options,
        namespace,
    }
}

/// Returns the draft of a request. Its namespace is no part of it.
pub fn request_draft(request: v1::SubmitPlanRequest) -> RequestDraft {
    let v1::SubmitPlanRequest {
        plan,
        environment,
        execution_id,
        deadline_ms,
        parent_execution_id,
        user_id,
        request_id,
        correlation_context,
        options,
        namespace: _,
    } = request;
    RequestDraft {
        plan: plan.map(plan_draft),
        environment,
        execution_id,
        deadline_ms,
        parent_execution_id,
        user_id,
        request_id,
        correlation_context,
        max_concurrent_steps: options
            .and_then(|v1::ExecutionOptions { max_concurrent_steps }| max_concurrent_steps),
    }
}

/// Returns the draft of a plan.
pub fn plan_draft(plan: v1::Plan) -> PlanDraft {
    let v1::Plan {
        id,
        version,
        created_at,
        steps,
        name,
        context_requirements,
        priority,
        timeout_ms,
        retry_policy,
        metadata,
        tags,
        estimated_duration_ms,
    } = plan;
    PlanDraft {
        id,
        version,
        created_at,
        steps: steps.into_iter().map(step_draft).collect(),
        name,
        context_requirements,
        priority,
        timeout_ms,
        retry_policy: retry_policy.map(retry_policy_draft),
        metadata,
        tags,
        estimated_duration_ms,
    }
}

/// An unknown `on_failure` passes as the number that it is; the contract refuses it.
fn step_draft(step: v1::PlanStep) -> StepDraft {
    let v1::PlanStep {
        id,
        action,
        payload,
        depends_on,
        on_failure,
        timeout_ms,
    } = step;
    StepDraft {
        id,
        action,
        payload,
        depends_on,
        on_failure,
        timeout_ms,
    }
}

fn retry_policy_draft(policy: v1::RetryPolicy) -> RetryPolicyDraft {
    let v1::RetryPolicy {
        max_attempts,
        backoff_ms,
        backoff_multiplier,
        max_backoff_ms,
        retryable_error_codes,
    } = policy;
    RetryPolicyDraft {
        max_attempts,
        backoff_ms,
        backoff_multiplier,
        max_backoff_ms,
        retryable_error_codes,
    }
}

/// Returns a valid request under the id that it was accepted with. Its draft validates to the same digest.
pub fn request_to_wire(request: &Request, execution_id: ExecutionId) -> v1::SubmitPlanRequest {
    v1::SubmitPlanRequest {
        plan: Some(plan_to_wire(request.plan())),
        environment: present(request.environment()),
        execution_id: Some(execution_id.to_string()),
        // As the caller gave it: the deadline that the orchestrator chose stands in a column of its own.
        deadline_ms: request.deadline_ms(),
        parent_execution_id: request.parent_execution_id().map(|id| id.to_string()),
        user_id: request.user_id().map(str::to_owned),
        request_id: request.request_id().map(str::to_owned),
        correlation_context: request.correlation_context().clone(),
        options: Some(v1::ExecutionOptions {
            max_concurrent_steps: Some(i32::try_from(request.max_concurrent_steps()).unwrap_or(i32::MAX)),
        }),
        // It stands with what the request came with.
        namespace: String::new(),
    }
}

fn plan_to_wire(plan: &Plan) -> v1::Plan {
    let policy = plan.retry_policy();
    let mut wire = v1::Plan {
        id: plan.id().to_string(),
        version: 1,
        created_at: plan.created_at(),
        steps: plan.steps().iter().map(|step| step_to_wire(plan, step)).collect(),
        name: plan.name().to_owned(),
        context_requirements: plan.context_requirements().to_vec(),
        priority: Some(plan.priority()),
        timeout_ms: Some(milliseconds(plan.timeout_ms())),
        retry_policy: Some(v1::RetryPolicy {
            max_attempts: Some(i32::try_from(policy.max_attempts()).unwrap_or(i32::MAX)),
            backoff_ms: Some(milliseconds(policy.backoff_ms())),
            backoff_multiplier: Some(policy.backoff_multiplier()),
            max_backoff_ms: Some(milliseconds(policy.max_backoff_ms())),
            retryable_error_codes: policy.retryable_error_codes().to_vec(),
        }),
        metadata: present(plan.metadata()),
        tags: plan.tags().to_vec(),
        estimated_duration_ms: plan.estimated_duration_ms().map(milliseconds),
    };
    leave_out_defaults(&mut wire);
    wire
}

/// Leaves out every field of a plan that equals its default, which changes nothing of its meaning.
///
/// A valid plan is then not larger than its caller sent it, so it stays within the limit of its size.
pub fn leave_out_defaults(plan: &mut v1::Plan) {
    let v1::Plan {
        priority,
        timeout_ms,
        retry_policy,
        metadata,
        // These have no default but to be absent.
        id: _,
        version: _,
        created_at: _,
        steps: _,
        name: _,
        context_requirements: _,
        tags: _,
        estimated_duration_ms: _,
    } = plan;
    priority.take_if(|priority| *priority == 0);
    timeout_ms.take_if(|timeout_ms| *timeout_ms == PLAN_TIMEOUT_MS_DEFAULT);
    metadata.take_if(|metadata| metadata.is_empty());
    if let Some(policy) = retry_policy {
        let v1::RetryPolicy {
            max_attempts,
            backoff_ms,
            backoff_multiplier,
            max_backoff_ms,
            retryable_error_codes: _,
        } = policy;
        max_attempts.take_if(|n_attempts| *n_attempts == 1);
        backoff_ms.take_if(|backoff_ms| *backoff_ms == 0);
        backoff_multiplier.take_if(|multiplier| *multiplier == 1.0);
        max_backoff_ms.take_if(|backoff_ms| *backoff_ms == BACKOFF_MS_MAX_DEFAULT);
    }
    retry_policy.take_if(|policy| *policy == v1::RetryPolicy::default());
}

fn step_to_wire(plan: &Plan, step: &Step) -> v1::PlanStep {
    let on_failure = match step.on_failure() {
        OnFailure::Halt => v1::plan_step::OnFailure::Halt,
        OnFailure::Skip => v1::plan_step::OnFailure::Skip,
        OnFailure::Retry => v1::plan_step::OnFailure::Retry,
    };
    v1::PlanStep {
        id: step.id().to_string(),
        action: step.action().to_owned(),
        // Required, so it is written even if it is empty.
        payload: Some(step.payload().clone()),
        depends_on: step
            .depends_on()
            .iter()
            .map(|index| plan.step(*index).id().to_string())
            .collect(),
        on_failure: on_failure as i32,
        timeout_ms: step.timeout_ms().map(milliseconds),
    }
}

/// Returns the path of the first field in which two requests differ, the execution id aside; `None` if they are the same.
pub fn first_difference(one: &v1::SubmitPlanRequest, other: &v1::SubmitPlanRequest) -> Option<String> {
    // Every field of the message: those that are compared, and those that are not here.
    macro_rules! differing {
        ($one:expr, $other:expr; $message:ident: $($field:ident)*; $($elsewhere:ident)*) => {{
            let v1::$message { $($field: _,)* $($elsewhere: _,)* } = $one;
            [$((stringify!($field), $one.$field != $other.$field)),*].into_iter().find(|(_, differ)| *differ)
        }};
    }
    if let (Some(one), Some(other)) = (&one.plan, &other.plan) {
        let of_plan = differing!(one, other; Plan: id version created_at name context_requirements priority
            timeout_ms retry_policy metadata tags estimated_duration_ms; steps);
        if let Some((field, _)) = of_plan {
            return Some(format!("plan.{field}"));
        }
        for (n, (one, other)) in one.steps.iter().zip(&other.steps).enumerate() {
            let of_step =
                differing!(one, other; PlanStep: id action payload depends_on on_failure timeout_ms;);
            if let Some((field, _)) = of_step {
                return Some(format!("plan.steps[{n}].{field}"));
            }
        }
        if one.steps.len() != other.steps.len() {
            return Some("plan.steps".to_owned());
        }
    }
    let of_request = differing!(one, other; SubmitPlanRequest: environment deadline_ms parent_execution_id user_id
        request_id correlation_context options; plan execution_id namespace);
    of_request.map(|(field, _)| field.to_owned())
}

fn present(object: &Opaque) -> Option<Opaque> {
    (!object.is_empty()).then(|| object.clone())
}

/// Durations of a valid request came from an `i64`, so nothing saturates here.
fn milliseconds(duration_ms: u64) -> i64 {
    i64::try_from(duration_ms).unwrap_or(i64::MAX)
}
