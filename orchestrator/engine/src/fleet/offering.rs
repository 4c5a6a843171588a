//! What sessions offer and how much of it: registration and credits. Hands nothing out.

use super::Fleet;
use super::free::FreeSlots;
use super::session::SessionAction;
use crate::effect::{Effect, Notice};
use crate::keys::{ActionKey, SessionKey};
use crate::turn::Turn;
use crate::worker::{ActionRefusal, ActionSpec};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::limits;

impl Fleet {
    /// Takes the actions that a worker offers; an older revision changes nothing.
    pub(crate) fn register(
        &mut self,
        key: SessionKey,
        revision: u64,
        specs: Vec<ActionSpec>,
        turn: &Turn,
    ) -> Vec<ActionRefusal> {
        let session = self.session_mut(key);
        if revision < session.actions_revision {
            return Vec::new();
        }
        session.actions_revision = revision;
        self.drop_actions(key, turn);
        let session = self.session_mut(key);
        let is_staying = usize::from(!session.draining);
        let identity = session.identity.as_ref();
        let owner = identity.map_or_else(Arc::default, |identity| Arc::clone(&identity.owner));
        let mut refused = Vec::new();
        let mut offered: BTreeMap<_, SessionAction> = BTreeMap::new();
        for spec in specs {
            if let Some(reason) = refusal_of(&spec).or_else(|| self.lacks_room_for(&spec, &owner)) {
                refused.push(ActionRefusal {
                    // A name of any length would make an answer of any length.
                    name: spec.name.chars().take(limits::LABEL_CHARS_MAX).collect(),
                    reason,
                });
                continue;
            }
            let action = self.action_key(&spec.name);
            self.describe(action, &spec, &owner);
            self.action_mut(action).was_offered = true;
            let repeated = offered.insert(
                action,
                SessionAction {
                    max_in_flight: bounded(spec.max_in_flight),
                    waits: spec.waits,
                    traits: spec.traits,
                    in_flight: BTreeMap::new(),
                    indexed: FreeSlots::default(),
                },
            );
            match repeated {
                Some(repeated) => self.release_traits(action, &repeated.traits),
                None => {
                    let action = self.action_mut(action);
                    action.holders += 1;
                    action.n_staying += is_staying;
                }
            }
        }
        self.session_mut(key).actions = offered;
        self.recount(key);
        self.offer_actions(key, turn);
        refused
    }

    /// Takes the actions that a worker offers after its hello.
    /// No message answers them, so a notice names the first refusal of the session.
    pub(crate) fn register_again(
        &mut self,
        key: SessionKey,
        revision: u64,
        specs: Vec<ActionSpec>,
        turn: &mut Turn,
    ) {
        let refused = self.register(key, revision, specs, turn);
        let session = self.session_mut(key);
        let (Some(first), Some(identity)) = (refused.first(), &session.identity) else {
            return;
        };
        if !core::mem::replace(&mut session.refusals_told, true) {
            turn.push(Effect::Note(Notice::Refused {
                worker_id: Arc::clone(&identity.worker_id),
                n_actions: refused.len(),
                reason: first.reason,
            }));
        }
    }

    /// Counts again what the attempts of a session take, after its actions changed.
    fn recount(&mut self, key: SessionKey) {
        let session = self
            .sessions
            .get_mut(&key)
            .expect("a session that is spoken to is there");
        session.in_flight = 0;
        let tokens = session.tokens().iter();
        let held: Vec<_> = tokens.map(|token| &self.attempts[token]).collect();
        for attempt in held {
            session.take_slot(attempt.action, attempt.depth);
        }
    }

