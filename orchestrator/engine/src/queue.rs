//! Who runs next: the queue by priority and age, without those that no worker could begin, and the limit of running
//! executions. What does not fit into memory is parked: its request is in the store alone until it is wanted.
//! Starts nothing and reads nothing by itself.

mod admission;
mod by_need;
mod need;
mod parked;
#[cfg(test)]
mod tests;

use crate::answer::{Caller, Ended};
use crate::clock::WallClock;
use crate::config::EngineConfig;
use crate::effect::Effect;
use crate::input::Watch;
use crate::keys::{ActionKey, CallerId, ExecutionKey};
use crate::limits::{LOADS_AHEAD_MAX, LOADS_WATCHED_MAX, OVERDUE_LOADED_MAX};
use crate::stored::RecoveredParked;
use crate::turn::Turn;
use admission::{Admission, Position};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use escapement_contract::{AdmissionFacts, COUNTED_MAX, due_at_unix};
use escapement_model::ExecutionId;
use escapement_model::planted::{self, Bug};
use need::Needs;
use parked::ParkedSet;

pub(crate) use need::NeedKey;
pub(crate) use parked::{FetchReason, Parked, Waiters};

/// All executions that wait for their start, and the slots of those that run.
#[derive(Debug)]
pub(crate) struct Queue {
    config: Arc<EngineConfig>,
    needs: Needs,
    admission: Admission,
    parked: ParkedSet,
    /// Executions that were asked for because their deadlines were over, and are not settled.
    n_overdue: usize,
    /// Nothing is asked for before, because a request could not be read.
    loads_paused_until_ms: Option<u64>,
    /// How often in a row that happened.
    load_failures: u32,
}

/// A place in the queue. The execution keeps it and gives it back once.
#[derive(Debug)]
pub(crate) struct Ticket {
    position: Position,
    need: NeedKey,
    /// The accept of the execution is being written; it waits for its start after that.
    is_reserved: bool,
}

/// What an execution needs to begin with, counted once more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenNeed {
    pub(crate) need: NeedKey,
    /// No other queued execution has it.
    pub(crate) is_new: bool,
    pub(crate) is_held: bool,
}

impl Queue {
    pub(crate) fn new(config: Arc<EngineConfig>) -> Self {
        Self {
            config,
            needs: Needs::default(),
            admission: Admission::default(),
            parked: ParkedSet::default(),
            n_overdue: 0,
            loads_paused_until_ms: None,
            load_failures: 0,
        }
    }

    /// Takes a need: these actions, sorted, each once. The caller gives it back with [`Queue::give_back`] or a ticket.
    pub(crate) fn take_need(
        &mut self,
        actions: &[ActionKey],
        is_absent: impl Fn(ActionKey) -> bool,
    ) -> TakenNeed {
        let (need, is_new) = self.needs.take(actions, is_absent);
        TakenNeed {
            need,
            is_new,
            is_held: self.needs.is_held(need),
        }
    }

    /// Gives a need back. Returns its actions if no execution has it any more.
    pub(crate) fn give_back(&mut self, need: NeedKey) -> Option<Arc<[ActionKey]>> {
        self.needs.give_back(need)
    }

    /// An execution waits for its start once its accept is durable.
    pub(crate) fn reserve(&mut self, priority: i32, key: ExecutionKey, need: NeedKey) -> Ticket {
        self.admission.reserve();
        Ticket {
            position: position(priority, key),
            need,
            is_reserved: true,
        }
    }

    /// An execution whose place was reserved waits for its start, in memory.
    pub(crate) fn enter(&mut self, ticket: Ticket) -> Ticket {
        assert!(ticket.is_reserved, "a place is entered once");
        self.admission.end_reservation();
        self.enqueue(ticket.position, ticket.need)
    }

    /// An execution waits for its start, in memory.
    pub(crate) fn enter_at_once(&mut self, priority: i32, key: ExecutionKey, need: NeedKey) -> Ticket {
        self.enqueue(position(priority, key), need)
    }

    fn enqueue(&mut self, position: Position, need: NeedKey) -> Ticket {
        self.admission.enqueue(position, need, self.needs.is_held(need));
        Ticket {
            position,
            need,
            is_reserved: false,
        }
    }

