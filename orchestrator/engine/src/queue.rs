//! Who runs next: fair among namespaces, within each by priority and age, without those that no worker could begin, and the
//! limits of running executions. What does not fit into memory is parked: its request is in the store alone until it is wanted.
//! Starts nothing and reads nothing by itself.

mod by_need;
mod lane;
mod lanes;
mod need;
mod parked;
mod parking;
#[cfg(test)]
mod tests;

use crate::config::EngineConfig;
use crate::input::NamespaceShare;
use crate::keys::{ActionKey, ExecutionKey, NamespaceKey};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use escapement_contract::{AdmissionFacts, COUNTED_MAX, QuotaFacts};
use escapement_model::planted::{self, Bug};
use lane::Position;
use lanes::Lanes;
use need::Needs;
use parked::ParkedSet;

pub(crate) use need::NeedKey;
pub(crate) use parked::{FetchReason, Parked, Waiters};

/// All executions that wait for their start, and the slots of those that run.
#[derive(Debug)]
pub(crate) struct Queue {
    config: Arc<EngineConfig>,
    needs: Needs,
    lanes: Lanes,
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
    namespace: NamespaceKey,
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
            lanes: Lanes::default(),
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
        namespace: NamespaceKey,
        is_absent: impl Fn(ActionKey) -> bool,
    ) -> TakenNeed {
        let (need, is_new) = self.needs.take(actions, namespace, is_absent);
        TakenNeed {
            need,
            is_new,
            is_held: self.needs.is_held(need),
        }
    }

    /// Gives a need back. Returns its actions if no execution has it any more.
    pub(crate) fn give_back(&mut self, need: NeedKey, namespace: NamespaceKey) -> Option<Arc<[ActionKey]>> {
        self.needs.give_back(need, namespace)
    }

    /// What namespaces may take from now on.
    pub(crate) fn share_out(&mut self, shares: Vec<NamespaceShare>) {
        self.lanes.set_shares(shares);
    }

    pub(crate) fn share(&self, namespace: NamespaceKey) -> NamespaceShare {
        self.lanes.share(namespace)
    }

    /// An execution waits for its start once its accept is durable.
    pub(crate) fn reserve(
        &mut self,
        namespace: NamespaceKey,
        priority: i32,
        key: ExecutionKey,
        need: NeedKey,
    ) -> Ticket {
        self.lanes.change(namespace, |lane| lane.n_accepting += 1);
        Ticket {
            namespace,
            position: position(priority, key),
            need,
            is_reserved: true,
        }
    }

    /// An execution whose place was reserved waits for its start, in memory.
    pub(crate) fn enter(&mut self, ticket: Ticket) -> Ticket {
        assert!(ticket.is_reserved, "a place is entered once");
        let is_held = self.needs.is_held(ticket.need);
        self.lanes.change(ticket.namespace, |lane| {
            lane.n_accepting -= 1;
            lane.queue.insert(ticket.position, ticket.need, is_held);
        });
        Ticket {
            is_reserved: false,
            ..ticket
        }
    }

    /// An execution waits for its start, in memory.
    pub(crate) fn enter_at_once(
        &mut self,
        namespace: NamespaceKey,
        priority: i32,
        key: ExecutionKey,
        need: NeedKey,
    ) -> Ticket {
        let (position, is_held) = (position(priority, key), self.needs.is_held(need));
        self.lanes
            .change(namespace, |lane| lane.queue.insert(position, need, is_held));
        Ticket {
            namespace,
            position,
            need,
            is_reserved: false,
        }
    }

    /// An execution does not wait for its start any more. Returns the actions of its need if no other execution has it.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Arc<[ActionKey]>> {
        let is_held = self.needs.is_held(ticket.need);
        self.lanes
            .change(ticket.namespace, |lane| match ticket.is_reserved {
                true => lane.n_accepting -= 1,
                false => lane.remove(ticket.position, ticket.need, is_held),
            });
        self.give_back(ticket.need, ticket.namespace)
    }

    /// The execution that is next leaves the queue for its start and takes a slot. Returns as [`Queue::leave`] does.
    pub(crate) fn start(&mut self, ticket: Ticket) -> Option<Arc<[ActionKey]>> {
        let is_held = self.needs.is_held(ticket.need);
        self.lanes.start(ticket.namespace, |lane| {
            lane.remove(ticket.position, ticket.need, is_held);
            lane.n_running += 1;
        });
        self.give_back(ticket.need, ticket.namespace)
    }

    //
    /// Returns the execution that starts next, if there is a slot. None starts before the first of those whose turn it is, also
    /// while that is parked.
    pub(crate) fn next_to_start(&self) -> Option<ExecutionKey> {
        if self.lanes.counts().running >= self.config.max_running_executions {
            return None;
        }
        self.lanes.next().map(|(_, (_, key))| key)
    }

    //
    /// Returns true if an execution of the namespace that comes now may start without overtaking any that could: no other may
    /// start, and there is a slot for each whose accept is being written, held back or not.
    pub(crate) fn is_open(&self, namespace: NamespaceKey) -> bool {
        let counts = self.lanes.counts();
        let room = self.config.max_running_executions.saturating_sub(counts.running);
        let lane = self.lanes.lane(namespace);
        let (n_running, n_accepting) = lane.map_or((0, 0), |lane| (lane.n_running, lane.n_accepting));
        let room_of_its_own = self.share(namespace).running_room(n_running);
        !self.lanes.any_competes() && counts.accepting < room && n_accepting < room_of_its_own
    }

    /// An execution takes a slot that did not have to wait for it.
    pub(crate) fn take_slot(&mut self, namespace: NamespaceKey) {
        self.lanes.change(namespace, |lane| lane.n_running += 1);
    }

    pub(crate) fn free_slot(&mut self, namespace: NamespaceKey) {
        self.lanes.change(namespace, |lane| {
            lane.n_running = lane.n_running.checked_sub(1).expect("a slot is freed once");
        });
    }

    /// Executions that wait for their start, or for the write of their accept before that, with requests in memory.
    pub(crate) fn n_waiting(&self) -> usize {
        self.lanes.counts().waiting
    }

    pub(crate) fn n_parked(&self) -> usize {
        self.lanes.counts().parked
    }

    pub(crate) fn n_parked_of(&self, namespace: NamespaceKey) -> usize {
        self.lanes.lane(namespace).map_or(0, |lane| lane.n_parked)
    }

    /// How many queued executions would begin with an action.
    pub(crate) fn n_needing(&self, action: ActionKey) -> usize {
        self.n_having(self.needs.of(action))
    }

    /// Returns the number of executions that are held back that would begin with an action.
    pub(crate) fn n_held_for(&self, action: ActionKey) -> usize {
        let needs = self.needs.of(action);
        self.n_having(needs.filter(|need| self.needs.is_held(*need)))
    }

    fn n_having(&self, needs: impl Iterator<Item = NeedKey>) -> usize {
        let lanes = needs.flat_map(|need| {
            let namespaces = self.needs.namespaces(need);
            namespaces.filter_map(move |namespace| Some((need, self.lanes.lane(namespace)?)))
        });
        lanes.map(|(need, lane)| lane.n_of(need)).sum()
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
            for namespace in self.needs.namespaces(need) {
                self.lanes.change(namespace, |lane| lane.switch(need, is_held));
            }
            held.extend(self.needs.actions(need).filter(|_| is_held));
        }
        held
    }

    /// Returns the reason why the execution with this ticket waits, without the action for which it is held back.
    pub(crate) fn admission_facts(&self, ticket: &Ticket) -> AdmissionFacts {
        self.facts(ticket.namespace, ticket.position, ticket.need)
    }

    pub(crate) fn parked_facts(&self, parked: &Parked) -> AdmissionFacts {
        self.facts(parked.namespace, parked.position(), parked.need)
    }

    /// Returns the actions without which an execution that needs them is held back; none if it is not.
    pub(crate) fn held_back_for(&self, need: NeedKey) -> Option<Arc<[ActionKey]>> {
        self.needs.actions(need).filter(|_| self.needs.is_held(need))
    }

    fn facts(&self, namespace: NamespaceKey, position: Position, need: NeedKey) -> AdmissionFacts {
        let is_held = self.needs.is_held(need);
        let lane = self.lanes.lane(namespace);
        let before = lane
            .into_iter()
            .flat_map(|lane| lane.before(position, need, is_held));
        let n_running = lane.map_or(0, |lane| lane.n_running);
        let n_running_max = self.share(namespace).max_running_executions;
        AdmissionFacts {
            n_before: before.take(COUNTED_MAX as usize).count() as u64,
            n_running: count(self.lanes.counts().running),
            n_running_max: count(self.config.max_running_executions),
            quota: n_running_max.map(|n_running_max| QuotaFacts {
                n_running: count(n_running),
                n_running_max,
            }),
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
