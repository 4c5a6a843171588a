//! Which actions count as registered, and what the queue, the store and the operator are told of it.
//! Starts and ends nothing.

use crate::effect::{ActionMemory, Effect, Notice, Reply, StoreWrite};
use crate::engine::{Engine, Timer};
use crate::fleet::{Action, ActionKey};
use crate::input::{CallerId, WriteId, WriteOutcome};
use crate::limits::{
    ACTION_MEMORIES_WRITTEN_MAX, ACTIONS_REMEMBERED_MAX, NOT_FOUND_NAMES_MAX,
    REGISTRATIONS_LOOKED_AT_EVERY_MS,
};
use crate::live::ExecutionKey;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::StepIndex;

impl Engine {
    /// Declared actions are there from the start, and the first look is due when the grace after the start ends.
    pub(crate) fn start_registrations(&mut self) {
        for name in self.fleet.registrations.declared_names() {
            self.fleet.action_key(&name);
        }
        let due_ms = self.fleet.registrations.boot_grace_until_ms;
        self.timers.set(Timer::Registrations, Some(due_ms));
    }

    /// An action that is remembered from before the restart.
    pub(crate) fn recover_action(&mut self, memory: ActionMemory) {
        let Some(left_ms) = memory.left_ms else { return };
        if !self.has_room_to_remember(true) {
            return;
        }
        let key = self.fleet.action_key(&memory.name);
        let left_ms = left_ms.min(self.config.registration_memory_ms);
        let until_ms = self.now.monotonic_ms.saturating_add(left_ms);
        let action = self.fleet.action_mut(key);
        action.was_offered = true;
        // The store does not say so, and all that it holds is to be kept.
        action.was_named = true;
        action.written_left_ms = memory.left_ms;
        action.left_at_ms = self.now.monotonic_ms;
        action.registered_until_ms = action.registered_until_ms.max(until_ms);
        self.remember(key);
        self.arm_registration(key);
    }

    /// The first session that offers it is there.
    pub(crate) fn action_came(&mut self, key: ActionKey) {
        self.fleet.action_mut(key).offered_since_ms = self.now.monotonic_ms;
        self.arm_registration(key);
        self.fleet.registrations.changed.insert(key);
        self.tell_store_if_it_must_know(key);
    }

    //
    /// The last session that offered it has left, or its stream is broken.
    pub(crate) fn action_left(&mut self, key: ActionKey) {
        let now_ms = self.now.monotonic_ms;
        self.remember_if_worth_it(key);
        let memory_ms = self.config.registration_memory_ms;
        let short_ms = memory_ms.min(self.config.registration_grace_ms);
        let boot_ms = self.fleet.registrations.boot_grace_until_ms;
        let action = self.fleet.action_mut(key);
        let kept_ms = if action.is_remembered { memory_ms } else { short_ms };
        action.left_at_ms = now_ms;
        action.registered_until_ms = now_ms.saturating_add(kept_ms).max(boot_ms);
        self.arm_registration(key);
        self.fleet.registrations.changed.insert(key);
    }

    /// An execution asks for the action.
    pub(crate) fn note_named(&mut self, key: ActionKey) {
        let action = self.fleet.action_mut(key);
        if core::mem::replace(&mut action.was_named, true) {
            return;
        }
        if action.is_remembered {
            self.fleet.registrations.n_remembered_unnamed -= 1;
        } else if action.is_registered(self.now.monotonic_ms) {
            self.remember_if_worth_it(key);
            let memory_ms = self.config.registration_memory_ms;
            let action = self.fleet.action_mut(key);
            if action.is_remembered && action.sessions.is_empty() {
                let until_ms = action.left_at_ms.saturating_add(memory_ms);
                action.registered_until_ms = action.registered_until_ms.max(until_ms);
            }
        }
        self.arm_registration(key);
        self.tell_store_if_it_must_know(key);
    }

