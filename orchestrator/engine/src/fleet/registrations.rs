//! Which actions count as registered though no session offers them, as far as that is not kept with each action.

use crate::answer::{ActionForgotten, Caller, ForgetAnswer};
use crate::keys::{ActionKey, WriteId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What is kept for all actions together.
#[derive(Debug)]
pub(super) struct Registrations {
    /// Until then every action counts as registered: its workers may not have come back yet.
    pub(super) boot_grace_until_ms: u64,
    /// Names that the operator declares; a `*` at the end stands for anything.
    declared: Vec<Arc<str>>,
    /// Actions whose last sessions left, or whose first ones came, and that the queue has not been told of.
    pub(super) changed: BTreeSet<ActionKey>,
    /// Remembered actions that an execution asked for, and others.
    pub(super) n_remembered: usize,
    pub(super) n_remembered_unnamed: usize,
    /// Names of which the store is to be told.
    pub(super) dirty: BTreeSet<Arc<str>>,
    /// Names of which the store is being told.
    pub(super) being_written: Option<BeingWritten>,
    /// Operators who are told that an action is forgotten once a write says so that is still to come.
    pub(super) to_tell: Vec<ToTell>,
    /// True after a write that failed, until it is time for the next one.
    pub(super) writes_paused: bool,
    /// Steps that ended because their actions are not registered, since that was last told.
    pub(super) not_found: BTreeMap<Arc<str>, u64>,
}

/// A write of memories that the store has not answered.
#[derive(Debug)]
pub(super) struct BeingWritten {
    pub(super) write: WriteId,
    pub(super) names: Vec<Arc<str>>,
    /// Who is told what becomes of it.
    pub(super) to_tell: Vec<ToTell>,
}

/// An operator who waits for a write.
#[derive(Debug)]
pub(super) struct ToTell {
    pub(super) caller: Caller<ForgetAnswer>,
    pub(super) name: Arc<str>,
    pub(super) forgotten: ActionForgotten,
}

impl Registrations {
    pub(super) fn new(boot_grace_until_ms: u64, declared: Vec<Arc<str>>) -> Self {
        Self {
            boot_grace_until_ms,
            declared,
            changed: BTreeSet::new(),
            n_remembered: 0,
            n_remembered_unnamed: 0,
            dirty: BTreeSet::new(),
            being_written: None,
            to_tell: Vec::new(),
            writes_paused: false,
            not_found: BTreeMap::new(),
        }
    }

    //
    pub(super) fn declares(&self, name: &str) -> bool {
        let mut declared = self.declared.iter();
        declared.any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => **pattern == *name,
        })
    }

    /// The declared names that stand for one action each.
    pub(super) fn declared_names(&self) -> Vec<Arc<str>> {
        let declared = self.declared.iter();
        declared.filter(|name| !name.ends_with('*')).cloned().collect()
    }
}