    pub(crate) fn set_capacity(
        &mut self,
        key: SessionKey,
        revision: u64,
        max_in_flight: u32,
        per_action: &BTreeMap<String, u32>,
    ) {
        let session = self.session_mut(key);
        if revision < session.capacity_revision {
            return;
        }
        session.capacity_revision = revision;
        session.max_in_flight = max_in_flight.min(limits::SESSION_IN_FLIGHT_MAX);
        for (name, level) in per_action {
            let Some(action) = self.find_action(name) else {
                continue;
            };
            if let Some(offered) = self.session_mut(key).actions.get_mut(&action) {
                offered.max_in_flight = Some((*level).min(limits::SESSION_IN_FLIGHT_MAX));
            }
        }
        self.reindex(key);
    }

    /// Makes a session's actions available.
    fn offer_actions(&mut self, key: SessionKey, turn: &Turn) {
        let session = self.session_mut(key);
        if session.is_active() {
            let actions: Vec<ActionKey> = session.actions.keys().copied().collect();
            for action in actions {
                let state = self.action_mut(action);
                if state.sessions.insert(key) && state.sessions.len() == 1 {
                    self.action_came(action, turn);
                }
            }
        }
        self.reindex(key);
    }

    /// The session drains: it gets no new work any more.
    pub(super) fn stop_offering(&mut self, key: SessionKey, turn: &Turn) {
        let session = self.session_mut(key);
        if !core::mem::replace(&mut session.draining, true) {
            let actions: Vec<ActionKey> = session.actions.keys().copied().collect();
            for action in actions {
                self.action_mut(action).n_staying -= 1;
            }
        }
        self.withdraw_actions(key, turn);
    }

    /// Takes a session's actions back; the registration memory of those that no other session offers begins.
    pub(super) fn withdraw_actions(&mut self, key: SessionKey, turn: &Turn) {
        self.reindex(key);
        let actions: Vec<ActionKey> = self.session_mut(key).actions.keys().copied().collect();
        for action in actions {
            self.withdraw_action(key, action, turn);
        }
    }

    /// Withdraws a session's actions and takes them out of its books.
    pub(super) fn drop_actions(&mut self, key: SessionKey, turn: &Turn) {
        self.withdraw_actions(key, turn);
        let session = self.session_mut(key);
        let was_staying = usize::from(!session.draining);
        for (action, offered) in core::mem::take(&mut session.actions) {
            self.release_traits(action, &offered.traits);
            let state = self.action_mut(action);
            state.holders -= 1;
            state.n_staying -= was_staying;
            if state.holders == 0 {
                // Its name stays registered for a while; new names all the time must not pile up the texts of all.
                self.drop_texts(action);
            }
            self.forget_action_if_unused(action, turn);
        }
    }

    fn withdraw_action(&mut self, key: SessionKey, action: ActionKey, turn: &Turn) {
        let state = self.actions.get_mut(&action).expect("an offered action is kept");
        let session = self.sessions.get_mut(&key);
        if let Some(offered) = session.and_then(|session| session.actions.get_mut(&action)) {
            state
                .free
                .replace(key, &mut offered.indexed, FreeSlots::default());
        }
        if state.sessions.remove(&key) && state.sessions.is_empty() {
            self.action_left(action, turn);
        }
    }

    /// The worker says that it has no such handler any more.
    pub(super) fn remove_action(&mut self, key: SessionKey, action: ActionKey, turn: &Turn) {
        self.withdraw_action(key, action, turn);
        let session = self.session_mut(key);
        // Attempts of it that it still has keep their slots as ordinary ones.
        let Some(offered) = session.actions.remove(&action) else {
            return;
        };
        let was_staying = usize::from(!session.draining);
        if offered.waits {
            session.in_flight += offered.in_flight.values().sum::<u32>();
        }
        let state = self.action_mut(action);
        state.holders -= 1;
        state.n_staying -= was_staying;
        self.release_traits(action, &offered.traits);
        self.reindex(key);
    }
}

/// Returns the level that an action has of its own; in a registration 0 means that it has none.
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
    if spec.traits.len() > limits::ACTION_TRAITS_BYTES_MAX {
        return Some("traits exceed 64 KiB");
    }
    if spec.waits && spec.max_in_flight == 0 {
        return Some("an action that waits needs a max_in_flight of its own");
    }
    None
}
