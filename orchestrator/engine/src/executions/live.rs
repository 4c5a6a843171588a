//! A live execution, and the table of all. Decides nothing.

use super::watch::Watchers;
use crate::answer::{Caller, Ended};
use crate::arrivals::Arrivals;
use crate::clock::WallClock;
use crate::durable::DurableAccept;
use crate::input::{Submission, Submitter, UntilDecided};
use crate::keys::{ExecutionKey, NamespaceKey};
use crate::queue::Ticket;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{AuditEntry, Execution, Phase, Request, Settlement};
use escapement_model::{ExecutionId, PlanId};

/// How durable an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its accept is on its way to the disk: nothing of it may be seen or done.
    Accepting {
        /// The accept carries the start as well.
        started: bool,
    },
    /// It will have a result, whatever happens.
    Durable(DurableAccept),
}

/// A live execution.
#[derive(Debug)]
pub(super) struct LiveExecution {
    pub(super) execution: Execution,
    pub(super) request: Arc<Request>,
    pub(super) execution_id: ExecutionId,
    pub(super) namespace: NamespaceKey,
    pub(super) stage: Stage,
    /// The wall clock by which the execution lives.
    pub(super) clock: WallClock,
    /// The execution whose step asked for this one; it may have ended since. `None`: not nested.
    pub(super) parent: Option<ExecutionKey>,
    /// Number of executions that it is nested in.
    pub(super) depth: u32,
    /// Executions that its steps asked for and that are live.
    pub(super) n_children: usize,
    /// Its place in the queue, while it waits for its start or for the write of its accept before that.
    pub(super) ticket: Option<Ticket>,
    /// Counts against the limit of running executions.
    pub(super) holds_slot: bool,
    /// Its start is durable: a crash would not take it back.
    pub(super) start_is_durable: bool,
    /// Callers that wait for the accept.
    pub(super) submitters: Arrivals<Submitter>,
    /// What the shell holds until the accept is answered.
    pub(super) until_decided: UntilDecided,
    /// Submissions that can be judged only once the accept is answered.
    pub(super) undecided: Vec<Submission>,
    /// Callers that wait for the result.
    pub(super) waiters: Arrivals<Caller<Ended>>,
    /// Callers that wait for the next entry of the audit trail.
    pub(super) watchers: Watchers,
    /// Entries of the audit trail that may be seen.
    pub(super) n_shown: usize,
    /// Counts against the limit of those that were read back because their deadlines were over.
    pub(super) counts_as_overdue: bool,
    /// How it ends if it failed its preconditions, until its accept is durable.
    pub(super) settlement: Option<Arc<Settlement>>,
}

impl LiveExecution {
    /// Creates an execution whose accept is not durable.
    pub(super) fn new(
        execution: Execution,
        request: Arc<Request>,
        execution_id: ExecutionId,
        namespace: NamespaceKey,
        clock: WallClock,
    ) -> Self {
        Self {
            execution,
            request,
            execution_id,
            namespace,
            stage: Stage::Accepting { started: false },
            clock,
            parent: None,
            depth: 0,
            n_children: 0,
            ticket: None,
            holds_slot: false,
            start_is_durable: false,
            submitters: Arrivals::default(),
            until_decided: UntilDecided::default(),
            undecided: Vec::new(),
            waiters: Arrivals::default(),
            watchers: Watchers::default(),
            n_shown: 0,
            counts_as_overdue: false,
            settlement: None,
        }
    }

    /// Returns the proof that its accept is durable, `None` before that.
    pub(super) fn accept(&self) -> Option<DurableAccept> {
        match self.stage {
            Stage::Durable(accept) => Some(accept),
            Stage::Accepting { .. } => None,
        }
    }

    /// Its accept is durable: from here on it will have a result, whatever happens. Returns true if its start is, too.
    pub(super) fn begin(&mut self, accept: DurableAccept) -> bool {
        match core::mem::replace(&mut self.stage, Stage::Durable(accept)) {
            Stage::Accepting { started } => started,
            Stage::Durable(_) => unreachable!("an execution is accepted once"),
        }
    }

    /// Gives the slot back that it holds; returns whose it is.
    pub(super) fn take_slot(&mut self) -> Option<NamespaceKey> {
        core::mem::take(&mut self.holds_slot).then_some(self.namespace)
    }

    /// Returns true while its steps may be with workers, and a crash would not take its start back.
    pub(super) fn has_running_steps(&self) -> bool {
        self.start_is_durable && self.execution.phase() == Phase::Running
    }
}

