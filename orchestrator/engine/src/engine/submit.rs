//! How plans come in, and how callers ask for their executions, in memory or parked.

use super::Engine;
use crate::answer::{Caller, Ended, Refusal, Submitted, Watched};
use crate::executions::{Executions, Parent};
use crate::input::{Submission, Submitter, Watch};
use crate::keys::{CallerId, NamespaceKey};
use crate::queue::Parked;
use crate::stored::Recovered;
use escapement_contract::Request;
use escapement_model::planted::{self, Bug};
use escapement_model::{ExecutionId, limits};

impl Engine {
    pub(super) fn submit(&mut self, submission: Submission) {
        let execution_id = submission.request.execution_id();
        if let Some(parked) = execution_id.and_then(|id| self.queue.find_parked(id)) {
            return self.attach_parked(submission.submitter, &parked, &submission.request);
        }
        let Some(submission) = self.executions.take_known(submission, &mut self.turn) else {
            return;
        };
        let parent = match submission.may_nest {
            true => self.executions.parent_of(&submission.request),
            false => None,
        };
        match self.room_for(&submission, parent) {
            Ok(()) => self.accept(submission, parent),
            Err(refusal) => Executions::refuse(submission.submitter, refusal, &mut self.turn),
        }
    }

    fn room_for(&self, submission: &Submission, parent: Option<Parent>) -> Result<(), Refusal> {
        match parent {
            // Running parents finish within the drain's grace, so their children are let in.
            Some(parent) => self.room_for_child(parent)?,
            None if self.drain.is_on() => return Err(Refusal::Draining),
            None => {}
        }
        if let Some(refusal) = self.executions.refusal_of(&submission.request) {
            return Err(refusal);
        }
        if self.live_executions() >= self.config.max_live_executions && !planted::is_on(Bug::QueueUnlimited) {
            return Err(Refusal::QueueFull);
        }
        self.room_in_namespace(submission.namespace)
    }

    //
    /// What is nested counts as well.
    fn room_in_namespace(&self, namespace: NamespaceKey) -> Result<(), Refusal> {
        let n_live = self.executions.n_of(namespace) + self.queue.n_parked_of(namespace);
        match self.queue.share(namespace).max_live_executions {
            Some(max_live_executions) if n_live >= max_live_executions as usize => {
                Err(Refusal::NamespaceQuota { max_live_executions })
            }
            Some(_) | None => Ok(()),
        }
    }

    // a child needs no slot of its own, since a step that a worker has waits for it.
    fn room_for_child(&self, parent: Parent) -> Result<(), Refusal> {
        if parent.depth >= limits::NESTING_DEPTH_MAX {
            return Err(Refusal::NestedTooDeep);
        }
        let n_attempts = self.fleet.n_attempts_of(parent.key);
        if parent.n_children >= n_attempts && !planted::is_on(Bug::ChildrenUnlimited) {
            return Err(Refusal::TooManyChildren);
        }
        Ok(())
    }

    //
    /// Accepts a request, and starts an execution that need not wait, so that accept and start are one write.
    ///
    /// A nested execution never waits for a slot, or its parent would wait for itself.
    fn accept(&mut self, submission: Submission, parent: Option<Parent>) {
        let is_nested = parent.is_some() && !planted::is_on(Bug::NestedWaits);
        let key = self.executions.accept(submission, parent, &mut self.turn);
        let started_at = if is_nested || self.may_start_now(key) {
            if !is_nested {
                self.queue.take_slot(self.executions.namespace_of(key));
            }
            self.executions.start_with_accept(key, !is_nested, &self.turn)
        } else {
            self.reserve_place(key);
            None
        };
        self.executions.write_accept(key, started_at, &mut self.turn);
    }

    /// An execution from before the restart.
    pub(super) fn recover(&mut self, recovered: Recovered) {
        let (key, is_queued) = self.executions.recover(recovered, &self.turn);
        if is_queued {
            self.enter_queue(key);
        }
        self.drain_effects(key);
    }

    //
    /// The same id as a parked execution's.
    fn attach_parked(&mut self, submitter: Submitter, parked: &Parked, request: &Request) {
        if parked.digest != *request.digest() {
            return Executions::refuse(submitter, Refusal::ExecutionIdUsed, &mut self.turn);
        }
        match submitter {
            // The store shows the same as memory would.
            Submitter::ForAccept(caller) => self.turn.reply(caller, Submitted::NotLive),
            Submitter::ForEnd(caller) => self.wait_parked(caller, parked),
        }
    }

    pub(super) fn wait(&mut self, caller: Caller<Ended>, execution_id: ExecutionId) {
        match self.queue.find_parked(execution_id) {
            Some(parked) => self.wait_parked(caller, &parked),
            None => self.executions.wait(caller, execution_id, &mut self.turn),
        }
    }

    fn wait_parked(&mut self, caller: Caller<Ended>, parked: &Parked) {
        self.queue.wait_parked(parked.key, caller);
        self.executions.note_caller(caller.id, parked.key);
    }

    pub(super) fn watch(&mut self, watch: Watch) {
        let Some(watch) = self.executions.watch(watch, &mut self.turn) else {
            return;
        };
        let Some(parked) = self.queue.find_parked(watch.execution_id) else {
            return self.turn.reply(watch.caller, Watched::NotLive);
        };
        self.executions.note_caller(watch.caller.id, parked.key);
        self.queue.watch_parked(watch);
    }

    /// A caller does not wait any more. An execution that no caller watches any more is parked like any other.
    pub(super) fn forget_caller(&mut self, caller: CallerId) {
        match self.executions.forget_caller(caller) {
            Some((key, true)) => {
                if let Some(ticket) = self.executions.unwatched_ticket(key) {
                    self.queue.unpin(ticket);
                }
            }
            Some((key, false)) => self.queue.forget_caller(key, caller),
            None => {}
        }
    }
}
