//! What the store answered. Nothing that needs a write goes out before this module hears that it is durable.

use crate::answer::{Ended, Refusal, Submitted};
use crate::durable::DurableAccept;
use crate::effect::{Effect, StoreWrite};
use crate::engine::{Engine, PendingWrite, Timer};
use crate::input::{Submitter, UntilDecided, WriteConflict, WriteFailure, WriteId, WriteOutcome};
use crate::keys::ExecutionKey;
use crate::live::Stage;
use escapement_contract::{Input as ContractInput, Phase};

impl Engine {
    pub(crate) fn stored(&mut self, write: WriteId, outcome: WriteOutcome) {
        if self.fleet.memories_stored(write, outcome) {
            return;
        }
        let mut pending = self
            .writes
            .remove(&write)
            .expect("the store answers each write once");
        if core::mem::take(&mut pending.waits_for_space) {
            self.n_waiting_for_space -= 1;
        }
        match (&pending.content, outcome) {
            (StoreWrite::Accept { .. }, WriteOutcome::Durable) => {
                let accept = DurableAccept::of(outcome).expect("it is the answer that proves an accept");
                self.accepted(pending.key, accept);
            }
            (StoreWrite::Accept { request, .. }, WriteOutcome::Conflict(conflict)) => {
                let refusal = refused_accept(conflict, request.digest());
                self.abandon(pending.key, refusal);
            }
            // Nobody was told that it is accepted: the callers ask again.
            (StoreWrite::Accept { .. }, WriteOutcome::Failed(failure)) => {
                let refusal = match failure {
                    WriteFailure::Full => Refusal::StoreFull,
                    WriteFailure::Busy => Refusal::StoreFailed,
                };
                self.abandon(pending.key, Some(refusal));
            }
            (StoreWrite::Start { .. }, WriteOutcome::Durable) => self.started(pending.key),
            (StoreWrite::Settle { .. }, WriteOutcome::Durable) => self.settled(pending.key),
            // The execution settled while its start was tried again; it may have been removed and forgotten since.
            (StoreWrite::Start { .. }, WriteOutcome::Conflict(_)) if !self.is_starting(pending.key) => {}
            // A write that was tried again may find that it had gone through.
            (
                StoreWrite::Start { .. } | StoreWrite::Settle { .. },
                WriteOutcome::Conflict(WriteConflict::AlreadyThere),
            ) if pending.failures > 0 => match pending.content {
                StoreWrite::Settle { .. } => self.settled(pending.key),
                StoreWrite::Start { .. } | StoreWrite::Accept { .. } | StoreWrite::RememberActions { .. } => {
                    self.started(pending.key);
                }
            },
            (StoreWrite::Start { .. } | StoreWrite::Settle { .. }, WriteOutcome::Conflict(conflict)) => {
                unreachable!("the store forgot an execution that it had accepted: {conflict:?}");
            }
            (StoreWrite::Start { .. } | StoreWrite::Settle { .. }, WriteOutcome::Failed(failure)) => {
                self.write_failed(write, pending, failure);
            }
            (StoreWrite::RememberActions { .. }, _) => unreachable!("memories wait for no answer of theirs"),
        }
    }

    // from here on the execution will have a result, whatever happens.
    fn accepted(&mut self, key: ExecutionKey, accept: DurableAccept) {
        let live = self.live.at_mut(key);
        let Stage::Accepting { started } = core::mem::replace(&mut live.stage, Stage::Durable(accept)) else {
            unreachable!("an execution is accepted once");
        };
        let settlement = live.settlement.take();
        live.until_decided = UntilDecided::default();
        let submitters = core::mem::take(&mut live.submitters);
        let undecided = core::mem::take(&mut live.undecided);
        if started {
            self.started(key);
        } else if let Some(settlement) = settlement {
            self.write(key, StoreWrite::Settle { settlement });
        } else {
            self.enter_queue(key);
        }
        for submitter in submitters {
            match submitter {
                Submitter::ForAccept(caller) => {
                    let view = self.view(key, accept);
                    self.callers.remove(&caller.id);
                    self.turn.reply(caller, Submitted::Accepted(view));
                }
                Submitter::ForEnd(caller) => self.live.at_mut(key).waiters.push(caller),
            }
        }
        self.after_change(key);
        undecided
            .into_iter()
            .for_each(|submission| self.submit(submission));
    }