    /// An execution does not wait for its start any more. Returns the actions of its need if no other execution has it.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Arc<[ActionKey]>> {
        if ticket.is_reserved {
            self.admission.end_reservation();
        } else {
            self.remove(&ticket);
        }
        self.give_back(ticket.need)
    }

    fn remove(&mut self, ticket: &Ticket) {
        let is_held = self.needs.is_held(ticket.need);
        self.admission.remove(ticket.position, ticket.need, is_held);
    }

    /// Returns the execution that starts next, if there is a slot. None starts before the first of the parked ones.
    pub(crate) fn next_to_start(&self) -> Option<ExecutionKey> {
        let next = self.admission.next(self.config.max_running_executions)?;
        //
        let is_behind = self.parked.first().is_some_and(|first| first < next);
        (!is_behind).then_some(next.1)
    }

    //
    /// Returns true if an execution that comes now may start without overtaking any that could.
    pub(crate) fn is_open(&self) -> bool {
        self.parked.first().is_none() && self.admission.is_open(self.config.max_running_executions)
    }

    pub(crate) fn take_slot(&mut self) {
        self.admission.take_slot();
    }

    pub(crate) fn free_slot(&mut self) {
        self.admission.free_slot();
    }

    /// Executions that wait for their start, or for the write of their accept before that, with requests in memory.
    pub(crate) fn n_waiting(&self) -> usize {
        self.admission.n_waiting()
    }

    pub(crate) fn n_parked(&self) -> usize {
        self.parked.len()
    }

    /// How many queued executions would begin with an action.
    pub(crate) fn n_needing(&self, action: ActionKey) -> usize {
        let needs = self.needs.of(action);
        needs
            .map(|need| self.admission.n_of(need) + self.parked.n_of(need))
            .sum()
    }

    /// Returns true if executions are held back that would begin with an action.
    pub(crate) fn holds_back_for(&self, action: ActionKey) -> bool {
        self.needs.of(action).any(|need| self.needs.is_held(need))
    }

    //
    /// An action is absent from now on, or is not any more. Returns the actions of each need that is held back for it.
    pub(crate) fn switch(&mut self, action: ActionKey, is_absent: bool) -> Vec<Arc<[ActionKey]>> {
        let mut held = Vec::new();
        for need in self.needs.switch(action, is_absent) {
            let is_held = self.needs.is_held(need);
            self.admission.switch(need, is_held);
            self.parked.switch(need, is_held);
            held.extend(self.needs.actions(need).filter(|_| is_held));
        }
        held
    }

    //
    /// Returns an execution that is to be parked: what is beyond the limit, what is held back before anything else, and what
    /// is behind a parked execution that may start. So the first of those that may start are in memory.
    pub(crate) fn next_to_park(&self) -> Option<ExecutionKey> {
        let is_beyond = self.admission.n_queued() > self.config.queued_in_memory_max;
        let held = self.admission.last_held().filter(|_| is_beyond);
        let open = self.admission.last_open().filter(|last| {
            let is_behind = self.parked.first_idle().is_some_and(|first| first < *last);
            is_beyond || is_behind
        });
        held.or(open).map(|(_, key)| key)
    }

    /// An execution stays in memory wherever it stands, because a caller watches it.
    pub(crate) fn pin(&mut self, ticket: &Ticket) {
        let is_held = self.needs.is_held(ticket.need);
        self.admission.pin(ticket.position, ticket.need, is_held);
    }

    /// No caller watches an execution any more. Does nothing to one that is not pinned.
    pub(crate) fn unpin(&mut self, ticket: &Ticket) {
        let is_held = self.needs.is_held(ticket.need);
        self.admission.unpin(ticket.position, ticket.need, is_held);
    }

    /// The request of an execution that waits in memory is in the store alone from now on.
    pub(crate) fn park(
        &mut self,
        execution_id: ExecutionId,
        parked: Parked,
        ticket: &Ticket,
        waiters: Vec<Caller<Ended>>,
    ) {
        assert_eq!(parked.need, ticket.need, "what is parked needs what it needed");
        self.remove(ticket);
        let is_held = self.needs.is_held(ticket.need);
        self.parked.insert(execution_id, parked, is_held);
        self.parked.add_waiters(parked.key, waiters);
    }

    /// An execution from before the restart that waits beyond memory.
    pub(crate) fn recover_parked(&mut self, key: ExecutionKey, recovered: &RecoveredParked, turn: &Turn) {
        let parked = Parked {
            key,
            digest: recovered.request_digest,
            priority: recovered.priority,
            clock: WallClock::set(turn.now()),
            //
            due_ms: due_at_unix(recovered.deadline_ms, turn.now()),
            // Its request is read once in its turn, and tells.
            need: NeedKey::NONE,
            fetch: None,
        };
        self.parked.insert(recovered.execution_id, parked, false);
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
            && let Some(execution_id) = self.parked.fetch_watched(&self.needs)
        {
            load(execution_id);
        }
        // Those whose ends are not written yet count: on a full disk the rest waits where it takes no memory.
        while self.n_overdue < OVERDUE_LOADED_MAX
            && let Some(execution_id) = self.parked.fetch_overdue(&self.needs)
        {
            self.n_overdue += 1;
            load(execution_id);
        }
        if is_draining {
            return;
        }
        while self.parked.n_prefetched() < LOADS_AHEAD_MAX
            && self.admission.n_queued_open() + self.parked.n_prefetched() < self.config.queued_in_memory_max
            && let Some(execution_id) = self.parked.begin_prefetch(&self.needs)
        {
            load(execution_id);
        }
    }

    /// The request of a parked execution has come. The caller gives its need back.
    pub(crate) fn unpark(&mut self, execution_id: ExecutionId) -> (Parked, Waiters) {
        self.load_failures = 0;
        self.parked.remove(execution_id, &self.needs)
    }

    /// The request of a parked execution cannot be read, ever. The caller gives its need back.
    pub(crate) fn remove_damaged(&mut self, execution_id: ExecutionId) -> (Parked, Waiters) {
        let (parked, waiters) = self.parked.remove(execution_id, &self.needs);
        self.end_overdue(parked.fetch == Some(FetchReason::Overdue));
        (parked, waiters)
    }

    /// The request of a parked execution could not be read this time. Requests that were under way together fail together,
    /// and count once.
    pub(crate) fn load_failed(&mut self, execution_id: ExecutionId, turn: &Turn) {
        let parked = self.parked.put_back(execution_id, turn.now_ms(), &self.needs);
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
        self.parked.expire(now_ms, &self.needs);
    }

    /// When the first deadline of a parked execution is over.
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

    /// Why the execution with this ticket waits, without the action for which it is held back.
    pub(crate) fn admission_facts(&self, ticket: &Ticket) -> AdmissionFacts {
        self.facts(ticket.position, ticket.need)
    }

    pub(crate) fn parked_facts(&self, parked: &Parked) -> AdmissionFacts {
        self.facts(parked.position(), parked.need)
    }

    /// The actions without which an execution that needs them is held back; none if it is not.
    pub(crate) fn held_back_for(&self, need: NeedKey) -> Option<Arc<[ActionKey]>> {
        self.needs.actions(need).filter(|_| self.needs.is_held(need))
    }

    fn facts(&self, position: Position, need: NeedKey) -> AdmissionFacts {
        let is_held = self.needs.is_held(need);
        let queued = self.admission.before(position, need, is_held);
        let parked = self.parked.before(position, need, is_held);
        AdmissionFacts {
            n_before: queued.chain(parked).take(COUNTED_MAX as usize).count() as u64,
            n_running: count(self.admission.n_running()),
            n_running_max: count(self.config.max_running_executions),
            is_draining: false,
            held_back: None,
        }
    }
}

impl Ticket {
    pub(crate) fn need(&self) -> NeedKey {
        self.need
    }
}

/// Where an execution in memory stands.
fn position(priority: i32, key: ExecutionKey) -> Position {
    let priority = if planted::is_on(Bug::PriorityIgnored) {
        0
    } else {
        priority
    };
    (Reverse(priority), key)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