    /// An action that a worker offered is remembered once an execution asked for it, or once it was offered for longer
    /// than a worker takes to come back: a fleet that offers new names all the time fills nothing.
    fn remember_if_worth_it(&mut self, key: ActionKey) {
        let action = self.fleet.action(key);
        let offered_ms = self.now.monotonic_ms.saturating_sub(action.offered_since_ms);
        let is_known = action.was_named || offered_ms >= self.config.registration_grace_ms;
        let was_named = action.was_named;
        if action.was_offered && is_known && !action.is_remembered && self.has_room_to_remember(was_named) {
            self.remember(key);
        }
    }

    /// Names that no execution asked for leave room for the others.
    fn has_room_to_remember(&self, was_named: bool) -> bool {
        let registrations = &self.fleet.registrations;
        self.config.registration_memory_ms > 0
            && registrations.n_remembered < ACTIONS_REMEMBERED_MAX
            && (was_named || registrations.n_remembered_unnamed < ACTIONS_REMEMBERED_MAX / 2)
    }

    fn remember(&mut self, key: ActionKey) {
        let action = self.fleet.action_mut(key);
        if !core::mem::replace(&mut action.is_remembered, true) {
            let is_unnamed = !action.was_named;
            self.fleet.registrations.n_remembered += 1;
            self.fleet.registrations.n_remembered_unnamed += usize::from(is_unnamed);
        }
    }

    /// Its memory is over.
    fn stop_remembering(&mut self, key: ActionKey) {
        let action = self.fleet.action_mut(key);
        let name = Arc::clone(&action.name);
        let was_written = action.written_left_ms.take().is_some();
        if core::mem::take(&mut action.is_remembered) {
            let is_unnamed = !action.was_named;
            self.fleet.registrations.n_remembered -= 1;
            self.fleet.registrations.n_remembered_unnamed -= usize::from(is_unnamed);
        }
        if was_written {
            self.fleet.registrations.dirty.insert(name);
        }
    }

    /// True if a step of this action would wait for a worker because none is there.
    pub(crate) fn is_absent(&self, name: &str) -> bool {
        let now_ms = self.now.monotonic_ms;
        let registrations = &self.fleet.registrations;
        match self.fleet.find_action(name) {
            Some(key) => self.fleet.action(key).is_absent(now_ms),
            None => now_ms < registrations.boot_grace_until_ms || registrations.declares(name),
        }
    }

    /// Arms the end of the registration of an action that no session offers.
    pub(crate) fn arm_registration(&mut self, key: ActionKey) {
        let action = self.fleet.action(key);
        let due_ms =
            (action.sessions.is_empty() && !action.is_declared).then_some(action.registered_until_ms);
        self.timers.set(Timer::Registration(key), due_ms);
    }

    //
    /// No session offers it, and it is not registered any more: what waits for it ends.
    pub(crate) fn registration_over(&mut self, key: ActionKey) {
        if !self.fleet.has_action(key) {
            return;
        }
        for queue in self.fleet.queues_of(key) {
            while let Some(waiting) = self.fleet.pop_waiting(&queue) {
                self.live.at_mut(waiting.execution).waiting.remove(&waiting.step);
                self.not_found
                    .push((waiting.execution, waiting.step, waiting.attempt));
            }
        }
        self.stop_remembering(key);
        self.fleet.action_mut(key).is_told_absent = false;
        self.fleet.registrations.changed.insert(key);
        self.forget_action_if_unused(key);
    }

    /// Forgets an action that is not registered and that no session, step or queued execution refers to.
    pub(crate) fn forget_action_if_unused(&mut self, key: ActionKey) {
        let is_unused = self.fleet.is_unused(key, self.now.monotonic_ms);
        if is_unused && !self.admission.needs.name(key) {
            self.stop_remembering(key);
            self.timers.set(Timer::Registration(key), None);
            self.fleet.forget_action(key);
        }
    }

