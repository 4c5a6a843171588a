//! What the record says of each step, in one pass over it, and what follows for an execution that has ended.
//! Looks at no live execution.

use super::{
    End, EndedBy, ExecutionFacts, ExecutionReason, Explanation, OpenDependencies, StepFacts, StepReason,
};
use crate::audit::{AUDIT_ENTRIES_MAX, AuditKind, NotCompleted};
use crate::error::ExecutionError;
use crate::execution::StepState;
use crate::plan::{Plan, StepIndex};
use crate::result::Status;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::{Severity, StepId, codes};

/// Returns the reason why an execution that has ended and its steps are in their states, by its record, its status and its error.
pub fn explain_settled<'a>(
    plan: &Plan,
    entries: impl Iterator<Item = &'a AuditKind>,
    status: Status,
    error: Option<&ExecutionError>,
) -> Explanation {
    let notes = Notes::of(plan, entries);
    let end = Arc::new(notes.end(plan, status, error));
    let steps = plan.canonical_order().iter();
    Explanation {
        steps: steps
            .map(|step| StepFacts {
                step: *step,
                why: notes.at(*step).ended(&end, notes.is_cut()),
                attempts_max: plan.attempts_max(*step),
                ends_in_ms: None,
            })
            .collect(),
        execution: ExecutionFacts {
            why: ExecutionReason::Settled(end),
            ends_in_ms: None,
        },
    }
}

/// Returns the steps of an execution that has not started.
pub fn explain_queued(plan: &Plan, ends_in_ms: Option<u64>) -> Vec<StepFacts> {
    let facts = |step: &StepIndex| {
        let depends_on = plan.step(*step).depends_on();
        StepFacts {
            step: *step,
            why: StepReason::AwaitsExecution {
                open: OpenDependencies::of(depends_on.len(), depends_on.iter().copied()),
            },
            attempts_max: plan.attempts_max(*step),
            ends_in_ms,
        }
    };
    plan.canonical_order().iter().map(facts).collect()
}

/// What a record says of each step.
#[derive(Debug)]
pub(crate) struct Notes<'a> {
    /// By step.
    by_step: Vec<Note<'a>>,
    /// Sorted by id.
    steps: Vec<(u128, StepIndex)>,
    n_entries: usize,
    has_started: bool,
}

/// What a record says of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note<'a> {
    /// What the last entry about it says that it is doing.
    pub(crate) state: StepState,
    /// The attempt under way was handed out.
    was_assigned: bool,
    /// The error of the step.
    error: Option<&'a ExecutionError>,
    /// Attempts that were made, those given back not counted.
    attempts: u32,
    reason: Option<NotCompleted>,
    n_warnings: u8,
}

const NOTHING: Note<'_> = Note {
    state: StepState::Pending,
    was_assigned: false,
    error: None,
    attempts: 0,
    reason: None,
    n_warnings: 0,
};

impl<'a> Notes<'a> {
    /// Reads a record from its beginning, as far as it is given.
    pub(crate) fn of(plan: &Plan, entries: impl Iterator<Item = &'a AuditKind>) -> Self {
        let indexes = plan.canonical_order().iter();
        let mut steps: Vec<(u128, StepIndex)> = indexes
            .map(|step| (number_of(plan.step(*step).id()), *step))
            .collect();
        steps.sort_unstable();
        let mut notes = Self {
            by_step: vec![NOTHING; plan.steps().len()],
            steps,
            n_entries: 0,
            has_started: false,
        };
        for kind in entries {
            notes.n_entries += 1;
            notes.take(kind);
        }
        notes
    }

    /// The start of the execution stands in what was given.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns the reason why a step ended as it did, if it has ended.
    pub(crate) fn if_ended(&self, step: StepIndex) -> Option<StepReason> {
        self.at(step).if_ended(self.is_cut())
    }

