//! How executions enter the queue and leave it: for their start, into the store, and back into memory.

use super::Engine;
use crate::answer::{Caller, Ended, Refusal, Submitted, Watched};
use crate::durable::DurableAccept;
use crate::engine::Timer;
use crate::input::{LoadOutcome, Recovered, RecoveredParked, Submitter, Watch};
use crate::keys::{ActionKey, ExecutionKey};
use crate::live::Stage;
use crate::queue::{FetchReason, NeedKey, Parked, Waiters};
use crate::submit::new_live;
use alloc::sync::Arc;
use escapement_contract::{Execution, Input as ContractInput, Phase, Request};
use escapement_model::ExecutionId;

impl Engine {
    /// Starts executions while there are slots.
    pub(super) fn admit(&mut self) {
        if self.drain.is_on() {
            return;
        }
        while let Some(key) = self.queue.next_to_start() {
            self.leave_queue(key);
            self.queue.take_slot();
            self.live.at_mut(key).holds_slot = true;
            // A deadline that is over ends the execution first, and then the start is refused.
            let _already_over = self.apply_input(key, ContractInput::Start);
        }
    }

    /// The execution waits for its start once its accept is durable.
    pub(crate) fn reserve_place(&mut self, key: ExecutionKey) {
        let need = self.take_need(key);
        let live = self.live.at_mut(key);
        live.ticket = Some(self.queue.reserve(live.request.plan().priority(), key, need));
    }

    /// The execution waits for its start, in memory.
    pub(crate) fn enter_queue(&mut self, key: ExecutionKey) {
        let ticket = match self.live.at_mut(key).ticket.take() {
            Some(ticket) => self.queue.enter(ticket),
            None => {
                let need = self.take_need(key);
                let priority = self.live.at(key).request.plan().priority();
                self.queue.enter_at_once(priority, key, need)
            }
        };
        self.live.at_mut(key).ticket = Some(ticket);
    }

    /// The execution does not wait for its start any more. Does nothing to one that did not.
    pub(crate) fn leave_queue(&mut self, key: ExecutionKey) {
        if let Some(ticket) = self.live.at_mut(key).ticket.take() {
            let unneeded = self.queue.leave(ticket);
            self.end_need(unneeded);
        }
    }

    //
    /// Returns true if the execution may start with its accept.
    pub(crate) fn may_start_now(&mut self, key: ExecutionKey) -> bool {
        self.follow_changes();
        !self.drain.is_on() && self.queue.is_open() && self.may_begin(key)
    }

    //
    /// Returns true if a worker could begin with the execution now, or if it would end at its start.
    fn may_begin(&self, key: ExecutionKey) -> bool {
        let live = self.live.at(key);
        let may_begin = first_actions(&live.request).any(|name| !self.fleet.is_absent(name, &self.turn));
        may_begin || !live.meets_preconditions(self.turn.now_ms())
    }

    /// Returns what the execution needs, counted as needed once more.
    fn take_need(&mut self, key: ExecutionKey) -> NeedKey {
        let live = self.live.at(key);
        if !live.meets_preconditions(self.turn.now_ms()) {
            return NeedKey::NONE;
        }
        let actions = self.fleet.name_actions(first_actions(&live.request), &self.turn);
        let fleet = &self.fleet;
        let taken = self
            .queue
            .take_need(&actions, |action| fleet.is_known_absent(action));
        if taken.is_new {
            self.fleet.begin_need(&actions);
        }
        if taken.is_held {
            self.fleet.note_held(&actions, &mut self.turn);
        }
        for action in actions {
            self.fleet.forget_action_if_unused(action, &self.turn);
        }
        taken.need
    }

    fn give_back_need(&mut self, need: NeedKey) {
        let unneeded = self.queue.give_back(need);
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
        while let Some(key) = self.queue.next_to_park() {
            self.park(key);
        }
    }

    fn park(&mut self, key: ExecutionKey) {
        let live = self.live.at(key);
        let ticket = live
            .ticket
            .as_ref()
            .expect("what is parked has waited in the queue");
        if !live.watchers.is_empty() {
            return self.queue.pin(ticket);
        }
        let live = self.live.remove(key).expect("the key of a live execution");
        assert_eq!(
            live.execution.phase(),
            Phase::Queued,
            "what waits has not started"
        );
        let ticket = live.ticket.expect("it was there a line ago");
        self.timers.set(Timer::Execution(key), None);
        let due_ms = live.execution.next_due_ms();
        let parked = Parked {
            key,
            digest: *live.request.digest(),
            priority: live.request.plan().priority(),
            clock: live.clock,
            due_ms: due_ms.expect("a queued execution has a deadline"),
            need: ticket.need(),
            fetch: None,
        };
        self.queue.park(live.execution_id, parked, &ticket, live.waiters);
    }

