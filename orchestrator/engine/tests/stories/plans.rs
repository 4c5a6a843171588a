//! Requests in a few lines. Knows no engine.

use crate::world::START_UNIX_MS;
use escapement_contract::{PlanDraft, Request, RequestDraft, RetryPolicyDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque};
use std::collections::BTreeMap;
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
            depends_on: Vec::new(),
            on_failure: 0,
            timeout_ms: None,
        })
        .collect();
    let plan = PlanDraft {
        id: uuid(1, n),
        version: 1,
        created_at: START_UNIX_MS,
        steps,
        name: format!("plan {n}"),
        context_requirements: vec!["region".into()],
        priority: None,
        timeout_ms: Some(60_000),
        retry_policy: None,
        metadata: None,
        tags: Vec::new(),
        estimated_duration_ms: None,
    };
    PlanBuilder {
        draft: RequestDraft {
            plan: Some(plan),
            environment: Some(StructBuilder::new().text("region", "eu").build()),
            execution_id: None,
            deadline_ms: None,
            parent_execution_id: None,
            user_id: None,
            request_id: None,
            correlation_context: BTreeMap::new(),
            max_concurrent_steps: None,
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
                backoff_multiplier: None,
                max_backoff_ms: None,
                retryable_error_codes: codes.iter().map(|code| (*code).into()).collect(),
            });
            plan.steps.iter_mut().for_each(|step| step.on_failure = 2);
        })
    }

    pub fn build(self) -> Arc<Request> {
        Arc::new(validate_request(self.draft, 1024).unwrap())
    }
}
