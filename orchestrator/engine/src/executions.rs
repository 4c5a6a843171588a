//! The executions that are accepted, or about to be, and not settled: their contract state, their writes, and the callers
//! that wait for them. Feeds the contract and reads its effects; what concerns the fleet or the queue is returned as a
//! [`Routed`].

mod live;
mod submit;
#[cfg(test)]
mod tests;
mod watch;
mod writes;

use crate::answer::{Answer, Caller, Ended, Explained};
use crate::arrivals::Arrivals;
use crate::config::EngineConfig;
use crate::durable::DurableAccept;
use crate::effect::{Effect, StoreWrite};
use crate::fleet::{ReadyStep, Work};
use crate::keys::{CallerId, ExecutionKey, NamespaceKey, WriteId};
use crate::queue::{FetchReason, Parked, Ticket};
use crate::stored::Recovered;
use crate::timers::Timers;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use escapement_contract::{
    Delivery, Effect as ContractEffect, Execution, Input as ContractInput, Phase, Refused, Request,
    StepIndex, WithdrawReason,
};
use escapement_model::ExecutionId;
use escapement_model::planted::{self, Bug};
use live::{LiveExecution, LiveSet};
use writes::PendingWrite;

pub(crate) use submit::Parent;
pub(crate) use writes::{Abandoned, Begun, Stored};

/// All executions with requests in memory.
#[derive(Debug)]
pub(crate) struct Executions {
    config: Arc<EngineConfig>,
    timers: Timers<Timer>,
    live: LiveSet,
    writes: BTreeMap<WriteId, PendingWrite>,
    /// Writes that wait for space; no request is accepted meanwhile.
    n_waiting_for_space: usize,
    /// What each caller that waits is waiting for; some of these executions are parked.
    callers: BTreeMap<CallerId, ExecutionKey>,
}

/// What a timer is for. The order decides ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The earliest timer of an execution's own.
    Execution(ExecutionKey),
    /// A failed write is tried again.
    Write(WriteId),
}

/// What an execution wants of fleet or queue.
#[derive(Debug)]
pub(crate) enum Routed {
    /// A worker is to do an attempt of a step.
    Dispatch { step: StepIndex, attempt: u32 },
    /// A step is not to be done any more.
    Withdraw { step: StepIndex, reason: WithdrawReason },
    /// It does not wait for its start any more.
    LeaveQueue(Ticket),
    /// It is settled, and no worker has anything of it. It held a slot of this namespace.
    Release { slot_of: Option<NamespaceKey> },
    /// It is settled, and its result is returned.
    Ended { counts_as_overdue: bool },
}