    /// An execution from before the restart that waits beyond memory.
    pub(super) fn recover_parked(&mut self, recovered: &RecoveredParked) {
        assert!(
            self.live.find(recovered.execution_id).is_none(),
            "the store holds each execution once"
        );
        let key = self.live.next_key();
        self.queue.recover_parked(key, recovered, &self.turn);
    }

    pub(super) fn loaded(&mut self, execution_id: ExecutionId, outcome: LoadOutcome) {
        match outcome {
            LoadOutcome::Loaded(recovered) => self.unpark(recovered),
            LoadOutcome::Damaged => {
                let (parked, waiters) = self.queue.remove_damaged(execution_id);
                self.give_back_need(parked.need);
                self.tell_not_live(waiters);
            }
            LoadOutcome::Failed => self.queue.load_failed(execution_id, &self.turn),
        }
    }

    /// The execution is queued in memory from now on; if its deadline is over, it ends.
    fn unpark(&mut self, recovered: Recovered) {
        let accept = DurableAccept::of_recovered(&recovered);
        let Recovered {
            execution_id,
            request,
            accepted_at,
            deadline_ms,
            ..
        } = recovered;
        let (parked, waiters) = self.queue.unpark(execution_id);
        let execution = Execution::accept(
            Arc::clone(&request),
            execution_id,
            accepted_at,
            deadline_ms,
            parked.clock.at(self.turn.now_ms()),
        );
        let mut live = new_live(execution, request, execution_id, parked.clock);
        live.stage = Stage::Durable(accept);
        live.counts_as_overdue = parked.fetch == Some(FetchReason::Overdue);
        live.waiters = waiters.results;
        self.live.insert_at(parked.key, live);
        self.enter_queue(parked.key);
        self.give_back_need(parked.need);
        self.apply_input(parked.key, ContractInput::Tick)
            .expect("time always passes");
        for watch in waiters.watches {
            self.callers.remove(&watch.caller.id);
            self.watch(watch);
        }
    }

    //
    /// The same id as a parked execution's.
    pub(crate) fn attach_parked(&mut self, submitter: Submitter, parked: &Parked, request: &Request) {
        if parked.digest != *request.digest() {
            return self.refuse(submitter, Refusal::ExecutionIdUsed);
        }
        match submitter {
            // The store shows the same as memory would.
            Submitter::ForAccept(caller) => self.turn.reply(caller, Submitted::NotLive),
            Submitter::ForEnd(caller) => self.wait_parked(caller, parked),
        }
    }

    pub(crate) fn wait_parked(&mut self, caller: Caller<Ended>, parked: &Parked) {
        self.queue.wait_parked(parked.key, caller);
        self.callers.insert(caller.id, parked.key);
    }

    pub(crate) fn watch_parked(&mut self, watch: Watch) {
        let Some(parked) = self.queue.find_parked(watch.execution_id) else {
            return self.turn.reply(watch.caller, Watched::NotLive);
        };
        self.callers.insert(watch.caller.id, parked.key);
        self.queue.watch_parked(watch);
    }

    /// An execution that no caller watches any more is parked like any other.
    pub(crate) fn unpin_unwatched(&mut self, key: ExecutionKey) {
        if let Some(live) = self.live.find_mut(key)
            && live.watchers.is_empty()
            && let Some(ticket) = &live.ticket
        {
            self.queue.unpin(ticket);
        }
    }

    /// The store says what is wrong with it.
    fn tell_not_live(&mut self, waiters: Waiters) {
        for caller in waiters.results {
            self.callers.remove(&caller.id);
            self.turn.reply(caller, Ended::NotLive);
        }
        for watch in waiters.watches {
            self.callers.remove(&watch.caller.id);
            self.turn.reply(watch.caller, Watched::NotLive);
        }
    }
}

/// The actions of the steps that would be dispatched at once if the execution started.
fn first_actions(request: &Request) -> impl Iterator<Item = &str> {
    let plan = request.plan();
    let steps = plan.canonical_order().iter().map(|step| plan.step(*step));
    let roots = steps.filter(|step| step.depends_on().is_empty());
    roots
        .take(request.max_concurrent_steps() as usize)
        .map(|step| step.action())
}