    /// The operator ends the memory of an action.
    pub(crate) fn forget_registration(&mut self, caller: CallerId, name: &str) {
        let found = self.fleet.find_action(name);
        let Some(key) = found.filter(|key| self.fleet.action(*key).is_registered(self.now.monotonic_ms))
        else {
            return self.reply(
                caller,
                Reply::ActionForgotten {
                    was_known: false,
                    n_queued: 0,
                },
            );
        };
        let action = self.fleet.action_mut(key);
        if !action.sessions.is_empty() || action.is_declared {
            return self.reply(caller, Reply::ActionInUse);
        }
        action.registered_until_ms = self.now.monotonic_ms;
        let needs = self.admission.needs.of(key);
        let n_queued = needs
            .map(|need| self.admission.n_of(need) + self.parked.n_of(need))
            .sum();
        self.reply(
            caller,
            Reply::ActionForgotten {
                was_known: true,
                n_queued,
            },
        );
        self.timers.set(Timer::Registration(key), None);
        self.registration_over(key);
    }

    //
    /// Tells the queue which actions came or left, so that what nobody could begin is held back and nothing else.
    pub(crate) fn follow_changes(&mut self) {
        while let Some(key) = self.fleet.registrations.changed.pop_first() {
            if self.fleet.has_action(key) {
                self.follow(key);
                self.forget_action_if_unused(key);
            }
        }
    }

    fn follow(&mut self, key: ActionKey) {
        let now_ms = self.now.monotonic_ms;
        let action = self.fleet.action_mut(key);
        if !action.sessions.is_empty() && core::mem::take(&mut action.is_told_absent) {
            let action = Arc::clone(&action.name);
            self.effects.push_back(Effect::Note(Notice::Offered { action }));
        }
        let action = self.fleet.action_mut(key);
        let is_absent = action.is_absent(now_ms);
        if core::mem::replace(&mut action.is_known_absent, is_absent) == is_absent {
            return;
        }
        for need in self.admission.needs.switch(key, is_absent) {
            let is_held = self.admission.needs.is_held(need);
            self.admission.switch(need, is_held);
            self.parked.switch(need, is_held);
            if is_held {
                let actions = self.admission.needs.actions(need).to_vec();
                self.note_held(&actions);
            }
        }
    }

    /// A need names the action for the first time: what it knows of the action is true from here on.
    pub(crate) fn begin_to_follow(&mut self, key: ActionKey) {
        if !self.admission.needs.name(key) {
            let is_absent = self.fleet.action(key).is_absent(self.now.monotonic_ms);
            self.fleet.action_mut(key).is_known_absent = is_absent;
        }
    }

    /// Says once of each action that executions are held back for want of it. During the grace after the start
    /// workers are expected to come back, and nothing is said.
    pub(crate) fn note_held(&mut self, actions: &[ActionKey]) {
        if self.now.monotonic_ms < self.fleet.registrations.boot_grace_until_ms {
            return;
        }
        for key in actions {
            let action = self.fleet.action_mut(*key);
            if !core::mem::replace(&mut action.is_told_absent, true) {
                let action = Arc::clone(&action.name);
                self.effects.push_back(Effect::Note(Notice::HeldBack { action }));
            }
        }
    }

    /// Counts a step that ends because its action is not registered; says it at once if it is the first of its action.
    pub(crate) fn note_not_found(&mut self, key: ExecutionKey, step: StepIndex) {
        let Some(live) = self.live.find_mut(key) else {
            return;
        };
        let name = live.request.plan().step(step).action();
        let told = &mut self.fleet.registrations.not_found;
        if let Some(n_steps) = told.get_mut(name) {
            *n_steps += 1;
        } else if told.len() < NOT_FOUND_NAMES_MAX {
            let action: Arc<str> = Arc::from(name);
            told.insert(Arc::clone(&action), 0);
            self.effects
                .push_back(Effect::Note(Notice::NotFound { action, n_steps: 1 }));
        }
    }

