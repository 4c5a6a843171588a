//! Who runs next: the queue by priority and age, and the limit of running executions. Starts nothing by itself.

use crate::engine::Engine;
use crate::live::ExecutionKey;
use crate::parked::Place;
use alloc::collections::BTreeSet;
use core::cmp::Reverse;
use escapement_contract::Input as ContractInput;
use escapement_model::planted::{self, Bug};

/// The executions that wait for their start, and how many run.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    queue: BTreeSet<Place>,
    /// Those that stay in memory wherever they stand, because somebody watches them.
    pinned: BTreeSet<Place>,
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

    pub(crate) fn enqueue(&mut self, priority: i32, key: ExecutionKey) {
        self.queue.insert(Self::place(priority, key));
    }

    pub(crate) fn remove(&mut self, priority: i32, key: ExecutionKey) {
        let place = (Reverse(priority), key);
        if !self.queue.remove(&place) {
            self.pinned.remove(&place);
        }
    }

    /// Executions in the queue whose requests are in memory, pinned ones not counted.
    pub(crate) fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// All places: those of the queue, and the pinned ones.
    pub(crate) fn places(&self) -> (&BTreeSet<Place>, &BTreeSet<Place>) {
        (&self.queue, &self.pinned)
    }

    /// Executions that run, nested ones not counted.
    pub(crate) fn n_running(&self) -> usize {
        self.running
    }

    /// The last of the queue.
    pub(crate) fn last(&self) -> Option<Place> {
        self.queue.last().copied()
    }

    pub(crate) fn pin(&mut self, priority: i32, key: ExecutionKey) {
        let place = (Reverse(priority), key);
        assert!(self.queue.remove(&place), "what is pinned waits");
        self.pinned.insert(place);
    }

    /// Does nothing to what is not pinned.
    pub(crate) fn unpin(&mut self, priority: i32, key: ExecutionKey) {
        let place = (Reverse(priority), key);
        if self.pinned.remove(&place) {
            self.queue.insert(place);
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

    /// True where an execution that comes now may start without overtaking anybody.
    pub(crate) fn is_open(&self, running_max: usize) -> bool {
        self.queue.is_empty() && self.pinned.is_empty() && self.running < running_max
    }

    /// Who starts next; nobody where that would overtake the first of the parked ones.
    fn next(&mut self, running_max: usize, first_parked: Option<Place>) -> Option<ExecutionKey> {
        if self.running >= running_max {
            return None;
        }
        let (queued, pinned) = (self.queue.first(), self.pinned.first());
        let place = *queued.into_iter().chain(pinned).min()?;
        //
        if first_parked.is_some_and(|first| first < place) {
            return None;
        }
        self.remove(place.0.0, place.1);
        Some(place.1)
    }
}

impl Engine {
    /// Starts executions while there are slots.
    pub(crate) fn admit(&mut self) {
        if self.drain.is_some() {
            return;
        }
        let running_max = self.config.max_running_executions;
        while let Some(key) = self.admission.next(running_max, self.parked.first()) {
            self.admission.take_slot();
            self.live.at_mut(key).holds_slot = true;
            // A deadline that is over ends the execution first, and then the start is refused.
            let _already_over = self.act(key, ContractInput::Start);
        }
    }
}
