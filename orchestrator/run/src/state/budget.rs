//! What entries change about the budget.

use super::{RunState, UnitStage};
use crate::budget::BudgetKind;
use crate::journal::{
    ChildRunEnded, ChildRunStarted, Event, InputRequest, OutcomeClass, ToolCalled, ToolOutput, Usage,
};

impl RunState {
    pub(super) fn apply_to_budget(&mut self, event: &Event) {
        match event {
            Event::BudgetWarning(warning) => self.budget_warned |= 1 << warning.kind().place(),
            Event::BudgetAwaited(awaited) => {
                let unit = self.unit_mut(awaited.unit);
                unit.set_stage(UnitStage::Ready);
                unit.awaits_budget = true;
            }
            _ => unreachable!("{event:?} is not about the budget"),
        }
    }

    // RUN-13.8
    /// An attempt is intended: what it reserves counts as used.
    pub(super) fn reserve(&mut self, called: &ToolCalled) {
        self.usage = Some(self.used().plus(&called.reservation()));
    }

    // RUN-13.8
    /// An attempt ended: what it used takes the place of what it reserved.
    pub(super) fn settle_usage(&mut self, called: &ToolCalled, output: &ToolOutput) {
        let used = output.usage.unwrap_or_else(|| match output.class() {
            OutcomeClass::NeverRan => Usage::default(),
            _ => called.reservation(),
        });
        self.usage = Some(self.used().minus(&called.reservation()).plus(&used));
    }

    // RUN-13.11
    /// A child run is started: what it may spend counts as used.
    pub(super) fn give_to_child(&mut self, started: &ChildRunStarted) {
        let Some(reserved) = started.reserved else {
            return;
        };
        self.unit_mut(started.unit).child_reserved = Some(reserved);
        self.usage = Some(self.used().plus(&reserved));
    }

    // RUN-13.11
    /// A child run ended: what it used takes the place of what it might spend.
    pub(super) fn settle_child(&mut self, ended: &ChildRunEnded) {
        let Some(reserved) = self.unit_mut(ended.unit).child_reserved.take() else {
            return;
        };
        let used = ended.usage.unwrap_or(reserved);
        self.usage = Some(self.used().minus(&reserved).plus(&used));
    }

    // RUN-13.9
    /// Somebody said, or did not say in time, whether a part of the budget is given again.
    pub(super) fn extend_budget(&mut self, request: &InputRequest, extends: bool) {
        if !extends {
            self.budget_denied = true;
            return;
        }
        let kind = request.budget.and_then(|kind| BudgetKind::try_from(kind).ok());
        let place = kind.map_or(0, BudgetKind::place);
        if self.budget_extensions.len() <= place {
            self.budget_extensions.resize(place + 1, 0);
        }
        self.budget_extensions[place] += 1;
    }
}
