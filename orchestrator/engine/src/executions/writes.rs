//! What the store answered. Nothing that needs a write goes out before this module hears that it is durable.

use super::{Executions, Timer};
use crate::answer::{Ended, Refusal, Submitted};
use crate::durable::DurableAccept;
use crate::effect::{Effect, StoreWrite};
use crate::input::{Submission, Submitter, UntilDecided};
use crate::keys::{ExecutionKey, NamespaceKey, WriteId};
use crate::queue::Ticket;
use crate::stored::{WriteConflict, WriteFailure, WriteOutcome};
use crate::turn::Turn;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{Phase, WriteFacts};

/// A write that the store has not answered.
#[derive(Debug)]
pub(super) struct PendingWrite {
    key: ExecutionKey,
    content: StoreWrite,
    /// How often it failed.
    failures: u32,
    /// How often of these for another reason than want of space.
    failures_bounded: u32,
    /// It failed last for want of space.
    waits_for_space: bool,
}

/// What the store's answer means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored {
    Accepted(ExecutionKey, DurableAccept),
    /// `None`: the same request was accepted before.
    NotAccepted(ExecutionKey, Option<Refusal>),
    Started(ExecutionKey),
    Settled(ExecutionKey),
}

/// What comes next for an execution whose accept is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begun {
    /// Its start is durable as well.
    Started,
    /// It waits for its start.
    Queued,
    /// It failed its preconditions, and its end is being written.
    Settling,
}

/// What is left of an execution that was not accepted.
#[derive(Debug)]
pub(crate) struct Abandoned {
    pub(crate) ticket: Option<Ticket>,
    /// The namespace of the slot that it held.
    pub(crate) slot_of: Option<NamespaceKey>,
    /// Submissions that can be judged now.
    pub(crate) undecided: Vec<Submission>,
}

