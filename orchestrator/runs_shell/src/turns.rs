//! What waits for room, run by run or tenant by tenant in turn: one with much to do does not hold the others back.

use std::collections::{BTreeMap, VecDeque};

/// Things that wait, each for an owner: a run, or a tenant. Of one owner the first that came goes first; among owners each has
/// one in its turn.
#[derive(Debug)]
pub(crate) struct Turns<K, T> {
    /// No owner is here with nothing.
    waiting: BTreeMap<K, VecDeque<T>>,
    /// Each owner that has something, the next one first.
    order: VecDeque<K>,
}

impl<K: Clone + Ord, T> Turns<K, T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(crate) fn push(&mut self, owner: K, thing: T) {
        let owned = self.waiting.entry(owner.clone()).or_default();
        if owned.is_empty() {
            self.order.push_back(owner);
        }
        owned.push_back(thing);
    }

    // RUN-9.8
    pub(crate) fn pop(&mut self) -> Option<(K, T)> {
        self.pop_if(|_, _| true)
    }

    /// Removes the next thing of the owners whose first thing may go now. The others keep their turns.
    pub(crate) fn pop_if(&mut self, may_go: impl Fn(&K, &T) -> bool) -> Option<(K, T)> {
        let may_go = |owner: &K| {
            let first = self.waiting.get(owner).and_then(VecDeque::front);
            first.is_some_and(|thing| may_go(owner, thing))
        };
        let position = self.order.iter().position(may_go)?;
        let owner = self.order.remove(position)?;
        let owned = self.waiting.get_mut(&owner)?;
        let thing = owned.pop_front()?;
        if owned.is_empty() {
            self.waiting.remove(&owner);
        } else {
            self.order.push_back(owner.clone());
        }
        Some((owner, thing))
    }

    /// Returns true if something of the owner waits.
    pub(crate) fn has(&self, owner: &K) -> bool {
        self.waiting.contains_key(owner)
    }

    /// What goes next.
    pub(crate) fn first(&self) -> Option<&T> {
        self.waiting.get(self.order.front()?)?.front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use escapement_model::RunId;

    // RUN-9.8
    #[test]
    fn each_run_has_one_in_its_turn_and_its_own_in_their_order() {
        let [first, second, third] = [1, 2, 3].map(|n| RunId::from_random([n; 16]));
        let mut turns = Turns::new();
        for thing in ["a", "b", "c", "d"] {
            turns.push(first, thing);
        }
        turns.push(second, "e");
        assert_eq!(turns.first(), Some(&"a"));
        let mut popped = vec![turns.pop(), turns.pop()];
        // One that comes later has its turn before those that had theirs.
        turns.push(second, "f");
        turns.push(third, "g");
        popped.extend(std::iter::from_fn(|| turns.pop().map(Some)));
        let order: Vec<_> = popped.into_iter().flatten().collect();
        assert_eq!(
            order,
            [
                (first, "a"),
                (second, "e"),
                (first, "b"),
                (second, "f"),
                (third, "g"),
                (first, "c"),
                (first, "d")
            ]
        );
        assert_eq!(turns.first(), None);
    }
}
