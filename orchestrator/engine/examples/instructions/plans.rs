//! Requests of every shape, with ids that are spread as random ones are. Validates what it is asked to.

use escapement_contract::{PlanDraft, Request, RequestDraft, RetryPolicyDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, PlanId, StepId};
use std::sync::Arc;

/// A plan's shape.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Steps.
    pub(crate) steps: usize,
    /// Each depends on so many before it.
    pub(crate) dependencies: usize,
    /// `max_concurrent_steps`.
    pub(crate) at_a_time: i32,
    /// Which of the workers' actions the steps name; 0 for the usual one.
    pub(crate) action: u64,
    /// `max_attempts` of each step; any failure is retried, 100 ms later.
    pub(crate) attempts: i32,
}

impl Shape {
    /// Steps that follow one another.
    pub(crate) const fn chain(steps: usize) -> Self {
        Self {
            steps,
            dependencies: 1,
            at_a_time: 1,
            action: 0,
            attempts: 1,
        }
    }

    /// Steps that do not depend on one another, 256 of them at a time.
    pub(crate) const fn independent(steps: usize) -> Self {
        Self {
            steps,
            dependencies: 0,
            at_a_time: AT_A_TIME,
            action: 0,
            attempts: 1,
        }
    }

    /// Returns the `n`th request of this shape, as the wire gives it.
    pub(crate) fn draft(self, n: u64) -> RequestDraft {
        let payload = StructBuilder::new()
            .text("file", "report.pdf")
            .number("page", 12.0)
            .build();
        let step_id = |step: usize| StepId::from_random(spread(n << 16 | step as u64)).to_string();
        let step = |step: usize| StepDraft {
            id: step_id(step),
            action: action(self.action),
            payload: Some(payload.clone()),
            depends_on: (step.saturating_sub(self.dependencies)..step)
                .map(step_id)
                .collect(),
            on_failure: if self.attempts > 1 { RETRY } else { 0 },
            ..StepDraft::default()
        };
        let plan = PlanDraft {
            id: PlanId::from_random(spread(n)).to_string(),
            version: 1,
            created_at: 1,
            steps: (0..self.steps).map(step).collect(),
            name: "instructions".into(),
            context_requirements: vec!["region".into()],
            retry_policy: (self.attempts > 1).then(|| RetryPolicyDraft {
                max_attempts: Some(self.attempts),
                backoff_ms: Some(100),
                retryable_error_codes: vec!["*".into()],
                ..RetryPolicyDraft::default()
            }),
            ..PlanDraft::default()
        };
        RequestDraft {
            plan: Some(plan),
            environment: Some(StructBuilder::new().text("region", "north").build()),
            max_concurrent_steps: Some(self.at_a_time),
            ..RequestDraft::default()
        }
    }

    /// The same, validated.
    pub(crate) fn request(self, n: u64) -> Arc<Request> {
        validated(self.draft(n))
    }
}

pub(crate) fn validated(draft: RequestDraft) -> Arc<Request> {
    Arc::new(validate_request(draft, AT_A_TIME.cast_unsigned()).expect("every shape makes valid requests"))
}

pub(crate) fn execution_id(n: u64) -> ExecutionId {
    ExecutionId::from_random(spread(n ^ 0xffff_0000_0000))
}

/// Sixteen bytes for a number, others for every other.
pub(crate) fn spread(n: u64) -> [u8; 16] {
    let high = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = n.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// Returns the name of an action of many.
pub(crate) fn action(n: u64) -> String {
    match n {
        0 => ACTION.to_owned(),
        n => format!("{ACTION}-{n}"),
    }
}

/// The usual action.
pub(crate) const ACTION: &str = "render";
/// Steps at a time if they do not depend on one another; the orchestrator's own limit.
const AT_A_TIME: i32 = 256;
/// Same as in `escapement.v1.OnFailure`.
const RETRY: i32 = 2;