    pub(crate) fn at(&self, step: StepIndex) -> &Note<'a> {
        &self.by_step[step.as_usize()]
    }

    /// Returns true if the record may leave out what single attempts went through.
    fn is_cut(&self) -> bool {
        //
        self.n_entries >= AUDIT_ENTRIES_MAX
    }

    fn of_step(&mut self, step_id: StepId) -> Option<&mut Note<'a>> {
        let place = self
            .steps
            .binary_search_by_key(&number_of(step_id), |(number, _)| *number);
        let (_, step) = self.steps[place.ok()?];
        Some(&mut self.by_step[step.as_usize()])
    }

    fn take(&mut self, kind: &'a AuditKind) {
        let step_id = match kind {
            AuditKind::StepWaiting { step_id, .. }
            | AuditKind::AttemptAssigned { step_id, .. }
            | AuditKind::AttemptStarted { step_id, .. }
            | AuditKind::AttemptReturned { step_id, .. }
            | AuditKind::AttemptFailed { step_id, .. }
            | AuditKind::RetryScheduled { step_id, .. }
            | AuditKind::StepCompleted { step_id, .. }
            | AuditKind::StepNotCompleted { step_id, .. } => step_id,
            AuditKind::Started { .. } => return self.has_started = true,
            AuditKind::Accepted { .. }
            | AuditKind::MandatoryAction { .. }
            | AuditKind::StepsIncomplete { .. }
            | AuditKind::Settled { .. } => return,
        };
        // A record names steps of its plan only; one that does not was not written here.
        if let Some(note) = self.of_step(*step_id) {
            note.take(kind);
        }
    }

    /// What ended the execution whose whole record this is.
    fn end(&self, plan: &Plan, status: Status, error: Option<&ExecutionError>) -> End {
        let by = match (status, error) {
            (Status::Success, _) => EndedBy::AllCompleted,
            (Status::Partial, _) => EndedBy::SomeCompleted,
            (Status::Failure, None) => EndedBy::NoneCompleted,
            (Status::Failure, Some(error)) => match error.step_id {
                Some(step_id) => self.ended_by_step(plan, step_id),
                None => self.ended_by_plan(&error.code),
            },
        };
        End {
            status,
            by,
            error_code: error.map(|error| error.code.clone()),
            step_id: error.and_then(|error| error.step_id),
        }
    }

    fn ended_by_plan(&self, code: &str) -> EndedBy {
        match code {
            codes::PLAN_TIMEOUT => EndedBy::PlanLimit,
            codes::DEADLINE_EXCEEDED if self.has_started => EndedBy::DeadlineTooNear,
            codes::DEADLINE_EXCEEDED => EndedBy::DeadlineInQueue,
            codes::CONTEXT_MISSING => EndedBy::ContextMissing,
            _ if self.has_started => EndedBy::Restart,
            _ => EndedBy::Restore,
        }
    }

    fn ended_by_step(&self, plan: &Plan, step_id: StepId) -> EndedBy {
        let step = plan.canonical_order().iter();
        let note = step
            .filter(|step| plan.step(**step).id() == step_id)
            .map(|step| self.at(*step))
            .next();
        let Some(note) = note else {
            return EndedBy::Fatal;
        };
        let is_fatal = note.error.is_none_or(|error| error.severity == Severity::Fatal);
        match note.reason {
            Some(NotCompleted::DependencyUnresolved) => EndedBy::DependencyUnresolved,
            Some(NotCompleted::Failed) if is_fatal => EndedBy::Fatal,
            Some(NotCompleted::Failed) => EndedBy::Halt,
            Some(
                NotCompleted::Skipped
                | NotCompleted::RetriesExhausted
                | NotCompleted::NotRetryable
                | NotCompleted::WarnedWithoutOutput,
            ) => EndedBy::NoneCompleted,
            None => EndedBy::Fatal,
        }
    }
}

impl<'a> Note<'a> {
    fn take(&mut self, kind: &'a AuditKind) {
        match kind {
            AuditKind::StepWaiting { attempt, .. } => self.state = StepState::Waiting { attempt: *attempt },
            AuditKind::AttemptAssigned { attempt, .. } => {
                self.state = StepState::Assigned { attempt: *attempt };
                self.attempts = *attempt;
                self.was_assigned = true;
            }
            AuditKind::AttemptStarted { attempt, .. } => {
                self.state = StepState::Started { attempt: *attempt }
            }
            AuditKind::AttemptReturned { attempt, .. } => {
                // it does not count.
                self.attempts = attempt.saturating_sub(1);
                self.was_assigned = false;
            }
            AuditKind::RetryScheduled { next_attempt, .. } => {
                self.was_assigned = false;
                self.state = StepState::BackingOff {
                    next_attempt: *next_attempt,
                };
            }
            AuditKind::StepCompleted {
                attempts, warnings, ..
            } => {
                self.state = StepState::Completed;
                (self.attempts, self.n_warnings) =
                    (*attempts, u8::try_from(warnings.len()).unwrap_or(u8::MAX));
            }
            AuditKind::StepNotCompleted {
                attempts,
                reason,
                error,
                ..
            } => {
                self.state = StepState::NotCompleted;
                self.error = Some(error);
                (self.attempts, self.reason) = (*attempts, Some(*reason));
            }
            // What it comes to follows.
            AuditKind::AttemptFailed { .. } => {}
            AuditKind::Accepted { .. }
            | AuditKind::Started { .. }
            | AuditKind::MandatoryAction { .. }
            | AuditKind::StepsIncomplete { .. }
            | AuditKind::Settled { .. } => unreachable!("the caller passes entries about a step"),
        }
    }

    /// Returns the reason why the step ended as it did, if it has ended.
    fn if_ended(&self, is_cut: bool) -> Option<StepReason> {
        match self.state {
            StepState::Completed => Some(StepReason::Completed {
                attempts: self.attempts,
                n_warnings: self.n_warnings,
            }),
            StepState::NotCompleted => {
                let error = self.error.expect("a step that did not complete has an error");
                let reason = self.reason.expect("and a reason");
                //
                let was_not_offered = error.code == codes::ACTION_NOT_FOUND && !self.was_assigned && !is_cut;
                Some(StepReason::not_completed(
                    self.attempts,
                    reason,
                    error,
                    was_not_offered,
                ))
            }
            StepState::Pending
            | StepState::Waiting { .. }
            | StepState::Assigned { .. }
            | StepState::Started { .. }
            | StepState::BackingOff { .. }
            | StepState::Stopped => None,
        }
    }

    /// The same if the whole execution has ended.
    fn ended(&self, end: &Arc<End>, is_cut: bool) -> StepReason {
        let is_known = !is_cut && end.by != EndedBy::Restart;
        self.if_ended(is_cut).unwrap_or_else(|| StepReason::Stopped {
            was: is_known.then_some(self.state),
            attempts: is_known.then_some(self.attempts),
            end: Arc::clone(end),
        })
    }
}

fn number_of(step_id: StepId) -> u128 {
    u128::from_be_bytes(*step_id.as_bytes())
}
