//! Requests as the wire gives them. Checks nothing: see `validate`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::Opaque;

/// A plan, field by field as in `escapement.v1.Plan`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanDraft {
    /// UUID v4.
    pub id: String,
    /// Must be 1.
    pub version: i32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// 1 to 1024.
    pub steps: Vec<StepDraft>,
    /// 1 to 255 code points.
    pub name: String,
    /// At least one.
    pub context_requirements: Vec<String>,
    /// Absent means 0.
    pub priority: Option<i32>,
    /// Milliseconds; absent means 300000.
    pub timeout_ms: Option<i64>,
    /// Absent means one attempt.
    pub retry_policy: Option<RetryPolicyDraft>,
    /// Absent means `{}`.
    pub metadata: Option<Opaque>,
    /// At most 64.
    pub tags: Vec<String>,
    /// Milliseconds.
    pub estimated_duration_ms: Option<i64>,
}

/// A step, field by field as in `escapement.v1.PlanStep`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepDraft {
    /// UUID v4.
    pub id: String,
    /// 1 to 100 code points.
    pub action: String,
    /// Required.
    pub payload: Option<Opaque>,
    /// Ids of other steps.
    pub depends_on: Vec<String>,
    /// 0 halt, 1 skip, 2 retry.
    pub on_failure: i32,
    /// Milliseconds.
    pub timeout_ms: Option<i64>,
}

/// A retry policy, field by field as in `escapement.v1.RetryPolicy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetryPolicyDraft {
    /// Absent means 1.
    pub max_attempts: Option<i32>,
    /// Milliseconds; absent means 0.
    pub backoff_ms: Option<i64>,
    /// Absent means 1.0.
    pub backoff_multiplier: Option<f64>,
    /// Milliseconds; absent means 60000.
    pub max_backoff_ms: Option<i64>,
    /// Codes, or `*`.
    pub retryable_error_codes: Vec<String>,
}

/// A request, field by field as in `escapement.v1.ExecutePlanRequest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestDraft {
    /// Required.
    pub plan: Option<PlanDraft>,
    /// Absent means `{}`.
    pub environment: Option<Opaque>,
    /// UUID v4; absent: the server makes one.
    pub execution_id: Option<String>,
    /// Unix milliseconds.
    pub deadline_ms: Option<i64>,
    /// UUID v4.
    pub parent_execution_id: Option<String>,
    /// At most 255 code points.
    pub user_id: Option<String>,
    /// At most 255 code points.
    pub request_id: Option<String>,
    /// At most 64 entries.
    pub correlation_context: BTreeMap<String, String>,
    /// `options.max_concurrent_steps`; absent means 1.
    pub max_concurrent_steps: Option<i32>,
}
