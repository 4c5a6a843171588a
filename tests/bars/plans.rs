//! The plans that are measured. Executes nothing.

use escapement_model::Opaque;
use escapement_tests::{PlanDocument, fresh_id};
use escapement_wire::v1::{ExecutePlanRequest, ExecutionOptions, SubmitPlanRequest, ValidatePlanRequest};
use serde_json::json;
use tonic::metadata::{Ascii, MetadataValue};

/// A plan as it is handed in again and again, each time as a new one.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    request: ExecutePlanRequest,
    /// What its caller shows with each call.
    pub(crate) credentials: Option<MetadataValue<Ascii>>,
}

impl Template {
    /// Steps that wait for one another, each for the one before.
    pub(crate) fn chain(n_steps: usize) -> Self {
        let mut document = PlanDocument::new("chain");
        for index in 0..n_steps {
            let before: &[usize] = if index == 0 { &[] } else { &[index - 1] };
            document = document.step(ACTION, payload(), before);
        }
        Self {
            request: document.execute(),
            credentials: None,
        }
    }

    /// Steps that wait for nobody, so many of them at the same time.
    pub(crate) fn independent(n_steps: usize, concurrency: i32) -> Self {
        let mut document = PlanDocument::new("independent");
        for _ in 0..n_steps {
            document = document.step(ACTION, payload(), &[]);
        }
        let mut request = document.execute();
        request.options = Some(ExecutionOptions {
            max_concurrent_steps: Some(concurrency),
        });
        Self {
            request,
            credentials: None,
        }
    }

    /// One step.
    pub(crate) fn single() -> Self {
        Self::chain(1)
    }

    /// Handed in by a caller that shows this.
    pub(crate) fn shown(mut self, credentials: MetadataValue<Ascii>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Returns the request, with a plan that was never handed in before.
    pub(crate) fn fresh(&self) -> ExecutePlanRequest {
        let mut request = self.request.clone();
        if let Some(plan) = &mut request.plan {
            plan.id = fresh_id();
        }
        request
    }

    /// The same for a caller that does not wait for the end.
    pub(crate) fn fresh_submit(&self) -> SubmitPlanRequest {
        let request = self.fresh();
        SubmitPlanRequest {
            plan: request.plan,
            environment: request.environment,
            options: request.options,
            ..SubmitPlanRequest::default()
        }
    }

    /// The same for a caller that wants the verdict only.
    pub(crate) fn fresh_validate(&self) -> ValidatePlanRequest {
        let request = self.fresh();
        ValidatePlanRequest {
            plan: request.plan,
            environment: request.environment,
            ..ValidatePlanRequest::default()
        }
    }

    /// Returns the number of steps that it has.
    pub(crate) fn n_steps(&self) -> usize {
        self.request.plan.as_ref().map_or(0, |plan| plan.steps.len())
    }

    /// What the plan and its environment take in the caller's own encoding.
    pub(crate) fn own_bytes(&self) -> usize {
        use prost::Message as _;
        let plan = self.request.plan.as_ref().map_or(0, prost::Message::encoded_len);
        plan + self.request.environment.as_ref().map_or(0, Opaque::encoded_len)
    }
}

/// The stock worker's action that gives its input back.
pub(crate) const ACTION: &str = "echo";

/// What a step is given: about a hundred bytes.
pub(crate) fn payload() -> serde_json::Value {
    json!({ "path": "reports/2026/summary.json", "attempts": 3, "tags": ["daily", "summary"] })
}
