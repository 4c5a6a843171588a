//! What waits in memory and what in the store alone, and when requests are read. Starts nothing and reads nothing by itself.

use super::parked::{FetchReason, Parked, Waiters};
use super::{NeedKey, Queue, Ticket};
use crate::answer::{Caller, Ended};
use crate::arrivals::Arrivals;
use crate::clock::WallClock;
use crate::effect::Effect;
use crate::input::Watch;
use crate::keys::{CallerId, ExecutionKey};
use crate::limits::{LOADS_AHEAD_MAX, LOADS_WATCHED_MAX, OVERDUE_LOADED_MAX};
use crate::stored::RecoveredParked;
use crate::turn::Turn;
use escapement_contract::due_at_unix;
use escapement_model::ExecutionId;

impl Queue {
    //
    /// Returns an execution that is to be parked: what is beyond the limit, what cannot start now before anything else, and
    /// what is behind a parked execution of its namespace that may start. So the first of those that may start are in memory.
    pub(crate) fn next_to_park(&self) -> Option<ExecutionKey> {
        let is_beyond = self.lanes.counts().queued > self.config.queued_in_memory_max;
        let beyond = || self.lanes.last_spare().or_else(|| self.lanes.last());
        let beyond = is_beyond.then(beyond).flatten();
        beyond.or_else(|| self.lanes.last_behind()).map(|(_, key)| key)
    }

    //
    /// Returns an execution that is to be parked though it fits, so that a request is loaded whose turn comes before its own.
    /// One for each request that is asked for then.
    pub(crate) fn next_to_make_room(&self, is_draining: bool) -> Option<ExecutionKey> {
        let may_load = !is_draining
            && self.loads_paused_until_ms.is_none()
            && self.parked.n_prefetched() < LOADS_AHEAD_MAX;
        let overtaken = self
            .lanes
            .last_overtaken()
            .filter(|_| may_load && !self.has_room());
        overtaken.map(|(_, key)| key)
    }

    /// Returns true if memory takes one more of those that may start.
    fn has_room(&self) -> bool {
        self.lanes.counts().open + self.parked.n_prefetched() < self.config.queued_in_memory_max
    }

    /// An execution stays in memory wherever it stands, because a caller watches it.
    pub(crate) fn pin(&mut self, ticket: &Ticket) {
        let is_held = self.needs.is_held(ticket.need);
        self.lanes.change(ticket.namespace, |lane| {
            lane.pin(ticket.position, ticket.need, is_held);
        });
    }

    /// No caller watches an execution any more. Does nothing to one that is not pinned.
    pub(crate) fn unpin(&mut self, ticket: &Ticket) {
        let is_held = self.needs.is_held(ticket.need);
        self.lanes.change(ticket.namespace, |lane| {
            lane.unpin(ticket.position, ticket.need, is_held);
        });
    }

    /// The request of an execution that waits in memory is in the store alone from now on.
    pub(crate) fn park(
        &mut self,
        execution_id: ExecutionId,
        parked: Parked,
        ticket: &Ticket,
        waiters: Arrivals<Caller<Ended>>,
    ) {
        assert_eq!(parked.need, ticket.need, "what is parked needs what it needed");
        let is_held = self.needs.is_held(ticket.need);
        self.parked.insert(execution_id, parked, is_held, &mut self.lanes);
        self.lanes.change(ticket.namespace, |lane| {
            lane.remove(ticket.position, ticket.need, is_held);
        });
        self.parked.add_waiters(parked.key, waiters);
    }

    /// An execution from before the restart that waits beyond memory.
    pub(crate) fn recover_parked(&mut self, key: ExecutionKey, recovered: &RecoveredParked, turn: &Turn) {
        let parked = Parked {
            key,
            namespace: recovered.namespace,
            digest: recovered.request_digest,
            priority: recovered.priority,
            clock: WallClock::set(turn.now()),
            //
            due_ms: due_at_unix(recovered.deadline_ms, turn.now()),
            // Its request is read once in its turn, and tells.
            need: NeedKey::NONE,
            fetch: None,
        };
        self.parked
            .insert(recovered.execution_id, parked, false, &mut self.lanes);
    }

