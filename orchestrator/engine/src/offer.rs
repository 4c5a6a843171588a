//! What sessions offer and how much of it: registration and credits. Hands nothing out.

use crate::engine::Engine;
use crate::fleet::{ActionKey, SessionAction};
use crate::input::SessionKey;
use crate::worker::{ActionRefusal, ActionSpec};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use escapement_model::limits;

impl Engine {
    /// Takes the actions that a worker offers; an older revision changes nothing.
    pub(crate) fn register(
        &mut self,
        key: SessionKey,
        revision: u64,
        specs: Vec<ActionSpec>,
    ) -> Vec<ActionRefusal> {
        let session = self.session_mut(key);
        if revision < session.actions_revision {
            return Vec::new();
        }
        session.actions_revision = revision;
        self.drop_actions(key);
        let mut refused = Vec::new();
        let mut offered: BTreeMap<_, SessionAction> = BTreeMap::new();
        for spec in specs {
            if let Some(reason) = refusal_of(&spec).or_else(|| self.fleet.lacks_room_for(&spec)) {
                refused.push(ActionRefusal {
                    // A name of any length would make an answer of any length.
                    name: spec.name.chars().take(limits::LABEL_CHARS_MAX).collect(),
                    reason,
                });
                continue;
            }
            let action = self.fleet.action_key(&spec.name);
            self.fleet
                .describe(action, spec.description.into(), spec.input_schema.into());
            self.fleet.action_mut(action).was_offered = true;
            let repeated = offered.insert(
                action,
                SessionAction {
                    max_in_flight: bounded(spec.max_in_flight),
                    waits: spec.waits,
                    in_flight: BTreeMap::new(),
                    listed_load: None,
                    listed_depths: 0,
                },
            );
            self.fleet.action_mut(action).holders += u32::from(repeated.is_none());
        }
        self.session_mut(key).actions = offered;
        self.recount(key);
        self.offer_actions(key);
        refused
    }

    /// Counts again what the attempts of a session take, after its actions changed.
    fn recount(&mut self, key: SessionKey) {
        let session = self
            .fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there");
        session.in_flight = 0;
        let held: Vec<(ActionKey, u32)> = session
            .tokens()
            .iter()
            .map(|token| &self.fleet.attempts[token])
            .map(|attempt| (attempt.action, attempt.depth))
            .collect();
        held.into_iter()
            .for_each(|(action, depth)| session.take_slot(action, depth));
    }

    pub(crate) fn set_capacity(
        &mut self,
        key: SessionKey,
        revision: u64,
        max_in_flight: u32,
        per_action: &BTreeMap<String, u32>,
    ) {
        let session = self
            .fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there");
        if revision < session.capacity_revision {
            return;
        }
        session.capacity_revision = revision;
        session.max_in_flight = max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX);
        for (name, level) in per_action {
            let Some(action) = self.fleet.find_action(name) else {
                continue;
            };
            if let Some(offered) = self.session_mut(key).actions.get_mut(&action) {
                offered.max_in_flight = Some((*level).min(limits::SESSION_IN_FLIGHT_MAX));
            }
        }
        self.fleet.refresh_free(key);
    }

    /// Makes a session's actions available.
    pub(crate) fn offer_actions(&mut self, key: SessionKey) {
        let session = self
            .fleet
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there");
        if session.is_active() {
            let actions: Vec<ActionKey> = session.actions.keys().copied().collect();
            for action in actions {
                let state = self.fleet.action_mut(action);
                if state.sessions.insert(key) && state.sessions.len() == 1 {
                    self.action_came(action);
                }
            }
        }
        self.fleet.refresh_free(key);
    }

    pub(crate) fn stop_offering(&mut self, key: SessionKey) {
        self.session_mut(key).draining = true;
        self.withdraw_actions(key);
    }

    /// Takes a session's actions back; the registration memory of those that no other session offers begins.
    pub(crate) fn withdraw_actions(&mut self, key: SessionKey) {
        self.fleet.refresh_free(key);
        let actions: Vec<ActionKey> = self.session_mut(key).actions.keys().copied().collect();
        for action in actions {
            self.withdraw_action(key, action);
        }
    }

    /// Withdraws a session's actions and takes them out of its books.
    pub(crate) fn drop_actions(&mut self, key: SessionKey) {
        self.withdraw_actions(key);
        for (action, _) in core::mem::take(&mut self.session_mut(key).actions) {
            let state = self.fleet.action_mut(action);
            state.holders -= 1;
            if state.holders == 0 {
                // Its name stays registered for a while; new names all the time must not pile up the texts of all.
                self.fleet.describe(action, Arc::default(), Arc::default());
            }
            self.forget_action_if_unused(action);
        }
    }

    fn withdraw_action(&mut self, key: SessionKey, action: ActionKey) {
        let offered = self.session_mut(key).actions.get_mut(&action);
        let listed = offered.map(|offered| (offered.listed_load.take(), take(&mut offered.listed_depths)));
        let (load, depths) = listed.unwrap_or_default();
        let state = self.fleet.action_mut(action);
        if let Some(load) = load {
            state.free.remove(&(load, key));
        }
        state.list_depths(key, depths, 0);
        if state.sessions.remove(&key) && state.sessions.is_empty() {
            self.action_left(action);
        }
    }

    /// The worker says that it has no such handler any more.
    pub(crate) fn remove_action(&mut self, key: SessionKey, action: ActionKey) {
        self.withdraw_action(key, action);
        let session = self.session_mut(key);
        // Attempts of it that it still has keep their slots as ordinary ones.
        let Some(offered) = session.actions.remove(&action) else {
            return;
        };
        if offered.waits {
            session.in_flight += offered.in_flight.values().sum::<u32>();
        }
        self.fleet.action_mut(action).holders -= 1;
        self.fleet.refresh_free(key);
    }
}

/// The level that an action has of its own; in a registration 0 means that it has none.
fn bounded(max_in_flight: u32) -> Option<u32> {
    (max_in_flight > 0).then_some(max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX))
}

fn refusal_of(spec: &ActionSpec) -> Option<&'static str> {
    let n_chars = spec.name.chars().count();
    if n_chars == 0 || n_chars > limits::ACTION_CHARS_MAX {
        return Some("name must have 1 to 100 code points");
    }
    if spec.input_schema.len() > limits::INPUT_SCHEMA_BYTES_MAX {
        return Some("input_schema exceeds 64 KiB");
    }
    if spec.waits && spec.max_in_flight == 0 {
        return Some("an action that waits needs a max_in_flight of its own");
    }
    None
}
