//! The table of actions: what is kept of each name, and when it is forgotten. Registers nothing.

use super::action::Action;
use super::{Fleet, Timer};
use crate::keys::ActionKey;
use crate::limits::{ACTION_TEXTS_BYTES_MAX, ACTIONS_MAX, TRAITS_MAX};
use crate::turn::Turn;
use crate::worker::ActionSpec;
use alloc::sync::Arc;
use bytes::Bytes;

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

    /// Returns why no session may offer an action of that name now, in words; `None` if it may.
    pub(super) fn lacks_room_for(&self, spec: &ActionSpec) -> Option<&'static str> {
        let known = self.names.get(spec.name.as_str()).map(|key| self.action(*key));
        let is_said = known.is_some_and(|action| action.traits.contains_key(&spec.traits));
        if !is_said && known.is_some_and(|action| action.traits.len() >= TRAITS_MAX) {
            return Some("workers say too many different things of its nature");
        }
        let texts_before = known.map_or(0, |action| action.description.len() + action.input_schema.len());
        let traits_bytes = if is_said { 0 } else { spec.traits.len() };
        let text_bytes = self.action_text_bytes - texts_before + traits_bytes;
        if known.is_none() && self.actions.len() >= ACTIONS_MAX {
            return Some("the workers offer too many actions together");
        }
        let is_too_much =
            text_bytes + spec.description.len() + spec.input_schema.len() > ACTION_TEXTS_BYTES_MAX;
        is_too_much.then_some("the descriptions and schemas of all actions are too large together")
    }

    /// Keeps what a worker says about an action, in place of what was said before.
    pub(super) fn describe(&mut self, key: ActionKey, description: Arc<str>, input_schema: Arc<str>) {
        let action = self.action_mut(key);
        let bytes_before = action.text_bytes();
        (action.description, action.input_schema) = (description, input_schema);
        let bytes_after = action.text_bytes();
        self.action_text_bytes = self.action_text_bytes - bytes_before + bytes_after;
    }

    /// One more session says that of an action's nature.
    pub(super) fn hold_traits(&mut self, key: ActionKey, traits: Bytes) {
        let n_bytes = traits.len();
        let holders = self.action_mut(key).traits.entry(traits).or_default();
        *holders += 1;
        if *holders == 1 {
            self.action_text_bytes += n_bytes;
        }
    }

    /// One session less says it.
    pub(super) fn release_traits(&mut self, key: ActionKey, traits: &Bytes) {
        let action = self.action_mut(key);
        let holders = action.traits.get_mut(traits).expect("a session held them");
        *holders -= 1;
        if *holders == 0 {
            action.traits.remove(traits);
            self.action_text_bytes -= traits.len();
        }
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
            let action = self.actions.remove(&key).expect("it was there a line ago");
            self.action_text_bytes -= action.text_bytes();
            self.names.remove(&action.name);
        }
    }

    pub(super) fn has_action(&self, key: ActionKey) -> bool {
        self.actions.contains_key(&key)
    }
}
