//! Decisions over definitions that are made on a reader. The turn that writes one judges by the latest changes of definitions
//! whether it still holds, and reads no store.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKind, RunReader};

/// Number of changes of definitions that are durable. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DurableChanges(Arc<AtomicU64>);

/// The definitions that a decision rests on, as they were after that many changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    after: u64,
    definitions: BTreeSet<(DefinitionKind, String)>,
    kinds: BTreeSet<DefinitionKind>,
}

/// A reader for one decision. It notes the definitions that are read: the decision holds until one of them changes.
pub struct Deciding<'a> {
    reader: &'a dyn RunReader,
    basis: RefCell<Basis>,
}

impl<'a> Deciding<'a> {
    /// Begins a decision over what is durable now.
    pub fn new(reader: &'a dyn RunReader, durable: &DurableChanges) -> Self {
        Self {
            reader,
            // Before anything is read: a change that becomes durable from now on has a higher number.
            basis: RefCell::new(Basis {
                after: durable.0.load(Ordering::Acquire),
                definitions: BTreeSet::new(),
                kinds: BTreeSet::new(),
            }),
        }
    }

    /// Returns the definition of that name; the decision rests on it, or on its absence.
    ///
    /// # Errors
    /// As the reader fails.
    ///
    /// # Panics
    /// For a session: runs change those, and no change of them is noted.
    pub fn definition(&self, kind: DefinitionKind, name: &str) -> Result<Option<Definition>, StoreFault> {
        assert_ne!(kind, DefinitionKind::Session, "no decision rests on a session");
        let mut basis = self.basis.borrow_mut();
        basis.definitions.insert((kind, name.to_owned()));
        self.reader.definition(kind, name)
    }

    /// Returns the number of definitions of a kind; the decision rests on all of them.
    ///
    /// # Errors
    /// As the reader fails.
    pub fn n_definitions(&self, kind: DefinitionKind) -> Result<usize, StoreFault> {
        self.basis.borrow_mut().kinds.insert(kind);
        self.reader.n_definitions(kind)
    }

    /// Returns the reader, for what the decision does not rest on: it holds even if that changes.
    pub fn reader(&self) -> &'a dyn RunReader {
        self.reader
    }

    /// Returns what the decision rests on.
    pub fn basis(self) -> Basis {
        self.basis.into_inner()
    }
}

/// The latest changes of definitions, durable or not, each with its number.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    n: u64,
    durable: DurableChanges,
    kinds: BTreeMap<DefinitionKind, u64>,
    newer: Numbered,
    /// Changes from before `newer` began.
    older: Numbered,
    newer_begin_behind: u64,
    /// Changes up to this number are forgotten.
    forgotten: u64,
}

type Numbered = BTreeMap<(DefinitionKind, String), u64>;

impl Changes {
    /// Notes a change that is on its way to the store.
    pub(crate) fn note(&mut self, kind: DefinitionKind, name: &str) {
        if self.newer.len() >= CHANGES_KEPT {
            self.older = core::mem::take(&mut self.newer);
            self.forgotten = core::mem::replace(&mut self.newer_begin_behind, self.n);
        }
        self.n += 1;
        self.kinds.insert(kind, self.n);
        self.newer.insert((kind, name.to_owned()), self.n);
    }

    /// Returns the number of the latest change.
    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    /// Says that all changes up to that number are durable.
    pub(crate) fn are_durable(&self, n: u64) {
        self.durable.0.store(n, Ordering::Release);
    }

    pub(crate) fn durable(&self) -> &DurableChanges {
        &self.durable
    }

    // RUN-9.15
    /// Returns true if nothing that the decision rests on has changed since. A decision that is older than what is known does
    /// not hold.
    pub(crate) fn hold(&self, basis: &Basis) -> bool {
        let is_before = |n: Option<&u64>| n.is_none_or(|n| *n <= basis.after);
        let is_unchanged = |name| is_before(self.newer.get(name)) && is_before(self.older.get(name));
        basis.after >= self.forgotten
            && basis.kinds.iter().all(|kind| is_before(self.kinds.get(kind)))
            && basis.definitions.iter().all(is_unchanged)
    }
}

/// Names of changed definitions that are known before the older ones are forgotten; as many older ones come on top.
const CHANGES_KEPT: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: DefinitionKind = DefinitionKind::SavedPlan;

    fn resting_on(after: u64, names: &[&str]) -> Basis {
        Basis {
            after,
            definitions: names.iter().map(|name| (KIND, (*name).to_owned())).collect(),
            kinds: BTreeSet::new(),
        }
    }

    // RUN-9.15
    #[test]
    fn a_decision_holds_until_something_that_it_rests_on_changes() {
        let mut changes = Changes::default();
        changes.note(KIND, "a");
        let decided = resting_on(1, &["a", "b"]);
        assert!(changes.hold(&decided) && !changes.hold(&resting_on(0, &["a"])));
        changes.note(DefinitionKind::Goal, "a");
        changes.note(KIND, "c");
        assert!(changes.hold(&decided), "others changed");
        let counting = |after| Basis {
            kinds: [KIND].into(),
            ..resting_on(after, &[])
        };
        assert!(!changes.hold(&counting(2)) && changes.hold(&counting(3)));
        changes.note(KIND, "b");
        assert!(!changes.hold(&decided));
    }

    // RUN-9.15
    #[test]
    fn a_decision_over_what_is_forgotten_does_not_hold() {
        let mut changes = Changes::default();
        changes.note(KIND, "a");
        for n in 0..2 * CHANGES_KEPT {
            changes.note(KIND, &n.to_string());
            assert!(!changes.hold(&resting_on(0, &["a"])));
            assert!(changes.hold(&resting_on(changes.n(), &["a"])));
        }
        assert!(changes.newer.len() + changes.older.len() <= 2 * CHANGES_KEPT);
    }
}
