//! The facts as one or two plain sentences. The only place that has words for them.

use super::{
    AdmissionFacts, COUNTED_MAX, End, EndedBy, ExecutionFacts, ExecutionWhy, HeldBackFacts, OpenDependencies,
    QueueFacts, StepFacts, StepWhy, WorkerFacts, WriteFacts,
};
use crate::audit::NotCompleted;
use crate::execution::{Evidence, StepState};
use crate::plan::Plan;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use escapement_model::StepId;

impl ExecutionFacts {
    /// One or two sentences for people.
    pub fn words(&self) -> String {
        let Some(left_ms) = self.ends_in_ms else {
            return self.why.words();
        };
        let limit = match &self.why {
            ExecutionWhy::Queued(_) => "Its deadline ends it",
            ExecutionWhy::Starting(_)
            | ExecutionWhy::Running { .. }
            | ExecutionWhy::Settling { .. }
            | ExecutionWhy::Settled(_) => "The plan's limit ends it",
        };
        format!("{} {limit} in {} at the latest.", self.why.words(), Span(left_ms))
    }
}

impl ExecutionWhy {
    fn words(&self) -> String {
        match self {
            ExecutionWhy::Queued(None) => "Waits for its admission.".to_string(),
            ExecutionWhy::Queued(Some(admission)) => admission.words(),
            ExecutionWhy::Starting(write) => {
                let troubled = write.words();
                format!("Its turn has come; no step is handed out before its start is durable.{troubled}")
            }
            ExecutionWhy::Running {
                n_slots,
                n_slots_free,
                n_ended,
                n_steps,
            } => {
                let n_held = n_slots - n_slots_free;
                let is = if n_held == 1 { "is" } else { "are" };
                format!(
                    "Runs: {n_ended} of {} ended, {n_held} of at most {n_slots} {is} under way.",
                    counted(u64::from(*n_steps), "step has", "steps have"),
                )
            }
            ExecutionWhy::Settling { write, .. } => {
                format!(
                    "Its end is being written; how it ends is told once that is durable.{}",
                    write.words()
                )
            }
            ExecutionWhy::Settled(end) => end.words(),
        }
    }
}

impl AdmissionFacts {
    fn words(&self) -> String {
        if self.is_draining {
            return "The orchestrator stops and starts nothing more; it is queued again after the restart."
                .to_string();
        }
        if let Some(held_back) = &self.held_back {
            return held_back.words(self.n_before);
        }
        let Self {
            n_before,
            n_running,
            n_running_max,
            ..
        } = self;
        let running = format!("{n_running} of {n_running_max} run");
        match n_before {
            0 => format!("Is admitted next: {running}."),
            n => format!(
                "Waits for its admission: {} before it, {running}.",
                counted(*n, "execution starts", "executions start")
            ),
        }
    }
}

impl HeldBackFacts {
    fn words(&self, n_before: u64) -> String {
        let or_others = match self.n_others {
            0 => String::new(),
            n => format!(
                ", or one of {}",
                counted(u64::from(n), "other action", "other actions")
            ),
        };
        let since = self
            .absent_for_ms
            .map_or_else(String::new, |ms| format!(" since {}", Span(ms)));
        let before = match n_before {
            0 => String::new(),
            n => format!(
                " {} before it.",
                counted(n, "execution starts", "executions start")
            ),
        };
        let until = match self.registered_for_ms {
            Some(ms) => format!(
                "stays registered for {}, and without a worker it ends with ACTION_NOT_FOUND then",
                Span(ms)
            ),
            None => "is declared by the operator".to_string(),
        };
        format!(
            "Held back: no live worker offers {}{or_others}{since}; it starts once one does.{before} The action {until}.",
            self.action
        )
    }
}

impl WriteFacts {
    fn words(&self) -> String {
        match (self.waits_for_space, self.n_failures) {
            (true, _) => {
                " The store has no space for it; the write is repeated until there is some.".to_string()
            }
            (false, 0) => String::new(),
            (false, n) => format!(
                " The write failed {} and is repeated.",
                counted(u64::from(n), "time", "times")
            ),
        }
    }
}

impl End {
    fn words(&self) -> String {
        let code = self.error_code.as_deref().unwrap_or("an error");
        let at = self
            .step_id
            .map_or_else(String::new, |id| format!(" of step {id}"));
        let text = match self.by {
            EndedBy::AllCompleted => "Success: every step completed.",
            EndedBy::SomeCompleted => {
                return format!(
                    "Partial: all steps ended, not all of them completed, and nothing stopped the plan. \
                     Its error is {code}{at}."
                );
            }
            EndedBy::NoneCompleted => {
                return format!("Failure: all steps ended and none completed. Its error is {code}{at}.");
            }
            EndedBy::Halt => {
                return format!("Failure: the error {code}{at} stopped the plan, as its on_failure is halt.");
            }
            EndedBy::Fatal => return format!("Failure: the fatal error {code}{at} stopped the plan."),
            EndedBy::DependencyUnresolved => {
                return format!(
                    "Failure: {code}{at} stopped the plan: a step that it depends on did not complete, and it \
                     must not be skipped."
                );
            }
            EndedBy::PlanLimit => "Failure: the plan's limit ran out before all steps had ended.",
            EndedBy::DeadlineInQueue => {
                "Failure: the deadline, in Unix milliseconds, passed before the execution could start."
            }
            EndedBy::DeadlineTooNear => {
                "Failure: when it was its turn, the deadline left less time than the plan asks for; a lower \
                 plan.timeout_ms or a later deadline_ms would have let it start."
            }
            EndedBy::ContextMissing => "Failure: the environment lacks a key that the plan requires.",
            EndedBy::Restart => {
                "Failure: the orchestrator restarted while it ran, and what its steps did is unknown."
            }
            EndedBy::Restore => {
                "Failure: it was queued in the backup that the store was restored from, and was not started again."
            }
        };
        text.to_string()
    }
}

