//! The executions of one namespace that wait for their start, in memory and parked, and how many of it run.
//! Within a namespace this is the whole order. Starts nothing.

use super::by_need::ByNeed;
use super::need::NeedKey;
use crate::keys::ExecutionKey;
use core::cmp::Reverse;
use escapement_model::ExecutionId;

// higher priority first, first come first served among equals.
/// A place in the queue of a namespace.
pub(super) type Position = (Reverse<i32>, ExecutionKey);

/// A place of a parked execution.
pub(super) type ParkedPlace = (Position, ExecutionId);

/// A namespace's part of the queue.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Those in memory.
    pub(super) queue: ByNeed<Position>,
    /// Those that stay in memory wherever they stand, because a caller watches them.
    pub(super) pinned: ByNeed<Position>,
    /// Parked ones whose requests were not asked for and whose deadlines are not over: they may still start.
    pub(super) idle: ByNeed<ParkedPlace>,
    /// Parked ones whose requests were asked for and have not come, and whose deadlines are not over.
    pub(super) fetching: ByNeed<ParkedPlace>,
    /// All that are parked, those whose deadlines are over as well.
    pub(super) n_parked: usize,
    /// Those whose accepts are being written and that will wait for their start.
    pub(super) n_accepting: usize,
    /// Those that run, nested ones not counted.
    pub(super) n_running: usize,
}

impl Lane {
    /// Takes one in memory out; does nothing to one that is not there.
    pub(super) fn remove(&mut self, position: Position, need: NeedKey, is_held: bool) {
        let _is_queued =
            self.queue.remove(position, need, is_held) || self.pinned.remove(position, need, is_held);
    }

    /// Keeps one in memory for as long as it is not unpinned.
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
        self.queue.switch(need, is_held);
        self.pinned.switch(need, is_held);
        self.idle.switch(need, is_held);
        self.fetching.switch(need, is_held);
    }

    /// Returns the number of executions of one need that wait for their start and may.
    pub(super) fn n_of(&self, need: NeedKey) -> usize {
        self.queue.n_of(need) + self.pinned.n_of(need) + self.idle.n_of(need) + self.fetching.n_of(need)
    }

    /// Those that start before a position, and those that are held back for the same need, in no order.
    pub(super) fn before(
        &self,
        position: Position,
        need: NeedKey,
        is_held: bool,
    ) -> impl Iterator<Item = Position> {
        let queued = self.queue.before(position, need, is_held);
        let pinned = self.pinned.before(position, need, is_held);
        let place = (position, ExecutionId::from_random([0; 16]));
        let idle = self.idle.before(place, need, is_held);
        let fetching = self.fetching.before(place, need, is_held);
        let parked = idle.chain(fetching).map(|(position, _)| position);
        queued.chain(pinned).chain(parked)
    }

    /// Returns the first of those in memory that may start.
    pub(super) fn first_in_memory(&self) -> Option<Position> {
        let (queued, pinned) = (self.queue.first_open(), self.pinned.first_open());
        queued.into_iter().chain(pinned).min()
    }

    /// The first of all that may start, whether its request is in memory or not.
    pub(super) fn first(&self) -> Option<Position> {
        let (idle, fetching) = (self.idle.first_open(), self.fetching.first_open());
        let parked = idle.into_iter().chain(fetching).map(|(position, _)| position);
        self.first_in_memory().into_iter().chain(parked).min()
    }

    /// The first in memory, unless one that is parked comes before it: none starts before that.
    pub(super) fn ready(&self) -> Option<Position> {
        self.first_in_memory()
            .filter(|first| self.first() == Some(*first))
    }

    /// Returns true if nothing of the namespace waits or runs.
    pub(super) fn is_empty(&self) -> bool {
        self.n_parked + self.n_accepting + self.n_running + self.queue.len() + self.pinned.len() == 0
    }
}
