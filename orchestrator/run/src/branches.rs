//! Which steps begin anew if others do, and which stay skipped all the same.

use crate::journal::SkipReason;
use crate::plan::{Expression, LlmContext, OnFailure, Plan, Step, StepIndex, StepKind};
use crate::state::{StepStage, StepState};
use crate::turn::advance::is_barrier;
use crate::turn::values::view;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use escapement_model::opaque::ValueView;

// RUN-8.4
/// Returns the steps that are stale if those of `changed` begin anew: these themselves, and each that one of them has a part in. A step
/// that a branch skipped stays as it is as long as the step with the branch does, and passes nothing on. A branch that skipped the named
/// step keeps nothing back.
pub(crate) fn stale(
    plan: &Plan,
    states: &[StepState],
    changed: &BTreeSet<u32>,
    named: Option<StepIndex>,
) -> BTreeSet<u32> {
    let steps = plan.steps.iter().zip(states).enumerate();
    let branches = steps.filter_map(|(step, (spec, state))| Branch::of(step, spec, state));
    let is_overruled = |branch: &Branch| named.is_some_and(|named| branch.goes_past(named));
    let branches: Vec<Branch> = branches.filter(|branch| !is_overruled(branch)).collect();
    let (mut stale, mut decides) = (BTreeSet::new(), false);
    // In canonical order: what a step follows from comes before it, and so does a step that goes past it.
    for (step, (spec, state)) in plan.steps.iter().zip(states).enumerate() {
        let is_skipped = state.stage() == StepStage::Skipped && state.skip_reason() == SkipReason::Branch;
        let mut past = branches.iter().filter(|branch| branch.goes_past(step));
        if is_skipped && past.any(|branch| !stale.contains(&index(branch.of))) {
            continue;
        }
        if decides || changed.contains(&index(step)) || follows_from(spec, &stale) {
            stale.insert(index(step));
            // Every step after a branch depends on it.
            decides |= is_barrier(spec);
        }
    }
    stale
}

/// True if what the step does follows from one of those, which come before it.
fn follows_from(spec: &Step, stale: &BTreeSet<u32>) -> bool {
    let expression = match &spec.kind {
        StepKind::Condition(condition) => Some(&condition.condition),
        StepKind::Loop(repeated) => repeated.loop_condition.as_ref(),
        _ => None,
    };
    let asks = match expression {
        Some(Expression::ResultOf(on)) => stale.contains(&index(*on)),
        // Which results it is about is not known here, but whether it is about any.
        Some(Expression::Text(text)) => !stale.is_empty() && text.contains("results"),
        Some(Expression::Literal(_)) | None => false,
    };
    let sees = match &spec.kind {
        StepKind::LlmDecision(decision) => decision.context == LlmContext::All && !stale.is_empty(),
        _ => false,
    };
    asks || sees || spec.depends_on.iter().any(|on| stale.contains(&index(*on)))
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
