//! The executions that are accepted, or about to be, and not settled. Decides nothing.

use crate::answer::{Caller, Ended};
use crate::clock::WallClock;
use crate::durable::DurableAccept;
use crate::input::{Submission, Submitter, UntilDecided};
use crate::keys::ExecutionKey;
use crate::queue::Ticket;
use crate::watch::Watchers;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{Execution, Phase, Request, Settlement};
use escapement_model::{ExecutionId, PlanId};

/// How durable an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its accept is on its way to the disk: nothing of it may be seen or done.
    Accepting {
        /// The accept carries the start as well.
        started: bool,
    },
    /// It will have a result, whatever happens.
    Durable(DurableAccept),
}

/// One live execution.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) execution: Execution,
    pub(crate) request: Arc<Request>,
    pub(crate) execution_id: ExecutionId,
    pub(crate) stage: Stage,
    /// The wall clock by which the execution lives.
    pub(crate) clock: WallClock,
    /// The execution whose step asked for this one; it may have ended since. `None`: not nested.
    pub(crate) parent: Option<ExecutionKey>,
    /// How many executions it is nested in.
    pub(crate) depth: u32,
    /// Executions that its steps asked for and that are live.
    pub(crate) n_children: usize,
    /// Its place in the queue, while it waits for its start or for the write of its accept before that.
    pub(crate) ticket: Option<Ticket>,
    /// Counts against the limit of running executions.
    pub(crate) holds_slot: bool,
    /// Its start is durable: a crash would not take it back.
    pub(crate) start_is_durable: bool,
    /// Callers that wait for the accept.
    pub(crate) submitters: Vec<Submitter>,
    /// What the shell holds until the accept is answered.
    pub(crate) until_decided: UntilDecided,
    /// Submissions that can be judged only once the accept is answered.
    pub(crate) undecided: Vec<Submission>,
    /// Callers that wait for the result.
    pub(crate) waiters: Vec<Caller<Ended>>,
    /// Callers that wait for the next entry of the record.
    pub(crate) watchers: Watchers,
    /// Entries of the record that may be seen.
    pub(crate) n_shown: usize,
    /// Counts against the limit of those that were read back because their deadlines were over.
    pub(crate) counts_as_overdue: bool,
    /// How it ends where it failed its preconditions, until its accept is durable.
    pub(crate) settlement: Option<Arc<Settlement>>,
}

impl Live {
    /// The proof that its accept is durable, `None` before that.
    pub(crate) fn accept(&self) -> Option<DurableAccept> {
        match self.stage {
            Stage::Durable(accept) => Some(accept),
            Stage::Accepting { .. } => None,
        }
    }

    /// Returns true if it would not end at its start.
    pub(crate) fn meets_preconditions(&self, now_ms: u64) -> bool {
        self.execution.meets_preconditions(self.clock.at(now_ms))
    }

    /// True while its steps may be with workers, and a crash would not take its start back.
    pub(crate) fn has_running_steps(&self) -> bool {
        self.start_is_durable && self.execution.phase() == Phase::Running
    }
}

/// All live executions, by key, execution id and plan id.
#[derive(Debug, Default)]
pub(crate) struct LiveSet {
    /// Boxed: keys rise, and a map that only grows at its end is half empty.
    by_key: BTreeMap<ExecutionKey, Box<Live>>,
    by_id: BTreeMap<ExecutionId, ExecutionKey>,
    by_plan: BTreeMap<PlanId, ExecutionId>,
    last_key: u64,
}

impl LiveSet {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn insert(&mut self, live: Live) -> ExecutionKey {
        let key = self.next_key();
        self.insert_at(key, live);
        key
    }

    /// The next key, for an execution that may not be live.
    pub(crate) fn next_key(&mut self) -> ExecutionKey {
        self.last_key += 1;
        ExecutionKey(self.last_key)
    }

    /// Puts an execution back under the key that it had.
    pub(crate) fn insert_at(&mut self, key: ExecutionKey, live: Live) {
        self.by_id.insert(live.execution_id, key);
        self.by_plan.insert(live.request.plan().id(), live.execution_id);
        self.by_key.insert(key, Box::new(live));
    }

    /// Takes an execution out, with its plan where that has not ended before.
    pub(crate) fn remove(&mut self, key: ExecutionKey) -> Option<Live> {
        self.end_plan(key);
        let live = self.by_key.remove(&key)?;
        self.by_id.remove(&live.execution_id);
        if let Some(parent) = live.parent.and_then(|parent| self.find_mut(parent)) {
            parent.n_children -= 1;
        }
        Some(*live)
    }

    /// Takes the plan of an execution out of the registry of live plans.
    pub(crate) fn end_plan(&mut self, key: ExecutionKey) {
        let Some(live) = self.by_key.get(&key) else { return };
        let plan_id = live.request.plan().id();
        // Another execution may hold it that was parked when this one came.
        if self.by_plan.get(&plan_id) == Some(&live.execution_id) {
            self.by_plan.remove(&plan_id);
        }
    }

    pub(crate) fn find(&self, execution_id: ExecutionId) -> Option<ExecutionKey> {
        self.by_id.get(&execution_id).copied()
    }

    pub(crate) fn plan_holder(&self, plan_id: PlanId) -> Option<ExecutionId> {
        self.by_plan.get(&plan_id).copied()
    }

    pub(crate) fn find_mut(&mut self, key: ExecutionKey) -> Option<&mut Live> {
        self.by_key.get_mut(&key).map(Box::as_mut)
    }

    /// The execution of a key that is known to be live.
    pub(crate) fn at(&self, key: ExecutionKey) -> &Live {
        self.by_key.get(&key).expect("the key of a live execution")
    }

    /// The execution of a key that is known to be live.
    pub(crate) fn at_mut(&mut self, key: ExecutionKey) -> &mut Live {
        self.by_key.get_mut(&key).expect("the key of a live execution")
    }
}
