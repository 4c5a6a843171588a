//! The table of actions: what is kept of each name, and when it is forgotten. Registers nothing.

use super::action::Action;
use super::{Fleet, Timer};
use crate::keys::ActionKey;
use crate::limits::{ACTION_BYTES, TRAITS_MAX};
use crate::turn::Turn;
use crate::worker::ActionSpec;
use alloc::sync::Arc;
use bytes::Bytes;
use escapement_model::ledger::Tenant;

impl Fleet {
    /// Returns the key of an action, made if it is new.
    pub(super) fn action_key(&mut self, name: &str) -> ActionKey {
        if let Some(key) = self.names.get(name) {
            return *key;
        }
        self.last_action += 1;
        let key = ActionKey(self.last_action);
        let name: Arc<str> = Arc::from(name);
        self.names.insert(Arc::clone(&name), key);
        let is_declared = self.registrations.declares(&name);
        let until_ms = self.registrations.boot_grace_until_ms;
        self.actions.insert(key, Action::new(name, until_ms, is_declared));
        key
    }

    pub(super) fn find_action(&self, name: &str) -> Option<ActionKey> {
        self.names.get(name).copied()
    }

    /// Returns why a session of this owner may not offer the action now, in words that begin with a field; `None` if it may.
    pub(super) fn lacks_room_for(&self, spec: &ActionSpec, owner: &Arc<str>) -> Option<&'static str> {
        let known = self.names.get(spec.name.as_str()).map(|key| self.action(*key));
        let is_said = known.is_some_and(|action| action.traits.contains_key(&spec.traits));
        if !is_said && known.is_some_and(|action| action.traits.len() >= TRAITS_MAX) {
            return Some("traits: workers say too many different things of the action's nature");
        }
        let more_traits = if is_said { 0 } else { spec.traits.len() };
        let traits_bytes = known.map_or(0, Action::traits_bytes) + more_traits;
        let texts_bytes = spec.name.len() + spec.description.len() + spec.input_schema.len();
        let of_owner = known.filter(|action| action.owner.as_ref() == Some(owner));
        let n_charged = of_owner.map_or(0, |action| action.n_charged);
        let n_more = (ACTION_BYTES + texts_bytes + traits_bytes).saturating_sub(n_charged);
        let room = self.action_bytes.check(&Some(Arc::clone(owner)), n_more);
        room.err().map(|_| largest_field(spec))
    }

    /// Replaces what workers say about an action by what one more session of this owner says.
    pub(super) fn describe(&mut self, key: ActionKey, spec: &ActionSpec, owner: &Arc<str>) {
        let action = self.action_mut(key);
        action.description = spec.description.as_str().into();
        action.input_schema = spec.input_schema.as_str().into();
        *action.traits.entry(spec.traits.clone()).or_default() += 1;
        self.charge(key, Some(Arc::clone(owner)));
    }

    /// Drops the texts of an action.
    pub(super) fn drop_texts(&mut self, key: ActionKey) {
        let action = self.action_mut(key);
        (action.description, action.input_schema) = (Arc::default(), Arc::default());
        let owner = action.owner.clone();
        self.charge(key, owner);
    }

    /// One session less says it.
    pub(super) fn release_traits(&mut self, key: ActionKey, traits: &Bytes) {
        let action = self.action_mut(key);
        let holders = action.traits.get_mut(traits).expect("a session held them");
        *holders -= 1;
        if *holders == 0 {
            action.traits.remove(traits);
            let owner = action.owner.clone();
            self.charge(key, owner);
        }
    }

    /// Charges this owner, and no longer the one before, for the bytes of an action.
    fn charge(&mut self, key: ActionKey, owner: Tenant) {
        let action = self
            .actions
            .get_mut(&key)
            .expect("the key of an action that is kept");
        self.action_bytes.remove(&action.owner, action.n_charged);
        action.n_charged = owner.as_ref().map_or(0, |_| action.n_bytes());
        action.owner = owner;
        self.action_bytes.add(&action.owner, action.n_charged);
    }

    pub(super) fn action(&self, key: ActionKey) -> &Action {
        self.actions.get(&key).expect("the key of an action that is kept")
    }

    pub(super) fn action_mut(&mut self, key: ActionKey) -> &mut Action {
        self.actions
            .get_mut(&key)
            .expect("the key of an action that is kept")
    }

    pub(super) fn actions(&self) -> impl Iterator<Item = (ActionKey, &Action)> {
        // By name, as operators read them.
        self.names.values().map(|key| (*key, self.action(*key)))
    }

    /// Forgets an action that is not registered and that no session, attempt, step or queued execution refers to.
    pub(crate) fn forget_action_if_unused(&mut self, key: ActionKey, turn: &Turn) {
        let is_unused = self.actions.get(&key).is_some_and(|action| {
            !action.is_registered(turn.now_ms())
                && action.holders == 0
                && action.in_flight == 0
                && action.n_needs == 0
                && !action.has_waiting()
        });
        if is_unused {
            self.stop_remembering(key);
            self.timers.set(Timer::Registration(key), None);
            self.charge(key, None);
            let action = self.actions.remove(&key).expect("it was there a line ago");
            self.names.remove(&action.name);
        }
    }

    pub(super) fn has_action(&self, key: ActionKey) -> bool {
        self.actions.contains_key(&key)
    }
}

/// Returns the reason of a refusal, which begins with the largest field.
fn largest_field(spec: &ActionSpec) -> &'static str {
    let fields = [
        (
            spec.name.len() + ACTION_BYTES,
            "name: the actions of these credentials take too many bytes together",
        ),
        (
            spec.description.len(),
            "description: the actions of these credentials take too many bytes together",
        ),
        (
            spec.input_schema.len(),
            "input_schema: the actions of these credentials take too many bytes together",
        ),
        (
            spec.traits.len(),
            "traits: the actions of these credentials take too many bytes together",
        ),
    ];
    let largest = fields.into_iter().max_by_key(|(n_bytes, _)| *n_bytes);
    largest.expect("there are four").1
}
