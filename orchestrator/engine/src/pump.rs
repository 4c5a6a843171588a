//! Feeds the contract and carries out what it decides. The only place where an execution's effects are read.

use crate::answer::Ended;
use crate::effect::{Effect, StoreWrite};
use crate::engine::{Engine, Timer};
use crate::fleet::ReadyStep;
use crate::keys::ExecutionKey;
use escapement_contract::{Delivery, Effect as ContractEffect, Input as ContractInput, Refused};
use escapement_model::planted::{self, Bug};

impl Engine {
    /// Hands one input to an execution and carries out the effects.
    ///
    /// # Errors
    /// What the contract refuses; timers that were due have fired all the same.
    pub(crate) fn apply_input(&mut self, key: ExecutionKey, input: ContractInput) -> Result<(), Refused> {
        let live = self.live.at_mut(key);
        let now = live.clock.at(self.turn.now_ms());
        let handled = live.execution.handle(now, input);
        self.drain_effects(key);
        handled
    }

    pub(crate) fn execution_due(&mut self, key: ExecutionKey) {
        self.apply_input(key, ContractInput::Tick)
            .expect("time always passes");
    }

    pub(crate) fn drain_effects(&mut self, key: ExecutionKey) {
        while let Some(live) = self.live.find_mut(key) {
            // nothing leaves an execution that may turn out not to be accepted.
            if live.accept().is_none() {
                return;
            }
            let Some(effect) = live.execution.poll_effect() else {
                break;
            };
            match effect {
                ContractEffect::PersistStart { started_at_unix_ms } => {
                    let execution_id = live.execution_id;
                    self.write(
                        key,
                        StoreWrite::Start {
                            execution_id,
                            started_at: started_at_unix_ms,
                        },
                    );
                    if planted::is_on(Bug::DispatchBeforePersist) {
                        let _too_early = self.apply_input(key, ContractInput::StartPersisted);
                    }
                }
                ContractEffect::Dispatch { step, attempt } => {
                    let ready = ReadyStep {
                        execution: key,
                        depth: live.depth,
                        request: &live.request,
                        step,
                        attempt,
                    };
                    self.fleet.enqueue(ready, &self.turn);
                }
                ContractEffect::Withdraw { step, reason, .. } => {
                    self.fleet.withdraw(key, step, reason, &self.turn);
                }
                ContractEffect::PersistResult(settlement) => {
                    self.leave_queue(key);
                    if planted::is_on(Bug::DoubleSettle) {
                        let settlement = settlement.clone();
                        self.write(key, StoreWrite::Settle { settlement });
                    }
                    self.write(key, StoreWrite::Settle { settlement });
                }
                ContractEffect::Deliver(delivery) => self.deliver(key, delivery),
            }
        }
        self.after_change(key);
    }

    /// Brings timer and watchers up to date after anything happened to an execution.
    pub(crate) fn after_change(&mut self, key: ExecutionKey) {
        let Some(live) = self.live.find_mut(key) else {
            return self.timers.set(Timer::Execution(key), None);
        };
        live.note_shown();
        let (due_ms, is_watched) = (live.execution.next_due_ms(), !live.watchers.is_empty());
        self.timers.set(Timer::Execution(key), due_ms);
        if is_watched {
            self.show_watchers(key);
        }
    }

    /// The mandatory actions after the write, one at a time, in the contract's order.
    fn deliver(&mut self, key: ExecutionKey, delivery: Delivery) {
        match delivery {
            // best effort; the shell never waits for a sink.
            Delivery::EmitEvent(persisted) => self.turn.push(Effect::EmitEvent(persisted)),
            // The settle write has marked the plan in the store's registry, which answers for it from here on.
            Delivery::UpdatePlanRegistry(_) => self.live.end_plan(key),
            Delivery::ReleaseResources(_) => self.release_resources(key),
            Delivery::NotifyErrorHandler(persisted) => {
                self.turn.push(Effect::NotifyErrorHandler(persisted));
            }
            Delivery::ReturnResult(persisted) => {
                self.show_last(key, &persisted);
                let live = self
                    .live
                    .remove(key)
                    .expect("an execution lives until its result is returned");
                self.queue.end_overdue(live.counts_as_overdue);
                for caller in live.waiters {
                    self.callers.remove(&caller.id);
                    self.turn.reply(caller, Ended::Settled(persisted.clone()));
                }
            }
        }
    }

    fn release_resources(&mut self, key: ExecutionKey) {
        let live = self.live.at_mut(key);
        assert!(
            !self.fleet.has_steps_of(key),
            "a settled execution waits for no worker and has no attempt"
        );
        if core::mem::take(&mut live.holds_slot) {
            self.queue.free_slot();
        }
    }
}
