//! What workers can do, and who waits for it.

use crate::input::SessionKey;
use crate::live::ExecutionKey;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use core::cmp::Reverse;
use escapement_contract::StepIndex;
use escapement_model::limits::NESTING_DEPTH_MAX;

/// Names an action inside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActionKey(pub(crate) u64);

/// Names a queue: one for each action and depth of nesting, so that a child never waits behind its own parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey {
    pub(crate) action: ActionKey,
    pub(crate) depth: u32,
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
    pub(crate) description: String,
    pub(crate) input_schema: String,
    /// By depth of nesting.
    pub(crate) queues: BTreeMap<u32, BTreeMap<WaitingKey, Waiting>>,
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
    /// Registered until then, even without a session.
    pub(crate) grace_until_ms: u64,
}

impl Action {
    pub(crate) fn new(name: Arc<str>, grace_until_ms: u64) -> Self {
        Self {
            name,
            description: String::new(),
            input_schema: String::new(),
            queues: BTreeMap::new(),
            sessions: BTreeSet::new(),
            free: BTreeSet::new(),
            free_to_wait: BTreeSet::new(),
            in_flight: 0,
            holders: 0,
            was_offered: false,
            grace_until_ms,
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

    // registered while a live session offers it, or one did within the grace.
    pub(crate) fn is_registered(&self, now_ms: u64) -> bool {
        !self.sessions.is_empty() || now_ms < self.grace_until_ms
    }

    /// Bytes of its description and its schema.
    pub(crate) fn text_bytes(&self) -> usize {
        self.description.len() + self.input_schema.len()
    }

    pub(crate) fn n_waiting(&self) -> usize {
        self.queues.values().map(BTreeMap::len).sum()
    }
}