impl Executions {
    pub(crate) fn new(config: Arc<EngineConfig>) -> Self {
        Self {
            config,
            timers: Timers::new(),
            live: LiveSet::default(),
            writes: BTreeMap::new(),
            n_waiting_for_space: 0,
            callers: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// How many of a namespace.
    pub(crate) fn n_of(&self, namespace: NamespaceKey) -> usize {
        self.live.n_of(namespace)
    }

    pub(crate) fn namespace_of(&self, key: ExecutionKey) -> NamespaceKey {
        self.live.at(key).namespace
    }

    pub(crate) fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.timers.next_due_ms()
    }

    /// Fires the first timer that is due. Returns the execution for which time has passed, if it is one's own.
    pub(crate) fn handle_due(&mut self, turn: &mut Turn) -> Option<ExecutionKey> {
        match self.timers.pop_due(turn.now_ms())? {
            Timer::Execution(key) => Some(key),
            Timer::Write(write) => {
                self.write_again(write, turn);
                None
            }
        }
    }

    /// Hands one input to an execution. The caller takes its effects with [`Executions::next_effect`].
    ///
    /// # Errors
    /// What the contract refuses; timers that were due have fired all the same.
    pub(crate) fn apply(
        &mut self,
        key: ExecutionKey,
        input: ContractInput,
        turn: &Turn,
    ) -> Result<(), Refused> {
        let live = self.live.at_mut(key);
        let now = live.clock.at(turn.now_ms());
        live.execution.handle(now, input)
    }

    /// Carries out the effects of an execution up to the next one that concerns fleet or queue; `None` after the last.
    pub(crate) fn next_effect(&mut self, key: ExecutionKey, turn: &mut Turn) -> Option<Routed> {
        loop {
            let live = self.live.find_mut(key)?;
            // nothing leaves an execution that may turn out not to be accepted.
            live.accept()?;
            match live.execution.poll_effect()? {
                ContractEffect::PersistStart { started_at_unix_ms } => {
                    let start = StoreWrite::Start {
                        execution_id: live.execution_id,
                        started_at: started_at_unix_ms,
                    };
                    self.write(key, start, turn);
                    if planted::is_on(Bug::DispatchBeforePersist) {
                        let _too_early = self.apply(key, ContractInput::StartPersisted, turn);
                    }
                }
                ContractEffect::Dispatch { step, attempt } => {
                    return Some(Routed::Dispatch { step, attempt });
                }
                ContractEffect::Withdraw { step, reason, .. } => {
                    return Some(Routed::Withdraw { step, reason });
                }
                ContractEffect::PersistResult(settlement) => {
                    let ticket = live.ticket.take();
                    let request = Arc::clone(&live.request);
                    let settle = StoreWrite::Settle { settlement, request };
                    if planted::is_on(Bug::DoubleSettle) {
                        self.write(key, settle.clone(), turn);
                    }
                    self.write(key, settle, turn);
                    if let Some(ticket) = ticket {
                        return Some(Routed::LeaveQueue(ticket));
                    }
                }
                ContractEffect::Deliver(delivery) => {
                    let routed = self.deliver(key, delivery, turn);
                    if routed.is_some() {
                        return routed;
                    }
                }
            }
        }
    }

    /// Returns the mandatory actions after the write, one at a time, in the contract's order.
    fn deliver(&mut self, key: ExecutionKey, delivery: Delivery, turn: &mut Turn) -> Option<Routed> {
        match delivery {
            // best effort; the shell never waits for a sink.
            Delivery::EmitEvent(persisted) => turn.push(Effect::EmitEvent(persisted)),
            // The settle write has marked the plan in the store's registry, which answers for it from here on.
            Delivery::UpdatePlanRegistry(_) => self.live.end_plan(key),
            Delivery::ReleaseResources(_) => {
                let slot_of = self.live.at_mut(key).take_slot();
                return Some(Routed::Release { slot_of });
            }
            Delivery::NotifyErrorHandler(persisted) => turn.push(Effect::NotifyErrorHandler(persisted)),
            Delivery::ReturnResult(persisted) => {
                self.show_last(key, &persisted, turn);
                let live = self.live.remove(key);
                let live = live.expect("an execution lives until its result is returned");
                for caller in live.waiters {
                    self.answer(caller, Ended::Settled(persisted.clone()), turn);
                }
                let counts_as_overdue = live.counts_as_overdue;
                return Some(Routed::Ended { counts_as_overdue });
            }
        }
        None
    }

    /// Brings timer and watchers up to date after anything happened to an execution.
    pub(crate) fn after_change(&mut self, key: ExecutionKey, turn: &mut Turn) {
        let Some(live) = self.live.find_mut(key) else {
            return self.timers.set(Timer::Execution(key), None);
        };
        if live.accept().is_none() {
            return;
        }
        live.note_shown();
        let (due_ms, is_watched) = (live.execution.next_due_ms(), !live.watchers.is_empty());
        self.timers.set(Timer::Execution(key), due_ms);
        if is_watched {
            self.show_watchers(key, turn);
        }
    }

    /// Returns the live execution of that id, if its accept is durable: before that it does not exist for any caller.
    pub(crate) fn durable(&self, execution_id: ExecutionId) -> Option<(ExecutionKey, DurableAccept)> {
        let key = self.live.find_id(execution_id)?;
        Some((key, self.live.at(key).accept()?))
    }

    /// Returns the request of an execution that is known to be live.
    pub(crate) fn request(&self, key: ExecutionKey) -> &Request {
        &self.live.at(key).request
    }

    /// Returns the name of the action of a step, if its execution is live.
    pub(crate) fn action_of(&self, key: ExecutionKey, step: StepIndex) -> Option<&str> {
        let live = self.live.find(key)?;
        Some(live.request.plan().step(step).action())
    }

    /// Returns the request of an execution that is known to be live, and true if it would not end at its start.
    pub(crate) fn to_start(&self, key: ExecutionKey, turn: &Turn) -> (&Request, bool) {
        let live = self.live.at(key);
        let meets_preconditions = live.execution.meets_preconditions(live.clock.at(turn.now_ms()));
        (&live.request, meets_preconditions)
    }

    pub(crate) fn ready_step(&self, key: ExecutionKey, step: StepIndex, attempt: u32) -> ReadyStep<'_> {
        let live = self.live.at(key);
        ReadyStep {
            execution: key,
            depth: live.depth,
            request: &live.request,
            step,
            attempt,
        }
    }

    /// What a worker has to know of a step that it is handed.
    pub(crate) fn work(&self, key: ExecutionKey, step: StepIndex, turn: &Turn) -> Work {
        let live = self.live.at(key);
        let accept = live.accept();
        Work {
            accept: accept.expect("steps wait for workers once the accept is durable"),
            execution_id: live.execution_id,
            request: Arc::clone(&live.request),
            timeout_ms: live.execution.attempt_time_left_ms(step, turn.now()),
        }
    }

    /// An execution leaves the queue to start. Returns the ticket that it gives back.
    pub(crate) fn begin_start(&mut self, key: ExecutionKey) -> Ticket {
        let live = self.live.at_mut(key);
        live.holds_slot = true;
        live.ticket.take().expect("what starts has waited in the queue")
    }

