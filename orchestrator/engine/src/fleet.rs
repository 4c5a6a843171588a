//! The workers: sessions, what they offer, what they have. Decides nothing about an execution.

mod action;
mod allowance;
mod attempt;
mod last_hello;
mod memory;
mod registrations;
mod session;
mod snapshots;

use crate::input::SessionKey;
use crate::limits::{ACTION_TEXTS_BYTES_MAX, ACTIONS_MAX};
use crate::worker::{AckVerdict, ActionSpec};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::{AttemptToken, InstanceId};

pub(crate) use action::{Action, ActionKey, QueueKey, RefusedBy, Waiting, WaitingKey};
pub(crate) use allowance::{Allowance, cost_of, cost_of_entries};
pub(crate) use attempt::{Attempt, Over};
pub(crate) use last_hello::LastHello;
pub(crate) use memory::Memory;
pub(crate) use registrations::Registrations;
pub(crate) use session::{Identity, Session, SessionAction};
pub(crate) use snapshots::{Pace, Snapshots};

/// All sessions, actions and attempts in flight.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) sessions: BTreeMap<SessionKey, Session>,
    pub(crate) instances: BTreeMap<InstanceId, SessionKey>,
    pub(crate) attempts: BTreeMap<AttemptToken, Attempt>,
    /// What a repeated outcome of an attempt that ended is told.
    pub(crate) ended: Memory<AttemptToken, AckVerdict>,
    /// Processes that get no new work, whichever session they come back with.
    pub(crate) drained: Memory<InstanceId, ()>,
    /// The last hello of processes that have no session.
    pub(crate) last_hellos: Memory<InstanceId, LastHello>,
    pub(crate) tokens_made: u64,
    actions: BTreeMap<ActionKey, Action>,
    /// Bytes of their descriptions and schemas.
    action_text_bytes: usize,
    names: BTreeMap<Arc<str>, ActionKey>,
    last_action: u64,
    /// Queues in which at least one step waits and to which a step or a free session came since no session was found
    /// for them.
    servable: BTreeSet<QueueKey>,
    /// Queues in which at least one step waits.
    n_queues: usize,
    /// Sessions whose load has changed since they were listed as free, or not, under any of their actions.
    changed: BTreeSet<SessionKey>,
    /// Sessions whose load has changed before, and that are listed right only where somebody looks.
    half_listed: BTreeSet<SessionKey>,
    /// Sessions with something to send.
    pub(crate) unflushed: BTreeSet<SessionKey>,
    /// Until then a loss may be the network's: many sessions were counted as silent.
    pub(crate) many_are_silent_until_ms: u64,
    pub(crate) registrations: Registrations,
}

impl Fleet {
    pub(crate) fn new(registrations: Registrations) -> Self {
        Self {
            sessions: BTreeMap::new(),
            instances: BTreeMap::new(),
            attempts: BTreeMap::new(),
            ended: Memory::default(),
            drained: Memory::default(),
            last_hellos: Memory::default(),
            tokens_made: 0,
            actions: BTreeMap::new(),
            action_text_bytes: 0,
            names: BTreeMap::new(),
            last_action: 0,
            servable: BTreeSet::new(),
            n_queues: 0,
            changed: BTreeSet::new(),
            half_listed: BTreeSet::new(),
            unflushed: BTreeSet::new(),
            many_are_silent_until_ms: 0,
            registrations,
        }
    }

    /// The key of an action, made where it is new.
    pub(crate) fn action_key(&mut self, name: &str) -> ActionKey {
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

    /// The key of an action that is kept already.
    pub(crate) fn find_action(&self, name: &str) -> Option<ActionKey> {
        self.names.get(name).copied()
    }

    /// Why no session may offer an action of that name now, for people.
    pub(crate) fn lacks_room_for(&self, spec: &ActionSpec) -> Option<&'static str> {
        let known = self.names.get(spec.name.as_str()).map(|key| self.action(*key));
        let text_bytes = self.action_text_bytes - known.map_or(0, Action::text_bytes);
        if known.is_none() && self.actions.len() >= ACTIONS_MAX {
            return Some("the workers offer too many actions together");
        }
        let is_too_much =
            text_bytes + spec.description.len() + spec.input_schema.len() > ACTION_TEXTS_BYTES_MAX;
        is_too_much.then_some("the descriptions and schemas of all actions are too large together")
    }

    /// Keeps what a worker says about an action, in place of what was said before.
    pub(crate) fn describe(&mut self, key: ActionKey, description: Arc<str>, input_schema: Arc<str>) {
        let action = self
            .actions
            .get_mut(&key)
            .expect("the key of an action that is kept");
        self.action_text_bytes -= action.text_bytes();
        (action.description, action.input_schema) = (description, input_schema);
        self.action_text_bytes += action.text_bytes();
    }

    pub(crate) fn action(&self, key: ActionKey) -> &Action {
        self.actions.get(&key).expect("the key of an action that is kept")
    }

    pub(crate) fn action_mut(&mut self, key: ActionKey) -> &mut Action {
        self.actions
            .get_mut(&key)
            .expect("the key of an action that is kept")
    }

    pub(crate) fn actions(&self) -> impl Iterator<Item = (ActionKey, &Action)> {
        // By name, for people.
        self.names.values().map(|key| (*key, self.action(*key)))
    }

    /// True if no session, no attempt and no step refers to an action, and it is not registered.
    pub(crate) fn is_unused(&self, key: ActionKey, now_ms: u64) -> bool {
        self.actions.get(&key).is_some_and(|action| {
            !action.is_registered(now_ms)
                && action.holders == 0
                && action.in_flight == 0
                && action.n_waiting() == 0
        })
    }

