//! What is allowed in a plan and yet probably not meant. Forbids nothing, and looks at nothing but the plan.

use super::{Finding, looks_like_seconds};
use crate::plan::{OnFailure, Plan, RetryPolicy, Step, StepIndex};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::codes::STEP_TIMEOUT;
use escapement_model::limits::VIOLATIONS_MAX;

impl Plan {
    /// What is allowed and yet probably not meant, at most [`VIOLATIONS_MAX`] findings.
    ///
    /// What the retry policy is the reason of is said once, at the first step that it concerns.
    pub fn warnings(&self) -> Vec<Finding> {
        //
        let mut warnings = Vec::new();
        if looks_like_seconds(self.created_at) {
            let message = format!(
                "{} looks like seconds; in Unix milliseconds it lies before 1974.",
                self.created_at
            );
            warnings.push(finding("plan.created_at", "TIME_IN_SECONDS", message));
        }
        if self.steps.iter().all(|step| step.timeout_ms.is_none()) {
            let message = "No step has a limit, so the plan's own limit is all that bounds its duration.";
            warnings.push(finding("plan.steps", "NO_STEP_LIMITS", message.to_string()));
        }
        self.warn_of_failures(&mut warnings);
        for (index, step) in self.indexed() {
            if step
                .timeout_ms
                .is_some_and(|timeout_ms| timeout_ms >= self.timeout_ms)
            {
                let field = format!("plan.{index}.timeout_ms");
                let message = "The plan's limit always ends first.".to_string();
                warnings.push(finding(&field, "STEP_LIMIT_NEVER_BINDS", message));
            }
        }
        warnings.truncate(VIOLATIONS_MAX);
        warnings
    }

    /// What `on_failure` and the retry policy together do not do.
    fn warn_of_failures(&self, warnings: &mut Vec<Finding>) {
        let policy = &self.retry_policy;
        let (retries, lists_timeouts) = (policy.can_retry(), policy.lists(STEP_TIMEOUT));
        let mut warn = |concerns: &dyn Fn(StepIndex, &Step) -> bool, code, message: &str| {
            let mut concerned = self.indexed().filter(|(index, step)| concerns(*index, step));
            if let Some((first, _)) = concerned.next() {
                let also = match concerned.count() {
                    0 => String::new(),
                    1 => " So it is with 1 other step.".to_string(),
                    n => format!(" So it is with {n} other steps."),
                };
                let field = format!("plan.{first}.on_failure");
                warnings.push(finding(&field, code, format!("{message}{also}")));
            }
        };
        let asks_for_retries = |step: &Step| step.on_failure == OnFailure::Retry;
        if let Some(missing) = never_retries(policy) {
            let message = format!("The step asks for retries and never gets one: {missing}.");
            warn(&|_, step| asks_for_retries(step), "RETRY_NEVER_HAPPENS", &message);
        }
        if retries {
            let stops = self.stop_behind();
            warn(
                &|index, step| asks_for_retries(step) && !stops[index.as_usize()],
                "RETRY_ENDS_AS_SKIP",
                "Once its attempts are used up the plan goes on without the step; for the plan to fail then, let a step \
                 with on_failure = halt depend on it.",
            );
        }
        for (on_failure, code) in [
            (OnFailure::Skip, "SKIP_DOES_NOT_COVER_TIMEOUT"),
            (OnFailure::Retry, "RETRY_DOES_NOT_COVER_TIMEOUT"),
        ] {
            warn(
                &|_, step| !lists_timeouts && step.on_failure == on_failure && step.timeout_ms.is_some(),
                code,
                "The step's limit stops the plan when it runs out, since STEP_TIMEOUT is fatal unless \
                 plan.retry_policy.retryable_error_codes lists it.",
            );
        }
        let needs_policy = |step: &Step| match step.on_failure {
            OnFailure::Retry => true,
            OnFailure::Skip => lists_timeouts && step.timeout_ms.is_some(),
            OnFailure::Halt => false,
        };
        let says_something = policy.max_attempts > 1 || !policy.retryable_error_codes.is_empty();
        if says_something && !self.steps.iter().any(needs_policy) {
            let message = "No step has on_failure = retry, so the policy repeats nothing.".to_string();
            warnings.push(finding("plan.retry_policy", "RETRY_POLICY_UNUSED", message));
        }
    }

    /// By step: whether some step that waits for it, or for one that does, stops the plan if it cannot run.
    fn stop_behind(&self) -> Vec<bool> {
        let mut stops = vec![false; self.steps.len()];
        // the cascade passes through steps that are skipped.
        for index in self.canonical_order().iter().rev() {
            stops[index.as_usize()] = self.dependents(*index).iter().any(|dependent| {
                self.step(*dependent).on_failure != OnFailure::Skip || stops[dependent.as_usize()]
            });
        }
        stops
    }

    fn indexed(&self) -> impl Iterator<Item = (StepIndex, &Step)> {
        (0u16..).map(StepIndex).zip(&self.steps)
    }
}

/// Returns what is missing for retries; `None` if there can be some.
fn never_retries(policy: &RetryPolicy) -> Option<&'static str> {
    if policy.can_retry() {
        None
    } else if policy.max_attempts <= 1 {
        Some("plan.retry_policy.max_attempts must be above 1")
    } else if policy.retryable_error_codes.is_empty() {
        Some("plan.retry_policy.retryable_error_codes lists no code")
    } else {
        Some("no code in plan.retry_policy.retryable_error_codes ever has severity error")
    }
}

fn finding(field: &str, code: &'static str, message: String) -> Finding {
    Finding {
        field: field.to_string(),
        code,
        message,
    }
}
