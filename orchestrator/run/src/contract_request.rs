//! The `escapement.v1.SubmitPlanRequest` of one attempt, byte for byte. Everything in it follows from the run's state, so
//! that it can be written down before it is sent.
//!
//! The messages are the part of `escapement/v1` that runs use, with its field numbers; a test compares them with the protos.

use crate::ids::AttemptName;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::{Opaque, hex, opaque::StructBuilder};
use prost::Message;

/// What an attempt sends, apart from what its name says.
pub(crate) struct AttemptRequest<'a> {
    pub(crate) name: AttemptName<'a>,
    pub(crate) action: &'a str,
    pub(crate) payload: Opaque,
    pub(crate) environment: &'a Opaque,
    /// Codes of failed dependencies by step key, if the step runs in spite of them.
    pub(crate) failed_dependencies: Vec<(&'a str, &'a str)>,
    pub(crate) plan_name: String,
    pub(crate) priority: u32,
    pub(crate) user_id: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) parent_execution_id: &'a str,
    pub(crate) revision: &'a [u8],
    pub(crate) subject: &'a [u8; 32],
    /// Approval of exactly this request, if any.
    pub(crate) approval: Option<String>,
    pub(crate) now: i64,
    pub(crate) attempt_ms: u64,
    pub(crate) plan_ms: u64,
    pub(crate) deadline: i64,
}

/// The reserved key of the environment.
pub const ENVIRONMENT_KEY: &str = "escapement_run";

// RUN-4.5
impl AttemptRequest<'_> {
    pub(crate) fn encode(self) -> Bytes {
        let AttemptName {
            run_id,
            seed: _,
            step,
            index,
            epoch,
            attempt,
        } = self.name;
        let run = run_id.to_string();
        let number = |n: u32| f64::from(n);
        let metadata = StructBuilder::new()
            .text("run_id", &run)
            .text("revision", &format!("sha256:{}", hex::text(self.revision)))
            .text("step", step)
            .number("index", number(index))
            .number("epoch", number(epoch))
            .number("attempt", number(attempt))
            .text("subject", &format!("sha256:{}", hex::text(self.subject)))
            .build();
        let mut own = StructBuilder::new()
            .text("run_id", &run)
            .text("step", step)
            .number("index", number(index))
            .number("attempt", number(attempt))
            .text("idempotency_key", &idempotency_key(&self.name))
            .text("user_id", self.user_id);
        if !self.failed_dependencies.is_empty() {
            let failed = self
                .failed_dependencies
                .iter()
                .fold(StructBuilder::new(), |object, (key, code)| object.text(key, code));
            own = own.object("failed_dependencies", failed.build().as_encoded());
        }
        if let Some(approval) = &self.approval {
            own = own.text("approval", approval);
        }
        let environment = StructBuilder::from_opaque(self.environment)
            .object(ENVIRONMENT_KEY, own.build().as_encoded())
            .build();
        let correlation = [("run_id", run.as_str()), ("step", step)];
        let request = SubmitPlanRequest {
            plan: Some(Plan {
                id: self.name.plan_id().to_string(),
                version: 1,
                created_at: self.now,
                steps: vec![PlanStep {
                    id: self.name.step_id().to_string(),
                    action: self.action.to_string(),
                    payload: Some(self.payload),
                    timeout_ms: Some(self.attempt_ms.cast_signed()),
                }],
                name: self.plan_name,
                context_requirements: vec![ENVIRONMENT_KEY.to_string()],
                priority: Some(self.priority.cast_signed() - PRIORITY_OFFSET),
                timeout_ms: Some(self.plan_ms.cast_signed()),
                metadata: Some(metadata),
                tags: vec![format!("run:{run}"), format!("step:{step}")],
            }),
            environment: Some(environment),
            execution_id: Some(self.name.execution_id().to_string()),
            deadline_ms: Some(self.deadline),
            parent_execution_id: non_empty(self.parent_execution_id),
            user_id: non_empty(self.user_id),
            request_id: non_empty(self.request_id),
            correlation_context: correlation
                .map(|(key, text)| (key.to_string(), text.to_string()))
                .into(),
        };
        Bytes::from(request.encode_to_vec())
    }
}

/// Returns the payload that a request sends; `None` if the bytes are not a request.
pub(crate) fn payload_of(request: &[u8]) -> Option<Opaque> {
    let plan = SubmitPlanRequest::decode(request).ok()?.plan?;
    plan.steps.into_iter().next()?.payload
}

/// The same for all attempts of a unit, so that a handler can tell a repetition.
fn idempotency_key(name: &AttemptName<'_>) -> String {
    let mut key = format!("{}/{}", name.run_id, name.step);
    if name.index > 0 {
        key.push_str(&format!("/i{}", name.index));
    }
    if name.epoch > 0 {
        key.push_str(&format!("/e{}", name.epoch));
    }
    key
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_string())
}

/// Runs have priorities from 1 to 10, executions around 0.
const PRIORITY_OFFSET: i32 = 5;

#[derive(Clone, PartialEq, Message)]
struct SubmitPlanRequest {
    #[prost(message, optional, tag = "1")]
    plan: Option<Plan>,
    #[prost(message, optional, tag = "2")]
    environment: Option<Opaque>,
    #[prost(string, optional, tag = "3")]
    execution_id: Option<String>,
    #[prost(int64, optional, tag = "4")]
    deadline_ms: Option<i64>,
    #[prost(string, optional, tag = "5")]
    parent_execution_id: Option<String>,
    #[prost(string, optional, tag = "6")]
    user_id: Option<String>,
    #[prost(string, optional, tag = "7")]
    request_id: Option<String>,
    #[prost(btree_map = "string, string", tag = "8")]
    correlation_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Plan {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(int32, tag = "2")]
    version: i32,
    #[prost(int64, tag = "3")]
    created_at: i64,
    #[prost(message, repeated, tag = "4")]
    steps: Vec<PlanStep>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(string, repeated, tag = "6")]
    context_requirements: Vec<String>,
    #[prost(int32, optional, tag = "7")]
    priority: Option<i32>,
    #[prost(int64, optional, tag = "8")]
    timeout_ms: Option<i64>,
    #[prost(message, optional, tag = "10")]
    metadata: Option<Opaque>,
    #[prost(string, repeated, tag = "11")]
    tags: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct PlanStep {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    action: String,
    #[prost(message, optional, tag = "3")]
    payload: Option<Opaque>,
    #[prost(int64, optional, tag = "6")]
    timeout_ms: Option<i64>,
}
