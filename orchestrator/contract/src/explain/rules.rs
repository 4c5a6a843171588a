//! Which rules of `CONTRACT.md` put an execution or a step into its state, the deciding one first.

use super::{EndedBy, ExecutionFacts, ExecutionReason, StepFacts, StepReason, WriteFacts};
use crate::audit::NotCompleted;
use crate::execution::StepState;
use alloc::vec::Vec;
use escapement_model::{Severity, codes};

impl ExecutionFacts {
    /// Ids of rules, the deciding one first; never none.
    pub fn rules(&self) -> Vec<&'static str> {
        match &self.why {
            ExecutionReason::Queued(Some(admission)) if admission.is_draining => {
                Vec::from(["R-9.7", "R-3.2"])
            }
            ExecutionReason::Queued(Some(admission)) if admission.held_back.is_some() => {
                Vec::from(["R-2.17", "R-2.15", "R-3.2"])
            }
            ExecutionReason::Queued(_) => Vec::from(["R-2.17", "R-3.2"]),
            ExecutionReason::Starting(write) => with_write(&["R-9.3", "R-3.3"], *write),
            ExecutionReason::Running { .. } => Vec::from(["R-2.3", "R-3.3"]),
            ExecutionReason::Settling { write, .. } => with_write(&["R-9.2"], *write),
            ExecutionReason::Settled(end) => end.by.rules().to_vec(),
        }
    }
}

impl EndedBy {
    /// Ids of rules, the deciding one first; never none.
    pub fn rules(self) -> &'static [&'static str] {
        match self {
            EndedBy::AllCompleted => &["R-5.6"],
            EndedBy::SomeCompleted => &["R-5.6", "R-4.11"],
            EndedBy::NoneCompleted => &["R-5.6", "R-4.13"],
            EndedBy::Halt => &["R-4.6", "R-4.12", "R-5.6"],
            EndedBy::Fatal => &["R-4.7", "R-5.6"],
            EndedBy::DependencyUnresolved => &["R-2.5", "R-4.7", "R-5.6"],
            EndedBy::PlanLimit => &["R-3.3", "R-3.10", "R-5.6"],
            EndedBy::DeadlineInQueue => &["R-3.2", "R-3.10", "R-5.6"],
            EndedBy::DeadlineTooNear => &["R-1.15", "R-5.6"],
            EndedBy::ContextMissing => &["R-1.16", "R-5.6"],
            EndedBy::Restart | EndedBy::Restore => &["R-9.6", "R-5.6"],
        }
    }
}

impl StepFacts {
    /// Ids of rules, the deciding one first; never none.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn rules(&self) -> Vec<&'static str> {
        match &self.why {
            StepReason::AwaitsExecution { .. } => Vec::from(["R-9.3"]),
            StepReason::AwaitsDependencies { doomed_by, .. } => {
                let doomed: &[_] = if doomed_by.is_some() { &["R-2.5"] } else { &[] };
                [&["R-2.3"], doomed].concat()
            }
            StepReason::AwaitsTurn {
                n_slots, doomed_by, ..
            } => {
                let one_at_a_time: &[_] = if *n_slots == 1 { &["R-2.2"] } else { &[] };
                let doomed: &[_] = if doomed_by.is_some() { &["R-2.5"] } else { &[] };
                [&["R-2.3", "R-2.4"], one_at_a_time, doomed].concat()
            }
            StepReason::Waiting { returned, queue, .. } => {
                let is_offered = queue.is_none_or(|queue| queue.n_workers > 0);
                let queued: &[_] = if is_offered {
                    &["R-2.15", "R-2.17"]
                } else {
                    &["R-2.15", "R-2.14"]
                };
                let again: &[_] = if returned.is_some() { &["R-2.13"] } else { &[] };
                [queued, again].concat()
            }
            StepReason::Assigned { .. } => Vec::from(["R-3.4", "R-2.18"]),
            StepReason::Started { .. } => Vec::from(["R-3.4", "R-4.15"]),
            StepReason::BackingOff { .. } => Vec::from(["R-4.4", "R-2.11", "R-3.12"]),
            StepReason::Held(_) => Vec::from(["R-9.2"]),
            StepReason::Completed { n_warnings: 0, .. } => Vec::from(["R-6.2"]),
            StepReason::Completed { .. } => Vec::from(["R-4.3", "R-6.2"]),
            StepReason::NotCompleted {
                reason,
                error_code,
                severity,
                root,
                was_not_offered,
                ..
            } => {
                let decided: &[_] = match (reason, root) {
                    (NotCompleted::Failed, _) if *was_not_offered => &["R-2.14", "R-4.7"],
                    (NotCompleted::Failed, _) if *severity == Severity::Fatal => &["R-4.7"],
                    (NotCompleted::Failed, _) => &["R-4.6"],
                    (NotCompleted::Skipped, None) => &["R-4.5"],
                    (NotCompleted::Skipped | NotCompleted::DependencyUnresolved, _) => &["R-2.5", "R-2.6"],
                    (NotCompleted::RetriesExhausted, _) => &["R-2.10", "R-2.9"],
                    (NotCompleted::NotRetryable, _) => &["R-2.10", "R-2.8"],
                    (NotCompleted::WarnedWithoutOutput, _) => &["R-4.3"],
                };
                let is_own = root.is_none() && !was_not_offered;
                let classified: &[_] = match codes::reserved_severity(error_code) {
                    Some(_) if is_own && error_code == codes::STEP_TIMEOUT => &["R-4.2"],
                    Some(_) if is_own => &["R-4.1"],
                    Some(_) | None => &[],
                };
                [decided, classified].concat()
            }
            StepReason::Stopped { was, end, .. } => {
                let in_flight: &[_] = match was {
                    Some(
                        StepState::Waiting { .. } | StepState::Assigned { .. } | StepState::Started { .. },
                    ) => &["R-6.8"],
                    Some(StepState::BackingOff { .. }) => &["R-3.12"],
                    Some(
                        StepState::Pending
                        | StepState::Completed
                        | StepState::NotCompleted
                        | StepState::Stopped,
                    )
                    | None => &[],
                };
                [&["R-3.9"], in_flight, &end.by.rules()[..1]].concat()
            }
        }
    }
}

fn with_write(rules: &[&'static str], write: WriteFacts) -> Vec<&'static str> {
    //
    let troubled: &[_] = if write == WriteFacts::default() {
        &[]
    } else {
        &["R-9.5"]
    };
    [rules, troubled].concat()
}
