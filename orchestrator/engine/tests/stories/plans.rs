//! Requests in a few lines. Knows no engine.

use crate::world::START_UNIX_MS;
use escapement_contract::{PlanDraft, Request, RequestDraft, RetryPolicyDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque};
use std::sync::Arc;

/// A plan in a few lines: one step for each action; each depends on nothing.
pub struct PlanBuilder {
    draft: RequestDraft,
}

pub fn uuid(kind: u8, n: u64) -> String {
    let mut bytes = [0u8; 16];
    bytes[0] = kind;
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    ExecutionId::from_random(bytes).to_string()
}

pub fn plan(n: u64, actions: &[&str]) -> PlanBuilder {
    let steps = actions
        .iter()
        .enumerate()
        .map(|(index, action)| StepDraft {
            id: uuid(2, n << 32 | index as u64),
            action: (*action).into(),
            payload: Some(Opaque::default()),
            ..StepDraft::default()
        })
        .collect();
    let plan = PlanDraft {
        id: uuid(1, n),
        version: 1,
        created_at: START_UNIX_MS,
        steps,
        name: format!("plan {n}"),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(60_000),
        ..PlanDraft::default()
    };
    PlanBuilder {
        draft: RequestDraft {
            plan: Some(plan),
            environment: Some(StructBuilder::new().text("region", "eu").build()),
            ..RequestDraft::default()
        },
    }
}

impl PlanBuilder {
    pub fn draft(mut self, change: impl FnOnce(&mut RequestDraft)) -> Self {
        change(&mut self.draft);
        self
    }

    pub fn plan(mut self, change: impl FnOnce(&mut PlanDraft)) -> Self {
        change(self.draft.plan.as_mut().unwrap());
        self
    }

    pub fn priority(self, priority: i32) -> Self {
        self.plan(|plan| plan.priority = Some(priority))
    }

    pub fn at_a_time(self, n_steps: i32) -> Self {
        self.draft(|draft| draft.max_concurrent_steps = Some(n_steps))
    }

    pub fn deadline(self, unix_ms: i64) -> Self {
        self.draft(|draft| draft.deadline_ms = Some(unix_ms))
    }

    /// Sets the limit of the whole plan.
    pub fn plan_limit(self, timeout_ms: i64) -> Self {
        self.plan(|plan| plan.timeout_ms = Some(timeout_ms))
    }

    /// Sets the limit of the first step.
    pub fn limit(self, timeout_ms: i64) -> Self {
        self.plan(|plan| plan.steps[0].timeout_ms = Some(timeout_ms))
    }

    pub fn id(self, n: u64) -> Self {
        self.draft(|draft| draft.execution_id = Some(uuid(3, n)))
    }

    pub fn parent(self, id: ExecutionId) -> Self {
        self.draft(|draft| draft.parent_execution_id = Some(id.to_string()))
    }

    pub fn retry(self, codes: &[&str]) -> Self {
        self.plan(|plan| {
            plan.retry_policy = Some(RetryPolicyDraft {
                max_attempts: Some(3),
                backoff_ms: Some(0),
                retryable_error_codes: codes.iter().map(|code| (*code).into()).collect(),
                ..RetryPolicyDraft::default()
            });
            plan.steps.iter_mut().for_each(|step| step.on_failure = 2);
        })
    }

    pub fn build(self) -> Arc<Request> {
        Arc::new(validate_request(self.draft, 1024).unwrap())
    }
}