impl StepFacts {
    /// One or two sentences for people.
    pub fn words(&self, plan: &Plan) -> String {
        let step = plan.step(self.step);
        match &self.why {
            StepWhy::AwaitsExecution { open } => {
                let then = open.words(plan);
                let then = if then.is_empty() {
                    then
                } else {
                    format!(" Then it waits for {then}.")
                };
                format!("Waits for its execution to start.{then}")
            }
            StepWhy::AwaitsDependencies { open, doomed_by } => {
                let open = open.words(plan);
                format!("Waits for {open} to end.{}", doomed(*doomed_by))
            }
            StepWhy::AwaitsTurn {
                n_before,
                n_slots,
                doomed_by,
            } => {
                let turn = match n_before {
                    0 => "its turn comes next".to_string(),
                    n => format!(
                        "{} before it",
                        counted(u64::from(*n), "step has its turn", "steps have their turn")
                    ),
                };
                format!(
                    "Waits for a step under way to end, as no more than {n_slots} may be at a time; {turn}.{}",
                    doomed(*doomed_by)
                )
            }
            StepWhy::Waiting {
                attempt,
                returned,
                queue,
            } => {
                let again = returned.map_or_else(String::new, |evidence| {
                    format!(
                        " It was handed out before and did not run: {}.",
                        words_of_evidence(evidence)
                    )
                });
                let retry = self.retry(*attempt);
                let waits = words_of_queue(queue.as_ref(), step.action());
                format!("{retry}{waits}{again}")
            }
            StepWhy::Assigned { attempt, worker } => {
                let label = label(worker.as_ref());
                format!(
                    "{}Handed to {label}, which has not said yet that the handler runs.{}{}",
                    self.retry(*attempt),
                    self.limit(),
                    vanishes(worker.as_ref()),
                )
            }
            StepWhy::Started { attempt, worker } => {
                let label = label(worker.as_ref());
                format!(
                    "{}Its handler runs at {label}.{}{}",
                    self.retry(*attempt),
                    self.limit(),
                    vanishes(worker.as_ref())
                )
            }
            StepWhy::BackingOff {
                next_attempt,
                in_ms,
                error_code,
            } => {
                format!(
                    "Retry {} of {} in {}. The attempt before it ended with {error_code}.",
                    next_attempt - 1,
                    self.attempts_max - 1,
                    Span(*in_ms)
                )
            }
            StepWhy::Held(_) => {
                "Its execution is over; until that is durable the step is shown as it was.".to_string()
            }
            StepWhy::Completed { attempts, n_warnings } => {
                let took = counted(u64::from(*attempts), "attempt", "attempts");
                let warned = match n_warnings {
                    0 => String::new(),
                    n => format!(", with {}", counted(u64::from(*n), "warning", "warnings")),
                };
                format!("Completed after {took}{warned}.")
            }
            StepWhy::NotCompleted {
                attempts,
                reason,
                error_code,
                root,
                was_not_offered,
                ..
            } => {
                let ended = if *was_not_offered {
                    format!("No live worker offers {}", step.action())
                } else {
                    format!(
                        "Ended with {error_code} after {}",
                        counted(u64::from(*attempts), "attempt", "attempts")
                    )
                };
                words_of_reason(*reason, &ended, error_code, *root)
            }
            StepWhy::Stopped { was, end, .. } => {
                let was = match was {
                    Some(StepState::Assigned { attempt } | StepState::Started { attempt }) => {
                        format!("Stopped in its attempt {attempt}, as its execution ended.")
                    }
                    Some(StepState::Waiting { attempt }) => format!(
                        "Stopped while it waited for a worker for its attempt {attempt}, as its execution ended."
                    ),
                    Some(StepState::BackingOff { next_attempt }) => format!(
                        "Stopped while it slept before its attempt {next_attempt}, as its execution ended."
                    ),
                    Some(StepState::Pending) => {
                        "Never ran, as its execution ended before its turn came.".to_string()
                    }
                    Some(StepState::Completed | StepState::NotCompleted | StepState::Stopped) | None => {
                        "Its execution ended before it did.".to_string()
                    }
                };
                format!("{was} {}", end.words())
            }
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
    /// Empty where there are none.
    fn words(&self, plan: &Plan) -> String {
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

fn doomed(by: Option<StepId>) -> String {
    by.map_or_else(String::new, |root| {
        format!(" It will not run, because step {root} did not complete.")
    })
}

fn words_of_queue(queue: Option<&QueueFacts>, action: &str) -> String {
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

fn words_of_reason(reason: NotCompleted, ended: &str, error_code: &str, root: Option<StepId>) -> String {
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

fn words_of_evidence(evidence: Evidence) -> &'static str {
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

/// A number with its noun; where counting stopped, it says so.
fn counted(n: u64, one: &str, many: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        COUNTED_MAX => format!("{n} or more {many}"),
        n => format!("{n} {many}"),
    }
}

/// A time for people.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms @ 0..10_000 => write!(f, "{ms} ms"),
            ms @ 10_000..600_000 => write!(f, "{} s", ms / 1_000),
            ms @ 600_000..36_000_000 => write!(f, "{} min", ms / 60_000),
            ms => write!(f, "{} h", ms / 3_600_000),
        }
    }
}
