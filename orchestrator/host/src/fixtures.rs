//! Requests for the tests of this crate.

use escapement_contract::{PlanDraft, Request, RequestDraft, StepDraft, validate_request};
use escapement_model::{ExecutionId, Opaque};
use std::sync::Arc;

/// Returns a request for a plan of one step. The id of the plan is drawn like that of an execution.
pub(crate) fn request(plan_id: ExecutionId, draft: RequestDraft) -> Arc<Request> {
    let step = StepDraft {
        id: ExecutionId::from_random([3; 16]).to_string(),
        action: "copy".to_owned(),
        payload: Some(Opaque::default()),
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: plan_id.to_string(),
        version: 1,
        created_at: 1,
        steps: vec![step],
        name: "plan".to_owned(),
        context_requirements: vec!["key".to_owned()],
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        ..draft
    };
    Arc::new(validate_request(draft, 1).expect("it has all that a request needs"))
}