    pub(crate) fn find_parked(&self, execution_id: ExecutionId) -> Option<Parked> {
        self.parked.find(execution_id).copied()
    }

    /// A caller waits for the result of a parked execution.
    pub(crate) fn wait_parked(&mut self, key: ExecutionKey, caller: Caller<Ended>) {
        self.parked.add_waiters(key, [caller]);
    }

    /// A caller wants to watch a parked execution.
    pub(crate) fn watch_parked(&mut self, watch: Watch) {
        self.parked.add_watch(watch);
    }

    pub(crate) fn forget_caller(&mut self, key: ExecutionKey, caller: CallerId) {
        self.parked.forget_caller(key, caller);
    }

    /// Asks for requests, each kind within its own bounds, so that none delays another.
    pub(crate) fn load_requests(&mut self, is_draining: bool, turn: &mut Turn) {
        if self.loads_paused_until_ms.is_some() {
            return;
        }
        let mut load = |execution_id| turn.push(Effect::Load { execution_id });
        while self.parked.n_watched() < LOADS_WATCHED_MAX
            && let Some(execution_id) = self.parked.fetch_watched(&self.needs, &mut self.lanes)
        {
            load(execution_id);
        }
        // Those whose ends are not written yet count: on a full disk the rest waits where it takes no memory.
        while self.n_overdue < OVERDUE_LOADED_MAX
            && let Some(execution_id) = self.parked.fetch_overdue(&self.needs, &mut self.lanes)
        {
            self.n_overdue += 1;
            load(execution_id);
        }
        if is_draining {
            return;
        }
        while self.parked.n_prefetched() < LOADS_AHEAD_MAX
            && self.has_room()
            && let Some(execution_id) = self.parked.begin_prefetch(&self.needs, &mut self.lanes)
        {
            load(execution_id);
        }
    }

    /// The request of a parked execution has come. The caller gives its need back.
    pub(crate) fn unpark(&mut self, execution_id: ExecutionId) -> (Parked, Waiters) {
        self.load_failures = 0;
        self.parked.remove(execution_id, &self.needs, &mut self.lanes)
    }

    /// The request of a parked execution cannot be read, ever. The caller gives its need back.
    pub(crate) fn remove_damaged(&mut self, execution_id: ExecutionId) -> (Parked, Waiters) {
        let (parked, waiters) = self.parked.remove(execution_id, &self.needs, &mut self.lanes);
        self.end_overdue(parked.fetch == Some(FetchReason::Overdue));
        (parked, waiters)
    }

    /// The request of a parked execution could not be read this time. Requests that were under way together fail together,
    /// and count once.
    pub(crate) fn load_failed(&mut self, execution_id: ExecutionId, turn: &Turn) {
        let parked = self
            .parked
            .put_back(execution_id, turn.now_ms(), &self.needs, &mut self.lanes);
        self.end_overdue(parked.fetch == Some(FetchReason::Overdue));
        if self.loads_paused_until_ms.is_none() {
            self.load_failures = self.load_failures.saturating_add(1);
            let pause_ms = self.config.retry_pause_ms(self.load_failures);
            self.loads_paused_until_ms = Some(turn.now_ms().saturating_add(pause_ms));
        }
    }

    /// An execution that was asked for because its deadline was over is settled, or is not in memory.
    pub(crate) fn end_overdue(&mut self, counts_as_overdue: bool) {
        if counts_as_overdue {
            self.n_overdue -= 1;
        }
    }

    /// Takes those whose deadlines are over by now out of the queue: no other waits for them any more.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        self.parked.expire(now_ms, &self.needs, &mut self.lanes);
    }

    /// Returns the time at which the first deadline of a parked execution is over.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        self.parked.next_due_ms()
    }

    /// When requests may be asked for again, if that is paused.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.loads_paused_until_ms
    }

    /// The pause is over.
    pub(crate) fn handle_due(&mut self) {
        self.loads_paused_until_ms = None;
    }
}
