//! What operators did, as a memory store holds it. Knows neither faults nor time.

use std::collections::BTreeMap;
use std::ops::Bound;

use escapement_store::OPERATORS_REMOVED_MAX;
use escapement_store::{
    Conflict, OperatorAction, OperatorDeed, OperatorEntry, OperatorFilter, OperatorIntent, OperatorWrite,
};

/// The entries that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Operators {
    entries: BTreeMap<u64, OperatorEntry>,
    /// The number of each outcome by that of its intent.
    outcomes: BTreeMap<u64, u64>,
}

impl Operators {
    pub(super) fn append(&mut self, write: &OperatorWrite) -> Result<u64, Conflict> {
        if let OperatorDeed::Outcome { intent, .. } = write.deed {
            let is_intent = |entry: &OperatorEntry| matches!(entry.deed, OperatorDeed::Intent(_));
            if !self.entries.get(&intent).is_some_and(is_intent) {
                return Err(Conflict::NotFound);
            }
            if self.outcomes.contains_key(&intent) {
                return Err(Conflict::AlreadySettled);
            }
        }
        let last = self.entries.last_key_value();
        let (last, hash) = last.map_or((0, [0; 32]), |(number, entry)| (*number, entry.hash));
        let number = last + 1;
        if let OperatorDeed::Outcome { intent, .. } = write.deed {
            self.outcomes.insert(intent, number);
        }
        self.entries
            .insert(number, OperatorEntry::behind(number, hash, write));
        if let Some(keep_from) = write.keep_from {
            for _ in 0..OPERATORS_REMOVED_MAX {
                match self.entries.first_entry() {
                    Some(first) if *first.key() < number && first.get().at < keep_from => {
                        self.outcomes.retain(|_, outcome| outcome != first.key());
                        first.remove();
                    }
                    _ => break,
                }
            }
        }
        Ok(number)
    }

    /// Acts, the newest first.
    pub(super) fn actions(
        &self,
        filter: &OperatorFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<OperatorAction> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let newest_first = self.entries.range((Bound::Unbounded, end)).rev();
        let actions = newest_first.filter_map(|(number, entry)| {
            let OperatorDeed::Intent(intent) = &entry.deed else {
                return None;
            };
            let outcome = self.outcomes.get(number);
            lets_through(filter, intent, outcome.is_some()).then(|| OperatorAction {
                intent: entry.clone(),
                outcome: outcome.map(|outcome| self.entries[outcome].clone()),
            })
        });
        actions.take(limit).collect()
    }
}

fn lets_through(filter: &OperatorFilter, intent: &OperatorIntent, has_outcome: bool) -> bool {
    filter.name.as_ref().is_none_or(|name| *name == intent.name)
        && filter.rpc.as_ref().is_none_or(|rpc| *rpc == intent.rpc)
        && !(filter.is_open && has_outcome)
}