    /// An execution whose accept did not become durable: as if it had never been.
    /// `refusal`: `None` if the same request was accepted before.
    fn abandon(&mut self, key: ExecutionKey, refusal: Option<Refusal>) {
        self.leave_queue(key);
        let live = self
            .live
            .remove(key)
            .expect("an execution lives until its accept is answered");
        self.timers.set(Timer::Execution(key), None);
        if live.holds_slot {
            self.queue.free_slot();
        }
        for submitter in live.submitters {
            self.callers.remove(&submitter.id());
            match (refusal, submitter) {
                (Some(refusal), _) => self.refuse(submitter, refusal),
                (None, Submitter::ForAccept(caller)) => self.turn.reply(caller, Submitted::NotLive),
                (None, Submitter::ForEnd(caller)) => self.turn.reply(caller, Ended::NotLive),
            }
        }
        live.undecided
            .into_iter()
            .for_each(|submission| self.submit(submission));
    }

    fn started(&mut self, key: ExecutionKey) {
        // The plan's limit may have come first; then the start is durable and there is nothing left to dispatch.
        if let Some(live) = self.live.find_mut(key) {
            live.start_is_durable = true;
            let _too_late = self.apply_input(key, ContractInput::StartPersisted);
        }
    }

    fn is_starting(&mut self, key: ExecutionKey) -> bool {
        let live = self.live.find_mut(key);
        live.is_some_and(|live| live.execution.phase() == Phase::Starting)
    }

    fn settled(&mut self, key: ExecutionKey) {
        self.apply_input(key, ContractInput::SettlePersisted)
            .expect("an execution whose result is persisted was settling");
    }

    // a result that cannot be persisted is not told; the write is tried again, within bounds where it is not
    // space that it wants. What has started and what has ended waits for space for as long as that takes.
    fn write_failed(&mut self, write: WriteId, mut pending: PendingWrite, failure: WriteFailure) {
        pending.failures = pending.failures.saturating_add(1);
        let failures = pending.failures;
        match failure {
            WriteFailure::Full => {
                pending.waits_for_space = true;
                self.n_waiting_for_space += 1;
            }
            WriteFailure::Busy => {
                pending.failures_bounded += 1;
                let attempts = pending.failures_bounded;
                if attempts >= self.config.persist_attempts_max {
                    self.turn.push(Effect::GiveUp { attempts });
                }
            }
        }
        if let Some(live) = self.live.find_mut(pending.key)
            && matches!(pending.content, StoreWrite::Settle { .. })
        {
            for caller in core::mem::take(&mut live.waiters) {
                self.callers.remove(&caller.id);
                self.turn.reply(caller, Ended::Refused(Refusal::StoreFailed));
            }
        }
        let due_ms = self
            .turn
            .now_ms()
            .saturating_add(self.config.retry_pause_ms(failures));
        self.writes.insert(write, pending);
        self.timers.set(Timer::Write(write), Some(due_ms));
    }

    pub(crate) fn write_again(&mut self, write: WriteId) {
        let pending = self
            .writes
            .get(&write)
            .expect("a write is kept until it is answered");
        let (key, waits_for_space) = (pending.key, pending.waits_for_space);
        // Its limit ended the execution meanwhile: nothing is left to start.
        if matches!(pending.content, StoreWrite::Start { .. }) && !self.is_starting(key) {
            self.writes.remove(&write);
            self.n_waiting_for_space -= usize::from(waits_for_space);
            return;
        }
        let pending = &self.writes[&write];
        self.turn.push(Effect::Write {
            write,
            content: pending.content.clone(),
        });
    }
}

fn refused_accept(conflict: WriteConflict, digest: &[u8; 32]) -> Option<Refusal> {
    match conflict {
        // the identical request was accepted before; its answer stands in the store.
        WriteConflict::ExecutionIdUsed { request_digest } if request_digest == *digest => None,
        WriteConflict::ExecutionIdUsed { .. } => Some(Refusal::ExecutionIdUsed),
        WriteConflict::PlanIdUsed { execution_id } => Some(Refusal::PlanIdUsed { execution_id }),
        WriteConflict::AlreadyThere | WriteConflict::NotFound => {
            unreachable!("an accept conflicts on ids only")
        }
    }
}
