//! The facts about a step as one or two plain sentences. Finds no facts.

use super::{Span, counted};
use crate::audit::NotCompleted;
use crate::execution::{Evidence, StepState};
use crate::explain::{OpenDependencies, QueueFacts, StepFacts, StepReason, WorkerFacts};
use crate::plan::Plan;
use alloc::format;
use alloc::string::{String, ToString};
use escapement_model::StepId;

impl StepFacts {
    /// One or two sentences for people.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn describe(&self, plan: &Plan) -> String {
        let step = plan.step(self.step);
        match &self.why {
            StepReason::AwaitsExecution { open } => match open.describe(plan) {
                then if then.is_empty() => "Waits for its execution to start.".to_string(),
                then => format!("Waits for its execution to start. Then it waits for {then}."),
            },
            StepReason::AwaitsDependencies { open, doomed_by } => {
                format!("Waits for {} to end.{}", open.describe(plan), doomed(*doomed_by))
            }
            StepReason::AwaitsTurn {
                n_before,
                n_slots,
                doomed_by,
            } => awaits_turn(*n_before, *n_slots, *doomed_by),
            StepReason::Waiting {
                attempt,
                returned,
                queue,
            } => {
                let again = returned.map_or_else(String::new, |evidence| {
                    format!(
                        " It was handed out before and did not run: {}.",
                        describe_evidence(evidence)
                    )
                });
                let retry = self.retry(*attempt);
                let waits = describe_queue(queue.as_ref(), step.action());
                format!("{retry}{waits}{again}")
            }
            StepReason::Assigned { attempt, worker } => format!(
                "{}Handed to {}, which has not said yet that the handler runs.{}{}",
                self.retry(*attempt),
                label(worker.as_ref()),
                self.limit(),
                vanishes(worker.as_ref()),
            ),
            StepReason::Started { attempt, worker } => format!(
                "{}Its handler runs at {}.{}{}",
                self.retry(*attempt),
                label(worker.as_ref()),
                self.limit(),
                vanishes(worker.as_ref())
            ),
            StepReason::BackingOff {
                next_attempt,
                in_ms,
                error_code,
            } => format!(
                "Retry {} of {} in {}. The attempt before it ended with {error_code}.",
                next_attempt - 1,
                self.attempts_max - 1,
                Span(*in_ms)
            ),
            StepReason::Held(_) => {
                "Its execution is over; until that is durable the step is shown as it was.".to_string()
            }
            StepReason::Completed { attempts, n_warnings } => completed(*attempts, *n_warnings),
            StepReason::NotCompleted {
                attempts,
                reason,
                error_code,
                root,
                was_not_offered,
                severity: _,
            } => {
                let ended = if *was_not_offered {
                    format!("No live worker offers {}", step.action())
                } else {
                    let attempts = counted(u64::from(*attempts), "attempt", "attempts");
                    format!("Ended with {error_code} after {attempts}")
                };
                describe_not_completed(*reason, &ended, error_code, *root)
            }
            StepReason::Stopped {
                was,
                end,
                attempts: _,
            } => format!("{} {}", stopped(*was), end.describe()),
        }
    }

    fn retry(&self, attempt: u32) -> String {
        match attempt {
            1 => String::new(),
            n => format!("Retry {} of {}. ", n - 1, self.attempts_max.saturating_sub(1)),
        }
    }

    fn limit(&self) -> String {
        self.ends_in_ms.map_or_else(String::new, |left_ms| {
            format!(" A limit ends the attempt in {} at the latest.", Span(left_ms))
        })
    }
}

impl OpenDependencies {
    /// Empty if there are none.
    fn describe(&self, plan: &Plan) -> String {
        match (self.n, self.first.first()) {
            (1, Some(step)) => format!("step {}", plan.step(*step).id()),
            (n, Some(step)) => format!(
                "step {} and {}",
                plan.step(*step).id(),
                counted(u64::from(n - 1), "other", "others")
            ),
            (_, None) => String::new(),
        }
    }
}

fn awaits_turn(n_before: u32, n_slots: u32, doomed_by: Option<StepId>) -> String {
    let turn = match n_before {
        0 => "its turn comes next".to_string(),
        n => format!(
            "{} before it",
            counted(u64::from(n), "step has its turn", "steps have their turn")
        ),
    };
    format!(
        "Waits for a step under way to end, as no more than {n_slots} may be at a time; {turn}.{}",
        doomed(doomed_by)
    )
}

