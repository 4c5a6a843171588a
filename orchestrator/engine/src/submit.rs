//! A caller hands in a plan, or asks about one. Persists nothing: it asks for the write and waits.

use crate::answer::{Caller, Ended, ExecutionView, Refusal, Submitted};
use crate::clock::WallClock;
use crate::durable::DurableAccept;
use crate::effect::StoreWrite;
use crate::engine::Engine;
use crate::input::{CallerId, Recovered, Submission, Submitter, UntilDecided};
use crate::keys::ExecutionKey;
use crate::live::{Live, Stage};
use crate::watch::Watchers;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{
    Effect as ContractEffect, Execution, Input as ContractInput, Interruption, Request, default_deadline,
};
use escapement_model::planted::{self, Bug};
use escapement_model::{ExecutionId, limits};

impl Engine {
    pub(crate) fn submit(&mut self, submission: Submission) {
        let execution_id = submission.request.execution_id();
        if let Some(parked) = execution_id.and_then(|id| self.queue.find_parked(id)) {
            return self.attach_parked(submission.submitter, &parked, &submission.request);
        }
        if let Some(holder) = self.undecided_holder(&submission) {
            return self.live.at_mut(holder).undecided.push(submission);
        }
        let Submission {
            submitter,
            request,
            fresh_id,
            until_decided,
        } = submission;
        let execution_id = request.execution_id().unwrap_or(fresh_id);
        if let Some(key) = self.live.find(execution_id) {
            return self.attach(submitter, key, &request);
        }
        let parent = self.parent_of(&request);
        match self.room_for(&request, parent) {
            Ok(()) => {
                let key = self.accept(submitter, request, execution_id, parent);
                self.live.at_mut(key).until_decided = until_decided;
            }
            Err(refusal) => self.refuse(submitter, refusal),
        }
    }

    pub(crate) fn refuse(&mut self, submitter: Submitter, refusal: Refusal) {
        match submitter {
            Submitter::ForAccept(caller) => self.turn.reply(caller, Submitted::Refused(refusal)),
            Submitter::ForEnd(caller) => self.turn.reply(caller, Ended::Refused(refusal)),
        }
    }

    /// The execution that has this one's id or plan and may turn out not to be accepted: a refusal would be premature.
    fn undecided_holder(&self, submission: &Submission) -> Option<ExecutionKey> {
        let request = &submission.request;
        let execution_id = request.execution_id().unwrap_or(submission.fresh_id);
        let same_id = self.live.find(execution_id);
        if let Some(key) = same_id
            && self.live.at(key).request.digest() == request.digest()
        {
            return None;
        }
        let holder = same_id.or_else(|| {
            let execution_id = self.live.plan_holder(request.plan().id())?;
            self.live.find(execution_id)
        })?;
        matches!(self.live.at(holder).stage, Stage::Accepting { .. }).then_some(holder)
    }

    // the same request attaches, another one is refused. It never executes twice.
    /// The same id again.
    fn attach(&mut self, submitter: Submitter, key: ExecutionKey, request: &Request) {
        let live = self.live.at_mut(key);
        if live.request.digest() != request.digest() && !planted::is_on(Bug::DigestIgnored) {
            return self.refuse(submitter, Refusal::ExecutionIdUsed);
        }
        match (live.stage, submitter) {
            (Stage::Accepting { .. }, _) => {
                live.submitters.push(submitter);
                self.callers.insert(submitter.id(), key);
            }
            (Stage::Durable(accept), Submitter::ForAccept(caller)) => {
                let view = self.view(key, accept);
                self.turn.reply(caller, Submitted::Accepted(view));
            }
            (Stage::Durable(_), Submitter::ForEnd(caller)) => {
                live.waiters.push(caller);
                self.callers.insert(caller.id, key);
            }
        }
    }

    // a nested plan comes in as any other; only whether it is nested is looked at.
    /// The parent that makes a request nested: one whose steps may run. Any other that is named is a note.
    fn parent_of(&self, request: &Request) -> Option<ExecutionKey> {
        let parent = self.live.find(request.parent_execution_id()?)?;
        self.live.at(parent).has_running_steps().then_some(parent)
    }

