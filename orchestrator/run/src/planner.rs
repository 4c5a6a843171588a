//! What a planner is asked, and what its answer is: a plan, or what is wrong with it. Pure, and total over hostile answers.
//! Does not know when a planner is asked, and what follows from its answer.

mod answer;
mod catalogue;
mod judge;
mod prompt;

use crate::budget::Budget;
use crate::catalogue::Catalogue;
use crate::spec::{Planner, Spec};
use escapement_model::Opaque;

pub use prompt::Question;

pub(crate) use catalogue::bounded;
pub use judge::expressions_in;
pub(crate) use judge::{Allowed, bounded_parts, judged};

/// What the planner of a run is sent first; `None` if it has more than 1 MiB.
pub fn first_prompt(spec: &Spec, planner: &Planner, catalogue: Catalogue) -> Option<Opaque> {
    Question {
        planner,
        goal: &spec.goal,
        input: &spec.input,
        catalogue: &bounded(catalogue, planner),
        disabled: &[],
        skills: &[],
        constraints: &spec.constraints,
        async_by_default: spec.policy.async_by_default,
        previous: &[],
        generation: 1,
        parent: None,
        answer_tokens: spec.budget.as_ref().and_then(Budget::answer_tokens_max),
    }
    .payload()
}
