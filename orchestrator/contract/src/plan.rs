//! A valid plan, ready to run: references resolved, order computed, defaults filled in.
//! Cannot hold a cycle, a repeated id or an unknown reference; only `validate` makes one.

use crate::digest;
use crate::retry;
use crate::spelled::spelled;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use escapement_model::{Opaque, PlanId, StepId, codes};

/// A step's position in its plan's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub(crate) u16);

impl StepIndex {
    /// The position of the first step.
    pub const FIRST: Self = Self(0);

    /// Returns the position, counted from 0.
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for StepIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "steps[{}]", self.0)
    }
}

spelled! {
    /// What becomes of the plan when a step fails with severity `error`.
    pub enum OnFailure {
        /// The plan stops.
        Halt = "halt",
        /// The step is recorded as skipped; the plan goes on.
        Skip = "skip",
        /// The step is attempted again as the retry policy allows.
        Retry = "retry",
    }
}

/// A valid step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub(crate) id: StepId,
    pub(crate) action: String,
    pub(crate) payload: Opaque,
    pub(crate) depends_on: Vec<StepIndex>,
    pub(crate) on_failure: OnFailure,
    pub(crate) timeout_ms: Option<u64>,
}

impl Step {
    /// Unique in the plan.
    pub fn id(&self) -> StepId {
        self.id
    }

    /// What a worker must offer.
    pub fn action(&self) -> &str {
        &self.action
    }

    /// Returns the bytes that the caller sent.
    pub fn payload(&self) -> &Opaque {
        &self.payload
    }

    /// In the order sent, each once.
    pub fn depends_on(&self) -> &[StepIndex] {
        &self.depends_on
    }

    /// `halt` if the caller said nothing.
    pub fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// Returns the milliseconds of each attempt; `None`: the plan's limit alone bounds the step.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }
}

/// A valid retry policy with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    pub(crate) max_attempts: u32,
    pub(crate) backoff_ms: u64,
    pub(crate) backoff_multiplier: f64,
    pub(crate) max_backoff_ms: u64,
    pub(crate) retryable_error_codes: Vec<String>,
}

impl RetryPolicy {
    /// Returns all attempts of a step together, at least 1.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Returns the milliseconds before the first retry.
    pub fn backoff_ms(&self) -> u64 {
        self.backoff_ms
    }

    /// Factor from one delay to the next, finite, at least 1.0.
    pub fn backoff_multiplier(&self) -> f64 {
        self.backoff_multiplier
    }

    /// Returns the longest delay in milliseconds.
    pub fn max_backoff_ms(&self) -> u64 {
        self.max_backoff_ms
    }

    /// As sent; may hold `*`.
    pub fn retryable_error_codes(&self) -> &[String] {
        &self.retryable_error_codes
    }

    /// Returns true if a failure with this code may be attempted again, severity and attempts permitting.
    pub fn lists(&self, code: &str) -> bool {
        // `*` stands for every code.
        self.retryable_error_codes
            .iter()
            .any(|listed| listed == "*" || listed == code)
    }

    /// Returns the milliseconds before retry `n`, 1 for the first.
    pub fn delay_ms(&self, n: u32) -> u64 {
        retry::delay_ms(self.backoff_ms, self.backoff_multiplier, self.max_backoff_ms, n)
    }

    /// Returns true if some failure could lead to a retry: attempts are left, and a listed code can have severity
    /// `error`.
    pub(crate) fn can_retry(&self) -> bool {
        let can_be_error = |code: &String| {
            code == "*"
                || code == codes::STEP_TIMEOUT
                || codes::reserved_severity(code).is_none_or(|severity| severity == codes::Severity::Error)
        };
        self.max_attempts > 1 && self.retryable_error_codes.iter().any(can_be_error)
    }
}

/// A valid plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) id: PlanId,
    pub(crate) created_at: i64,
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) order: Order,
    pub(crate) context_requirements: Vec<String>,
    pub(crate) priority: i32,
    pub(crate) timeout_ms: u64,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) metadata: Opaque,
    pub(crate) tags: Vec<String>,
    pub(crate) estimated_duration_ms: Option<u64>,
}

/// The graph of a plan, computed once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    /// Steps in canonical order.
    pub(crate) canonical: Vec<StepIndex>,
    /// By step: its place in `canonical`.
    pub(crate) position: Vec<u16>,
    /// All dependents, grouped by the step that they depend on.
    pub(crate) dependents: Vec<StepIndex>,
    /// By step: where its group in `dependents` starts; one more entry for the end.
    pub(crate) dependents_from: Vec<u32>,
}

impl Plan {
    /// Names this plan instance.
    pub fn id(&self) -> PlanId {
        self.id
    }

    /// Returns the unix milliseconds.
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// 1 to 255 code points.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// In the caller's order; never empty.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// One step.
    pub fn step(&self, index: StepIndex) -> &Step {
        &self.steps[index.as_usize()]
    }

    /// Returns the order in which the steps run one at a time.
    pub fn canonical_order(&self) -> &[StepIndex] {
        &self.order.canonical
    }

    /// Top-level keys that the environment must have.
    pub fn context_requirements(&self) -> &[String] {
        &self.context_requirements
    }

    /// Higher is admitted first.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the hard limit of the whole execution in milliseconds, at least 1.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// How steps with `on_failure = retry` are repeated.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.retry_policy
    }

    /// Returns the caller's own data, never interpreted.
    pub fn metadata(&self) -> &Opaque {
        &self.metadata
    }

    /// Labels for filters.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns the caller's own estimate in milliseconds, never interpreted.
    pub fn estimated_duration_ms(&self) -> Option<u64> {
        self.estimated_duration_ms
    }

    /// Returns the required keys that an environment lacks, in the plan's order. Looks at top-level keys only; `null`
    /// is present.
    pub fn missing_context_keys(&self, environment: &Opaque) -> Vec<&str> {
        //
        let required = self.context_requirements.iter().map(String::as_str);
        let mut missing: BTreeSet<&str> = required.clone().collect();
        for (key, _) in environment.entries().flatten() {
            missing.remove(key);
            if missing.is_empty() {
                return Vec::new();
            }
        }
        required.filter(|key| missing.contains(key)).collect()
    }

    /// Returns SHA-256 over the canonical encoding of everything in the plan: equal digests mean the same plan.
    pub fn content_digest(&self) -> [u8; 32] {
        digest::plan_digest(self)
    }

    /// Returns the step's place in the canonical order.
    pub fn position(&self, index: StepIndex) -> u16 {
        self.order.position[index.as_usize()]
    }

    /// Returns the step at a place of the canonical order.
    pub(crate) fn at(&self, position: u16) -> StepIndex {
        self.order.canonical[usize::from(position)]
    }

    /// Returns the range of `order.dependents` with the steps that depend on this one.
    pub(crate) fn dependents(&self, index: StepIndex) -> &[StepIndex] {
        let from = self.order.dependents_from[index.as_usize()] as usize;
        let to = self.order.dependents_from[index.as_usize() + 1] as usize;
        &self.order.dependents[from..to]
    }
}