    pub(crate) fn ticket(&self, key: ExecutionKey) -> Option<&Ticket> {
        self.live.at(key).ticket.as_ref()
    }

    /// Exchanges the ticket of an execution for another one. Returns false if it has none.
    pub(crate) fn exchange_ticket(
        &mut self,
        key: ExecutionKey,
        exchange: impl FnOnce(Ticket) -> Ticket,
    ) -> bool {
        let kept = &mut self.live.at_mut(key).ticket;
        *kept = kept.take().map(exchange);
        kept.is_some()
    }

    pub(crate) fn keep_ticket(&mut self, key: ExecutionKey, ticket: Ticket) {
        let before = self.live.at_mut(key).ticket.replace(ticket);
        assert!(before.is_none(), "an execution has one place in the queue");
    }

    /// Returns the ticket of a queued execution that callers watch.
    pub(crate) fn watched_ticket(&self, key: ExecutionKey) -> Option<&Ticket> {
        let live = self.live.at(key);
        live.ticket.as_ref().filter(|_| !live.watchers.is_empty())
    }

    /// Returns the ticket of a queued execution that no caller watches.
    pub(crate) fn unwatched_ticket(&self, key: ExecutionKey) -> Option<&Ticket> {
        let live = self.live.at(key);
        live.ticket.as_ref().filter(|_| live.watchers.is_empty())
    }

    /// Takes a queued execution out of memory. Returns what is kept of it and the callers that wait for its result.
    pub(crate) fn park(
        &mut self,
        key: ExecutionKey,
    ) -> (ExecutionId, Parked, Ticket, Arrivals<Caller<Ended>>) {
        let live = self.live.remove(key).expect("the key of a live execution");
        assert_eq!(
            live.execution.phase(),
            Phase::Queued,
            "what waits has not started"
        );
        let ticket = live.ticket.expect("what is parked has waited in the queue");
        self.timers.set(Timer::Execution(key), None);
        let due_ms = live.execution.next_due_ms();
        let parked = Parked {
            key,
            namespace: live.namespace,
            digest: *live.request.digest(),
            priority: live.request.plan().priority(),
            clock: live.clock,
            due_ms: due_ms.expect("a queued execution has a deadline"),
            need: ticket.need(),
            fetch: None,
        };
        (live.execution_id, parked, ticket, live.waiters)
    }

    /// Puts a parked execution back into memory under the key that it had.
    pub(crate) fn unpark(
        &mut self,
        recovered: Recovered,
        parked: &Parked,
        waiters: Arrivals<Caller<Ended>>,
        turn: &Turn,
    ) {
        let accept = DurableAccept::of_recovered(&recovered);
        let execution = Execution::accept(
            Arc::clone(&recovered.request),
            recovered.execution_id,
            recovered.accepted_at,
            recovered.deadline_ms,
            parked.clock.at(turn.now_ms()),
        );
        let mut live = LiveExecution::new(
            execution,
            recovered.request,
            recovered.execution_id,
            parked.namespace,
            parked.clock,
        );
        live.begin(accept);
        live.counts_as_overdue = parked.fetch == Some(FetchReason::Overdue);
        live.waiters = waiters;
        self.live.insert_at(parked.key, live);
    }

    /// Returns the key of an execution that is parked from the start.
    pub(crate) fn key_of_parked(&mut self, execution_id: ExecutionId) -> ExecutionKey {
        let found = self.live.find_id(execution_id);
        assert!(found.is_none(), "the store holds each execution once");
        self.live.next_key()
    }

    /// A caller waits for something about an execution, live or parked.
    pub(crate) fn note_caller(&mut self, caller: CallerId, key: ExecutionKey) {
        self.callers.insert(caller, key);
    }

    /// Answers a caller that has waited.
    pub(crate) fn answer<A: Answer>(&mut self, caller: Caller<A>, answer: A, turn: &mut Turn) {
        self.callers.remove(&caller.id);
        turn.reply(caller, answer);
    }

    // a caller that goes changes no execution, and no input cancels one.
    /// Forgets a caller. Returns the execution that it waited for, and true if that is live.
    pub(crate) fn forget_caller(&mut self, caller: CallerId) -> Option<(ExecutionKey, bool)> {
        let key = self.callers.remove(&caller)?;
        let Some(live) = self.live.find_mut(key) else {
            return Some((key, false));
        };
        live.submitters.remove(caller);
        live.waiters.remove(caller);
        live.watchers.forget(caller);
        Some((key, true))
    }

    /// What the contract knows of why an execution and its steps are in their states.
    pub(crate) fn explained(&self, key: ExecutionKey, turn: &Turn) -> Explained {
        let live = self.live.at(key);
        Explained {
            execution_id: live.execution_id,
            request: Arc::clone(&live.request),
            has_started: live.shown_started_at().is_some(),
            at_unix_ms: turn.now().unix_ms,
            explanation: live.execution.explain(turn.now(), live.n_shown),
        }
    }
}
