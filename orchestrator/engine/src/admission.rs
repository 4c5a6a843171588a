//! Who runs next: the queue by priority and age, without those that no worker could begin, and the limit of running
//! executions. Starts nothing by itself.

use crate::by_need::ByNeed;
use crate::engine::Engine;
use crate::keys::{ActionKey, ExecutionKey};
use crate::live::Stage;
use crate::need::{NeedKey, Needs};
use crate::parked::Place;
use core::cmp::Reverse;
use escapement_contract::{Input as ContractInput, Request};
use escapement_model::planted::{self, Bug};

/// The executions that wait for their start, and how many run.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    pub(crate) needs: Needs,
    queue: ByNeed<Place>,
    /// Those that stay in memory wherever they stand, because somebody watches them.
    pinned: ByNeed<Place>,
    /// Those whose accepts are being written and that will wait for their start.
    accepting: usize,
    running: usize,
}

impl Admission {
    /// Where an execution of this priority has its place.
    pub(crate) fn place(priority: i32, key: ExecutionKey) -> Place {
        let priority = if planted::is_on(Bug::PriorityIgnored) {
            0
        } else {
            priority
        };
        (Reverse(priority), key)
    }

    /// The accept of an execution that will wait for its start is being written.
    pub(crate) fn reserve(&mut self) {
        self.accepting += 1;
    }

    /// Such an accept is answered.
    pub(crate) fn end_reservation(&mut self) {
        self.accepting = self.accepting.checked_sub(1).expect("an accept is answered once");
    }

    /// The execution waits for its start from now on.
    pub(crate) fn enqueue(&mut self, place: Place, need: NeedKey) {
        self.queue.insert(place, need, self.needs.is_held(need));
    }

    pub(crate) fn remove(&mut self, place: Place, need: NeedKey) {
        let is_held = self.needs.is_held(need);
        let _where = self.queue.remove(place, need, is_held) || self.pinned.remove(place, need, is_held);
    }

    /// Executions that wait for their start, or for the write of their accept before that, with requests in memory.
    pub(crate) fn n_waiting(&self) -> usize {
        self.queue.len() + self.pinned.len() + self.accepting
    }

    /// Executions in the queue whose requests are in memory, pinned ones not counted.
    pub(crate) fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// Those among them that are not held back.
    pub(crate) fn n_queued_open(&self) -> usize {
        self.queue.n_open()
    }

    /// Executions that run, nested ones not counted.
    pub(crate) fn n_running(&self) -> usize {
        self.running
    }

    /// The last of the queue that is not held back.
    pub(crate) fn last_open(&self) -> Option<Place> {
        self.queue.last_open()
    }

    /// The last of the queue that is held back.
    pub(crate) fn last_held(&self) -> Option<Place> {
        self.queue.last_held()
    }

    /// How many executions of one need wait in memory.
    pub(crate) fn n_of(&self, need: NeedKey) -> usize {
        self.queue.n_of(need) + self.pinned.n_of(need)
    }

    /// Those in memory that start before a place, and those that are held back for the same need, in no order.
    pub(crate) fn before(&self, place: Place, need: NeedKey) -> impl Iterator<Item = Place> {
        let is_held = self.needs.is_held(need);
        let queued = self.queue.before(place, need, is_held);
        queued.chain(self.pinned.before(place, need, is_held))
    }

    pub(crate) fn pin(&mut self, place: Place, need: NeedKey) {
        let is_held = self.needs.is_held(need);
        assert!(self.queue.remove(place, need, is_held), "what is pinned waits");
        self.pinned.insert(place, need, is_held);
    }

    /// Does nothing to what is not pinned.
    pub(crate) fn unpin(&mut self, place: Place, need: NeedKey) {
        let is_held = self.needs.is_held(need);
        if self.pinned.remove(place, need, is_held) {
            self.queue.insert(place, need, is_held);
        }
    }

    /// A need is held back from now on, or is not any more.
    pub(crate) fn switch(&mut self, need: NeedKey, is_held: bool) {
        for places in [&mut self.queue, &mut self.pinned] {
            places.switch(need, is_held);
        }
    }

    pub(crate) fn take_slot(&mut self) {
        self.running += 1;
    }

    pub(crate) fn free_slot(&mut self) {
        self.running = self
            .running
            .checked_sub(1)
            .expect("a slot is freed once, by who took it");
    }

    //
    /// True if an execution that comes now may start without overtaking any that could: none of these is in memory,
    /// and there is a slot for each whose accept is being written, held back or not.
    pub(crate) fn is_open(&self, running_max: usize) -> bool {
        self.queue.n_open() == 0 && self.pinned.n_open() == 0 && self.running + self.accepting < running_max
    }