impl Executions {
    /// Takes the store's answer to a write of an execution. Returns `None` if it changes nothing, or if the write is tried again.
    pub(crate) fn stored(
        &mut self,
        write: WriteId,
        outcome: WriteOutcome,
        turn: &mut Turn,
    ) -> Option<Stored> {
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
                Some(Stored::Accepted(pending.key, accept))
            }
            (StoreWrite::Accept { request, .. }, WriteOutcome::Conflict(conflict)) => {
                let refusal = refused_accept(conflict, request.digest());
                Some(Stored::NotAccepted(pending.key, refusal))
            }
            // No caller was told that it is accepted: they ask again.
            (StoreWrite::Accept { .. }, WriteOutcome::Failed(failure)) => {
                let refusal = match failure {
                    WriteFailure::Full => Refusal::StoreFull,
                    WriteFailure::Busy => Refusal::StoreFailed,
                };
                Some(Stored::NotAccepted(pending.key, Some(refusal)))
            }
            (StoreWrite::Start { .. }, WriteOutcome::Durable) => Some(Stored::Started(pending.key)),
            (StoreWrite::Settle { .. }, WriteOutcome::Durable) => Some(Stored::Settled(pending.key)),
            // The execution settled while its start was tried again; it may have been removed and forgotten since.
            (StoreWrite::Start { .. }, WriteOutcome::Conflict(_)) if !self.is_starting(pending.key) => None,
            // A write that was tried again may find that it had gone through.
            (
                StoreWrite::Start { .. } | StoreWrite::Settle { .. },
                WriteOutcome::Conflict(WriteConflict::AlreadyThere),
            ) if pending.failures > 0 => match pending.content {
                StoreWrite::Settle { .. } => Some(Stored::Settled(pending.key)),
                StoreWrite::Start { .. } | StoreWrite::Accept { .. } | StoreWrite::RememberActions { .. } => {
                    Some(Stored::Started(pending.key))
                }
            },
            (StoreWrite::Start { .. } | StoreWrite::Settle { .. }, WriteOutcome::Conflict(conflict)) => {
                unreachable!("the store forgot an execution that it had accepted: {conflict:?}");
            }
            (StoreWrite::Start { .. } | StoreWrite::Settle { .. }, WriteOutcome::Failed(failure)) => {
                self.write_failed(write, pending, failure, turn);
                None
            }
            (StoreWrite::RememberActions { .. }, _) => unreachable!("memories wait for no answer of theirs"),
        }
    }

    // from here on the execution will have a result, whatever happens.
    /// The accept of an execution is durable. Returns what comes next for it.
    pub(crate) fn begin(&mut self, key: ExecutionKey, accept: DurableAccept, turn: &mut Turn) -> Begun {
        let live = self.live.at_mut(key);
        live.until_decided = UntilDecided::default();
        if live.begin(accept) {
            return Begun::Started;
        }
        let Some(settlement) = live.settlement.take() else {
            return Begun::Queued;
        };
        let request = Arc::clone(&live.request);
        self.write(key, StoreWrite::Settle { settlement, request }, turn);
        Begun::Settling
    }

    /// Tells the callers that an execution is accepted. Returns the submissions that can be judged now.
    pub(crate) fn tell_accepted(
        &mut self,
        key: ExecutionKey,
        accept: DurableAccept,
        turn: &mut Turn,
    ) -> Vec<Submission> {
        let live = self.live.at_mut(key);
        let undecided = core::mem::take(&mut live.undecided);
        let mut answers = Vec::new();
        for submitter in core::mem::take(&mut live.submitters) {
            match submitter {
                Submitter::ForAccept(caller) => answers.push((caller, live.view(accept))),
                Submitter::ForEnd(caller) => live.waiters.push(caller.id, caller),
            }
        }
        for (caller, view) in answers {
            self.answer(caller, Submitted::Accepted(view), turn);
        }
        self.after_change(key, turn);
        undecided
    }

    /// Returns an execution whose accept did not become durable: as if it had never been.
    /// `refusal`: `None` if the same request was accepted before.
    pub(crate) fn abandon(
        &mut self,
        key: ExecutionKey,
        refusal: Option<Refusal>,
        turn: &mut Turn,
    ) -> Abandoned {
        let live = self.live.remove(key);
        let mut live = live.expect("an execution lives until its accept is answered");
        self.timers.set(Timer::Execution(key), None);
        let slot_of = live.take_slot();
        for submitter in live.submitters {
            self.callers.remove(&submitter.id());
            match (refusal, submitter) {
                (Some(refusal), _) => Self::refuse(submitter, refusal, turn),
                (None, Submitter::ForAccept(caller)) => turn.reply(caller, Submitted::NotLive),
                (None, Submitter::ForEnd(caller)) => turn.reply(caller, Ended::NotLive),
            }
        }
        Abandoned {
            slot_of,
            ticket: live.ticket,
            undecided: live.undecided,
        }
    }

    /// The start of an execution is durable. Returns false if it has ended and is gone.
    pub(crate) fn note_started(&mut self, key: ExecutionKey) -> bool {
        let live = self.live.find_mut(key);
        live.map(|live| live.start_is_durable = true).is_some()
    }

    //
    pub(crate) fn write_facts(&self, key: ExecutionKey) -> WriteFacts {
        let mut facts = WriteFacts::default();
        for write in self.writes.values().filter(|write| write.key == key) {
            facts.n_failures = facts.n_failures.max(write.failures);
            facts.waits_for_space |= write.waits_for_space;
        }
        facts
    }

    pub(super) fn write(&mut self, key: ExecutionKey, content: StoreWrite, turn: &mut Turn) {
        let write = turn.write(content.clone());
        let pending = PendingWrite {
            key,
            content,
            failures: 0,
            failures_bounded: 0,
            waits_for_space: false,
        };
        self.writes.insert(write, pending);
    }

    fn is_starting(&self, key: ExecutionKey) -> bool {
        let live = self.live.find(key);
        live.is_some_and(|live| live.execution.phase() == Phase::Starting)
    }

    // a result that cannot be persisted is not told; the write is tried again, within bounds if it is not
    // space that it wants. What has started and what has ended waits for space for as long as that takes.
    fn write_failed(
        &mut self,
        write: WriteId,
        mut pending: PendingWrite,
        failure: WriteFailure,
        turn: &mut Turn,
    ) {
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
                    turn.push(Effect::GiveUp { attempts });
                }
            }
        }
        if let Some(live) = self.live.find_mut(pending.key)
            && matches!(pending.content, StoreWrite::Settle { .. })
        {
            for caller in core::mem::take(&mut live.waiters) {
                self.answer(caller, Ended::Refused(Refusal::StoreFailed), turn);
            }
        }
        let due_ms = turn.now_ms().saturating_add(self.config.retry_pause_ms(failures));
        self.writes.insert(write, pending);
        self.timers.set(Timer::Write(write), Some(due_ms));
    }

    /// Tries a failed write again.
    pub(super) fn write_again(&mut self, write: WriteId, turn: &mut Turn) {
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
        turn.push(Effect::Write {
            write,
            content: pending.content.clone(),
        });
    }
}

fn refused_accept(conflict: WriteConflict, digest: &[u8; 32]) -> Option<Refusal> {
    match conflict {
        // the identical request was accepted before; the store has its answer.
        WriteConflict::ExecutionIdUsed { request_digest } if request_digest == *digest => None,
        WriteConflict::ExecutionIdUsed { .. } => Some(Refusal::ExecutionIdUsed),
        WriteConflict::PlanIdUsed { execution_id } => Some(Refusal::PlanIdUsed { execution_id }),
        WriteConflict::AlreadyThere | WriteConflict::NotFound => {
            unreachable!("an accept conflicts on ids only")
        }
    }
}
