//! Whose turn it is among namespaces: start-time fair queueing by weight, in whole numbers.
//! Knows what a namespace has and may have, and nothing else of it. Starts nothing.
//!
//! Each namespace has a tag; the least tag is next, and each start moves it on by [`STRIDE`] divided by the weight.
//! A namespace that begins to compete is raised to the tag of the last start: who had nothing to start has saved up nothing.
//! So while two compete, what they started, divided by their weights, differs by no more than one start of each.
//! The n-th of a namespace has the tag that the namespace would have then; by that it is decided what is worth its memory.

use super::lane::{Lane, Position};
use crate::input::NamespaceShare;
use crate::keys::NamespaceKey;
use crate::limits::NAMESPACES_RESTING_MAX;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use escapement_model::planted::{self, Bug};

/// When a start is due among those of all namespaces. Never overflows: each start adds less than 2^30.
type Tag = u128;

/// All namespaces of which anything waits or runs, and those whose tags are ahead.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    shares: BTreeMap<NamespaceKey, NamespaceShare>,
    lanes: BTreeMap<NamespaceKey, (Lane, Standing)>,
    counts: Counts,
    /// The tag of the last start, or the latest of all tags if none competed since.
    now: Tag,
    latest: Tag,
    /// Those that may start one: by tag, then by the place of their first.
    competing: BTreeSet<(Tag, Position, NamespaceKey)>,
    /// The last in memory of each that may start, by when it would.
    lasts: BTreeSet<(Tag, Position, NamespaceKey)>,
    /// The last in memory of each that cannot start now.
    spare: BTreeSet<(Position, NamespaceKey)>,
    /// The first of each that is worth a load, by when it would start.
    wanted: BTreeSet<(Tag, Position, NamespaceKey)>,
    /// Those of which one in memory comes after one that is parked.
    behind: BTreeSet<NamespaceKey>,
    /// Those of which nothing waits or runs, by their tags: kept until the others have caught up.
    resting: BTreeSet<(Tag, NamespaceKey)>,
}

/// How many executions there are, of all namespaces together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// In memory, pinned ones not counted.
    pub(super) queued: usize,
    /// Those among them that may start within the limits of their namespaces, and one more of each.
    pub(super) open: usize,
    /// In memory, or with accepts that are being written.
    pub(super) waiting: usize,
    pub(super) parked: usize,
    pub(super) accepting: usize,
    pub(super) running: usize,
}

/// What is noted of a namespace in the lists and counts.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    tag: Tag,
    competing: Option<(Tag, Position)>,
    last: Option<(Tag, Position)>,
    spare: Option<Position>,
    wanted: Option<(Tag, Position)>,
    is_behind: bool,
    resting: Option<Tag>,
    counts: Counts,
}

impl Lanes {
    /// Returns the share of a namespace; one that was told nothing of has weight 1 and no limits of its own.
    pub(super) fn share(&self, namespace: NamespaceKey) -> NamespaceShare {
        let share = self.shares.get(&namespace).copied();
        share.unwrap_or(NamespaceShare::of(namespace))
    }

