//! What the unit tests of the owners begin with.

use crate::config::EngineConfig;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use escapement_contract::{Moment, PlanDraft, Request, RequestDraft, StepDraft, validate_request};
use escapement_model::opaque::StructBuilder;
use escapement_model::{BootId, ExecutionId, Opaque};

pub(crate) const NOW: Moment = Moment {
    monotonic_ms: 1_000,
    unix_ms: 1_800_000_000_000,
};

pub(crate) fn config() -> EngineConfig {
    EngineConfig::new(
        BootId::from_slice(&[1; 16]).expect("sixteen bytes are an id"),
        [0; 32],
    )
}

pub(crate) fn execution_id(n: u8) -> ExecutionId {
    ExecutionId::from_random([n; 16])
}

/// Returns a plan of one step of this action.
pub(crate) fn request(n: u8, action: &str) -> Arc<Request> {
    let plan = PlanDraft {
        id: execution_id(100 + n).to_string(),
        version: 1,
        created_at: NOW.unix_ms,
        steps: vec![StepDraft {
            id: execution_id(200).to_string(),
            action: action.into(),
            payload: Some(Opaque::default()),
            ..StepDraft::default()
        }],
        name: "plan".into(),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(60_000),
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "eu").build()),
        execution_id: Some(execution_id(n).to_string()),
        ..RequestDraft::default()
    };
    Arc::new(validate_request(draft, 1).expect("the plan is valid"))
}
