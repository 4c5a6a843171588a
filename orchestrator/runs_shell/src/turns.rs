//! What waits for room, run by run in turn: a run with much to do does not hold the others back.

use std::collections::{BTreeMap, VecDeque};

use escapement_model::RunId;

/// Things that wait, each for a run. Of one run the first that came goes first; among runs each has one in its turn.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// No run is here with nothing.
    waiting: BTreeMap<RunId, VecDeque<T>>,
    /// Each run that has something, the next one first.
    order: VecDeque<RunId>,
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(crate) fn push(&mut self, run_id: RunId, thing: T) {
        let of_run = self.waiting.entry(run_id).or_default();
        if of_run.is_empty() {
            self.order.push_back(run_id);
        }
        of_run.push_back(thing);
    }

    // RUN-9.8
    pub(crate) fn pop(&mut self) -> Option<(RunId, T)> {
        let run_id = self.order.pop_front()?;
        let of_run = self.waiting.get_mut(&run_id)?;
        let thing = of_run.pop_front()?;
        if of_run.is_empty() {
            self.waiting.remove(&run_id);
        } else {
            self.order.push_back(run_id);
        }
        Some((run_id, thing))
    }

    /// What goes next.
    pub(crate) fn first(&self) -> Option<&T> {
        self.waiting.get(self.order.front()?)?.front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
