//! A caller hands in a plan, or asks about one. Persists nothing: it asks for the write and waits.

use super::Executions;
use super::live::{LiveExecution, Stage};
use crate::answer::{Caller, Ended, ExecutionView, Refusal, Submitted};
use crate::clock::WallClock;
use crate::durable::DurableAccept;
use crate::effect::StoreWrite;
use crate::input::{Submission, Submitter};
use crate::keys::ExecutionKey;
use crate::stored::Recovered;
use crate::turn::Turn;
use alloc::sync::Arc;
use escapement_contract::{
    Effect as ContractEffect, Execution, Input as ContractInput, Interruption, Request, default_deadline,
};
use escapement_model::ExecutionId;
use escapement_model::planted::{self, Bug};

/// The execution that makes a request nested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent {
    pub(crate) key: ExecutionKey,
    /// Number of executions that it is nested in.
    pub(crate) depth: u32,
    /// Executions that its steps asked for and that are live.
    pub(crate) n_children: usize,
}

impl Executions {
    /// Returns a submission that is new. One that must wait for what becomes of another is kept, and one that was accepted
    /// before attaches.
    pub(crate) fn take_known(&mut self, submission: Submission, turn: &mut Turn) -> Option<Submission> {
        if let Some(holder) = self.undecided_holder(&submission) {
            self.live.at_mut(holder).undecided.push(submission);
            return None;
        }
        let Some(key) = self.live.find_id(submission.execution_id()) else {
            return Some(submission);
        };
        self.attach(submission.submitter, key, &submission.request, turn);
        None
    }

    pub(crate) fn refuse(submitter: Submitter, refusal: Refusal, turn: &mut Turn) {
        match submitter {
            Submitter::ForAccept(caller) => turn.reply(caller, Submitted::Refused(refusal)),
            Submitter::ForEnd(caller) => turn.reply(caller, Ended::Refused(refusal)),
        }
    }

    /// The execution that has this one's id or plan and may turn out not to be accepted: a refusal would be premature.
    fn undecided_holder(&self, submission: &Submission) -> Option<ExecutionKey> {
        let request = &submission.request;
        let same_id = self.live.find_id(submission.execution_id());
        if let Some(key) = same_id
            && self.live.at(key).request.digest() == request.digest()
        {
            return None;
        }
        let holder = same_id.or_else(|| {
            let execution_id = self.live.plan_holder(request.plan().id())?;
            self.live.find_id(execution_id)
        })?;
        self.live.at(holder).accept().is_none().then_some(holder)
    }

    // the same request attaches, another one is refused. It never executes twice.
    /// The same id again.
    fn attach(&mut self, submitter: Submitter, key: ExecutionKey, request: &Request, turn: &mut Turn) {
        let live = self.live.at_mut(key);
        if live.request.digest() != request.digest() && !planted::is_on(Bug::DigestIgnored) {
            return Self::refuse(submitter, Refusal::ExecutionIdUsed, turn);
        }
        match (live.stage, submitter) {
            (Stage::Accepting { .. }, _) => {
                live.submitters.push(submitter.id(), submitter);
                self.callers.insert(submitter.id(), key);
            }
            (Stage::Durable(accept), Submitter::ForAccept(caller)) => {
                let view = live.view(accept);
                turn.reply(caller, Submitted::Accepted(view));
            }
            (Stage::Durable(_), Submitter::ForEnd(caller)) => {
                live.waiters.push(caller.id, caller);
                self.callers.insert(caller.id, key);
            }
        }
    }

    // a nested plan comes in as any other; only whether it is nested is looked at.
    /// Returns the parent that makes a request nested: one whose steps may run. Any other that is named is a note.
    pub(crate) fn parent_of(&self, request: &Request) -> Option<Parent> {
        let key = self.live.find_id(request.parent_execution_id()?)?;
        let live = self.live.at(key);
        live.has_running_steps().then_some(Parent {
            key,
            depth: live.depth,
            n_children: live.n_children,
        })
    }

    /// Returns why no request of a plan is accepted now, whatever room there is.
    pub(crate) fn refusal_of(&self, request: &Request) -> Option<Refusal> {
        //
        if let Some(execution_id) = self.live.plan_holder(request.plan().id()) {
            return Some(Refusal::PlanIdUsed { execution_id });
        }
        // the first space that there is belongs to what was accepted before.
        (self.n_waiting_for_space > 0).then_some(Refusal::StoreFull)
    }

