//! Why steps wait, and which worker has them: the facts of the fleet. Changes nothing.

use super::action::{Action, QueueKey, Waiting, WaitingKey};
use super::{Fleet, StepState, Timer};
use crate::keys::{ActionKey, ExecutionKey};
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Keys;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::iter::Peekable;
use escapement_contract::{COUNTED_MAX, HeldBackFacts, QueueFacts, StepIndex, WorkerFacts};

impl Fleet {
    //
    /// About the first of the actions without which an execution is held back.
    pub(crate) fn held_back_facts(&self, actions: &[ActionKey], turn: &Turn) -> Option<HeldBackFacts> {
        let action = self.action(*actions.first()?);
        let now_ms = turn.now_ms();
        Some(HeldBackFacts {
            action: Arc::clone(&action.name),
            n_others: count(actions.len() - 1),
            absent_for_ms: action.was_offered.then(|| now_ms - action.left_at_ms),
            registered_for_ms: action.registered_for_ms(now_ms),
        })
    }

    /// By step: its place, if it waits for a worker. Walks each queue once, however many of them wait in it.
    pub(crate) fn places(
        &self,
        execution: ExecutionKey,
        n_steps: usize,
        turn: &Turn,
    ) -> Vec<Option<QueueFacts>> {
        let mut by_queue: BTreeMap<QueueKey, Vec<(WaitingKey, StepIndex)>> = BTreeMap::new();
        for (step, state) in self.steps_of(execution) {
            if let StepState::Waiting(queue, place) = state {
                by_queue.entry(queue.clone()).or_default().push((*place, step));
            }
        }
        let mut places = vec![None; n_steps];
        for (queue, mut waiting) in by_queue {
            waiting.sort_unstable();
            let facts = self.queue_facts(&queue, turn);
            let mut others = self.served_by_the_same(&queue);
            let mut n_before = 0;
            for (place, step) in waiting {
                while n_before < COUNTED_MAX && others.next_before(place) {
                    n_before += 1;
                }
                places[step.as_usize()] = Some(QueueFacts { n_before, ..facts });
            }
        }
        places
    }

    /// Returns the places that compete with those of a queue.
    fn served_by_the_same(&self, queue: &QueueKey) -> Merged<'_> {
        let action = self.action(queue.action);
        // Where attempts only wait, each depth has slots of its own.
        let is_shared = action.sessions.is_empty() || !self.only_waits(queue.action, action);
        let queues = action.queues.iter();
        let competing = queues.filter(|(other, _)| is_shared || other.depth == queue.depth);
        Merged(competing.map(|(_, places)| places.keys().peekable()).collect())
    }

    fn only_waits(&self, key: ActionKey, action: &Action) -> bool {
        let mut sessions = action.sessions.iter();
        sessions.all(|session| self.sessions[session].actions[&key].waits)
    }

    fn queue_facts(&self, queue: &QueueKey, turn: &Turn) -> QueueFacts {
        let action = self.action(queue.action);
        let is_offered = !action.sessions.is_empty();
        QueueFacts {
            n_before: 0,
            n_workers: count(action.sessions.len()),
            n_slots_free: self.action_free_slots(queue.action, action),
            //
            expires_in_ms: (!is_offered)
                .then(|| action.registered_for_ms(turn.now_ms()))
                .flatten(),
        }
    }

    pub(crate) fn worker_facts(
        &self,
        execution: ExecutionKey,
        step: StepIndex,
        turn: &Turn,
    ) -> Option<WorkerFacts> {
        let StepState::Held(token) = self.steps.get(&(execution, step))? else {
            return None;
        };
        let key = self.attempts.get(token)?.session;
        let session = self.sessions.get(&key)?;
        let lease_due_ms = self.timers.due_ms(Timer::Lease(key));
        Some(WorkerFacts {
            label: Arc::clone(&session.identity.as_ref()?.worker_id),
            vanishes_in_ms: lease_due_ms
                .filter(|_| !session.connected)
                .map(|due_ms| due_ms.saturating_sub(turn.now_ms())),
        })
    }
}

/// The places of several queues. There are few: one for each depth of nesting, and for each set of workers that refused.
struct Merged<'a>(Vec<Peekable<Keys<'a, WaitingKey, Waiting>>>);

impl Merged<'_> {
    /// Takes one more that is before a place; false if none is left.
    fn next_before(&mut self, place: WaitingKey) -> bool {
        let mut queues = self.0.iter_mut();
        queues.any(|places| places.next_if(|other| **other < place).is_some())
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
