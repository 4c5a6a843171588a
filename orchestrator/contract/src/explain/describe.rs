//! The facts about an execution as one or two plain sentences; those about its steps stand in `step`. Finds no facts.

mod step;

use super::{
    AdmissionFacts, COUNTED_MAX, End, EndedBy, ExecutionFacts, ExecutionReason, HeldBackFacts, WriteFacts,
};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

impl ExecutionFacts {
    /// One or two sentences for people.
    pub fn describe(&self) -> String {
        let Some(left_ms) = self.ends_in_ms else {
            return self.why.describe();
        };
        let limit = match &self.why {
            ExecutionReason::Queued(_) => "Its deadline ends it",
            ExecutionReason::Starting(_)
            | ExecutionReason::Running { .. }
            | ExecutionReason::Settling { .. }
            | ExecutionReason::Settled(_) => "The plan's limit ends it",
        };
        format!(
            "{} {limit} in {} at the latest.",
            self.why.describe(),
            Span(left_ms)
        )
    }
}

impl ExecutionReason {
    fn describe(&self) -> String {
        match self {
            ExecutionReason::Queued(None) => "Waits for its admission.".to_string(),
            ExecutionReason::Queued(Some(admission)) => admission.describe(),
            ExecutionReason::Starting(write) => {
                let troubled = write.describe();
                format!("Its turn has come; no step is handed out before its start is durable.{troubled}")
            }
            ExecutionReason::Running {
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
            ExecutionReason::Settling { write, .. } => {
                format!(
                    "Its end is being written; how it ends is told once that is durable.{}",
                    write.describe()
                )
            }
            ExecutionReason::Settled(end) => end.describe(),
        }
    }
}

impl AdmissionFacts {
    fn describe(&self) -> String {
        if self.is_draining {
            return "The orchestrator stops and starts nothing more; it is queued again after the restart."
                .to_string();
        }
        if let Some(held_back) = &self.held_back {
            return held_back.describe(self.n_before);
        }
        let Self {
            n_before,
            n_running,
            n_running_max,
            ..
        } = self;
        if let Some(quota) = self.quota.filter(|quota| quota.is_used_up()) {
            let before = match n_before {
                0 => String::new(),
                n => format!(
                    ", {} before it",
                    counted(*n, "execution starts", "executions start")
                ),
            };
            return format!(
                "Waits for its namespace: {} of {} of its executions run{before}; it starts once one of them has ended.",
                quota.n_running, quota.n_running_max
            );
        }
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
    fn describe(&self, n_before: u64) -> String {
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
    fn describe(&self) -> String {
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
    fn describe(&self) -> String {
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

/// Returns a number with its noun; if counting stopped, it says so.
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