impl LiveExecution {
    // one that settles without ever having started is queued for everybody until its result is durable.
    /// Returns the time at which it started, once that is durable.
    pub(super) fn shown_started_at(&self) -> Option<i64> {
        self.execution.started_at().filter(|_| self.start_is_durable)
    }

    // the last entry of an execution whose start is being written is that start,
    // and what its end adds is not told before that is durable.
    pub(super) fn note_shown(&mut self) {
        let n_entries = self.execution.audit().len();
        self.n_shown = match self.execution.phase() {
            Phase::Starting => n_entries - 1,
            Phase::Queued | Phase::Running => n_entries,
            // What settles at once, after a restart or because its deadline is over, has these from before.
            Phase::Settling | Phase::Settled => self.n_shown.max(1 + usize::from(self.start_is_durable)),
        };
    }

    /// Returns the audit trail as far as it may be seen.
    pub(super) fn shown_audit(&self) -> &[AuditEntry] {
        &self.execution.audit()[..self.n_shown]
    }
}

/// All live executions, by key, execution id and plan id.
#[derive(Debug, Default)]
pub(super) struct LiveSet {
    /// Boxed: keys rise, and a map that only grows at its end is half empty.
    by_key: BTreeMap<ExecutionKey, Box<LiveExecution>>,
    by_id: BTreeMap<ExecutionId, ExecutionKey>,
    by_plan: BTreeMap<PlanId, ExecutionId>,
    n_by_namespace: BTreeMap<NamespaceKey, usize>,
    last_key: u64,
}

impl LiveSet {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn insert(&mut self, live: LiveExecution) -> ExecutionKey {
        let key = self.next_key();
        self.insert_at(key, live);
        key
    }

    /// Returns the next key, for an execution that may not be live.
    pub(super) fn next_key(&mut self) -> ExecutionKey {
        self.last_key += 1;
        ExecutionKey(self.last_key)
    }

    /// Puts an execution back under the key that it had.
    pub(super) fn insert_at(&mut self, key: ExecutionKey, live: LiveExecution) {
        self.by_id.insert(live.execution_id, key);
        *self.n_by_namespace.entry(live.namespace).or_default() += 1;
        self.by_plan.insert(live.request.plan().id(), live.execution_id);
        self.by_key.insert(key, Box::new(live));
    }

    /// Takes an execution out, with its plan if that has not ended before.
    pub(super) fn remove(&mut self, key: ExecutionKey) -> Option<LiveExecution> {
        self.end_plan(key);
        let live = self.by_key.remove(&key)?;
        self.by_id.remove(&live.execution_id);
        self.leave_namespace(live.namespace);
        if let Some(parent) = live.parent.and_then(|parent| self.find_mut(parent)) {
            parent.n_children -= 1;
        }
        Some(*live)
    }

    fn leave_namespace(&mut self, namespace: NamespaceKey) {
        if let Some(n_executions) = self.n_by_namespace.get_mut(&namespace) {
            *n_executions -= 1;
            if *n_executions == 0 {
                self.n_by_namespace.remove(&namespace);
            }
        }
    }

    pub(super) fn n_of(&self, namespace: NamespaceKey) -> usize {
        self.n_by_namespace.get(&namespace).copied().unwrap_or_default()
    }

    /// Takes the plan of an execution out of the registry of live plans.
    pub(super) fn end_plan(&mut self, key: ExecutionKey) {
        let Some(live) = self.by_key.get(&key) else { return };
        let plan_id = live.request.plan().id();
        // Another execution may hold it that was parked when this one came.
        if self.by_plan.get(&plan_id) == Some(&live.execution_id) {
            self.by_plan.remove(&plan_id);
        }
    }

    pub(super) fn find_id(&self, execution_id: ExecutionId) -> Option<ExecutionKey> {
        self.by_id.get(&execution_id).copied()
    }

    pub(super) fn plan_holder(&self, plan_id: PlanId) -> Option<ExecutionId> {
        self.by_plan.get(&plan_id).copied()
    }

    pub(super) fn find(&self, key: ExecutionKey) -> Option<&LiveExecution> {
        self.by_key.get(&key).map(Box::as_ref)
    }

    pub(super) fn find_mut(&mut self, key: ExecutionKey) -> Option<&mut LiveExecution> {
        self.by_key.get_mut(&key).map(Box::as_mut)
    }

    /// Returns the execution of a key that is known to be live.
    pub(super) fn at(&self, key: ExecutionKey) -> &LiveExecution {
        self.by_key.get(&key).expect("the key of a live execution")
    }

    /// Returns the execution of a key that is known to be live.
    pub(super) fn at_mut(&mut self, key: ExecutionKey) -> &mut LiveExecution {
        self.by_key.get_mut(&key).expect("the key of a live execution")
    }
}