    /// Accepts a request. The caller decides whether it starts at once, and then asks for the write.
    pub(crate) fn accept(
        &mut self,
        submission: Submission,
        parent: Option<Parent>,
        turn: &mut Turn,
    ) -> ExecutionKey {
        let execution_id = submission.execution_id();
        let Submission {
            namespace,
            submitter,
            request,
            until_decided,
            ..
        } = submission;
        let now = turn.now();
        let default = || default_deadline(now.unix_ms, request.plan(), self.config.queue_allowance_ms);
        let deadline_ms = request.deadline_ms().unwrap_or_else(default);
        let execution = Execution::accept(Arc::clone(&request), execution_id, now.unix_ms, deadline_ms, now);
        let mut live = LiveExecution::new(execution, request, execution_id, namespace, WallClock::set(now));
        if let Some(parent) = parent {
            self.live.at_mut(parent.key).n_children += 1;
            (live.parent, live.depth) = (Some(parent.key), parent.depth + 1);
        }
        live.submitters.push(submitter.id(), submitter);
        live.until_decided = until_decided;
        if let Submitter::ForAccept(caller) = submitter
            && let Some(not_durable) = DurableAccept::planted()
        {
            turn.reply(caller, Submitted::Accepted(live.view(not_durable)));
        }
        let key = self.live.insert(live);
        self.callers.insert(submitter.id(), key);
        key
    }

    /// Starts an execution with its accept. Returns when it started; `None` if it ended instead.
    pub(crate) fn start_with_accept(
        &mut self,
        key: ExecutionKey,
        holds_slot: bool,
        turn: &Turn,
    ) -> Option<i64> {
        let live = self.live.at_mut(key);
        live.holds_slot = holds_slot;
        // A deadline that is over ends the execution first, and then the start is refused.
        let _already_over = live.execution.handle(turn.now(), ContractInput::Start);
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

    pub(crate) fn write_accept(&mut self, key: ExecutionKey, started_at: Option<i64>, turn: &mut Turn) {
        let live = self.live.at(key);
        let accept = StoreWrite::Accept {
            execution_id: live.execution_id,
            request: Arc::clone(&live.request),
            accepted_at: live.execution.accepted_at(),
            deadline_ms: live.execution.deadline(),
            started_at,
        };
        self.write(key, accept, turn);
    }

    pub(crate) fn wait(&mut self, caller: Caller<Ended>, execution_id: ExecutionId, turn: &mut Turn) {
        match self.durable(execution_id) {
            Some((key, _)) => {
                self.live.at_mut(key).waiters.push(caller.id, caller);
                self.callers.insert(caller.id, key);
            }
            None => turn.reply(caller, Ended::NotLive),
        }
    }

    /// How an execution stands; `None` if the store alone says. What is parked has done nothing that the store does not show.
    pub(crate) fn describe(&self, execution_id: ExecutionId) -> Option<ExecutionView> {
        let (key, accept) = self.durable(execution_id)?;
        Some(self.live.at(key).view(accept))
    }

    /// Returns the id and the request of an execution, if it is live.
    pub(crate) fn request_of(&self, key: ExecutionKey) -> Option<(ExecutionId, Arc<Request>)> {
        let live = self.live.find(key)?;
        Some((live.execution_id, Arc::clone(&live.request)))
    }

    /// Returns an execution from before the restart: one that must not run any more ends, any other is to be queued.
    /// Returns true with the key of one that is.
    pub(crate) fn recover(&mut self, recovered: Recovered, turn: &Turn) -> (ExecutionKey, bool) {
        let accept = DurableAccept::of_recovered(&recovered);
        let Recovered {
            execution_id,
            namespace,
            request,
            accepted_at,
            deadline_ms,
            interruption,
        } = recovered;
        let found = self.live.find_id(execution_id);
        assert!(found.is_none(), "the store holds each execution once");
        let (shared, now) = (Arc::clone(&request), turn.now());
        let execution = match interruption.filter(|_| !planted::is_on(Bug::RegressOnReload)) {
            //
            Some(interruption) => {
                Execution::recover(shared, execution_id, accepted_at, deadline_ms, interruption, now)
            }
            //
            None => Execution::accept(shared, execution_id, accepted_at, deadline_ms, now),
        };
        let mut live = LiveExecution::new(execution, request, execution_id, namespace, WallClock::set(now));
        live.begin(accept);
        live.start_is_durable = matches!(interruption, Some(Interruption::Restarted { .. }));
        let is_queued = interruption.is_none() || planted::is_on(Bug::RegressOnReload);
        (self.live.insert(live), is_queued)
    }
}

impl LiveExecution {
    pub(super) fn view(&self, accept: DurableAccept) -> ExecutionView {
        ExecutionView {
            accept,
            execution_id: self.execution_id,
            request: Arc::clone(&self.request),
            accepted_at: self.execution.accepted_at(),
            started_at: self.shown_started_at(),
            deadline_ms: self.execution.deadline(),
            progress: self.execution.progress(),
        }
    }
}

impl Submission {
    /// Returns the id of its execution.
    fn execution_id(&self) -> ExecutionId {
        self.request.execution_id().unwrap_or(self.fresh_id)
    }
}
