//! Steps that wait for workers, and the index of sessions that are free for them. Hands nothing out.

use super::Fleet;
use super::action::{Action, QueueKey, Waiting, WaitingKey};
use crate::keys::{ActionKey, SessionKey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

impl Fleet {
    pub(super) fn add_waiting(&mut self, queue: QueueKey, key: WaitingKey, waiting: Waiting) {
        let action = self.action_mut(queue.action);
        action.count_wait(waiting.since_ms);
        let steps = action.queues.entry(queue.clone()).or_default();
        let is_new = steps.is_empty();
        steps.insert(key, waiting);
        self.n_queues += usize::from(is_new);
        self.servable.insert(queue);
    }

    pub(super) fn remove_waiting(&mut self, queue: &QueueKey, place: WaitingKey) {
        let action = self.action_mut(queue.action);
        if let Some(steps) = action.queues.get_mut(queue) {
            if let Some(waiting) = steps.remove(&place) {
                action.discount_wait(waiting.since_ms);
            }
            self.drop_queue_if_empty(queue);
        }
    }

    /// Takes the first step that waits in a queue.
    pub(super) fn pop_waiting(&mut self, queue: &QueueKey) -> Option<Waiting> {
        let action = self.action_mut(queue.action);
        let (_, waiting) = action.queues.get_mut(queue)?.pop_first()?;
        action.discount_wait(waiting.since_ms);
        self.drop_queue_if_empty(queue);
        Some(waiting)
    }

    pub(super) fn first_waiting(&self, queue: &QueueKey) -> Option<WaitingKey> {
        self.action(queue.action)
            .queues
            .get(queue)?
            .first_key_value()
            .map(|(key, _)| *key)
    }

    /// Takes the queues that a session may be free for, each with its first step.
    pub(super) fn take_servable(&mut self) -> BTreeSet<(WaitingKey, QueueKey)> {
        let mut first_steps = BTreeSet::new();
        if self.n_queues == 0 {
            return first_steps;
        }
        self.reindex_stale_under_waiting();
        for queue in core::mem::take(&mut self.servable) {
            first_steps.extend(self.first_waiting(&queue).map(|first| (first, queue)));
        }
        first_steps
    }

    /// Returns the queues of an action; none if it was forgotten.
    pub(super) fn queues_of(&self, key: ActionKey) -> Vec<QueueKey> {
        let action = self.actions.get(&key).into_iter();
        action.flat_map(|action| action.queues.keys().cloned()).collect()
    }

    fn drop_queue_if_empty(&mut self, queue: &QueueKey) {
        let queues = &mut self.action_mut(queue.action).queues;
        if queues.get(queue).is_some_and(BTreeMap::is_empty) {
            queues.remove(queue);
            self.n_queues -= 1;
            self.servable.remove(queue);
        }
    }

    /// Returns a session with a free slot for the steps of a queue, the least loaded first, as far as the index is up to
    /// date.
    pub(super) fn free_session(&self, queue: &QueueKey) -> Option<SessionKey> {
        // At most `REFUSALS_MAX` are passed over.
        let may_do =
            |key: SessionKey| queue.refused_by.len() == 0 || queue.refused_by.admits(&self.sessions[&key]);
        self.action(queue.action).free.first(queue.depth, may_do)
    }

    /// Indexes a session under its actions after anything about it changed.
    pub(super) fn reindex(&mut self, key: SessionKey) {
        self.reindex_under(key, |_| true);
    }

    /// Notes that an attempt took a slot of a session or gave it back.
    ///
    /// What a batch gives back it mostly takes again, and few actions are looked at. So the index follows late:
    /// under the actions that [`Fleet::free_session`] looks at before it does, under the others when the batch ends.
    pub(super) fn load_changed(&mut self, key: SessionKey) {
        self.changed.insert(key);
    }

    /// Brings the index of the actions that steps wait for up to date with what changed since that was done last.
    pub(super) fn reindex_changed_under_waiting(&mut self) {
        while let Some(key) = self.changed.pop_first() {
            self.reindex_under(key, Action::has_waiting);
            self.stale.insert(key);
        }
    }

    /// Brings the whole index up to date.
    pub(crate) fn reindex_all(&mut self) {
        self.stale.append(&mut self.changed);
        while let Some(key) = self.stale.pop_first() {
            self.reindex(key);
        }
    }

    /// Brings the index of the actions that steps wait for up to date, whenever it became stale.
    fn reindex_stale_under_waiting(&mut self) {
        self.stale.append(&mut self.changed);
        let keys = core::mem::take(&mut self.stale);
        for key in &keys {
            self.reindex_under(*key, Action::has_waiting);
        }
        self.stale = keys;
    }

    fn reindex_under(&mut self, key: SessionKey, is_wanted: impl Fn(&Action) -> bool) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let load = session.has_ordinary_slot().then_some(session.in_flight);
        let takes_work = session.takes_work();
        for (action, offered) in &mut session.actions {
            let slots = offered.free_slots(load, takes_work);
            if slots == offered.indexed {
                continue;
            }
            let state = self.actions.get_mut(action).expect("an offered action is kept");
            if is_wanted(state) && state.free.replace(key, &mut offered.indexed, slots) {
                self.servable.extend(state.queues.keys().cloned());
            }
        }
    }
}
