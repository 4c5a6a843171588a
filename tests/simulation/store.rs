//! A store in memory that answers late, fails now and then, and survives the orchestrator's process.

use escapement_contract::{AuditEntry, Request, Settlement};
use escapement_engine::{Recovered, StoreWrite, WriteConflict, WriteId, WriteOutcome};
use escapement_model::{ExecutionId, PlanId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What is durable, and what is on its way to being so.
#[derive(Debug, Default)]
pub(crate) struct Store {
    executions: BTreeMap<ExecutionId, Stored>,
    /// In the order of acceptance.
    order: Vec<ExecutionId>,
    plans: BTreeMap<PlanId, ExecutionId>,
    /// When each write is applied, in order.
    pending: VecDeque<(u64, WriteId, StoreWrite)>,
    last_at_ms: u64,
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) request: Arc<Request>,
    accepted_at: i64,
    deadline_ms: i64,
    started_at: Option<i64>,
    pub(crate) settlement: Option<Arc<Settlement>>,
    /// The number of the process that settled it.
    pub(crate) settled_by: u64,
}

impl Store {
    pub(crate) fn write(&mut self, at_ms: u64, write: WriteId, content: StoreWrite) {
        self.last_at_ms = self.last_at_ms.max(at_ms);
        self.pending.push_back((self.last_at_ms, write, content));
    }

    pub(crate) fn next_at_ms(&self) -> Option<u64> {
        self.pending.front().map(|(at_ms, ..)| *at_ms)
    }

    /// Applies the next write that is due. `fails`: the store could not.
    pub(crate) fn apply_due(
        &mut self,
        now_ms: u64,
        boot: u64,
        fails: bool,
    ) -> Option<(WriteId, WriteOutcome)> {
        self.next_at_ms().filter(|at_ms| *at_ms <= now_ms)?;
        let (_, write, content) = self.pending.pop_front()?;
        let outcome = if fails {
            WriteOutcome::Failed
        } else {
            self.apply(boot, content)
        };
        Some((write, outcome))
    }

    /// The orchestrator's process is gone: some writes were applied though nobody heard of it, the others never are.
    pub(crate) fn lose_pending(&mut self, boot: u64, n_applied: usize) {
        let n_applied = n_applied.min(self.pending.len());
        for (_, _, content) in self.pending.drain(..).take(n_applied).collect::<Vec<_>>() {
            let _nobody_hears = self.apply(boot, content);
        }
    }

    pub(crate) fn n_pending(&self) -> usize {
        self.pending.len()
    }

    fn apply(&mut self, boot: u64, content: StoreWrite) -> WriteOutcome {
        let conflict = match content {
            StoreWrite::Accept {
                execution_id,
                request,
                accepted_at,
                deadline_ms,
                started_at,
            } => {
                if let Some(before) = self.executions.get(&execution_id) {
                    let request_digest = *before.request.digest();
                    return WriteOutcome::Conflict(WriteConflict::ExecutionIdUsed { request_digest });
                }
                if let Some(holder) = self.plans.get(&request.plan().id()) {
                    return WriteOutcome::Conflict(WriteConflict::PlanIdUsed {
                        execution_id: *holder,
                    });
                }
                self.plans.insert(request.plan().id(), execution_id);
                self.order.push(execution_id);
                let stored = Stored {
                    request,
                    accepted_at,
                    deadline_ms,
                    started_at,
                    settlement: None,
                    settled_by: 0,
                };
                self.executions.insert(execution_id, stored);
                None
            }
            StoreWrite::Start {
                execution_id,
                started_at,
            } => match self.executions.get_mut(&execution_id) {
                None => Some(WriteConflict::NotFound),
                Some(stored) if stored.started_at.is_some() || stored.settlement.is_some() => {
                    Some(WriteConflict::AlreadyThere)
                }
                Some(stored) => {
                    stored.started_at = Some(started_at);
                    None
                }
            },
            StoreWrite::Settle { settlement } => {
                match self.executions.get_mut(&settlement.result.execution_id) {
                    None => Some(WriteConflict::NotFound),
                    Some(stored) if stored.settlement.is_some() => {
                        panic!("{} settles twice", settlement.result.execution_id)
                    }
                    Some(stored) => {
                        (stored.settlement, stored.settled_by) = (Some(settlement), boot);
                        None
                    }
                }
            }
        };
        conflict.map_or(WriteOutcome::Durable, WriteOutcome::Conflict)
    }

    /// What a new process finds unsettled, oldest first.
    pub(crate) fn unsettled(&self) -> Vec<Recovered> {
        let open = self.order.iter().map(|id| (id, &self.executions[id]));
        open.filter(|(_, stored)| stored.settlement.is_none())
            .map(|(id, stored)| Recovered {
                execution_id: *id,
                request: Arc::clone(&stored.request),
                accepted_at: stored.accepted_at,
                deadline_ms: stored.deadline_ms,
                started_at: stored.started_at,
            })
            .collect()
    }

    pub(crate) fn find(&self, id: ExecutionId) -> Option<&Stored> {
        self.executions.get(&id)
    }

    pub(crate) fn is_settled(&self, id: ExecutionId) -> bool {
        self.find(id).is_some_and(|stored| stored.settlement.is_some())
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The record of each settled execution.
    pub(crate) fn records(&self) -> impl Iterator<Item = (ExecutionId, &[AuditEntry])> {
        self.executions
            .iter()
            .filter_map(|(id, stored)| Some((*id, stored.settlement.as_ref()?.audit.as_slice())))
    }
}