    /// Who starts next; nobody where that would overtake the first of the parked ones.
    fn next(&self, running_max: usize, first_parked: Option<Place>) -> Option<ExecutionKey> {
        if self.running >= running_max {
            return None;
        }
        let (queued, pinned) = (self.queue.first_open(), self.pinned.first_open());
        let place = queued.into_iter().chain(pinned).min()?;
        //
        if first_parked.is_some_and(|first| first < place) {
            return None;
        }
        Some(place.1)
    }
}

impl Engine {
    /// Starts executions while there are slots.
    pub(crate) fn admit(&mut self) {
        if self.drain.is_on() {
            return;
        }
        let running_max = self.config.max_running_executions;
        while let Some(key) = self.admission.next(running_max, self.parked.first()) {
            self.leave_queue(key);
            self.admission.take_slot();
            self.live.at_mut(key).holds_slot = true;
            // A deadline that is over ends the execution first, and then the start is refused.
            let _already_over = self.apply_input(key, ContractInput::Start);
        }
    }

    /// Where an execution in memory stands in the queue.
    pub(crate) fn place_of(&self, key: ExecutionKey) -> Place {
        Admission::place(self.live.at(key).request.plan().priority(), key)
    }

    /// The execution waits for its start once its accept is durable.
    pub(crate) fn reserve_place(&mut self, key: ExecutionKey) {
        let need = self.take_need(key);
        self.live.at_mut(key).need = Some(need);
        self.admission.reserve();
    }

    /// The execution waits for its start, in memory.
    pub(crate) fn enter_queue(&mut self, key: ExecutionKey) {
        let live = self.live.at(key);
        let place = Admission::place(live.request.plan().priority(), key);
        let need = match live.need {
            Some(need) => {
                self.admission.end_reservation();
                need
            }
            None => {
                let need = self.take_need(key);
                self.live.at_mut(key).need = Some(need);
                need
            }
        };
        self.admission.enqueue(place, need);
    }

    /// The execution does not wait for its start any more. Does nothing to what did not.
    pub(crate) fn leave_queue(&mut self, key: ExecutionKey) {
        let live = self.live.at_mut(key);
        let place = Admission::place(live.request.plan().priority(), key);
        let Some(need) = live.need.take() else { return };
        match live.stage {
            Stage::Accepting { .. } => self.admission.end_reservation(),
            Stage::Durable(_) => self.admission.remove(place, need),
        }
        self.give_back_need(need);
    }

    //
    /// True if the execution may start with its accept.
    pub(crate) fn may_start_now(&mut self, key: ExecutionKey) -> bool {
        self.follow_changes();
        !self.drain.is_on()
            && self.parked.first().is_none()
            && self.admission.is_open(self.config.max_running_executions)
            && self.may_begin(key)
    }

    //
    /// True if a worker could begin with the execution now, or if it would end at its start.
    pub(crate) fn may_begin(&self, key: ExecutionKey) -> bool {
        let live = self.live.at(key);
        let may_begin = first_actions(&live.request).any(|name| !self.fleet.is_absent(name, &self.turn));
        may_begin
            || !live
                .execution
                .meets_preconditions(live.clock.at(self.turn.now_ms()))
    }

    /// What the execution needs, counted as needed once more.
    fn take_need(&mut self, key: ExecutionKey) -> NeedKey {
        let live = self.live.at(key);
        if !live
            .execution
            .meets_preconditions(live.clock.at(self.turn.now_ms()))
        {
            return NeedKey::NONE;
        }
        let actions = self.fleet.name_actions(first_actions(&live.request), &self.turn);
        let fleet = &self.fleet;
        let (need, is_new) = self
            .admission
            .needs
            .take(&actions, |action| fleet.is_known_absent(action));
        if is_new {
            self.fleet.begin_need(&actions);
        }
        if self.admission.needs.is_held(need) {
            self.fleet.note_held(&actions, &mut self.turn);
        }
        for action in actions {
            self.fleet.forget_action_if_unused(action, &self.turn);
        }
        need
    }

    /// How many queued executions would begin with an action.
    pub(crate) fn n_needing(&self, action: ActionKey) -> usize {
        let needs = self.admission.needs.of(action);
        needs
            .map(|need| self.admission.n_of(need) + self.parked.n_of(need))
            .sum()
    }

    pub(crate) fn give_back_need(&mut self, need: NeedKey) {
        if let Some(actions) = self.admission.needs.give_back(need) {
            self.fleet.end_need(&actions, &self.turn);
        }
    }

    //
    /// Tells the queue which actions came or left, so that what nobody could begin is held back and nothing else.
    pub(crate) fn follow_changes(&mut self) {
        while let Some(change) = self.fleet.next_change(&mut self.turn) {
            for need in self.admission.needs.switch(change.action, change.is_absent) {
                let is_held = self.admission.needs.is_held(need);
                self.admission.switch(need, is_held);
                self.parked.switch(need, is_held);
                if is_held {
                    let actions = self.admission.needs.actions(need).to_vec();
                    self.fleet.note_held(&actions, &mut self.turn);
                }
            }
            self.fleet.forget_action_if_unused(change.action, &self.turn);
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
