//! Which steps an edited plan has otherwise than the run that is forked.

use super::{Keep, set_back};
use crate::input::{Refused, RefusedReason};
use crate::plan::Plan;
use crate::run::Run;
use crate::state::StepStage;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A step whose result a fork would keep, and that the edited plan does not have as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedStep {
    /// The step.
    pub key: String,
    /// Where the edited document differs: `steps` if it lacks the step.
    pub path: String,
}

impl Run {
    // RUN-8.8
    /// The steps whose results a fork would keep and that the plan does not have as they are here.
    ///
    /// # Errors
    /// [`Refused`] with [`RefusedReason::UnknownStep`].
    pub fn changed_by(&self, keep: Keep<'_>, plan: &Plan) -> Result<Vec<ChangedStep>, Refused> {
        let set_back = set_back(self, keep)?;
        let kept = (0..)
            .zip(&self.state().steps)
            .filter(|(step, _)| !set_back.contains(step));
        let completed = kept.filter(|(_, state)| state.stage() == StepStage::Completed);
        let changed = completed.filter_map(|(step, _)| {
            let path = difference(self.plan(), step as usize, plan)?;
            let key = self.plan().steps[step as usize].key.clone();
            Some(ChangedStep { key, path })
        });
        Ok(changed.collect())
    }

    pub(super) fn require_unchanged(&self, keep: Keep<'_>, plan: &Plan) -> Result<(), Refused> {
        let changed = self.changed_by(keep, plan)?;
        changed.first().map_or(Ok(()), |changed| {
            Err(Refused {
                reason: RefusedReason::KeptStepChanged,
                message: format!(
                    "the step {:?} has a result and is changed ({})",
                    changed.key, changed.path
                ),
            })
        })
    }
}

/// Where the edited document has a step of the plan in another way: as another type, with another configuration, or not.
pub(super) fn difference(plan: &Plan, index: usize, edited: &Plan) -> Option<String> {
    let before = &plan.steps[index];
    let Some(after) = edited.steps.iter().find(|step| step.key == before.key) else {
        return Some(String::from("steps"));
    };
    // Steps of the plan keep their positions; those that only the edited one has come behind them.
    let known_as = |at: usize| {
        let key = &edited.steps[at].key;
        let known = plan.steps.iter().position(|step| step.key == *key);
        known.unwrap_or(plan.steps.len() + at)
    };
    let field = match core::mem::discriminant(&before.kind) == core::mem::discriminant(&after.kind) {
        false => "type",
        true if before.config(&|at| at) != after.config(&known_as) => "config",
        true => return None,
    };
    Some(format!("steps[{}].{field}", after.place))
}
