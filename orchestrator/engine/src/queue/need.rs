//! What queued executions need so that starting them is of use: the actions of the steps that they would begin with.
//! Kept once for all executions that need the same. Knows no execution.

use crate::keys::{ActionKey, NamespaceKey};
use crate::limits::NEEDED_ACTIONS_MAX;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Names a need inside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeedKey(u64);

impl NeedKey {
    /// Of an execution that nothing holds back, or whose request has not been read yet. Orders before all others.
    pub(crate) const NONE: Self = Self(0);
}

/// All needs of queued executions.
#[derive(Debug, Default)]
pub(super) struct Needs {
    by_key: BTreeMap<NeedKey, Need>,
    by_actions: BTreeMap<Arc<[ActionKey]>, NeedKey>,
    of_action: BTreeSet<(ActionKey, NeedKey)>,
    last: u64,
}

#[derive(Debug)]
struct Need {
    /// Sorted, each once; never empty.
    actions: Arc<[ActionKey]>,
    n_absent: usize,
    /// Number of executions of each namespace that have it; never 0.
    n_executions: BTreeMap<NamespaceKey, usize>,
}

impl Needs {
    /// One more execution of the namespace needs these actions, sorted, each once. Returns true if it is the first of all.
    /// `NONE` if that would be one need too many: the execution is not held back then.
    pub(super) fn take(
        &mut self,
        actions: &[ActionKey],
        namespace: NamespaceKey,
        is_absent: impl Fn(ActionKey) -> bool,
    ) -> (NeedKey, bool) {
        if let Some(key) = self.by_actions.get(actions).copied() {
            *self.at_mut(key).n_executions.entry(namespace).or_default() += 1;
            return (key, false);
        }
        if actions.is_empty() || self.of_action.len() + actions.len() > NEEDED_ACTIONS_MAX {
            return (NeedKey::NONE, false);
        }
        self.last += 1;
        let key = NeedKey(self.last);
        let need = Need {
            actions: Arc::from(actions),
            n_absent: actions.iter().filter(|action| is_absent(**action)).count(),
            n_executions: BTreeMap::from([(namespace, 1)]),
        };
        self.by_actions.insert(Arc::clone(&need.actions), key);
        self.of_action.extend(actions.iter().map(|action| (*action, key)));
        self.by_key.insert(key, need);
        (key, true)
    }

    /// One execution of the namespace less needs it. Returns the actions of a need that no execution has any more.
    pub(super) fn give_back(&mut self, key: NeedKey, namespace: NamespaceKey) -> Option<Arc<[ActionKey]>> {
        if key == NeedKey::NONE {
            return None;
        }
        let need = self.at_mut(key);
        let n_executions = need.n_executions.get_mut(&namespace);
        let n_executions = n_executions.expect("a need is given back by whose namespace took it");
        *n_executions -= 1;
        if *n_executions > 0 {
            return None;
        }
        need.n_executions.remove(&namespace);
        if !need.n_executions.is_empty() {
            return None;
        }
        let need = self.by_key.remove(&key)?;
        self.by_actions.remove(&need.actions);
        for action in need.actions.iter() {
            self.of_action.remove(&(*action, key));
        }
        Some(need.actions)
    }

    //
    /// Returns true if every action of the need is registered and no live worker offers any.
    pub(super) fn is_held(&self, key: NeedKey) -> bool {
        self.by_key
            .get(&key)
            .is_some_and(|need| need.n_absent == need.actions.len())
    }

    /// An action is absent from now on, or is not any more. Returns the needs that are held back now, or not any more.
    pub(super) fn switch(&mut self, action: ActionKey, is_absent: bool) -> Vec<NeedKey> {
        let mut switched = Vec::new();
        for key in self.of(action).collect::<Vec<_>>() {
            let was_held = self.is_held(key);
            let need = self.at_mut(key);
            match is_absent {
                true => need.n_absent += 1,
                false => need.n_absent -= 1,
            }
            if self.is_held(key) != was_held {
                switched.push(key);
            }
        }
        switched
    }

    /// The needs that name an action.
    pub(super) fn of(&self, action: ActionKey) -> impl Iterator<Item = NeedKey> {
        let keys = self.of_action.range((action, NeedKey::NONE)..);
        keys.take_while(move |(other, _)| *other == action)
            .map(|(_, key)| *key)
    }

    /// The namespaces whose executions have a need.
    pub(super) fn namespaces(&self, key: NeedKey) -> impl Iterator<Item = NamespaceKey> {
        let need = self.by_key.get(&key).into_iter();
        need.flat_map(|need| need.n_executions.keys().copied())
    }

    /// The actions of a need; `None` if it has none.
    pub(super) fn actions(&self, key: NeedKey) -> Option<Arc<[ActionKey]>> {
        self.by_key.get(&key).map(|need| Arc::clone(&need.actions))
    }

    fn at_mut(&mut self, key: NeedKey) -> &mut Need {
        self.by_key
            .get_mut(&key)
            .expect("a need is kept while executions have it")
    }
}
