//! Which actions count as registered, and what the queue and the operator are told of it. Starts and ends nothing.

use super::{Fleet, Timer};
use crate::effect::{Effect, Notice};
use crate::keys::ActionKey;
use crate::limits::NOT_FOUND_NAMES_MAX;
use crate::turn::Turn;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What came of the wish to end the memory of an action.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgotten {
    /// It was not registered.
    Unknown,
    /// A live worker offers it, or the operator declares it.
    InUse,
    /// It is not registered any more.
    Done(ActionKey),
}

/// An action whose first session came, or whose last one left, as the queue sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) action: ActionKey,
    /// It is registered, and no session offers it.
    pub(crate) is_absent: bool,
}

impl Fleet {
    /// Declared actions are there from the start, and the first look is due when the grace after the start ends.
    pub(super) fn start_registrations(&mut self) {
        for name in self.registrations.declared_names() {
            self.action_key(&name);
        }
        let due_ms = self.registrations.boot_grace_until_ms;
        self.timers.set(Timer::Registrations, Some(due_ms));
    }

    /// The first session that offers it is there.
    pub(super) fn action_came(&mut self, key: ActionKey, turn: &Turn) {
        self.action_mut(key).offered_since_ms = turn.now_ms();
        self.arm_registration(key);
        self.registrations.changed.insert(key);
        self.tell_store_if_it_must_know(key, turn);
    }

    //
    /// The last session that offered it has left, or its stream is broken.
    pub(super) fn action_left(&mut self, key: ActionKey, turn: &Turn) {
        let now_ms = turn.now_ms();
        self.remember_if_worth_it(key, turn);
        let memory_ms = self.config.registration_memory_ms;
        let short_ms = memory_ms.min(self.config.registration_grace_ms);
        let boot_ms = self.registrations.boot_grace_until_ms;
        let action = self.action_mut(key);
        let kept_ms = if action.is_remembered { memory_ms } else { short_ms };
        action.left_at_ms = now_ms;
        action.registered_until_ms = now_ms.saturating_add(kept_ms).max(boot_ms);
        self.arm_registration(key);
        self.registrations.changed.insert(key);
    }

    /// An execution asks for the action.
    pub(super) fn note_named(&mut self, key: ActionKey, turn: &Turn) {
        let action = self.action_mut(key);
        if core::mem::replace(&mut action.was_named, true) {
            return;
        }
        if action.is_remembered {
            self.registrations.n_remembered_unnamed -= 1;
        } else if action.is_registered(turn.now_ms()) {
            self.remember_if_worth_it(key, turn);
            let memory_ms = self.config.registration_memory_ms;
            let action = self.action_mut(key);
            if action.is_remembered && action.sessions.is_empty() {
                let until_ms = action.left_at_ms.saturating_add(memory_ms);
                action.registered_until_ms = action.registered_until_ms.max(until_ms);
            }
        }
        self.arm_registration(key);
        self.tell_store_if_it_must_know(key, turn);
    }

    /// Returns true if a step of this action would wait for a worker because none is there.
    pub(crate) fn is_absent(&self, name: &str, turn: &Turn) -> bool {
        let now_ms = turn.now_ms();
        match self.find_action(name) {
            Some(key) => self.action(key).is_absent(now_ms),
            None => now_ms < self.registrations.boot_grace_until_ms || self.registrations.declares(name),
        }
    }

    /// Arms the end of the registration of an action that no session offers.
    pub(super) fn arm_registration(&mut self, key: ActionKey) {
        let action = self.action(key);
        let due_ms =
            (action.sessions.is_empty() && !action.is_declared).then_some(action.registered_until_ms);
        self.timers.set(Timer::Registration(key), due_ms);
    }

    //
    /// No session offers it, and it is not registered any more: what waits for it ends.
    pub(super) fn registration_over(&mut self, key: ActionKey, turn: &Turn) {
        if !self.has_action(key) {
            return;
        }
        for queue in self.queues_of(key) {
            while let Some(waiting) = self.pop_waiting(&queue) {
                self.steps.remove(&(waiting.execution, waiting.step));
                self.not_found.push(waiting);
            }
        }
        self.stop_remembering(key);
        self.action_mut(key).is_told_absent = false;
        self.registrations.changed.insert(key);
        self.forget_action_if_unused(key, turn);
    }

