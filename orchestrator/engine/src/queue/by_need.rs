//! An ordered set in parts, one for each need, that knows its ends without walking the parts. Starts nothing.

use super::need::NeedKey;
use alloc::collections::{BTreeMap, BTreeSet};

/// Items by need. A whole part is held back, or none of it is.
#[derive(Debug)]
pub(super) struct ByNeed<T> {
    parts: BTreeMap<NeedKey, BTreeSet<T>>,
    open: Ends<T>,
    held: Ends<T>,
}

/// The first and the last item of each part.
#[derive(Debug)]
struct Ends<T> {
    firsts: BTreeSet<(T, NeedKey)>,
    lasts: BTreeSet<(T, NeedKey)>,
    n_items: usize,
}

impl<T> Default for ByNeed<T> {
    fn default() -> Self {
        Self {
            parts: BTreeMap::new(),
            open: Ends::default(),
            held: Ends::default(),
        }
    }
}

impl<T> Default for Ends<T> {
    fn default() -> Self {
        Self {
            firsts: BTreeSet::new(),
            lasts: BTreeSet::new(),
            n_items: 0,
        }
    }
}

impl<T: Ord + Copy> ByNeed<T> {
    pub(super) fn insert(&mut self, item: T, need: NeedKey, is_held: bool) {
        let part = self.parts.entry(need).or_default();
        let (first, last) = ends(part);
        assert!(part.insert(item), "an item is in it once");
        let listed = if is_held { &mut self.held } else { &mut self.open };
        if first.is_none_or(|first| item < first) {
            relist(&mut listed.firsts, need, first, Some(item));
        }
        if last.is_none_or(|last| item > last) {
            relist(&mut listed.lasts, need, last, Some(item));
        }
        listed.n_items += 1;
    }

    /// Takes an item out; false if it is not there.
    pub(super) fn remove(&mut self, item: T, need: NeedKey, is_held: bool) -> bool {
        let Some(part) = self.parts.get_mut(&need) else {
            return false;
        };
        if !part.remove(&item) {
            return false;
        }
        let listed = if is_held { &mut self.held } else { &mut self.open };
        let (first, last) = ends(part);
        if first.is_none_or(|first| item < first) {
            relist(&mut listed.firsts, need, Some(item), first);
        }
        if last.is_none_or(|last| item > last) {
            relist(&mut listed.lasts, need, Some(item), last);
        }
        listed.n_items -= 1;
        if part.is_empty() {
            self.parts.remove(&need);
        }
        true
    }

    /// Holds a part back from now on, or does not any more.
    pub(super) fn switch(&mut self, need: NeedKey, is_held: bool) {
        let Some(part) = self.parts.get(&need) else { return };
        let (from, to) = match is_held {
            true => (&mut self.open, &mut self.held),
            false => (&mut self.held, &mut self.open),
        };
        from.list(need, ends(part), (None, None));
        to.list(need, (None, None), ends(part));
        from.n_items -= part.len();
        to.n_items += part.len();
    }

    pub(super) fn len(&self) -> usize {
        self.open.n_items + self.held.n_items
    }

    /// How many are not held back.
    pub(super) fn n_open(&self) -> usize {
        self.open.n_items
    }

    /// Returns the first that is not held back.
    pub(super) fn first_open(&self) -> Option<T> {
        self.open.firsts.first().map(|(item, _)| *item)
    }

    /// Returns the last that is not held back.
    pub(super) fn last_open(&self) -> Option<T> {
        self.open.lasts.last().map(|(item, _)| *item)
    }

    /// Returns the last that is held back.
    pub(super) fn last_held(&self) -> Option<T> {
        self.held.lasts.last().map(|(item, _)| *item)
    }

    /// How many of one need there are.
    pub(super) fn n_of(&self, need: NeedKey) -> usize {
        self.parts.get(&need).map_or(0, BTreeSet::len)
    }

    /// Those before an item that are not held back, and those of its own need, in no order.
    /// Its cost goes by the number of items that are taken, whatever the number of needs.
    pub(super) fn before(&self, item: T, need: NeedKey, is_held: bool) -> impl Iterator<Item = T> {
        let first_of_all = self.open.firsts.first().map(|(first, _)| *first);
        let own = is_held.then(|| self.parts.get(&need)).flatten();
        let open = first_of_all.filter(|first| *first < item).map(|first| {
            let parts = self
                .open
                .firsts
                .range((first, NeedKey::NONE)..(item, NeedKey::NONE));
            parts.flat_map(move |(_, need)| self.parts[need].range(..item))
        });
        let own = own.into_iter().flat_map(move |part| part.range(..item));
        open.into_iter().flatten().chain(own).copied()
    }
}

impl<T: Ord + Copy> Ends<T> {
    fn list(&mut self, need: NeedKey, before: (Option<T>, Option<T>), after: (Option<T>, Option<T>)) {
        relist(&mut self.firsts, need, before.0, after.0);
        relist(&mut self.lasts, need, before.1, after.1);
    }
}

fn ends<T: Ord + Copy>(part: &BTreeSet<T>) -> (Option<T>, Option<T>) {
    (part.first().copied(), part.last().copied())
}

fn relist<T: Ord>(list: &mut BTreeSet<(T, NeedKey)>, need: NeedKey, before: Option<T>, after: Option<T>) {
    if let Some(item) = before {
        list.remove(&(item, need));
    }
    if let Some(item) = after {
        list.insert((item, need));
    }
}
