//! What runs give to their children of their budgets, and what comes back: held against the journals of both, and what handlers
//! really did for a run and its children, against the run's budget.

use super::book::Book;
use super::money::{cost, tokens};
use super::{Desk, Judge};
use crate::canonical::uuid;
use crate::journal::{KINDS, Unit, Usage};
use crate::wire::Value;

/// What the child of a run with a budget may spend, and what it has spent by its own journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    limits: [Option<u64>; KINDS],
    spent: Option<Usage>,
}

impl Book {
    // RI15
    /// A child is started: it may spend exactly what is left, at least one of each part, and this counts as used.
    pub(super) fn gives(&mut self, unit: Unit, run: &[u8], reserved: Option<Usage>, desk: &mut Desk<'_>) {
        let Some(budget) = &self.spec.budget else {
            if reserved.is_some() {
                desk.finds("RI15", "a run without a budget gives some of it to a child");
            }
            return;
        };
        desk.count("children within a budget");
        let mut limits = [None; KINDS];
        let mut left = Usage::default();
        for (kind, limit) in budget.limits.into_iter().enumerate() {
            let Some(limit) = limit else { continue };
            let limit = limit * (1 + self.purse.extensions[kind]);
            left[kind] = limit.saturating_sub(self.purse.used[kind]);
            limits[kind] = Some(left[kind]);
            if left[kind] < limit.min(1) {
                desk.finds("RI15", &format!("part {kind} is used up, and a child is started"));
            }
        }
        if reserved != Some(left) {
            desk.finds(
                "RI15",
                &format!("a child may spend {reserved:?}, and {left:?} is left"),
            );
        }
        for (used, left) in self.purse.used.iter_mut().zip(left) {
            *used += left;
        }
        if let Some(it) = self.in_epoch(unit, desk) {
            it.reserved = Some((left, String::new()));
        }
        if let Ok(run) = run.try_into() {
            desk.allowances.insert(run, Allowance { limits, spent: None });
        }
    }

    // RI15
    /// A run is made: as a child it may spend what it was given, and asks nobody for more.
    pub(super) fn check_allowance(&self, desk: &mut Desk<'_>) {
        let may = self
            .spec
            .budget
            .as_ref()
            .map(|budget| (budget.limits, budget.asks));
        match desk.allowances.get(&self.id) {
            Some(given) if may != Some((given.limits, false)) => {
                let text = format!("a child is given {:?}, and may spend {may:?}", given.limits);
                desk.finds("RI15", &text);
            }
            None if !self.spec.parent.is_empty() && may.is_some() => {
                desk.finds("RI15", "a child has a budget that nobody gave it");
            }
            Some(_) | None => {}
        }
    }

    // RI15
    /// A run has ended: as a child it says what it used, what is in flight included.
    pub(super) fn tells_what_it_spent(&self, spent: Option<Usage>, desk: &mut Desk<'_>) {
        let used = self.purse.used;
        let Some(given) = desk.allowances.get_mut(&self.id) else {
            if spent.is_some() {
                desk.finds("RI15", "a run without a parent's budget says what it used");
            }
            return;
        };
        given.spent = Some(used);
        if spent != Some(used) {
            desk.finds("RI15", &format!("a child has used {used:?}, and says {spent:?}"));
        }
    }

    // RI15
    /// A child has ended: what it used, by its own journal, takes the place of what it was given.
    pub(super) fn takes_back(&mut self, unit: Unit, child: &[u8], usage: Option<Usage>, desk: &mut Desk<'_>) {
        let Some((reserved, _)) = self.in_epoch(unit, desk).and_then(|it| it.reserved.take()) else {
            return;
        };
        let known = <[u8; 16]>::try_from(child).ok();
        let known = known.and_then(|child| desk.allowances.get(&child)?.spent);
        if usage.is_some() && usage != Some(known.unwrap_or_default()) {
            desk.finds(
                "RI15",
                &format!("a child has used {known:?}, and its parent counts {usage:?}"),
            );
        }
        let usage = usage.unwrap_or(reserved);
        for kind in 0..KINDS {
            self.purse.used[kind] = self.purse.used[kind] - reserved[kind] + usage[kind];
        }
    }
}

impl Judge {
    // RI15
    /// A handler has said what it used: of that counts what was reserved for it at most, what is beyond is the model's lie.
    pub(super) fn tells_usage(&mut self, execution: [u8; 16], output: &Value) {
        let known = &self.executions[&execution];
        let budget = self
            .runs
            .get(&known.run)
            .and_then(|book| book.spec.budget.as_ref());
        let (Some(budget), Some(said), 1..) = (budget, tokens(output), known.may_use[0]) else {
            return;
        };
        let tokens = said.iter().sum::<u64>().min(known.may_use[2]);
        let cost = cost(budget, &known.model, said).min(known.may_use[3]);
        let run = known.run;
        self.spends_really(run, [0, 0, tokens, cost]);
    }

    // RI15
    /// A handler did something for a run: it and the runs that wait for it have it in their budgets.
    pub(super) fn spends_really(&mut self, run: [u8; 16], used: Usage) {
        let mut next = Some(run);
        while let Some(run) = next {
            let Some(book) = self.runs.get(&run) else { return };
            next = book.spec.parent[..].try_into().ok();
            let Some(budget) = &book.spec.budget else { continue };
            *self.counts.entry("deeds within a budget").or_default() += 1;
            let spent = self.spent.entry(run).or_default();
            for kind in 0..KINDS {
                spent[kind] += used[kind];
                let limit = budget.limits[kind].map(|limit| limit * (1 + book.purse.extensions[kind]));
                if limit.is_some_and(|limit| spent[kind] > limit) {
                    let (spent, run) = (spent[kind], uuid(&run));
                    let text = format!("run {run}: part {kind}: handlers used {spent} of {limit:?}");
                    self.findings.push(super::Finding {
                        invariant: "RI15",
                        text,
                    });
                    return;
                }
            }
        }
    }
}
