//! Queued executions whose requests are in the store alone, each in about 200 bytes. Decides nothing.

use super::lane::{ParkedPlace, Position};
use super::lanes::Lanes;
use super::need::{NeedKey, Needs};
use crate::answer::{Caller, Ended};
use crate::arrivals::Arrivals;
use crate::clock::WallClock;
use crate::input::Watch;
use crate::keys::{CallerId, ExecutionKey, NamespaceKey};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::cmp::Reverse;
use escapement_model::ExecutionId;

/// What is kept of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) key: ExecutionKey,
    pub(crate) namespace: NamespaceKey,
    pub(crate) digest: [u8; 32],
    pub(crate) priority: i32,
    pub(crate) clock: WallClock,
    /// Its deadline on the monotonic clock.
    pub(crate) due_ms: u64,
    pub(crate) need: NeedKey,
    /// Why its request was asked for, if it was.
    pub(crate) fetch: Option<FetchReason>,
}

/// Reason why a request is read from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchReason {
    /// Its turn comes soon.
    Prefetch,
    /// Its deadline is over.
    Overdue,
    /// A caller wants to watch it.
    Watched,
}

/// The callers that wait for something about a parked execution.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Callers that wait for the result.
    pub(crate) results: Arrivals<Caller<Ended>>,
    /// Callers that want to watch.
    pub(crate) watches: Arrivals<Watch>,
}

/// All parked executions by id and by deadline. Their order in the queue is kept with their namespaces.
#[derive(Debug, Default)]
pub(crate) struct ParkedSet {
    by_id: BTreeMap<ExecutionId, Parked>,
    /// Those whose deadlines are not over.
    by_due: BTreeSet<(u64, ExecutionId)>,
    /// Those whose deadlines were over before they were asked for, in that order. May name some that are on their way or gone.
    overdue: VecDeque<ExecutionId>,
    /// Those that a caller wants to watch and that are not on their way; the oldest come first.
    watched: BTreeMap<ExecutionKey, ExecutionId>,
    waiters: BTreeMap<ExecutionKey, Waiters>,
    n_prefetched: usize,
    n_watched: usize,
}

impl Parked {
    pub(super) fn position(&self) -> Position {
        (Reverse(self.priority), self.key)
    }

    fn place(&self, execution_id: ExecutionId) -> ParkedPlace {
        (self.position(), execution_id)
    }
}

impl ParkedSet {
    pub(crate) fn find(&self, execution_id: ExecutionId) -> Option<&Parked> {
        self.by_id.get(&execution_id)
    }

    pub(super) fn insert(
        &mut self,
        execution_id: ExecutionId,
        parked: Parked,
        is_held: bool,
        lanes: &mut Lanes,
    ) {
        assert_eq!(parked.fetch, None, "what was in memory needs no load");
        let before = self.by_id.insert(execution_id, parked);
        assert!(before.is_none(), "an execution is parked once");
        lanes.change(parked.namespace, |lane| {
            lane.idle.insert(parked.place(execution_id), parked.need, is_held);
            lane.n_parked += 1;
        });
        self.by_due.insert((parked.due_ms, execution_id));
    }

    /// Takes one out whose request has come, or never will.
    pub(super) fn remove(
        &mut self,
        execution_id: ExecutionId,
        needs: &Needs,
        lanes: &mut Lanes,
    ) -> (Parked, Waiters) {
        let parked = self.take_arrived(execution_id, needs, lanes);
        lanes.change(parked.namespace, |lane| lane.n_parked -= 1);
        self.by_id.remove(&execution_id);
        self.by_due.remove(&(parked.due_ms, execution_id));
        self.watched.remove(&parked.key);
        let waiters = self.waiters.remove(&parked.key).unwrap_or_default();
        (parked, waiters)
    }

    /// The request did not come this time: whatever it was asked for still holds.
    pub(super) fn put_back(
        &mut self,
        execution_id: ExecutionId,
        now_ms: u64,
        needs: &Needs,
        lanes: &mut Lanes,
    ) -> Parked {
        let parked = self.take_arrived(execution_id, needs, lanes);
        self.at_mut(execution_id).fetch = None;
        if parked.due_ms <= now_ms {
            self.overdue.push_back(execution_id);
        } else {
            let (place, is_held) = (parked.place(execution_id), needs.is_held(parked.need));
            lanes.change(parked.namespace, |lane| {
                lane.idle.insert(place, parked.need, is_held);
            });
        }
        if self
            .waiters
            .get(&parked.key)
            .is_some_and(|waiters| !waiters.watches.is_empty())
        {
            self.watched.insert(parked.key, execution_id);
        }
        parked
    }

    /// Requests that were asked for because their turns come soon.
    pub(crate) fn n_prefetched(&self) -> usize {
        self.n_prefetched
    }

    /// Requests that were asked for because a caller watches.
    pub(crate) fn n_watched(&self) -> usize {
        self.n_watched
    }

