//! What a live execution knows of why it and its steps are in their states. Changes nothing.

use super::steps::{StepRecord, Steps};
use super::{Execution, Phase, StepState};
use crate::explain::{
    ExecutionFacts, ExecutionReason, Explanation, Notes, OpenDependencies, StepFacts, StepReason, WriteFacts,
    explain_queued, explain_settled, root_of,
};
use crate::plan::StepIndex;
use crate::time::Moment;
use alloc::vec;

impl Execution {
    /// Returns the reason why it and its steps are in their states now. Looks at every step and at the record, once.
    ///
    /// Time has been told before: nothing is due by `now`.
    /// While its end is being written, only the first entries of the record may be shown, and `n_entries_shown` says how
    /// many.
    pub fn explain(&self, now: Moment, n_entries_shown: usize) -> Explanation {
        let left_ms = self.limit_due_ms.saturating_sub(now.monotonic_ms);
        let not_started = |why| Explanation {
            execution: ExecutionFacts {
                why,
                ends_in_ms: Some(left_ms),
            },
            steps: explain_queued(self.plan(), Some(left_ms)),
        };
        match (self.phase, &self.steps) {
            (Phase::Queued, _) => not_started(ExecutionReason::Queued(None)),
            (Phase::Starting, _) => not_started(ExecutionReason::Starting(WriteFacts::default())),
            (Phase::Running, Some(steps)) => self.explain_running(steps, now),
            (Phase::Running, None) => unreachable!("a running execution has its steps"),
            (Phase::Settling, _) => self.explain_settling(n_entries_shown),
            (Phase::Settled, _) => {
                let settlement = self.settlement().expect("what has settled has its settlement");
                let entries = settlement.audit.iter().map(|entry| &entry.kind);
                let result = &settlement.result;
                explain_settled(self.plan(), entries, result.status, result.error.as_ref())
            }
        }
    }

    fn explain_running(&self, steps: &Steps, now: Moment) -> Explanation {
        let plan = self.plan();
        // By canonical position: how many ready steps come before.
        let mut turns = vec![0; plan.steps().len()];
        for (n_before, position) in (0..).zip(&steps.ready) {
            turns[usize::from(*position)] = n_before;
        }
        let left_ms = self.limit_due_ms.saturating_sub(now.monotonic_ms);
        let facts = |(step, n_before): (&StepIndex, u32)| {
            let due_ms = steps.records[step.as_usize()].timer_due_ms;
            let timer_ms = due_ms.map(|due_ms| due_ms.saturating_sub(now.monotonic_ms));
            let why = self.why(steps, *step, n_before, timer_ms);
            let has_ended = matches!(why.state(), StepState::Completed | StepState::NotCompleted);
            StepFacts {
                step: *step,
                why,
                attempts_max: plan.attempts_max(*step),
                ends_in_ms: (!has_ended).then_some(timer_ms.unwrap_or(left_ms).min(left_ms)),
            }
        };
        let n_steps = u32::try_from(plan.steps().len()).expect("a plan has at most 1024 steps");
        Explanation {
            steps: plan.canonical_order().iter().zip(turns).map(facts).collect(),
            execution: ExecutionFacts {
                why: ExecutionReason::Running {
                    n_slots: self.request.max_concurrent_steps(),
                    n_slots_free: steps.n_slots_free,
                    n_ended: steps.n_ended,
                    n_steps,
                },
                ends_in_ms: Some(left_ms),
            },
        }
    }

    fn why(&self, steps: &Steps, step: StepIndex, n_before: u32, timer_ms: Option<u64>) -> StepReason {
        let StepRecord {
            state,
            account,
            error,
            ..
        } = &steps.records[step.as_usize()];
        match *state {
            StepState::Pending => self.why_pending(steps, step, n_before),
            StepState::Waiting { attempt } => StepReason::Waiting {
                attempt,
                returned: account.returned,
                queue: None,
            },
            StepState::Assigned { attempt } => StepReason::Assigned {
                attempt,
                worker: None,
            },
            StepState::Started { attempt } => StepReason::Started {
                attempt,
                worker: None,
            },
            StepState::BackingOff { next_attempt } => {
                let repeated = account.repeated.as_ref();
                StepReason::BackingOff {
                    next_attempt,
                    in_ms: timer_ms.expect("a step that sleeps has a timer"),
                    error_code: repeated.expect("what is repeated has failed").code.clone(),
                }
            }
            StepState::Completed => StepReason::Completed {
                attempts: account.attempts,
                n_warnings: account.n_warnings,
            },
            StepState::NotCompleted => StepReason::not_completed(
                account.attempts,
                account.reason.expect("a step that did not complete has a reason"),
                error.as_deref().expect("and an error"),
                account.was_not_offered,
            ),
            StepState::Stopped => unreachable!("no step is stopped while its execution runs"),
        }
    }

    fn why_pending(&self, steps: &Steps, step: StepIndex, n_before: u32) -> StepReason {
        let record = &steps.records[step.as_usize()];
        let doomed_by = record.failed_dependency.and_then(|failed| {
            let upstream: &StepRecord = &steps.records[self.plan().at(failed).as_usize()];
            upstream.error.as_deref().and_then(root_of)
        });
        let has_ended = |step: &StepIndex| {
            matches!(
                steps.records[step.as_usize()].state,
                StepState::Completed | StepState::NotCompleted
            )
        };
        let dependencies = self.plan().step(step).depends_on().iter().copied();
        let n_open = usize::from(record.n_dependencies_open);
        if n_open > 0 {
            let open = OpenDependencies::of(n_open, dependencies.filter(|step| !has_ended(step)));
            StepReason::AwaitsDependencies { open, doomed_by }
        } else {
            StepReason::AwaitsTurn {
                n_before,
                n_slots: self.request.max_concurrent_steps(),
                doomed_by,
            }
        }
    }

    // as the entries say that may be shown, and no further.
    fn explain_settling(&self, n_entries_shown: usize) -> Explanation {
        let plan = self.plan();
        let shown = self.audit().iter().take(n_entries_shown);
        let notes = Notes::of(plan, shown.map(|entry| &entry.kind));
        let steps = plan.canonical_order().iter().map(|step| StepFacts {
            step: *step,
            why: notes
                .if_ended(*step)
                .unwrap_or(StepReason::Held(notes.at(*step).state)),
            attempts_max: plan.attempts_max(*step),
            ends_in_ms: None,
        });
        Explanation {
            steps: steps.collect(),
            execution: ExecutionFacts {
                why: ExecutionReason::Settling {
                    has_started: notes.has_started(),
                    write: WriteFacts::default(),
                },
                ends_in_ms: None,
            },
        }
    }
}