    fn room_for(&self, request: &Request, parent: Option<ExecutionKey>) -> Result<(), Refusal> {
        match parent {
            // Running parents finish within the drain's grace, so their children are let in.
            Some(parent) => self.room_for_child(parent)?,
            None if self.drain.is_on() => return Err(Refusal::Draining),
            None => {}
        }
        //
        if let Some(execution_id) = self.live.plan_holder(request.plan().id()) {
            return Err(Refusal::PlanIdUsed { execution_id });
        }
        // the first space that there is belongs to what was accepted before.
        if self.n_waiting_for_space > 0 {
            return Err(Refusal::StoreFull);
        }
        if self.live_executions() >= self.config.max_live_executions && !planted::is_on(Bug::QueueUnlimited) {
            return Err(Refusal::QueueFull);
        }
        Ok(())
    }

    // a child needs no slot of its own, since a step that a worker has waits for it.
    fn room_for_child(&self, key: ExecutionKey) -> Result<(), Refusal> {
        let parent = self.live.at(key);
        if parent.depth >= limits::NESTING_DEPTH_MAX {
            return Err(Refusal::NestedTooDeep);
        }
        if parent.n_children >= self.fleet.n_attempts_of(key) && !planted::is_on(Bug::ChildrenUnlimited) {
            return Err(Refusal::TooManyChildren);
        }
        Ok(())
    }

    fn accept(
        &mut self,
        submitter: Submitter,
        request: Arc<Request>,
        execution_id: ExecutionId,
        parent: Option<ExecutionKey>,
    ) -> ExecutionKey {
        let accepted_at = self.turn.now().unix_ms;
        let deadline_ms = request
            .deadline_ms()
            .unwrap_or_else(|| default_deadline(accepted_at, request.plan(), self.config.queue_allowance_ms));
        let execution = Execution::accept(
            Arc::clone(&request),
            execution_id,
            accepted_at,
            deadline_ms,
            self.turn.now(),
        );
        let mut live = new_live(
            execution,
            Arc::clone(&request),
            execution_id,
            WallClock::set(self.turn.now()),
        );
        if let Some(parent_key) = parent {
            let parent = self.live.at_mut(parent_key);
            parent.n_children += 1;
            (live.parent, live.depth) = (Some(parent_key), parent.depth + 1);
        }
        live.submitters.push(submitter);
        let key = self.live.insert(live);
        self.callers.insert(submitter.id(), key);
        if let Submitter::ForAccept(caller) = submitter
            && let Some(not_durable) = DurableAccept::planted()
        {
            let view = self.view(key, not_durable);
            self.turn.reply(caller, Submitted::Accepted(view));
        }
        let started_at = self.start_with_accept(key);
        self.write(
            key,
            StoreWrite::Accept {
                execution_id,
                request,
                accepted_at,
                deadline_ms,
                started_at,
            },
        );
        key
    }

    /// Starts an execution that need not wait, so that accept and start are one write.
    ///
    /// A nested execution never waits for a slot, or its parent would wait for itself.
    //
    fn start_with_accept(&mut self, key: ExecutionKey) -> Option<i64> {
        let nested = self.live.at(key).parent.is_some() && !planted::is_on(Bug::NestedWaits);
        if !nested && !self.may_start_now(key) {
            self.reserve_place(key);
            return None;
        }
        if !nested {
            self.queue.take_slot();
        }
        let now = self.turn.now();
        let live = self.live.at_mut(key);
        live.holds_slot = !nested;
        // A deadline that is over ends the execution first, and then the start is refused.
        let _already_over = live.execution.handle(now, ContractInput::Start);
        // An execution that settles does so once the accept is durable; until then the effect waits.
        let started_at = match live.execution.poll_effect() {
            Some(ContractEffect::PersistStart { started_at_unix_ms }) => Some(started_at_unix_ms),
            Some(ContractEffect::PersistResult(settlement)) => {
                live.settlement = Some(settlement);
                None
            }
            other => unreachable!("a start is persisted or settles, but gave {other:?}"),
        };
        live.stage = Stage::Accepting {
            started: started_at.is_some(),
        };
        started_at
    }

