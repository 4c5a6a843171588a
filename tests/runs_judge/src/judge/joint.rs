//! Rows that a power cut leaves together: a journal and the executions of its attempts, and every row that was shown outside.

use super::Judge;
use crate::canonical::uuid;
use std::collections::BTreeMap;

/// Durable execution of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Id of the execution.
    pub execution: [u8; 16],
    /// True if it completed; `None` until its end is durable.
    pub completed: Option<bool>,
}

/// Row of a store that a reader has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Table, and key in the table.
    pub row: (&'static str, Vec<u8>),
    /// A number that grows with each change of the row.
    pub version: u64,
    /// Run that is removed together with the row.
    pub run: Option<[u8; 16]>,
}

/// Rows with their highest versions, and the runs with which they may be removed.
pub(super) type ShownRows = BTreeMap<(&'static str, Vec<u8>), (u64, Option<[u8; 16]>)>;

impl Judge {
    // J1, J2
    /// Compares all durable executions of attempts with the durable journals.
    pub fn has_executions(&mut self, accepted: &[Accepted]) {
        let accepted: BTreeMap<_, _> = accepted.iter().map(|it| (it.execution, it.completed)).collect();
        *self.counts.entry("executions beside their intents").or_default() += accepted.len() as u64;
        let unintended = accepted.keys().find(|id| !self.executions.contains_key(*id));
        if let Some(id) = unintended {
            let text = format!("execution {} is durable, and no journal intends it", uuid(id));
            self.finds("J1", text);
        }
        let known = self.executions.iter();
        let outcomes = known.filter_map(|(id, known)| Some((id, known.run, known.outcome?)));
        let is_early = |(id, _, completed): &([u8; 16], [u8; 16], bool)| match accepted.get(id) {
            Some(Some(by_store)) => *completed && !by_store,
            Some(None) | None => true,
        };
        let early = outcomes
            .map(|(id, run, completed)| (*id, run, completed))
            .find(is_early);
        if let Some((id, run, _)) = early {
            let text = format!(
                "run {} has the outcome of execution {}, whose durable end is {:?}",
                uuid(&run),
                uuid(&id),
                accepted.get(&id)
            );
            self.finds("J2", text);
        }
    }

    // J3
    /// Notes rows that were shown outside of the process.
    pub fn shows(&mut self, rows: Vec<Shown>) {
        *self.counts.entry("rows shown").or_default() += rows.len() as u64;
        for Shown { row, version, run } in rows {
            let shown = self.shown.entry(row).or_insert((version, run));
            shown.0 = shown.0.max(version);
        }
    }

    // J3
    /// Checks that a start finds each row that was ever shown, at its version or a later one.
    pub fn finds_again(&mut self, rows: &[Shown]) {
        let found: BTreeMap<_, _> = rows.iter().map(|it| (&it.row, it.version)).collect();
        let is_gone = |run: &Option<[u8; 16]>| run.is_some_and(|run| self.removed.contains(&run));
        let mut shown = self.shown.iter().filter(|(_, (_, run))| !is_gone(run));
        let taken_back = shown.find(|(row, (version, _))| found.get(row).is_none_or(|it| it < version));
        if let Some(((table, key), (version, _))) = taken_back {
            let again = found.get(&(*table, key.clone()));
            let text = format!("{table} {key:?} was shown at {version}, and a start finds {again:?}");
            self.finds("J3", text);
        }
    }

    /// Returns the keys of the rows of a table that were shown.
    pub fn shown_in(&self, table: &str) -> Vec<Vec<u8>> {
        let rows = self.shown.keys().filter(|(of, _)| *of == table);
        rows.map(|(_, key)| key.clone()).collect()
    }
}