    /// Once in a while: the store is told what is left of the memories, and the log what was counted.
    pub(crate) fn look_at_registrations(&mut self) {
        let due_ms = self.now.monotonic_ms + REGISTRATIONS_LOOKED_AT_EVERY_MS;
        self.timers.set(Timer::Registrations, Some(due_ms));
        self.fleet.registrations.writes_paused = false;
        for (action, n_steps) in core::mem::take(&mut self.fleet.registrations.not_found) {
            if n_steps > 0 {
                self.effects
                    .push_back(Effect::Note(Notice::NotFound { action, n_steps }));
            }
        }
        for key in self.fleet.actions().map(|(key, _)| key).collect::<Vec<_>>() {
            if !self.fleet.action(key).sessions.is_empty() {
                self.remember_if_worth_it(key);
            }
            self.tell_store_if_it_must_know(key);
            let needs = &self.admission.needs;
            let is_absent = self.fleet.action(key).is_absent(self.now.monotonic_ms);
            if is_absent && needs.of(key).any(|need| needs.is_held(need)) {
                self.note_held(&[key]);
            }
        }
    }

    fn tell_store_if_it_must_know(&mut self, key: ActionKey) {
        let action = self.fleet.action(key);
        let left_ms = self.memory_left_ms(action);
        if left_ms != action.written_left_ms {
            let name = Arc::clone(&action.name);
            self.fleet.registrations.dirty.insert(name);
        }
    }

    /// What is left of the memory of an action; `None` if it is not remembered.
    fn memory_left_ms(&self, action: &Action) -> Option<u64> {
        let left_ms = match action.sessions.is_empty() {
            true => action.registered_until_ms.saturating_sub(self.now.monotonic_ms),
            false => self.config.registration_memory_ms,
        };
        action.is_remembered.then_some(left_ms)
    }

    /// Asks for the next write of memories, one at a time.
    pub(crate) fn write_memories(&mut self) {
        let registrations = &mut self.fleet.registrations;
        let is_busy = registrations.being_written.is_some() || registrations.writes_paused;
        if is_busy || registrations.dirty.is_empty() {
            return;
        }
        let mut names = Vec::new();
        while names.len() < ACTION_MEMORIES_WRITTEN_MAX
            && let Some(name) = registrations.dirty.pop_first()
        {
            names.push(name);
        }
        let mut memories = Vec::with_capacity(names.len());
        for name in &names {
            let key = self.fleet.find_action(name);
            let left_ms = key.and_then(|key| self.memory_left_ms(self.fleet.action(key)));
            if let Some(key) = key {
                self.fleet.action_mut(key).written_left_ms = left_ms;
            }
            let name = Arc::clone(name);
            memories.push(ActionMemory { name, left_ms });
        }
        self.next_write += 1;
        let write = WriteId(self.next_write);
        self.fleet.registrations.being_written = Some((write, names));
        self.effects.push_back(Effect::Write {
            write,
            content: StoreWrite::RememberActions { memories },
        });
    }

    /// True if the write was one of memories. One that failed hurts nothing: it is tried again in a while.
    pub(crate) fn memories_stored(&mut self, write: WriteId, outcome: WriteOutcome) -> bool {
        let registrations = &mut self.fleet.registrations;
        let being_written = registrations.being_written.take_if(|(other, _)| *other == write);
        let Some((_, names)) = being_written else {
            return false;
        };
        if outcome != WriteOutcome::Durable {
            registrations.writes_paused = true;
            registrations.dirty.extend(names);
        }
        true
    }

    // a time in which the orchestrator itself stood still does not count.
    /// Moves the ends of all registrations.
    pub(crate) fn extend_registrations(&mut self, by_ms: u64) {
        let registrations = &mut self.fleet.registrations;
        registrations.boot_grace_until_ms = registrations.boot_grace_until_ms.saturating_add(by_ms);
        for key in self.fleet.actions().map(|(key, _)| key).collect::<Vec<_>>() {
            let action = self.fleet.action_mut(key);
            if action.is_absent(self.now.monotonic_ms) {
                action.registered_until_ms = action.registered_until_ms.saturating_add(by_ms);
                self.arm_registration(key);
            }
        }
    }
}