    pub(crate) fn wait(&mut self, caller: Caller<Ended>, execution_id: ExecutionId) {
        if let Some(parked) = self.queue.find_parked(execution_id) {
            return self.wait_parked(caller, &parked);
        }
        match self.durable(execution_id) {
            Some((key, _)) => {
                self.live.at_mut(key).waiters.push(caller);
                self.callers.insert(caller.id, key);
            }
            None => self.turn.reply(caller, Ended::NotLive),
        }
    }

    pub(crate) fn describe(&mut self, caller: Caller<Option<ExecutionView>>, execution_id: ExecutionId) {
        // What is parked has done nothing that the store does not show.
        let durable = self.durable(execution_id);
        let view = durable.map(|(key, accept)| self.view(key, accept));
        self.turn.reply(caller, view);
    }

    /// The live execution of that id, if its accept is durable: before that it does not exist for anybody.
    pub(crate) fn durable(&self, execution_id: ExecutionId) -> Option<(ExecutionKey, DurableAccept)> {
        let key = self.live.find(execution_id)?;
        Some((key, self.live.at(key).accept()?))
    }

    // a caller that goes changes no execution, and no input cancels one.
    pub(crate) fn forget_caller(&mut self, caller: CallerId) {
        let Some(key) = self.callers.remove(&caller) else {
            return;
        };
        let Some(live) = self.live.find_mut(key) else {
            return self.queue.forget_caller(key, caller);
        };
        live.submitters.retain(|submitter| submitter.id() != caller);
        live.waiters.retain(|waiter| waiter.id != caller);
        live.watchers.forget(caller);
        self.unpin_unwatched(key);
    }

    /// An execution from before the restart: one that must not run any more ends, any other is queued.
    pub(crate) fn recover(&mut self, recovered: Recovered) {
        let accept = DurableAccept::of_recovered(&recovered);
        let Recovered {
            execution_id,
            request,
            accepted_at,
            deadline_ms,
            interruption,
        } = recovered;
        assert!(
            self.live.find(execution_id).is_none(),
            "the store holds each execution once"
        );
        let shared = Arc::clone(&request);
        let execution = match interruption.filter(|_| !planted::is_on(Bug::RegressOnReload)) {
            //
            Some(interruption) => Execution::recover(
                shared,
                execution_id,
                accepted_at,
                deadline_ms,
                interruption,
                self.turn.now(),
            ),
            //
            None => Execution::accept(shared, execution_id, accepted_at, deadline_ms, self.turn.now()),
        };
        let mut live = new_live(execution, request, execution_id, WallClock::set(self.turn.now()));
        live.stage = Stage::Durable(accept);
        live.start_is_durable = matches!(interruption, Some(Interruption::Restarted { .. }));
        let key = self.live.insert(live);
        if interruption.is_none() || planted::is_on(Bug::RegressOnReload) {
            self.enter_queue(key);
        }
        self.drain_effects(key);
    }

    pub(crate) fn view(&self, key: ExecutionKey, accept: DurableAccept) -> ExecutionView {
        let live = self.live.at(key);
        ExecutionView {
            accept,
            execution_id: live.execution_id,
            request: Arc::clone(&live.request),
            accepted_at: live.execution.accepted_at(),
            started_at: live.shown_started_at(),
            deadline_ms: live.execution.deadline(),
            progress: live.execution.progress(),
        }
    }
}

pub(crate) fn new_live(
    execution: Execution,
    request: Arc<Request>,
    execution_id: ExecutionId,
    clock: WallClock,
) -> Live {
    Live {
        execution,
        request,
        execution_id,
        stage: Stage::Accepting { started: false },
        clock,
        parent: None,
        depth: 0,
        n_children: 0,
        ticket: None,
        holds_slot: false,
        start_is_durable: false,
        submitters: Vec::new(),
        until_decided: UntilDecided::default(),
        undecided: Vec::new(),
        waiters: Vec::new(),
        watchers: Watchers::default(),
        n_shown: 0,
        counts_as_overdue: false,
        settlement: None,
    }
}