fn completed(attempts: u32, n_warnings: u8) -> String {
    let took = counted(u64::from(attempts), "attempt", "attempts");
    let warned = match n_warnings {
        0 => String::new(),
        n => format!(", with {}", counted(u64::from(n), "warning", "warnings")),
    };
    format!("Completed after {took}{warned}.")
}

/// `was`: the state of the step when its execution ended.
fn stopped(was: Option<StepState>) -> String {
    match was {
        Some(StepState::Assigned { attempt } | StepState::Started { attempt }) => {
            format!("Stopped in its attempt {attempt}, as its execution ended.")
        }
        Some(StepState::Waiting { attempt }) => {
            format!("Stopped while it waited for a worker for its attempt {attempt}, as its execution ended.")
        }
        Some(StepState::BackingOff { next_attempt }) => {
            format!("Stopped while it slept before its attempt {next_attempt}, as its execution ended.")
        }
        Some(StepState::Pending) => "Never ran, as its execution ended before its turn came.".to_string(),
        Some(StepState::Completed | StepState::NotCompleted | StepState::Stopped) | None => {
            "Its execution ended before it did.".to_string()
        }
    }
}

fn doomed(by: Option<StepId>) -> String {
    by.map_or_else(String::new, |root| {
        format!(" It will not run, because step {root} did not complete.")
    })
}

fn describe_queue(queue: Option<&QueueFacts>, action: &str) -> String {
    let Some(queue) = queue else {
        return format!("Waits for a worker that offers {action}.");
    };
    let before = match queue.n_before {
        0 => "this step comes first".to_string(),
        n => format!("{} before this one", counted(n, "step comes", "steps come")),
    };
    match (queue.n_workers, queue.expires_in_ms) {
        (0, Some(0)) => format!("No live worker offers {action}, and the step ends for that now."),
        (0, Some(left_ms)) => format!(
            "No live worker offers {action}; once one does, {before}. Without one it ends with \
             ACTION_NOT_FOUND in {}.",
            Span(left_ms)
        ),
        (0, None) => {
            format!("No live worker offers {action}, which the operator declares; {before} once one does.")
        }
        (n_workers, _) => format!(
            "Waits for a free slot of {action}: {} with {} free; {before}.",
            counted(u64::from(n_workers), "worker offers it", "workers offer it"),
            counted(u64::from(queue.n_slots_free), "slot", "slots"),
        ),
    }
}

fn label(worker: Option<&WorkerFacts>) -> String {
    worker.map_or_else(
        || "a worker".to_string(),
        |worker| format!("worker {}", worker.label),
    )
}

fn vanishes(worker: Option<&WorkerFacts>) -> String {
    let left_ms = worker.and_then(|worker| worker.vanishes_in_ms);
    left_ms.map_or_else(String::new, |left_ms| {
        format!(
            " The worker's stream is broken; it counts as vanished in {} unless it comes back.",
            Span(left_ms)
        )
    })
}

fn describe_not_completed(
    reason: NotCompleted,
    ended: &str,
    error_code: &str,
    root: Option<StepId>,
) -> String {
    let because = root.map_or_else(String::new, |root| {
        format!(", because step {root} did not complete")
    });
    match (reason, root) {
        (NotCompleted::Failed, _) => format!("{ended}, which stopped the plan."),
        (NotCompleted::Skipped, None) => format!("{ended}; its on_failure is skip, so the plan went on."),
        (NotCompleted::Skipped, Some(_)) => format!("Skipped without an attempt{because}."),
        (NotCompleted::RetriesExhausted, _) => format!("{ended}, and no attempt is left; the plan went on."),
        (NotCompleted::NotRetryable, _) => {
            format!("{ended}; the retry policy does not list {error_code}, so the plan went on.")
        }
        (NotCompleted::WarnedWithoutOutput, _) => {
            format!("{ended}, a warning without an output; the plan went on.")
        }
        (NotCompleted::DependencyUnresolved, _) => {
            format!("Could not run{because}, and must not be skipped, which stopped the plan.")
        }
    }
}

fn describe_evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Rejected => "the worker refused it",
        Evidence::Released => "the worker gave it back",
        Evidence::LeaseExpired => "the worker's lease ran out before it started",
        Evidence::ResumeOmits => "the worker came back without it",
        Evidence::SnapshotOmits => "the worker was asked and did not have it",
        Evidence::Goodbye => "the worker took its leave",
        Evidence::DeclaredDead => "an operator declared the worker dead",
        Evidence::Refused => "the worker may not do it, and another one may",
    }
}
