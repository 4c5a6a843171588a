//! The fields of a step one by one, for those who compare plans. Compares nothing.

use super::digest::{self, ENCODING};
use super::{Expression, LlmContext, OnFailure, Step, StepIndex, StepKind};
use alloc::vec::Vec;
use escapement_model::encoder::Encoder;

impl Step {
    /// The fields of the step in the order of their names, each with a hash over what it says. `renumber` gives the number under
    /// which a step that this one names is known to both sides.
    pub fn parts(&self, renumber: &dyn Fn(StepIndex) -> StepIndex) -> Vec<(&'static str, [u8; 32])> {
        let step = self.renumbered(renumber);
        let hash = |say: &dyn for<'a> Fn(&mut Encoder<'a>, &'a Step)| {
            Encoder::named(ENCODING, |encoder| say(encoder, &step))
        };
        [
            (
                "async",
                hash(&|encoder, step| digest::flag(encoder, step.is_async)),
            ),
            ("config", hash(&|encoder, step| digest::kind(encoder, &step.kind))),
            (
                "depends_on",
                hash(&|encoder, step| digest::indices(encoder, &step.depends_on)),
            ),
            (
                "description",
                hash(&|encoder, step| encoder.text(&step.description)),
            ),
            ("metadata", hash(&|encoder, step| encoder.object(&step.metadata))),
            ("name", hash(&|encoder, step| encoder.text(&step.name))),
            (
                "on_dependency_failure",
                hash(&|encoder, step| digest::on_dependency_failure(encoder, step)),
            ),
            (
                "on_failure",
                hash(&|encoder, step| digest::on_failure(encoder, step)),
            ),
            (
                "on_success",
                hash(&|encoder, step| encoder.optional(step.on_success, digest::index)),
            ),
            (
                "order",
                hash(&|encoder, step| encoder.number(u64::from(step.order))),
            ),
            (
                "required",
                hash(&|encoder, step| encoder.optional(step.required, digest::flag)),
            ),
            (
                "retry",
                hash(&|encoder, step| digest::retry(encoder, &step.retry)),
            ),
            (
                "timeout_ms",
                hash(&|encoder, step| encoder.optional(step.timeout_ms, Encoder::number)),
            ),
            (
                "verify",
                hash(&|encoder, step| encoder.optional(step.verify.as_ref(), digest::call)),
            ),
        ]
        .into()
    }

    /// A hash over the type and the configuration of the step: what it does. `renumber` as for [`Step::parts`].
    pub fn config(&self, renumber: &dyn Fn(StepIndex) -> StepIndex) -> [u8; 32] {
        let step = self.renumbered(renumber);
        Encoder::named(ENCODING, |encoder| digest::kind(encoder, &step.kind))
    }

    fn renumbered(&self, renumber: &dyn Fn(StepIndex) -> StepIndex) -> Step {
        let mut step = self.clone();
        let all = |steps: &mut Vec<StepIndex>| {
            steps.iter_mut().for_each(|step| *step = renumber(*step));
            steps.sort_unstable();
        };
        let asked = |expression: &mut Expression| {
            if let Expression::ResultOf(step) = expression {
                *step = renumber(*step);
            }
        };
        all(&mut step.depends_on);
        step.on_success = step.on_success.map(renumber);
        if let Some(OnFailure::Jump(target)) = &mut step.on_failure {
            *target = renumber(*target);
        }
        match &mut step.kind {
            StepKind::Condition(condition) => {
                asked(&mut condition.condition);
                condition.true_step = condition.true_step.map(renumber);
                condition.false_step = condition.false_step.map(renumber);
            }
            StepKind::Loop(repeated) => repeated.loop_condition.iter_mut().for_each(asked),
            StepKind::LlmDecision(decision) => {
                if let LlmContext::Steps(steps) = &mut decision.context {
                    all(steps);
                }
            }
            StepKind::ToolCall(_) | StepKind::UserInput(_) | StepKind::Parallel(_) | StepKind::SubPlan(_) => {
            }
        }
        step
    }
}
