//! Revisions, and the units of the one at hand.

use super::Desk;
use super::book::{Book, Stage, Step, UnitBook};
use crate::journal::Unit;
use crate::wire::Value;

impl Book {
    /// Another revision: its steps have epochs behind those of the steps before.
    pub(super) fn begins_anew(&mut self, document: &Value, n_steps: u32) {
        let floor = self.steps.iter().map(|step| step.epoch).max();
        // A substitution is one of those that a preview counts.
        self.doings.are_open |= floor.is_some() && !std::mem::take(&mut self.substitutes);
        self.steps = steps_of(document, n_steps);
        self.parallel = document.field("parallel") == Some(&Value::Bool(true));
        for step in &mut self.steps {
            (step.epoch, step.is_epoch_open) = (floor.unwrap_or(0), floor.is_some());
        }
        self.evaluations.clear();
        self.artifacts.begin_anew();
        self.cause = None;
    }

    // RI7
    /// The unit, if the entry is about the epoch at hand.
    pub(super) fn in_epoch(&mut self, unit: Unit, desk: &mut Desk<'_>) -> Option<&mut UnitBook> {
        if unit.is_generation() {
            return Some(self.generations.entry(unit.index).or_default());
        }
        let Some(step) = self.steps.get_mut(unit.step as usize) else {
            desk.finds("RI13", &format!("there is no {unit:?}"));
            return None;
        };
        if step.is_epoch_open && unit.epoch >= step.epoch {
            (step.epoch, step.is_epoch_open) = (unit.epoch, false);
        }
        if step.epoch != unit.epoch {
            let epoch = step.epoch;
            desk.finds("RI7", &format!("is about {unit:?}, and the epoch is {epoch}"));
            return None;
        }
        Some(step.units.entry(unit.index).or_default())
    }

    /// The unit, if something was heard of it in the epoch at hand.
    pub(super) fn unit(&self, unit: Unit) -> Option<&UnitBook> {
        if unit.is_generation() {
            return self.generations.get(&unit.index);
        }
        let step = self.steps.get(unit.step as usize);
        step.filter(|step| step.epoch == unit.epoch)?
            .units
            .get(&unit.index)
    }

    /// Where the step of a unit is. A generation runs until it ends.
    pub(super) fn stage_of(&self, unit: Unit) -> Option<Stage> {
        match unit.is_generation() {
            true if self.planning == Some(unit.index) => Some(Stage::Running),
            true => Some(Stage::Completed),
            false => self.steps.get(unit.step as usize).map(|step| step.stage),
        }
    }
}

fn steps_of(document: &Value, n_steps: u32) -> Vec<Step> {
    let given = document.items("steps").iter().map(|step| Step {
        key: step.text("key").unwrap_or_default().to_owned(),
        kind: step.text("type").unwrap_or_default().to_owned(),
        document: Some(step.clone()),
        ..Step::default()
    });
    given.take(n_steps as usize).collect()
}