    pub(crate) fn forget_action(&mut self, key: ActionKey) {
        if let Some(action) = self.actions.remove(&key) {
            self.action_text_bytes -= action.text_bytes();
            self.names.remove(&action.name);
        }
    }

    pub(crate) fn has_action(&self, key: ActionKey) -> bool {
        self.actions.contains_key(&key)
    }

    pub(crate) fn add_waiting(&mut self, queue: QueueKey, key: WaitingKey, waiting: Waiting) {
        let steps = self
            .action_mut(queue.action)
            .queues
            .entry(queue.clone())
            .or_default();
        let is_new = steps.is_empty();
        steps.insert(key, waiting);
        self.n_queues += usize::from(is_new);
        self.servable.insert(queue);
    }

    pub(crate) fn remove_waiting(&mut self, queue: &QueueKey, place: WaitingKey) {
        if let Some(steps) = self.action_mut(queue.action).queues.get_mut(queue) {
            steps.remove(&place);
            self.drop_queue_if_empty(queue);
        }
    }

    /// Takes the first step that waits in a queue.
    pub(crate) fn pop_waiting(&mut self, queue: &QueueKey) -> Option<Waiting> {
        let steps = self.action_mut(queue.action).queues.get_mut(queue)?;
        let (_, waiting) = steps.pop_first()?;
        self.drop_queue_if_empty(queue);
        Some(waiting)
    }

    pub(crate) fn first_waiting(&self, queue: &QueueKey) -> Option<WaitingKey> {
        self.action(queue.action)
            .queues
            .get(queue)?
            .first_key_value()
            .map(|(key, _)| *key)
    }

    /// Brings the lists of the actions that steps wait for up to date and takes the queues that a session may be free for,
    /// each with its first step.
    pub(crate) fn take_servable(&mut self) -> BTreeSet<(WaitingKey, QueueKey)> {
        let mut first_steps = BTreeSet::new();
        if self.n_queues == 0 {
            return first_steps;
        }
        self.list_under_waiting();
        for queue in core::mem::take(&mut self.servable) {
            first_steps.extend(self.first_waiting(&queue).map(|first| (first, queue)));
        }
        first_steps
    }

    /// The queues of an action; none where it was forgotten.
    pub(crate) fn queues_of(&self, key: ActionKey) -> Vec<QueueKey> {
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

    /// Among the sessions with a free slot the least loaded one, as far as the list of the action is up to date.
    pub(crate) fn free_session(&self, queue: &QueueKey) -> Option<SessionKey> {
        let action = self.action(queue.action);
        // At most `REFUSALS_MAX` are passed over.
        let may_do =
            |key: &SessionKey| queue.refused_by.len() == 0 || queue.refused_by.admits(&self.sessions[key]);
        let mut ordinary = action.free.iter().map(|(_, session)| *session);
        ordinary.find(may_do).or_else(|| {
            let free = action.free_to_wait.range((queue.depth, SessionKey(0))..);
            let mut same_depth = free
                .take_while(|(depth, _)| *depth == queue.depth)
                .map(|(_, session)| *session);
            same_depth.find(may_do)
        })
    }

    /// Lists a session under its actions as free, or not, after anything about it changed.
    pub(crate) fn refresh_free(&mut self, key: SessionKey) {
        self.list(key, |_| true);
    }

    /// Notes that an attempt took a slot of a session or gave it back.
    ///
    /// What a batch gives back it mostly takes again, and few actions are looked at. So the lists follow late:
    /// those that [`Fleet::free_session`] looks at before it does, the others when the batch ends.
    pub(crate) fn load_changed(&mut self, key: SessionKey) {
        self.changed.insert(key);
    }

    /// Brings the lists of the actions that steps wait for up to date, whatever changed before.
    fn list_under_waiting(&mut self) {
        self.half_listed.append(&mut self.changed);
        let keys = core::mem::take(&mut self.half_listed);
        for key in &keys {
            self.list(*key, Action::has_waiting);
        }
        self.half_listed = keys;
    }

    /// Brings them up to date with what changed since they were the last time.
    pub(crate) fn list_changed_under_waiting(&mut self) {
        while let Some(key) = self.changed.pop_first() {
            self.list(key, Action::has_waiting);
            self.half_listed.insert(key);
        }
    }

    /// Brings all lists up to date.
    pub(crate) fn list_all(&mut self) {
        self.half_listed.append(&mut self.changed);
        while let Some(key) = self.half_listed.pop_first() {
            self.refresh_free(key);
        }
    }

    fn list(&mut self, key: SessionKey, is_wanted: impl Fn(&Action) -> bool) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let load = session.in_flight;
        let has_slot = session.has_ordinary_slot();
        let takes_work = session.takes_work();
        for (action, offered) in &mut session.actions {
            let listed = (has_slot && offered.has_ordinary_slot()).then_some(load);
            let depths = if takes_work { offered.waiting_depths() } else { 0 };
            if (listed, depths) == (offered.listed_load, offered.listed_depths) {
                continue;
            }
            let state = self.actions.get_mut(action).expect("an offered action is kept");
            if !is_wanted(state) {
                continue;
            }
            let is_freed = listed.is_some() && offered.listed_load.is_none();
            if is_freed || depths & !offered.listed_depths != 0 {
                self.servable.extend(state.queues.keys().cloned());
            }
            if let Some(before) = offered.listed_load {
                state.free.remove(&(before, key));
            }
            if let Some(load) = listed {
                state.free.insert((load, key));
            }
            state.list_depths(key, offered.listed_depths, depths);
            (offered.listed_load, offered.listed_depths) = (listed, depths);
        }
    }
}
