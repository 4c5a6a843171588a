//! Executions that wait for their start in memory, and how many run. Starts nothing.

use super::by_need::ByNeed;
use super::need::NeedKey;
use crate::keys::ExecutionKey;
use core::cmp::Reverse;

// higher priority first, first come first served among equals.
/// A place in the queue.
pub(super) type Position = (Reverse<i32>, ExecutionKey);

/// The executions that wait for their start, and how many run.
#[derive(Debug, Default)]
pub(super) struct Admission {
    queue: ByNeed<Position>,
    /// Those that stay in memory wherever they stand, because a caller watches them.
    pinned: ByNeed<Position>,
    /// Those whose accepts are being written and that will wait for their start.
    accepting: usize,
    running: usize,
}

impl Admission {
    /// The accept of an execution that will wait for its start is being written.
    pub(super) fn reserve(&mut self) {
        self.accepting += 1;
    }

    /// Such an accept is answered.
    pub(super) fn end_reservation(&mut self) {
        self.accepting = self.accepting.checked_sub(1).expect("an accept is answered once");
    }

    /// The execution waits for its start from now on.
    pub(super) fn enqueue(&mut self, position: Position, need: NeedKey, is_held: bool) {
        self.queue.insert(position, need, is_held);
    }

    pub(super) fn remove(&mut self, position: Position, need: NeedKey, is_held: bool) {
        let _is_queued =
            self.queue.remove(position, need, is_held) || self.pinned.remove(position, need, is_held);
    }

    /// Executions that wait for their start, or for the write of their accept before that, with requests in memory.
    pub(super) fn n_waiting(&self) -> usize {
        self.queue.len() + self.pinned.len() + self.accepting
    }

    /// Executions in the queue whose requests are in memory, pinned ones not counted.
    pub(super) fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// Those among them that are not held back.
    pub(super) fn n_queued_open(&self) -> usize {
        self.queue.n_open()
    }

    /// Executions that run, nested ones not counted.
    pub(super) fn n_running(&self) -> usize {
        self.running
    }

    /// The last of the queue that is not held back.
    pub(super) fn last_open(&self) -> Option<Position> {
        self.queue.last_open()
    }

    /// The last of the queue that is held back.
    pub(super) fn last_held(&self) -> Option<Position> {
        self.queue.last_held()
    }

    /// How many executions of one need wait in memory.
    pub(super) fn n_of(&self, need: NeedKey) -> usize {
        self.queue.n_of(need) + self.pinned.n_of(need)
    }

    /// Those in memory that start before a position, and those that are held back for the same need, in no order.
    pub(super) fn before(
        &self,
        position: Position,
        need: NeedKey,
        is_held: bool,
    ) -> impl Iterator<Item = Position> {
        let queued = self.queue.before(position, need, is_held);
        queued.chain(self.pinned.before(position, need, is_held))
    }

    pub(super) fn pin(&mut self, position: Position, need: NeedKey, is_held: bool) {
        assert!(self.queue.remove(position, need, is_held), "what is pinned waits");
        self.pinned.insert(position, need, is_held);
    }

    /// Does nothing to what is not pinned.
    pub(super) fn unpin(&mut self, position: Position, need: NeedKey, is_held: bool) {
        if self.pinned.remove(position, need, is_held) {
            self.queue.insert(position, need, is_held);
        }
    }

    /// A need is held back from now on, or is not any more.
    pub(super) fn switch(&mut self, need: NeedKey, is_held: bool) {
        for places in [&mut self.queue, &mut self.pinned] {
            places.switch(need, is_held);
        }
    }

    pub(super) fn take_slot(&mut self) {
        self.running += 1;
    }

    pub(super) fn free_slot(&mut self) {
        self.running = self.running.checked_sub(1).expect("a slot is freed once");
    }

    //
    /// Returns true if an execution that comes now may start without overtaking any that could: none of these is in memory,
    /// and there is a slot for each whose accept is being written, held back or not.
    pub(super) fn is_open(&self, running_max: usize) -> bool {
        self.queue.n_open() == 0 && self.pinned.n_open() == 0 && self.running + self.accepting < running_max
    }

    /// Returns the first that may start, if there is a slot.
    pub(super) fn next(&self, running_max: usize) -> Option<Position> {
        if self.running >= running_max {
            return None;
        }
        let (queued, pinned) = (self.queue.first_open(), self.pinned.first_open());
        queued.into_iter().chain(pinned).min()
    }
}