    /// These shares hold from now on, and no others. What was accepted stays, and what runs goes on.
    pub(super) fn set_shares(&mut self, shares: impl IntoIterator<Item = NamespaceShare>) {
        let shares = shares.into_iter();
        self.shares = shares.map(|share| (share.namespace, share)).collect();
        let namespaces: Vec<_> = self.lanes.keys().copied().collect();
        for namespace in namespaces {
            let ahead_max = stride(self.share(namespace));
            if let Some((_, standing)) = self.lanes.get_mut(&namespace) {
                // None waits longer for a start of before than for one of now.
                standing.tag = standing.tag.min(self.now + ahead_max);
            }
            self.list(namespace);
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn lane(&self, namespace: NamespaceKey) -> Option<&Lane> {
        self.lanes.get(&namespace).map(|(lane, _)| lane)
    }

    /// Changes what a namespace has, and brings the lists up to date.
    pub(super) fn change<R>(&mut self, namespace: NamespaceKey, change: impl FnOnce(&mut Lane) -> R) -> R {
        let changed = change(&mut self.lanes.entry(namespace).or_default().0);
        self.list(namespace);
        changed
    }

    /// The first of a namespace starts: it leaves the queue, as `change` says, and its namespace has had a turn.
    pub(super) fn start(&mut self, namespace: NamespaceKey, change: impl FnOnce(&mut Lane)) {
        let stride = stride(self.share(namespace));
        let (lane, standing) = self.lanes.entry(namespace).or_default();
        change(lane);
        self.now = self.now.max(standing.tag);
        standing.tag += stride;
        self.list(namespace);
    }

    //
    /// Returns whose turn it is and the execution in memory; none if its request is not in memory.
    pub(super) fn next(&self) -> Option<(NamespaceKey, Position)> {
        let ready = |namespace| Some((namespace, self.lane(namespace)?.ready()?));
        if planted::is_on(Bug::NamespaceParkedPassed) {
            let mut competing = self.competing.iter();
            return competing.find_map(|(.., namespace)| ready(*namespace));
        }
        let (.., namespace) = *self.competing.first()?;
        ready(namespace)
    }

    /// Returns true if a namespace has an execution that may start within its limits.
    pub(super) fn any_competes(&self) -> bool {
        !self.competing.is_empty()
    }

    /// Returns the last in memory of those that cannot start now.
    pub(super) fn last_spare(&self) -> Option<Position> {
        self.spare.last().map(|(position, _)| *position)
    }

    /// Returns the one in memory that would start last.
    pub(super) fn last(&self) -> Option<Position> {
        self.lasts.last().map(|(_, position, _)| *position)
    }

    /// One in memory that comes after a parked one of its own namespace.
    pub(super) fn last_behind(&self) -> Option<Position> {
        self.lane(*self.behind.first()?)?.queue.last_open()
    }

    /// Returns the one in memory that would start last, if a parked one of another namespace would start before it.
    pub(super) fn last_overtaken(&self) -> Option<Position> {
        let (wanted_tag, wanted, _) = self.wanted.first()?;
        let (tag, last, _) = self.lasts.last()?;
        ((wanted_tag, wanted) < (tag, last)).then_some(*last)
    }

    /// Returns the namespace of the parked execution that is wanted in memory first.
    pub(super) fn next_wanted(&self) -> Option<NamespaceKey> {
        self.wanted.first().map(|(.., namespace)| *namespace)
    }

    fn list(&mut self, namespace: NamespaceKey) {
        let share = self.share(namespace);
        let Some((lane, standing)) = self.lanes.get_mut(&namespace) else {
            return;
        };
        let before = *standing;
        *standing = stand(lane, before, share, self.now);
        let now = *standing;
        self.latest = self.latest.max(now.tag);
        self.counts.replace(&before.counts, &now.counts);
        let key = |(tag, position)| (tag, position, namespace);
        relist(
            &mut self.competing,
            before.competing.map(key),
            now.competing.map(key),
        );
        relist(&mut self.lasts, before.last.map(key), now.last.map(key));
        relist(&mut self.wanted, before.wanted.map(key), now.wanted.map(key));
        let key = |position| (position, namespace);
        relist(&mut self.spare, before.spare.map(key), now.spare.map(key));
        let key = |is_behind: bool| is_behind.then_some(namespace);
        relist(&mut self.behind, key(before.is_behind), key(now.is_behind));
        let key = |tag| (tag, namespace);
        relist(&mut self.resting, before.resting.map(key), now.resting.map(key));
        if self.competing.is_empty() {
            // Nobody waits for a turn: all begin anew.
            self.now = self.latest;
        }
        self.forget_resting();
    }

    /// A tag that is not ahead of the last start would be raised anyway.
    fn forget_resting(&mut self) {
        while let Some((tag, namespace)) = self.resting.first().copied()
            && (tag <= self.now || self.resting.len() > NAMESPACES_RESTING_MAX)
        {
            self.resting.pop_first();
            self.lanes.remove(&namespace);
        }
    }
}

/// How a namespace stands now.
fn stand(lane: &Lane, before: Standing, share: NamespaceShare, now: Tag) -> Standing {
    let room = share.running_room(lane.n_running);
    let stride = stride(share);
    let first = lane.first().filter(|_| room > 0);
    let begins = first.is_some() && before.competing.is_none();
    let tag = match begins && !planted::is_on(Bug::NamespaceTagKept) {
        //
        true => before.tag.max(now),
        false => before.tag,
    };
    // Those that are pinned take no memory from others, and may stand behind the first that is parked.
    let n_queued = lane.queue.n_open();
    // One more than may start, so that the next is there once another ends.
    let worth_memory_max = room.saturating_add(1);
    let n_worth = n_queued.min(worth_memory_max);
    let n_ahead = n_queued + lane.fetching.n_open();
    let (last, first_idle) = (lane.queue.last_open(), lane.idle.first_open());
    let last_held = lane.queue.last_held();
    // What must wait for the end of another is worth less memory than anything that may start now.
    let due = if room == 0 { tag + FAR } else { tag };
    let tag_after = |n: usize| due + stride * n as Tag;
    Standing {
        tag,
        competing: first.map(|first| (tag, first)),
        last: last
            .filter(|_| n_worth == n_queued)
            .map(|last| (tag_after(n_queued - 1), last)),
        spare: last_held.or(last.filter(|_| n_worth < n_queued)),
        wanted: first_idle
            .filter(|_| n_ahead < worth_memory_max)
            .map(|(position, _)| (tag_after(n_ahead), position)),
        is_behind: last.zip(first_idle).is_some_and(|(last, (idle, _))| idle < last),
        resting: lane.is_empty().then_some(tag),
        counts: Counts {
            queued: lane.queue.len(),
            open: n_worth,
            waiting: lane.queue.len() + lane.pinned.len() + lane.n_accepting,
            parked: lane.n_parked,
            accepting: lane.n_accepting,
            running: lane.n_running,
        },
    }
}

impl Counts {
    fn replace(&mut self, before: &Self, now: &Self) {
        let fields: [(&mut usize, usize, usize); 6] = [
            (&mut self.queued, before.queued, now.queued),
            (&mut self.open, before.open, now.open),
            (&mut self.waiting, before.waiting, now.waiting),
            (&mut self.parked, before.parked, now.parked),
            (&mut self.accepting, before.accepting, now.accepting),
            (&mut self.running, before.running, now.running),
        ];
        for (sum, before, now) in fields {
            *sum = *sum + now - before;
        }
    }
}

fn relist<T: Ord>(list: &mut BTreeSet<T>, before: Option<T>, now: Option<T>) {
    if before == now {
        return;
    }
    if let Some(before) = before {
        list.remove(&before);
    }
    if let Some(now) = now {
        list.insert(now);
    }
}

fn stride(share: NamespaceShare) -> Tag {
    let weight = match planted::is_on(Bug::NamespaceWeightIgnored) {
        true => 1,
        false => share.weight.max(1),
    };
    STRIDE / Tag::from(weight)
}

/// Later than any tag.
const FAR: Tag = 1 << 100;

/// What a start costs a namespace of weight 1. Each weight up to 16 divides it, and 1000; the others are met to a millionth.
const STRIDE: Tag = 720_720_000;
