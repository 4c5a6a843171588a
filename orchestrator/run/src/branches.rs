//! Which steps stay skipped when others are set back.

use crate::journal::SkipReason;
use crate::plan::{OnFailure, Plan, Step, StepIndex, StepKind};
use crate::state::{StepStage, StepState};
use crate::turn::values::view;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use escapement_model::opaque::ValueView;

// RUN-8.4
/// Of the steps that are to be set back, those without the ones that a branch of a step skipped which stays as it is. A branch
/// that skipped the named step keeps nothing back.
pub(crate) fn without_skipped(
    plan: &Plan,
    states: &[StepState],
    mut set: BTreeSet<u32>,
    named: Option<StepIndex>,
) -> BTreeSet<u32> {
    let steps = plan.steps.iter().zip(states).enumerate();
    let branches = steps.filter_map(|(step, (spec, state))| Branch::of(step, spec, state));
    let is_overruled = |branch: &Branch| named.is_some_and(|named| branch.goes_past(named));
    let branches: Vec<Branch> = branches.filter(|branch| !is_overruled(branch)).collect();
    // In canonical order: a step that goes past others comes before them, and it is known by then whether it stays.
    for (step, state) in states.iter().enumerate() {
        let is_skipped = state.stage() == StepStage::Skipped && state.skip_reason() == SkipReason::Branch;
        let mut past = branches.iter().filter(|branch| branch.goes_past(step));
        if is_skipped && past.any(|branch| !set.contains(&index(branch.of))) {
            set.remove(&index(step));
        }
    }
    set
}

/// The way that a step took when it ended.
struct Branch {
    of: StepIndex,
    /// It goes past the steps up to this one, without it.
    until: StepIndex,
    /// The target that was not taken.
    other: Option<StepIndex>,
}

impl Branch {
    // RUN-3.8
    /// The way of a step, if it has ended and led past others.
    fn of(step: StepIndex, spec: &Step, state: &StepState) -> Option<Self> {
        let (jump, sides) = match (state.stage(), &spec.kind, spec.on_failure) {
            (StepStage::Completed, StepKind::Condition(condition), _) => {
                let output = state.output.as_ref().map(|output| &output.inline);
                let value = matches!(
                    output.and_then(|output| view(output)),
                    Some(ValueView::Bool(true))
                );
                (spec.on_success, condition.sides(value))
            }
            (StepStage::Completed, _, _) => (spec.on_success, (None, None)),
            (StepStage::Failed, _, Some(OnFailure::Jump(target))) => (Some(target), (None, None)),
            _ => return None,
        };
        let (taken, other) = sides;
        Some(Self {
            of: step,
            until: jump.max(taken).unwrap_or(step),
            other: other.filter(|other| Some(*other) != taken),
        })
    }

    fn goes_past(&self, step: StepIndex) -> bool {
        (self.of + 1..self.until).contains(&step) || self.other == Some(step)
    }
}

fn index(step: StepIndex) -> u32 {
    u32::try_from(step).expect("a plan has at most 1024 steps")
}
