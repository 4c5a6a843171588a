//! What can be said of a plan before it runs: its worst case.
//! Looks at the plan and at the number of slots alone, so the same plan has the same certificate everywhere.

mod duration;
mod result_bytes;

use crate::plan::{OnFailure, Plan, StepIndex};
use alloc::vec::Vec;

/// Version of the algorithm. It is bumped if any plan's certificate changes; old certificates are not recomputed.
pub const CERTIFICATE_REVISION: u32 = 1;

/// Computed before a plan runs, and true of each of its executions.
//
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// [`Plan::content_digest`].
    pub content_digest: [u8; 32],
    /// The order in which the steps run one at a time.
    pub canonical_order: Vec<StepIndex>,
    /// How many steps at a time the rest was computed for.
    pub max_concurrent_steps: u32,
    /// Milliseconds from the start to the end at the most, in the time that counts.
    pub worst_case_duration_ms: u64,
    /// What that follows from.
    pub duration_bound: DurationBound,
    /// Attempts of all steps together at the most.
    pub worst_case_attempts: u64,
    /// Bytes of the encoded `escapement.v1.PlanResult` at the most.
    pub worst_case_result_bytes: u64,
    /// The chain of dependencies that takes longest in the worst case, from its first step to its last.
    pub critical_path: Vec<CriticalStep>,
    /// Milliseconds of that chain, the plan's limit left aside. At most [`i64::MAX`].
    pub critical_path_ms: u64,
}

/// What the worst duration follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationBound {
    /// The limits of the steps, their attempts and the delays between them: the plan's limit is never reached.
    Steps,
    /// The plan's limit alone.
    PlanLimit,
}

/// A step of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriticalStep {
    /// The step.
    pub step: StepIndex,
    /// Milliseconds of all its attempts and the delays between them at the most. At most [`i64::MAX`].
    pub worst_case_ms: u64,
    /// Attempts at the most.
    pub worst_case_attempts: u32,
}

impl Plan {
    /// The worst case of this plan if this many steps may hold a slot at a time, which is at least 1.
    pub fn certificate(&self, max_concurrent_steps: u32) -> Certificate {
        self.certificate_under(self.content_digest(), max_concurrent_steps)
    }

    /// The same, for a caller that has the content digest.
    pub(crate) fn certificate_under(
        &self,
        content_digest: [u8; 32],
        max_concurrent_steps: u32,
    ) -> Certificate {
        //
        assert!(max_concurrent_steps >= 1, "a plan needs a slot");
        let n_slots = max_concurrent_steps.min(u32::try_from(self.steps.len()).unwrap_or(u32::MAX));
        let steps = duration::of_steps(self);
        let path = duration::critical_path(self, &steps);
        let path_ms = path.iter().map(|step| steps[step.as_usize()]).sum();
        let steps_ms = duration::of_all(self, &steps, path_ms, n_slots);
        // if both end at the same instant, it is the plan's limit that ends the execution.
        let duration_bound = if steps_ms < u128::from(self.timeout_ms) {
            DurationBound::Steps
        } else {
            DurationBound::PlanLimit
        };
        let attempts = (0..).map(StepIndex).take(self.steps.len());
        let worst_case_attempts = attempts.map(|step| u64::from(self.attempts_max(step))).sum();
        let critical_step = |step: &StepIndex| CriticalStep {
            step: *step,
            worst_case_ms: saturated(steps[step.as_usize()]),
            worst_case_attempts: self.attempts_max(*step),
        };
        Certificate {
            content_digest,
            canonical_order: self.order.canonical.clone(),
            max_concurrent_steps,
            worst_case_duration_ms: saturated(steps_ms).min(self.timeout_ms),
            duration_bound,
            worst_case_attempts,
            worst_case_result_bytes: result_bytes::at_most(self, n_slots, worst_case_attempts),
            critical_path: path.iter().map(critical_step).collect(),
            critical_path_ms: saturated(path_ms),
        }
    }

    /// Returns the number of attempts of a step that may count.
    pub(crate) fn attempts_max(&self, step: StepIndex) -> u32 {
        //
        match self.step(step).on_failure {
            OnFailure::Retry if self.retry_policy.can_retry() => self.retry_policy.max_attempts,
            OnFailure::Retry | OnFailure::Skip | OnFailure::Halt => 1,
        }
    }
}

/// As far as it fits the wire.
fn saturated(ms: u128) -> u64 {
    u64::try_from(ms).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}
