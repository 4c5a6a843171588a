//! Feeds executions, and carries what they want to fleet and queue.

use super::Engine;
use crate::answer::Refusal;
use crate::durable::DurableAccept;
use crate::executions::{Abandoned, Begun, Routed, Stored};
use crate::keys::{ExecutionKey, NamespaceKey, WriteId};
use crate::stored::WriteOutcome;
use escapement_contract::{Input as ContractInput, Refused};

impl Engine {
    /// Hands one input to an execution and carries out the effects.
    ///
    /// # Errors
    /// What the contract refuses; timers that were due have fired all the same.
    pub(super) fn apply_input(&mut self, key: ExecutionKey, input: ContractInput) -> Result<(), Refused> {
        let handled = self.executions.apply(key, input, &self.turn);
        self.drain_effects(key);
        handled
    }

    /// Time has passed for an execution.
    pub(super) fn tick(&mut self, key: ExecutionKey) {
        self.apply_input(key, ContractInput::Tick)
            .expect("time always passes");
    }

    pub(super) fn drain_effects(&mut self, key: ExecutionKey) {
        while let Some(routed) = self.executions.next_effect(key, &mut self.turn) {
            match routed {
                Routed::Dispatch { step, attempt } => {
                    let ready = self.executions.ready_step(key, step, attempt);
                    self.fleet.enqueue(ready, &self.turn);
                }
                Routed::Withdraw { step, reason } => self.fleet.withdraw(key, step, reason, &self.turn),
                Routed::LeaveQueue(ticket) => self.leave_queue(ticket),
                Routed::Release { slot_of } => {
                    assert!(
                        !self.fleet.has_steps_of(key),
                        "a settled execution waits for no worker and has no attempt"
                    );
                    self.free_slot(slot_of);
                }
                Routed::Ended { counts_as_overdue } => self.queue.end_overdue(counts_as_overdue),
            }
        }
        self.executions.after_change(key, &mut self.turn);
    }

    pub(super) fn stored(&mut self, write: WriteId, outcome: WriteOutcome) {
        if self.fleet.memories_stored(write, outcome, &mut self.turn) {
            return;
        }
        match self.executions.stored(write, outcome, &mut self.turn) {
            Some(Stored::Accepted(key, accept)) => self.accepted(key, accept),
            Some(Stored::NotAccepted(key, refusal)) => self.abandon(key, refusal),
            Some(Stored::Started(key)) => self.started(key),
            Some(Stored::Settled(key)) => self
                .apply_input(key, ContractInput::SettlePersisted)
                .expect("an execution whose result is persisted was settling"),
            None => {}
        }
    }

    fn accepted(&mut self, key: ExecutionKey, accept: DurableAccept) {
        match self.executions.begin(key, accept, &mut self.turn) {
            Begun::Started => self.started(key),
            Begun::Queued => self.enter_queue(key),
            Begun::Settling => {}
        }
        for submission in self.executions.tell_accepted(key, accept, &mut self.turn) {
            self.submit(submission);
        }
    }

    fn abandon(&mut self, key: ExecutionKey, refusal: Option<Refusal>) {
        let Abandoned {
            ticket,
            slot_of,
            undecided,
        } = self.executions.abandon(key, refusal, &mut self.turn);
        if let Some(ticket) = ticket {
            self.leave_queue(ticket);
        }
        self.free_slot(slot_of);
        for submission in undecided {
            self.submit(submission);
        }
    }

    fn started(&mut self, key: ExecutionKey) {
        // The plan's limit may have come first; then the start is durable and there is nothing left to dispatch.
        if self.executions.note_started(key) {
            let _too_late = self.apply_input(key, ContractInput::StartPersisted);
        }
    }

    fn free_slot(&mut self, slot_of: Option<NamespaceKey>) {
        if let Some(namespace) = slot_of {
            self.queue.free_slot(namespace);
        }
    }
}