    /// Asks for the request of the one that is wanted in memory first.
    pub(super) fn begin_prefetch(&mut self, needs: &Needs, lanes: &mut Lanes) -> Option<ExecutionId> {
        let lane = lanes.lane(lanes.next_wanted()?)?;
        let (_, execution_id) = lane.idle.first_open()?;
        self.fetch(execution_id, FetchReason::Prefetch, needs, lanes);
        self.n_prefetched += 1;
        Some(execution_id)
    }

    /// Asks for the next one whose deadline is over.
    pub(super) fn fetch_overdue(&mut self, needs: &Needs, lanes: &mut Lanes) -> Option<ExecutionId> {
        let execution_id = loop {
            let execution_id = self.overdue.pop_front()?;
            let parked = self.by_id.get(&execution_id);
            if parked.is_some_and(|parked| parked.fetch.is_none()) {
                break execution_id;
            }
        };
        self.fetch(execution_id, FetchReason::Overdue, needs, lanes);
        Some(execution_id)
    }

    /// Asks for the next one that a caller wants to watch.
    pub(super) fn fetch_watched(&mut self, needs: &Needs, lanes: &mut Lanes) -> Option<ExecutionId> {
        loop {
            let (_, execution_id) = self.watched.pop_first()?;
            if self.by_id[&execution_id].fetch.is_none() {
                self.fetch(execution_id, FetchReason::Watched, needs, lanes);
                self.n_watched += 1;
                return Some(execution_id);
            }
        }
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.by_due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Takes those whose deadlines are over by now out of the queue: no other waits for them any more.
    pub(super) fn expire(&mut self, now_ms: u64, needs: &Needs, lanes: &mut Lanes) {
        while let Some((due_ms, execution_id)) = self.by_due.first().copied()
            && due_ms <= now_ms
        {
            self.by_due.pop_first();
            let parked = *self.at_mut(execution_id);
            let (place, is_held) = (parked.place(execution_id), needs.is_held(parked.need));
            let was_idle = lanes.change(parked.namespace, |lane| {
                let was_idle = lane.idle.remove(place, parked.need, is_held);
                if !was_idle {
                    lane.fetching.remove(place, parked.need, is_held);
                }
                was_idle
            });
            if was_idle {
                self.overdue.push_back(execution_id);
            }
        }
    }

    /// Keeps in mind who waits for the result.
    pub(crate) fn add_waiters(
        &mut self,
        key: ExecutionKey,
        waiters: impl IntoIterator<Item = Caller<Ended>>,
    ) {
        for waiter in waiters {
            let results = &mut self.waiters.entry(key).or_default().results;
            results.push(waiter.id, waiter);
        }
    }

    /// Keeps in mind who wants to watch.
    pub(crate) fn add_watch(&mut self, watch: Watch) {
        let execution_id = watch.execution_id;
        let key = self.at_mut(execution_id).key;
        let watches = &mut self.waiters.entry(key).or_default().watches;
        watches.push(watch.caller.id, watch);
        self.watched.insert(key, execution_id);
    }

    pub(crate) fn forget_caller(&mut self, key: ExecutionKey, caller: CallerId) {
        let Some(waiters) = self.waiters.get_mut(&key) else {
            return;
        };
        waiters.results.remove(caller);
        waiters.watches.remove(caller);
        if waiters.watches.is_empty() {
            self.watched.remove(&key);
        }
        if waiters.results.is_empty() && waiters.watches.is_empty() {
            self.waiters.remove(&key);
        }
    }

    fn fetch(&mut self, execution_id: ExecutionId, reason: FetchReason, needs: &Needs, lanes: &mut Lanes) {
        let parked = self.at_mut(execution_id);
        assert_eq!(parked.fetch, None, "a request is asked for once");
        parked.fetch = Some(reason);
        let (place, need) = (parked.place(execution_id), parked.need);
        let is_held = needs.is_held(need);
        lanes.change(parked.namespace, |lane| {
            if lane.idle.remove(place, need, is_held) {
                lane.fetching.insert(place, need, is_held);
            }
        });
    }

    fn take_arrived(&mut self, execution_id: ExecutionId, needs: &Needs, lanes: &mut Lanes) -> Parked {
        let parked = *self.at_mut(execution_id);
        assert!(parked.fetch.is_some(), "what comes was asked for");
        let (place, is_held) = (parked.place(execution_id), needs.is_held(parked.need));
        lanes.change(parked.namespace, |lane| {
            lane.fetching.remove(place, parked.need, is_held);
        });
        match parked.fetch {
            Some(FetchReason::Prefetch) => self.n_prefetched -= 1,
            Some(FetchReason::Watched) => self.n_watched -= 1,
            None | Some(FetchReason::Overdue) => {}
        }
        parked
    }

    fn at_mut(&mut self, execution_id: ExecutionId) -> &mut Parked {
        self.by_id
            .get_mut(&execution_id)
            .expect("the id of a parked execution")
    }
}
