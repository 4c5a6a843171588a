//! Steps that run at once: whether they may, and how many.

use super::Desk;
use super::book::{Book, Stage, Step};
use crate::wire::Value;

impl Book {
    // RI19, RUN-3.7
    /// Checks that a step may start while others run.
    pub(super) fn check_overlap(&self, step: u32, desk: &mut Desk<'_>) {
        let running: Vec<&Step> = self
            .steps
            .iter()
            .filter(|it| it.stage == Stage::Running)
            .collect();
        let Some(first) = running.first() else {
            return;
        };
        let is_unmarked = !self.steps.iter().any(is_marked);
        let by_default = is_unmarked && self.spec.async_by_default;
        desk.count(if by_default {
            "steps that overlap without marks"
        } else {
            "steps that overlap"
        });
        let mut together = self
            .steps
            .get(step as usize)
            .into_iter()
            .chain(running.iter().copied());
        if !self.parallel || !(by_default || together.all(is_marked)) {
            desk.finds("RI19", &format!("step {step} starts beside {}", first.key));
        }
        let n_active = running
            .iter()
            .filter(|it| !it.units.values().any(|unit| unit.waits))
            .count();
        if n_active as u64 >= u64::from(self.spec.max_concurrency.max(1)) {
            desk.finds("RI19", &format!("step {step} starts beside {n_active}"));
        }
    }
}

fn is_marked(step: &Step) -> bool {
    let document = step.document.as_ref();
    document.and_then(|it| it.field("async")) == Some(&Value::Bool(true))
}