    /// The operator ends the memory of an action.
    pub(crate) fn forget_registration(&mut self, name: &str, turn: &Turn) -> Forgotten {
        let found = self.find_action(name);
        let Some(key) = found.filter(|key| self.action(*key).is_registered(turn.now_ms())) else {
            return Forgotten::Unknown;
        };
        let action = self.action_mut(key);
        if !action.sessions.is_empty() || action.is_declared {
            return Forgotten::InUse;
        }
        action.registered_until_ms = turn.now_ms();
        self.timers.set(Timer::Registration(key), None);
        self.registration_over(key, turn);
        Forgotten::Done(key)
    }

    /// Executions that are to be queued begin with these actions. Returns their keys, sorted, each once.
    /// Ends with [`Fleet::forget_action_if_unused`] for each.
    pub(crate) fn name_actions<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        turn: &Turn,
    ) -> Vec<ActionKey> {
        let mut actions: Vec<_> = names.map(|name| self.action_key(name)).collect();
        actions.sort_unstable();
        actions.dedup();
        for key in &actions {
            self.note_named(*key, turn);
            // The first need that names it begins with what is true now.
            let action = self.action_mut(*key);
            if action.n_needs == 0 {
                action.is_known_absent = action.is_absent(turn.now_ms());
            }
        }
        actions
    }

    /// Returns true if the action is absent as far as the queue was told.
    pub(crate) fn is_known_absent(&self, key: ActionKey) -> bool {
        self.action(key).is_known_absent
    }

    /// Queued executions begin to need these actions.
    pub(crate) fn begin_need(&mut self, actions: &[ActionKey]) {
        for key in actions {
            self.action_mut(*key).n_needs += 1;
        }
    }

    /// No queued execution has this need any more.
    pub(crate) fn end_need(&mut self, actions: &[ActionKey], turn: &Turn) {
        for key in actions {
            let action = self.action_mut(*key);
            action.n_needs = action.n_needs.checked_sub(1).expect("a need ends once");
            self.forget_action_if_unused(*key, turn);
        }
    }

    //
    /// Returns the next change that the queue must follow. The caller calls [`Fleet::forget_action_if_unused`] after it.
    pub(crate) fn next_change(&mut self, turn: &mut Turn) -> Option<Change> {
        while let Some(key) = self.registrations.changed.pop_first() {
            if !self.has_action(key) {
                continue;
            }
            let action = self.action_mut(key);
            if !action.sessions.is_empty() && core::mem::take(&mut action.is_told_absent) {
                let action = Arc::clone(&action.name);
                turn.push(Effect::Note(Notice::Offered { action }));
            }
            let is_absent = action.is_absent(turn.now_ms());
            if core::mem::replace(&mut action.is_known_absent, is_absent) != is_absent {
                return Some(Change {
                    action: key,
                    is_absent,
                });
            }
            self.forget_action_if_unused(key, turn);
        }
        None
    }

    /// Says once of each action that executions are held back for want of it. During the grace after the start
    /// workers are expected to come back, and nothing is said.
    pub(crate) fn note_held(&mut self, actions: &[ActionKey], turn: &mut Turn) {
        if turn.now_ms() < self.registrations.boot_grace_until_ms {
            return;
        }
        for key in actions {
            let action = self.action_mut(*key);
            if !core::mem::replace(&mut action.is_told_absent, true) {
                let action = Arc::clone(&action.name);
                turn.push(Effect::Note(Notice::HeldBack { action }));
            }
        }
    }

    /// Counts a step that ends because its action is not registered; says it at once if it is the first of its action.
    pub(crate) fn note_not_found(&mut self, name: &str, turn: &mut Turn) {
        let told = &mut self.registrations.not_found;
        if let Some(n_steps) = told.get_mut(name) {
            *n_steps += 1;
        } else if told.len() < NOT_FOUND_NAMES_MAX {
            let action: Arc<str> = Arc::from(name);
            told.insert(Arc::clone(&action), 0);
            turn.push(Effect::Note(Notice::NotFound { action, n_steps: 1 }));
        }
    }

    /// Returns the actions that no session offers though they are registered, by name.
    pub(crate) fn absent_actions(&self, turn: &Turn) -> Vec<ActionKey> {
        let absent = self
            .actions()
            .filter(|(_, action)| action.is_absent(turn.now_ms()));
        absent.map(|(key, _)| key).collect()
    }

    // a time in which the orchestrator itself stood still does not count.
    /// Moves the ends of all registrations.
    pub(super) fn extend_registrations(&mut self, by_ms: u64, turn: &Turn) {
        let boot_ms = &mut self.registrations.boot_grace_until_ms;
        *boot_ms = boot_ms.saturating_add(by_ms);
        for key in self.absent_actions(turn) {
            let action = self.action_mut(key);
            action.registered_until_ms = action.registered_until_ms.saturating_add(by_ms);
            self.arm_registration(key);
        }
    }
}
