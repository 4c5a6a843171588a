//! How executions enter the queue and leave it: for their start, into the store, and back into memory.

use super::Engine;
use crate::answer::{Ended, Watched};
use crate::keys::{ActionKey, ExecutionKey};
use crate::queue::{NeedKey, Parked, Ticket, Waiters};
use crate::stored::{LoadOutcome, Recovered, RecoveredParked};
use alloc::sync::Arc;
use escapement_contract::{Input as ContractInput, Request};
use escapement_model::ExecutionId;

impl Engine {
    /// Starts executions while there are slots.
    pub(super) fn admit(&mut self) {
        if self.drain.is_on() {
            return;
        }
        while let Some(key) = self.queue.next_to_start() {
            let ticket = self.executions.begin_start(key);
            let unneeded = self.queue.start(ticket);
            self.end_need(unneeded);
            // A deadline that is over ends the execution first, and then the start is refused.
            let _already_over = self.apply_input(key, ContractInput::Start);
        }
    }

    /// The execution waits for its start once its accept is durable.
    pub(super) fn reserve_place(&mut self, key: ExecutionKey) {
        let (priority, need) = self.take_need(key);
        let namespace = self.executions.namespace_of(key);
        let ticket = self.queue.reserve(namespace, priority, key, need);
        self.executions.keep_ticket(key, ticket);
    }

    /// The execution waits for its start, in memory.
    pub(super) fn enter_queue(&mut self, key: ExecutionKey) {
        let queue = &mut self.queue;
        if !self.executions.exchange_ticket(key, |ticket| queue.enter(ticket)) {
            let (priority, need) = self.take_need(key);
            let namespace = self.executions.namespace_of(key);
            let ticket = self.queue.enter_at_once(namespace, priority, key, need);
            self.executions.keep_ticket(key, ticket);
        }
    }

    /// An execution does not wait for its start any more.
    pub(super) fn leave_queue(&mut self, ticket: Ticket) {
        let unneeded = self.queue.leave(ticket);
        self.end_need(unneeded);
    }

    //
    /// Returns true if the execution may start with its accept: there is room, and a worker could begin with it now, or it
    /// would end at its start.
    pub(super) fn may_start_now(&mut self, key: ExecutionKey) -> bool {
        self.follow_changes();
        let may_begin = || {
            let (request, meets_preconditions) = self.executions.to_start(key, &self.turn);
            !meets_preconditions || first_actions(request).any(|name| !self.fleet.is_absent(name, &self.turn))
        };
        !self.drain.is_on() && self.queue.is_open(self.executions.namespace_of(key)) && may_begin()
    }

    /// Returns the execution's priority and what it needs, counted as needed once more.
    fn take_need(&mut self, key: ExecutionKey) -> (i32, NeedKey) {
        let (request, meets_preconditions) = self.executions.to_start(key, &self.turn);
        let priority = request.plan().priority();
        if !meets_preconditions {
            return (priority, NeedKey::NONE);
        }
        let actions = self.fleet.name_actions(first_actions(request), &self.turn);
        let fleet = &self.fleet;
        let taken = self
            .queue
            .take_need(&actions, self.executions.namespace_of(key), |action| {
                fleet.is_known_absent(action)
            });
        if taken.is_new {
            self.fleet.begin_need(&actions);
        }
        if taken.is_held {
            self.fleet.note_held(&actions, &mut self.turn);
        }
        for action in actions {
            self.fleet.forget_action_if_unused(action, &self.turn);
        }
        (priority, taken.need)
    }

    fn give_back_need(&mut self, parked: &Parked) {
        let unneeded = self.queue.give_back(parked.need, parked.namespace);
        self.end_need(unneeded);
    }

    fn end_need(&mut self, unneeded: Option<Arc<[ActionKey]>>) {
        if let Some(actions) = unneeded {
            self.fleet.end_need(&actions, &self.turn);
        }
    }

    //
    /// Tells the queue which actions came or left, so that what no worker could begin is held back and nothing else.
    pub(super) fn follow_changes(&mut self) {
        while let Some(change) = self.fleet.next_change(&mut self.turn) {
            for actions in self.queue.switch(change.action, change.is_absent) {
                self.fleet.note_held(&actions, &mut self.turn);
            }
            self.fleet.forget_action_if_unused(change.action, &self.turn);
        }
    }

    //
    pub(super) fn park_excess(&mut self) {
        loop {
            while let Some(key) = self.queue.next_to_park() {
                self.park(key);
            }
            let Some(key) = self.queue.next_to_make_room(self.drain.is_on()) else {
                return;
            };
            self.park(key);
            self.queue.load_requests(self.drain.is_on(), &mut self.turn);
        }
    }

    fn park(&mut self, key: ExecutionKey) {
        if let Some(ticket) = self.executions.watched_ticket(key) {
            return self.queue.pin(ticket);
        }
        let (execution_id, parked, ticket, waiters) = self.executions.park(key);
        self.queue.park(execution_id, parked, &ticket, waiters);
    }

    /// An execution from before the restart that waits beyond memory.
    pub(super) fn recover_parked(&mut self, recovered: &RecoveredParked) {
        let key = self.executions.key_of_parked(recovered.execution_id);
        self.queue.recover_parked(key, recovered, &self.turn);
    }

    pub(super) fn loaded(&mut self, execution_id: ExecutionId, outcome: LoadOutcome) {
        match outcome {
            LoadOutcome::Loaded(recovered) => self.unpark(recovered),
            LoadOutcome::Damaged => {
                let (parked, waiters) = self.queue.remove_damaged(execution_id);
                self.give_back_need(&parked);
                self.tell_not_live(waiters);
            }
            LoadOutcome::Failed => self.queue.load_failed(execution_id, &self.turn),
        }
    }

    /// The execution is queued in memory from now on; if its deadline is over, it ends.
    fn unpark(&mut self, recovered: Recovered) {
        let (parked, Waiters { results, watches }) = self.queue.unpark(recovered.execution_id);
        self.executions.unpark(recovered, &parked, results, &self.turn);
        self.enter_queue(parked.key);
        self.give_back_need(&parked);
        self.tick(parked.key);
        for watch in watches {
            self.watch(watch);
        }
    }

    /// The store says what is wrong with it.
    fn tell_not_live(&mut self, waiters: Waiters) {
        for caller in waiters.results {
            self.executions.answer(caller, Ended::NotLive, &mut self.turn);
        }
        for watch in waiters.watches {
            self.executions
                .answer(watch.caller, Watched::NotLive, &mut self.turn);
        }
    }
}

/// Returns the actions of the steps that would be dispatched at once if the execution started.
fn first_actions(request: &Request) -> impl Iterator<Item = &str> {
    let plan = request.plan();
    let steps = plan.canonical_order().iter().map(|step| plan.step(*step));
    let roots = steps.filter(|step| step.depends_on().is_empty());
    roots
        .take(request.max_concurrent_steps() as usize)
        .map(|step| step.action())
}
