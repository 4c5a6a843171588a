//! What workers can do, and who waits for it.

use super::free::FreeSessions;
use super::session::Session;
use crate::keys::{ActionKey, ExecutionKey, SessionKey};
use crate::limits::ACTION_BYTES;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use bytes::Bytes;
use core::cmp::Reverse;
use escapement_contract::StepIndex;
use escapement_model::InstanceId;
use escapement_model::ledger::Tenant;

/// Names a queue: one for each action and depth of nesting, so that a child never waits behind its own parent,
/// and for each set of workers that refused, so that no step waits behind one that fewer workers may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueKey {
    pub(super) action: ActionKey,
    pub(super) depth: u32,
    pub(super) refused_by: RefusedBy,
}

/// The worker processes that have refused an attempt. Mostly there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RefusedBy(Option<Arc<BTreeSet<InstanceId>>>);

impl RefusedBy {
    pub(super) fn insert(&mut self, instance_id: InstanceId) {
        Arc::make_mut(self.0.get_or_insert_default()).insert(instance_id);
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |instances| instances.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InstanceId> {
        self.0.iter().flat_map(|instances| instances.iter())
    }

    /// Returns true if the session's process has not refused.
    pub(super) fn admits(&self, session: &Session) -> bool {
        let Some(instances) = &self.0 else { return true };
        let identity = session.identity.as_ref();
        identity.is_some_and(|identity| !instances.contains(&identity.instance_id))
    }
}

// steps of different executions compete by priority, then age; those of one execution in canonical order.
/// The place of a step in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitingKey {
    pub(super) priority: Reverse<i32>,
    pub(super) execution: ExecutionKey,
    pub(super) position: u16,
}

/// A step that waits for a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) execution: ExecutionKey,
    pub(super) step: StepIndex,
    pub(super) attempt: u32,
    pub(super) since_ms: u64,
}

/// An action.
#[derive(Debug, Default)]
pub(super) struct Action {
    pub(super) name: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) input_schema: Arc<str>,
    /// What its holders say of its nature, and how many of them say it.
    pub(super) traits: BTreeMap<Bytes, u32>,
    pub(super) queues: BTreeMap<QueueKey, BTreeMap<WaitingKey, Waiting>>,
    /// Since when these steps wait, and how many since then.
    pub(super) waits: BTreeMap<u64, u32>,
    /// Active sessions that offer it.
    pub(super) sessions: BTreeSet<SessionKey>,
    /// Those among them that could take an attempt now.
    pub(super) free: FreeSessions,
    pub(super) in_flight: u32,
    /// Sessions that offer it or did and are not gone; their books refer to it.
    pub(super) holders: u32,
    /// Those among them that do not drain: they do it, now or when their streams are back.
    pub(super) n_staying: usize,
    /// Needs of queued executions that name it.
    pub(super) n_needs: u32,
    /// Owner of the session that described it last; `None` if no session has since the start.
    pub(super) owner: Tenant,
    /// Bytes for which its owner is charged.
    pub(super) n_charged: usize,
    /// Somebody offered it once.
    pub(super) was_offered: bool,
    /// The operator declares it: it is registered without a session.
    pub(super) is_declared: bool,
    /// An execution asked for it.
    pub(super) was_named: bool,
    /// Since when it is offered, if it is.
    pub(super) offered_since_ms: u64,
    /// When its last session left, if none is there.
    pub(super) left_at_ms: u64,
    /// Registered until then, even without a session.
    pub(super) registered_until_ms: u64,
    /// Kept in mind, here and in the store, for the registration memory after its last session leaves.
    pub(super) is_remembered: bool,
    /// How much of its memory the store was told last, in milliseconds.
    pub(super) written_left_ms: Option<u64>,
    /// What the needs of queued executions know: it is registered, and no session offers it.
    pub(super) is_known_absent: bool,
    /// It was told that executions are held back for want of it.
    pub(super) is_told_absent: bool,
}

impl Action {
    pub(super) fn new(name: Arc<str>, registered_until_ms: u64, is_declared: bool) -> Self {
        Self {
            name,
            is_declared,
            registered_until_ms,
            ..Self::default()
        }
    }

    //
    pub(super) fn is_registered(&self, now_ms: u64) -> bool {
        !self.sessions.is_empty() || self.is_declared || now_ms < self.registered_until_ms
    }

    /// Registered, and no session offers it.
    pub(super) fn is_absent(&self, now_ms: u64) -> bool {
        self.sessions.is_empty() && self.is_registered(now_ms)
    }

    /// For how much longer it is registered without a session, in milliseconds; `None`: for as long as it is declared.
    pub(super) fn registered_for_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.is_declared).then(|| self.registered_until_ms.saturating_sub(now_ms))
    }

    /// Returns the bytes of all that is said of its nature.
    pub(super) fn traits_bytes(&self) -> usize {
        self.traits.keys().map(Bytes::len).sum()
    }

    /// Returns the bytes that it takes.
    pub(super) fn n_bytes(&self) -> usize {
        let texts = self.name.len() + self.description.len() + self.input_schema.len();
        ACTION_BYTES + texts + self.traits_bytes()
    }

    /// A step begins to wait.
    pub(super) fn count_wait(&mut self, since_ms: u64) {
        *self.waits.entry(since_ms).or_default() += 1;
    }

    /// A step waits no more.
    pub(super) fn discount_wait(&mut self, since_ms: u64) {
        let n_waits = self.waits.get_mut(&since_ms).expect("what waits is counted");
        *n_waits -= 1;
        if *n_waits == 0 {
            self.waits.remove(&since_ms);
        }
    }

    /// For how long the step waits that has waited for longest, in milliseconds; 0 if none waits.
    pub(super) fn oldest_wait_ms(&self, now_ms: u64) -> u64 {
        self.waits.keys().next().map_or(0, |since_ms| now_ms - since_ms)
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.queues.is_empty()
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.queues.values().map(BTreeMap::len).sum()
    }
}
