//! What operators see of the fleet. Changes nothing.

use super::Fleet;
use super::action::Action;
use super::session::Session;
use crate::answer::{ActionView, SessionState, WorkerView};
use crate::keys::{ActionKey, SessionKey};
use crate::turn::Turn;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::InstanceId;

impl Fleet {
    /// Returns the worker process of a session that has an attempt.
    pub(crate) fn instance_of(&self, key: SessionKey) -> InstanceId {
        let identity = self.sessions[&key].identity.as_ref();
        identity
            .expect("a session with an attempt has said hello")
            .instance_id
    }

    pub(crate) fn worker_views(&self, turn: &Turn) -> Vec<WorkerView> {
        self.worker_views_of(|_| true, turn)
    }

    /// Returns the workers whose sessions are wanted, by worker id.
    pub(super) fn worker_views_of(
        &self,
        is_wanted: impl Fn(SessionKey) -> bool,
        turn: &Turn,
    ) -> Vec<WorkerView> {
        let sessions = self.sessions.iter();
        let mut views: Vec<WorkerView> = sessions
            .filter(|(key, _)| is_wanted(**key))
            .filter_map(|(_, session)| self.worker_view(session, turn))
            .collect();
        views.sort_by(|a, b| (&a.worker_id, a.session_id).cmp(&(&b.worker_id, b.session_id)));
        views
    }

    fn worker_view(&self, session: &Session, turn: &Turn) -> Option<WorkerView> {
        let identity = session.identity.as_ref()?;
        let mut actions: Vec<Arc<str>> = session
            .actions
            .keys()
            .map(|key| Arc::clone(&self.action(*key).name))
            .collect();
        actions.sort();
        let now_ms = turn.now_ms();
        let over = session
            .tokens()
            .iter()
            .filter_map(|token| self.attempts[token].over);
        let (mut stopping, mut stopping_age_ms) = (0, 0);
        for over in over {
            stopping += 1;
            stopping_age_ms = stopping_age_ms.max(now_ms - over.since_ms);
        }
        Some(WorkerView {
            worker_id: Arc::clone(&identity.worker_id),
            instance_id: identity.instance_id,
            session_id: session.session_id,
            state: match (session.connected, session.draining) {
                (false, _) => SessionState::Suspect,
                (true, true) => SessionState::Draining,
                (true, false) => SessionState::Active,
            },
            max_in_flight: session.max_in_flight,
            in_flight: u32::try_from(session.tokens().len())
                .expect("credits bound the attempts of a session"),
            actions,
            labels: identity.labels.clone(),
            build: identity.build.clone(),
            heartbeat_age_ms: now_ms - session.heard_at_ms,
            session_age_ms: now_ms - session.opened_at_ms,
            stopping,
            stopping_age_ms,
        })
    }

    /// Returns the actions that are registered. `n_held_for`: how many executions the queue holds back for one of them.
    pub(crate) fn action_views(
        &self,
        n_held_for: impl Fn(ActionKey) -> usize,
        turn: &Turn,
    ) -> Vec<ActionView> {
        let now_ms = turn.now_ms();
        let registered = self.actions().filter(|(_, action)| action.is_registered(now_ms));
        registered
            // During the grace after the start an action that was only asked for is not offered by anybody.
            .filter(|(_, action)| action.was_offered || action.is_declared)
            .map(|(key, action)| self.action_view(key, action, n_held_for(key), turn))
            .collect()
    }

    fn action_view(&self, key: ActionKey, action: &Action, n_held: usize, turn: &Turn) -> ActionView {
        ActionView {
            name: Arc::clone(&action.name),
            description: Arc::clone(&action.description),
            input_schema: Arc::clone(&action.input_schema),
            traits: action.traits.keys().cloned().collect(),
            workers: action.sessions.len() as u32,
            slots: self.action_slots(key, action),
            free_slots: self.action_free_slots(key, action),
            in_flight: action.in_flight,
            waiting: action.n_waiting() as u32,
            oldest_wait_ms: action.oldest_wait_ms(turn.now_ms()),
            held_back: u32::try_from(n_held).unwrap_or(u32::MAX),
            is_declared: action.is_declared,
            registered_for_ms: (action.sessions.is_empty())
                .then(|| action.registered_for_ms(turn.now_ms()))
                .flatten(),
        }
    }

    /// Slots of an action at all who offer it.
    fn action_slots(&self, key: ActionKey, action: &Action) -> u32 {
        let slots = action.sessions.iter().map(|session| {
            let session = &self.sessions[session];
            let offered = &session.actions[&key];
            let of_session = if offered.waits {
                u32::MAX
            } else {
                session.max_in_flight
            };
            offered.max_in_flight.unwrap_or(u32::MAX).min(of_session)
        });
        slots.fold(0, u32::saturating_add)
    }

    /// Free slots of an action at all who offer it.
    pub(super) fn action_free_slots(&self, key: ActionKey, action: &Action) -> u32 {
        let sessions = action.sessions.iter();
        sessions
            .map(|session| self.free_slots(&self.sessions[session], key))
            .fold(0, u32::saturating_add)
    }

    fn free_slots(&self, session: &Session, key: ActionKey) -> u32 {
        if !session.takes_work() {
            return 0;
        }
        let offered = &session.actions[&key];
        let taken: u32 = offered.in_flight.values().sum();
        let own = offered
            .max_in_flight
            .map_or(u32::MAX, |max| max.saturating_sub(taken));
        if offered.waits {
            own
        } else {
            own.min(session.max_in_flight.saturating_sub(session.in_flight))
        }
    }
}
