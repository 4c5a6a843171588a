//! Which actions are remembered after their last workers left, here and in the store. Registers nothing.

use super::action::Action;
use super::registrations::{BeingWritten, ToTell};
use super::{Fleet, Timer};
use crate::answer::{ActionForgotten, Caller, ForgetAnswer, Refusal};
use crate::effect::{Effect, Notice, StoreWrite};
use crate::keys::{ActionKey, WriteId};
use crate::limits::{ACTION_MEMORIES_WRITTEN_MAX, ACTIONS_REMEMBERED_MAX, REGISTRATIONS_LOOKED_AT_EVERY_MS};
use crate::stored::{ActionMemory, WriteFailure, WriteOutcome};
use crate::turn::Turn;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Fleet {
    /// An action that is remembered from before the restart.
    pub(crate) fn recover_action(&mut self, memory: ActionMemory, turn: &Turn) {
        let Some(left_ms) = memory.left_ms else { return };
        if !self.has_room_to_remember(true) {
            return;
        }
        let key = self.action_key(&memory.name);
        let left_ms = left_ms.min(self.config.registration_memory_ms);
        let until_ms = turn.now_ms().saturating_add(left_ms);
        let action = self.action_mut(key);
        action.was_offered = true;
        // The store does not say so, and all that it holds is to be kept.
        action.was_named = true;
        action.written_left_ms = memory.left_ms;
        action.left_at_ms = turn.now_ms();
        action.registered_until_ms = action.registered_until_ms.max(until_ms);
        self.remember(key);
        self.arm_registration(key);
    }

    /// An action that a worker offered is remembered once an execution asked for it, or once it was offered for longer
    /// than a worker takes to come back: a fleet that offers new names all the time fills nothing.
    pub(super) fn remember_if_worth_it(&mut self, key: ActionKey, turn: &Turn) {
        let action = self.action(key);
        let offered_ms = turn.now_ms().saturating_sub(action.offered_since_ms);
        let is_known = action.was_named || offered_ms >= self.config.registration_grace_ms;
        let was_named = action.was_named;
        if action.was_offered && is_known && !action.is_remembered && self.has_room_to_remember(was_named) {
            self.remember(key);
        }
    }

    /// Names that no execution asked for leave room for the others.
    fn has_room_to_remember(&self, was_named: bool) -> bool {
        let registrations = &self.registrations;
        self.config.registration_memory_ms > 0
            && registrations.n_remembered < ACTIONS_REMEMBERED_MAX
            && (was_named || registrations.n_remembered_unnamed < ACTIONS_REMEMBERED_MAX / 2)
    }

    fn remember(&mut self, key: ActionKey) {
        let action = self.action_mut(key);
        if !core::mem::replace(&mut action.is_remembered, true) {
            let is_unnamed = !action.was_named;
            self.registrations.n_remembered += 1;
            self.registrations.n_remembered_unnamed += usize::from(is_unnamed);
        }
    }

    /// Its memory is over.
    pub(super) fn stop_remembering(&mut self, key: ActionKey) {
        let action = self.action_mut(key);
        let name = Arc::clone(&action.name);
        let was_written = action.written_left_ms.take().is_some();
        if core::mem::take(&mut action.is_remembered) {
            let is_unnamed = !action.was_named;
            self.registrations.n_remembered -= 1;
            self.registrations.n_remembered_unnamed -= usize::from(is_unnamed);
        }
        if was_written {
            self.registrations.dirty.insert(name);
        }
    }

    /// Once in a while: the store is told what is left of the memories, and the log what was counted.
    pub(super) fn look_at_registrations(&mut self, turn: &mut Turn) {
        let due_ms = turn.now_ms() + REGISTRATIONS_LOOKED_AT_EVERY_MS;
        self.timers.set(Timer::Registrations, Some(due_ms));
        self.registrations.writes_paused = false;
        for (action, n_steps) in core::mem::take(&mut self.registrations.not_found) {
            if n_steps > 0 {
                turn.push(Effect::Note(Notice::NotFound { action, n_steps }));
            }
        }
        for key in self.actions().map(|(key, _)| key).collect::<Vec<_>>() {
            if !self.action(key).sessions.is_empty() {
                self.remember_if_worth_it(key, turn);
            }
            self.tell_store_if_it_must_know(key, turn);
        }
    }

    pub(super) fn tell_store_if_it_must_know(&mut self, key: ActionKey, turn: &Turn) {
        let action = self.action(key);
        if self.memory_left_ms(action, turn) != action.written_left_ms {
            let name = Arc::clone(&action.name);
            self.registrations.dirty.insert(name);
        }
    }

    /// Returns what is left of the memory of an action; `None` if it is not remembered.
    fn memory_left_ms(&self, action: &Action, turn: &Turn) -> Option<u64> {
        let left_ms = match action.sessions.is_empty() {
            true => action.registered_until_ms.saturating_sub(turn.now_ms()),
            false => self.config.registration_memory_ms,
        };
        action.is_remembered.then_some(left_ms)
    }

    /// Asks for the next write of memories, one at a time.
    pub(crate) fn write_memories(&mut self, turn: &mut Turn) {
        let registrations = &mut self.registrations;
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
            let key = self.find_action(name);
            let left_ms = key.and_then(|key| self.memory_left_ms(self.action(key), turn));
            if let Some(key) = key {
                self.action_mut(key).written_left_ms = left_ms;
            }
            let name = Arc::clone(name);
            memories.push(ActionMemory { name, left_ms });
        }
        let write = turn.write(StoreWrite::RememberActions { memories });
        let registrations = &mut self.registrations;
        let to_tell = core::mem::take(&mut registrations.to_tell);
        let is_written = |told: &ToTell| names.binary_search(&told.name).is_ok();
        let (to_tell, later) = to_tell.into_iter().partition(is_written);
        registrations.to_tell = later;
        registrations.being_written = Some(BeingWritten {
            write,
            names,
            to_tell,
        });
    }

    /// An operator is told that an action is forgotten, at once if the store knows nothing else of it.
    pub(crate) fn tell_forgotten(
        &mut self,
        caller: Caller<ForgetAnswer>,
        name: &str,
        forgotten: ActionForgotten,
        turn: &mut Turn,
    ) {
        let registrations = &mut self.registrations;
        let being_written = registrations.being_written.as_ref();
        let is_being_written =
            being_written.is_some_and(|being| being.names.iter().any(|one| **one == *name));
        if !is_being_written && !registrations.dirty.contains(name) {
            return turn.reply(caller, Some(Ok(forgotten)));
        }
        let name: Arc<str> = Arc::from(name);
        registrations.dirty.insert(Arc::clone(&name));
        registrations.writes_paused = false;
        registrations.to_tell.push(ToTell {
            caller,
            name,
            forgotten,
        });
    }

    /// Returns true if the write was one of memories. One that failed hurts nothing: it is tried again in a while.
    pub(crate) fn memories_stored(&mut self, write: WriteId, outcome: WriteOutcome, turn: &mut Turn) -> bool {
        let registrations = &mut self.registrations;
        let being_written = registrations.being_written.take_if(|being| being.write == write);
        let Some(BeingWritten { names, to_tell, .. }) = being_written else {
            return false;
        };
        if outcome != WriteOutcome::Durable {
            registrations.writes_paused = true;
            registrations.dirty.extend(names);
        }
        for told in to_tell {
            let answer = match outcome {
                WriteOutcome::Durable => Ok(told.forgotten),
                WriteOutcome::Failed(WriteFailure::Full) => Err(Refusal::StoreFull),
                WriteOutcome::Failed(WriteFailure::Busy) | WriteOutcome::Conflict(_) => {
                    Err(Refusal::StoreFailed)
                }
            };
            turn.reply(told.caller, Some(answer));
        }
        true
    }
}
