//! What workers can do, and who waits for it.

use super::Session;
use crate::input::SessionKey;
use crate::live::ExecutionKey;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::cmp::Reverse;
use escapement_contract::StepIndex;
use escapement_model::InstanceId;
use escapement_model::limits::NESTING_DEPTH_MAX;

/// Names an action inside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActionKey(pub(crate) u64);

/// Names a queue: one for each action and depth of nesting, so that a child never waits behind its own parent,
/// and for each set of workers that refused, so that no step waits behind one that fewer workers may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey {
    pub(crate) action: ActionKey,
    pub(crate) depth: u32,
    pub(crate) refused_by: RefusedBy,
}

/// The worker processes that have refused an attempt. Mostly there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RefusedBy(Option<Arc<BTreeSet<InstanceId>>>);

impl RefusedBy {
    pub(crate) fn insert(&mut self, instance_id: InstanceId) {
        Arc::make_mut(self.0.get_or_insert_default()).insert(instance_id);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |instances| instances.len())
    }

    /// True if the session's process has not refused.
    pub(crate) fn admits(&self, session: &Session) -> bool {
        let Some(instances) = &self.0 else { return true };
        let identity = session.identity.as_ref();
        identity.is_some_and(|identity| !instances.contains(&identity.instance_id))
    }
}

// steps of different executions compete by priority, then age; those of one execution in canonical order.
/// The place of a step in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitingKey {
    pub(crate) priority: Reverse<i32>,
    pub(crate) execution: ExecutionKey,
    pub(crate) position: u16,
}

/// A step that waits for a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) execution: ExecutionKey,
    pub(crate) step: StepIndex,
    pub(crate) attempt: u32,
}

/// One action.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) input_schema: Arc<str>,
    pub(crate) queues: BTreeMap<QueueKey, BTreeMap<WaitingKey, Waiting>>,
    /// Active sessions that offer it.
    pub(crate) sessions: BTreeSet<SessionKey>,
    /// Those with a free ordinary slot, the least loaded first.
    pub(crate) free: BTreeSet<(u32, SessionKey)>,
    /// Those that offer it as one whose attempts only wait, each under the depths of nesting at which it has a slot.
    pub(crate) free_to_wait: BTreeSet<(u32, SessionKey)>,
    pub(crate) in_flight: u32,
    /// Sessions that offer it or did and are not gone; their books refer to it.
    pub(crate) holders: u32,
    /// Somebody offered it once.
    pub(crate) was_offered: bool,
    /// The operator declares it: it is registered without a session.
    pub(crate) is_declared: bool,
    /// An execution asked for it.
    pub(crate) was_named: bool,
    /// Since when it is offered, if it is.
    pub(crate) offered_since_ms: u64,
    /// When its last session left, if none is there.
    pub(crate) left_at_ms: u64,
    /// Registered until then, even without a session.
    pub(crate) registered_until_ms: u64,
    /// Kept in mind, here and in the store, for the registration memory after its last session leaves.
    pub(crate) is_remembered: bool,
    /// How much of its memory the store was told last, in milliseconds.
    pub(crate) written_left_ms: Option<u64>,
    /// What the needs of queued executions know: it is registered, and no session offers it.
    pub(crate) is_known_absent: bool,
    /// It was told that executions are held back for want of it.
    pub(crate) is_told_absent: bool,
}

impl Action {
    pub(crate) fn new(name: Arc<str>, registered_until_ms: u64, is_declared: bool) -> Self {
        Self {
            name,
            description: Arc::default(),
            input_schema: Arc::default(),
            queues: BTreeMap::new(),
            sessions: BTreeSet::new(),
            free: BTreeSet::new(),
            free_to_wait: BTreeSet::new(),
            in_flight: 0,
            holders: 0,
            was_offered: false,
            is_declared,
            was_named: false,
            offered_since_ms: 0,
            left_at_ms: 0,
            registered_until_ms,
            is_remembered: false,
            written_left_ms: None,
            is_known_absent: false,
            is_told_absent: false,
        }
    }

    /// Lists a session under the depths at which it is free to wait now, a bit for each, in place of those before.
    pub(crate) fn list_depths(&mut self, session: SessionKey, before: u16, now: u16) {
        let is_in = |depths: u16, depth: u32| depths & (1 << depth) != 0;
        for depth in 0..=NESTING_DEPTH_MAX {
            match (is_in(before, depth), is_in(now, depth)) {
                (false, true) => {
                    self.free_to_wait.insert((depth, session));
                }
                (true, false) => {
                    self.free_to_wait.remove(&(depth, session));
                }
                (true, true) | (false, false) => {}
            }
        }
    }

    //
    pub(crate) fn is_registered(&self, now_ms: u64) -> bool {
        !self.sessions.is_empty() || self.is_declared || now_ms < self.registered_until_ms
    }

    /// Registered, and no session offers it.
    pub(crate) fn is_absent(&self, now_ms: u64) -> bool {
        self.sessions.is_empty() && self.is_registered(now_ms)
    }

    /// For how much longer it is registered without a session, in milliseconds; `None`: for as long as it is declared.
    pub(crate) fn registered_for_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.is_declared).then(|| self.registered_until_ms.saturating_sub(now_ms))
    }

    /// Bytes of its description and its schema.
    pub(crate) fn text_bytes(&self) -> usize {
        self.description.len() + self.input_schema.len()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.queues.is_empty()
    }

    pub(crate) fn n_waiting(&self) -> usize {
        self.queues.values().map(BTreeMap::len).sum()
    }
}
