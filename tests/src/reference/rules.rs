//! A plan and what its request says, as far as they decide anything. Judges no request: what it reads is valid.

use crate::planted::misreads;
use escapement_model::Opaque;
use escapement_wire::v1;

/// A plan and its options as far as they decide anything.
#[derive(Clone, Debug)]
pub struct Rules {
    /// By place, the places that each waits for.
    pub depends_on: Vec<Vec<usize>>,
    /// 0 halt, 1 skip, 2 retry.
    pub(super) on_failure: Vec<i32>,
    pub(super) step_timeout_ms: Vec<Option<u64>>,
    pub(super) plan_timeout_ms: u64,
    pub(super) max_attempts: u32,
    pub(super) backoff_ms: f64,
    pub(super) backoff_multiplier: f64,
    pub(super) max_backoff_ms: f64,
    pub(super) retryable: Vec<String>,
    /// Number of steps that may be under way.
    pub n_slots: usize,
    pub(super) context_is_missing: bool,
    pub(super) deadline_ms: i64,
}

/// What a request says beside its plan, as far as it decides anything.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Same as in the request.
    pub environment: Option<Opaque>,
    /// Same as in the request; 1 where it is left out.
    pub max_concurrent_steps: Option<i32>,
    /// Where the wall clock ran as evenly as the monotonic one: by how much they may differ. `None`: times are not compared.
    pub slack_ms: Option<i64>,
}

impl Rules {
    /// Reads a valid plan.
    ///
    /// # Panics
    /// The plan refers to a step that it does not have.
    pub fn of(plan: &v1::Plan, facts: &Facts, deadline_ms: i64) -> Self {
        let v1::Plan {
            steps,
            context_requirements,
            timeout_ms,
            retry_policy,
            // These decide nothing.
            id: _,
            version: _,
            created_at: _,
            name: _,
            priority: _,
            metadata: _,
            tags: _,
            estimated_duration_ms: _,
        } = plan;
        let v1::RetryPolicy {
            max_attempts,
            backoff_ms,
            backoff_multiplier,
            max_backoff_ms,
            retryable_error_codes: retryable,
        } = retry_policy.clone().unwrap_or_default();
        let place = |id: &String| {
            steps
                .iter()
                .position(|step| step.id.eq_ignore_ascii_case(id))
                .expect("a valid plan refers to its own steps")
        };
        let step = |step: &v1::PlanStep| {
            let v1::PlanStep {
                depends_on,
                on_failure,
                timeout_ms,
                // These decide nothing.
                id: _,
                action: _,
                payload: _,
            } = step;
            let depends_on: Vec<usize> = depends_on.iter().map(place).collect();
            (depends_on, *on_failure, timeout_ms.map(|ms| ms as u64))
        };
        let (depends_on, on_failure, step_timeout_ms) = steps.iter().map(step).collect();
        let environment = facts.environment.clone().unwrap_or_default();
        Self {
            depends_on,
            on_failure,
            step_timeout_ms,
            plan_timeout_ms: timeout_ms.unwrap_or(300_000) as u64,
            max_attempts: max_attempts.unwrap_or(1) as u32,
            backoff_ms: backoff_ms.unwrap_or(0) as f64,
            backoff_multiplier: backoff_multiplier.unwrap_or(1.0),
            max_backoff_ms: max_backoff_ms.unwrap_or(60_000) as f64,
            retryable,
            n_slots: facts.max_concurrent_steps.unwrap_or(1) as usize,
            context_is_missing: context_requirements.iter().any(|key| !environment.has_key(key)),
            deadline_ms,
        }
    }

    /// again and again the first step of the list whose dependencies all stand in the order already.
    pub(super) fn canonical_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        while order.len() < self.depends_on.len() {
            let next = (0..self.depends_on.len())
                .find(|step| {
                    !order.contains(step) && self.depends_on[*step].iter().all(|other| order.contains(other))
                })
                .expect("a valid plan has no cycle");
            order.push(next);
        }
        order
    }

    ///
    pub(super) fn delay_ms(&self, retry: u32) -> u64 {
        let factor = (1..retry).fold(1.0, |factor, _| factor * self.backoff_multiplier);
        match misreads("backoff-uncapped") {
            true => (self.backoff_ms * factor) as u64,
            false => (self.backoff_ms * factor).min(self.max_backoff_ms) as u64,
        }
    }
}
