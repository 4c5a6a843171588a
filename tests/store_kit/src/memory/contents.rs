//! What a memory store holds, in ordered collections. Knows neither faults nor time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use bytes::Bytes;
use escapement_model::{ExecutionId, PlanId};

use super::disk::DiskContents;
use super::operators::Operators;
use escapement_store::{
    AcceptWrite, ActionMemory, Conflict, Counts, ListFilter, Outcome, REMOVED_PER_STEP_MAX, Removal, Removed,
    RemovedExecution, SettledPage, StoredExecution, StoredState, StoredSummary, Write,
};

/// A change; the same changes make the same contents.
#[derive(Clone, Debug)]
pub enum Change {
    /// A write of a batch.
    Write(Write),
    /// A step of removal, at this time.
    Removal(Removal, i64),
}

/// The executions on a disk in memory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    executions: BTreeMap<u64, Entry>,
    by_id: BTreeMap<ExecutionId, u64>,
    by_plan: BTreeMap<PlanId, u64>,
    unsettled: BTreeSet<u64>,
    /// Numbers by their place in the order of settling.
    settled: BTreeMap<u64, u64>,
    settlements_last: u64,
    settlements_removed: u64,
    counts: Counts,
    /// In the order of removal.
    removed: VecDeque<RemovedExecution>,
    removed_by_id: BTreeMap<ExecutionId, RemovedExecution>,
    removed_by_plan: BTreeMap<PlanId, ExecutionId>,
    actions: BTreeMap<String, u64>,
    pub(super) operators: Operators,
}

#[derive(Clone, Debug)]
struct Entry {
    execution: StoredExecution,
    audit: Option<Bytes>,
    /// Its place in the order of settling; 0 until then.
    settlement: u64,
}

impl DiskContents for Contents {
    type Change = Change;

    fn replay(&mut self, change: Change) {
        match change {
            Change::Write(write) => {
                self.apply(&write);
            }
            Change::Removal(policy, now_unix_ms) => {
                self.remove_settled(&policy, now_unix_ms);
            }
        }
    }
}

impl Contents {
    pub(super) fn apply(&mut self, write: &Write) -> Outcome {
        let applied = match write {
            Write::Accept(write) => self.accept(write),
            Write::Start {
                execution_id,
                started_at,
            } => self.start(*execution_id, *started_at),
            Write::Settle {
                execution_id,
                status,
                started_at,
                settled_at,
                outline,
                result,
                audit,
            } => self.settle(*execution_id, |entry| {
                let summary = &mut entry.execution.summary;
                summary.status = *status;
                summary.started_at = summary.started_at.or(*started_at);
                summary.settled_at = Some(*settled_at);
                summary.outline = Some(outline.clone());
                entry.execution.result = Some(result.clone());
                entry.audit = Some(audit.clone());
            }),
            Write::RememberActions(memories) => {
                for ActionMemory { name, left_ms } in memories {
                    match left_ms {
                        Some(left_ms) => self.actions.insert(name.clone(), *left_ms),
                        None => self.actions.remove(name),
                    };
                }
                Ok(0)
            }
            Write::Operator(write) => self.operators.append(write),
        };
        applied.map_or_else(Outcome::Conflict, |number| Outcome::Done { number })
    }

    pub(super) fn remembered_actions(&self) -> Vec<ActionMemory> {
        let actions = self.actions.iter();
        let memory = |(name, left_ms): (&String, &u64)| ActionMemory {
            name: name.clone(),
            left_ms: Some(*left_ms),
        };
        actions.map(memory).collect()
    }

    fn accept(&mut self, write: &AcceptWrite) -> Result<u64, Conflict> {
        if let Some(removed) = self.removed_by_id.get(&write.execution_id) {
            let request_digest = removed.request_digest;
            return Err(Conflict::ExecutionIdUsed { request_digest });
        }
        if let Some(number) = self.by_id.get(&write.execution_id) {
            let request_digest = self.executions[number].execution.summary.request_digest;
            return Err(Conflict::ExecutionIdUsed { request_digest });
        }
        if let Some(number) = self.by_plan.get(&write.plan_id) {
            let execution_id = self.executions[number].execution.summary.execution_id;
            return Err(Conflict::PlanIdUsed { execution_id });
        }
        if let Some(execution_id) = self.removed_by_plan.get(&write.plan_id) {
            let execution_id = *execution_id;
            return Err(Conflict::PlanIdUsed { execution_id });
        }
        let number = self.counts.accepted() + 1;
        let state = match write.started_at {
            Some(_) => StoredState::Running,
            None => StoredState::Queued,
        };
        *self.count(state) += 1;
        self.by_id.insert(write.execution_id, number);
        self.by_plan.insert(write.plan_id, number);
        self.unsettled.insert(number);
        let summary = StoredSummary {
            number,
            execution_id: write.execution_id,
            plan_id: write.plan_id,
            request_digest: write.request_digest,
            priority: write.priority,
            state,
            status: 0,
            accepted_at: write.accepted_at,
            started_at: write.started_at,
            settled_at: None,
            deadline_ms: write.deadline_ms,
            parent_execution_id: write.parent_execution_id,
            plan_name: write.plan_name.clone(),
            user_id: write.user_id.clone(),
            request_id: write.request_id.clone(),
            tags: write.tags.clone(),
            outline: None,
            namespace: write.namespace.clone(),
        };
        let execution = StoredExecution {
            summary,
            record: write.record.clone(),
            result: None,
        };
        self.executions.insert(
            number,
            Entry {
                execution,
                audit: None,
                settlement: 0,
            },
        );
        Ok(number)
    }

    fn start(&mut self, id: ExecutionId, started_at: Option<i64>) -> Result<u64, Conflict> {
        let number = self.number(id)?;
        let summary = &mut self.entry(number).execution.summary;
        match summary.state {
            StoredState::Queued => {}
            StoredState::Running => return Err(Conflict::AlreadyStarted),
            StoredState::Settled => return Err(Conflict::AlreadySettled),
        }
        summary.state = StoredState::Running;
        summary.started_at = started_at;
        self.counts.queued -= 1;
        self.counts.running += 1;
        Ok(number)
    }

    fn settle(&mut self, id: ExecutionId, end: impl FnOnce(&mut Entry)) -> Result<u64, Conflict> {
        let number = self.number(id)?;
        let entry = self.entry(number);
        let before = entry.execution.summary.state;
        if before == StoredState::Settled {
            return Err(Conflict::AlreadySettled);
        }
        entry.execution.summary.state = StoredState::Settled;
        end(entry);
        self.settlements_last += 1;
        let place = self.settlements_last;
        self.entry(number).settlement = place;
        self.settled.insert(place, number);
        *self.count(before) -= 1;
        self.counts.settled += 1;
        self.unsettled.remove(&number);
        Ok(number)
    }

    fn number(&self, id: ExecutionId) -> Result<u64, Conflict> {
        match self.by_id.get(&id) {
            Some(number) => Ok(*number),
            None if self.removed_by_id.contains_key(&id) => Err(Conflict::AlreadySettled),
            None => Err(Conflict::NotFound),
        }
    }

    /// One step of removal: for their number what settled first, then for their age the lowest numbers.
    pub(super) fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Removed {
        let due = self.due(policy, now_unix_ms);
        for number in &due {
            self.remove(*number, now_unix_ms);
        }
        let n_ids = self.n_ids_due(policy, now_unix_ms);
        for removed in self.removed.drain(..n_ids) {
            self.removed_by_id.remove(&removed.execution_id);
            self.removed_by_plan.remove(&removed.plan_id);
        }
        let may_be_due =
            policy.n_excess(self.counts.settled) > 0 || policy.settled_before(now_unix_ms).is_some();
        Removed {
            n_executions: due.len() as u64,
            n_ids: n_ids as u64,
            has_more: !due.is_empty() && may_be_due || n_ids == REMOVED_PER_STEP_MAX,
        }
    }

    /// Returns true if a step would remove something.
    pub(super) fn has_due(&self, policy: &Removal, now_unix_ms: i64) -> bool {
        self.n_ids_due(policy, now_unix_ms) > 0 || !self.due(policy, now_unix_ms).is_empty()
    }

    /// What one step removes.
    fn due(&self, policy: &Removal, now_unix_ms: i64) -> Vec<u64> {
        let n_excess = usize::try_from(policy.n_excess(self.counts.settled)).unwrap_or(usize::MAX);
        let before = policy.settled_before(now_unix_ms);
        let spared_from = policy.spared_from(now_unix_ms);
        let settled_at = |number: &u64| self.executions[number].execution.summary.settled_at;
        let is_before = |number: &u64, before: Option<i64>| settled_at(number) < before;
        let is_held = |number: &u64| {
            let place = Some(self.executions[number].settlement).filter(|place| *place > 0);
            policy.holds(place, settled_at(number), now_unix_ms)
        };
        let first_settled = self.settled.values().copied();
        let excess: Vec<u64> = first_settled
            .take(n_excess.min(REMOVED_PER_STEP_MAX))
            .take_while(|number| spared_from.is_none() || is_before(number, spared_from))
            .take_while(|number| !is_held(number))
            .collect();
        if !excess.is_empty() {
            return excess;
        }
        let settled = self.executions.keys().copied();
        let due = settled
            .filter(|number| settled_at(number).is_some() && is_before(number, before) && !is_held(number));
        due.take(REMOVED_PER_STEP_MAX).collect()
    }

    fn n_ids_due(&self, policy: &Removal, now_unix_ms: i64) -> usize {
        let before = policy.removed_before(now_unix_ms).unwrap_or(i64::MIN);
        let due = self
            .removed
            .iter()
            .take_while(|removed| removed.removed_at < before);
        due.take(REMOVED_PER_STEP_MAX).count()
    }

    fn remove(&mut self, number: u64, now_unix_ms: i64) {
        let entry = self
            .executions
            .remove(&number)
            .expect("it was listed a moment ago");
        let summary = entry.execution.summary;
        self.by_id.remove(&summary.execution_id);
        self.by_plan.remove(&summary.plan_id);
        self.settled.remove(&entry.settlement);
        self.settlements_removed = self.settlements_removed.max(entry.settlement);
        self.counts.settled -= 1;
        self.counts.removed += 1;
        let removed = RemovedExecution::of(&summary, now_unix_ms);
        self.removed.push_back(removed);
        self.removed_by_id.insert(summary.execution_id, removed);
        self.removed_by_plan.insert(summary.plan_id, summary.execution_id);
    }

    fn entry(&mut self, number: u64) -> &mut Entry {
        self.executions
            .get_mut(&number)
            .expect("every number of `by_id` has its entry")
    }

    fn count(&mut self, state: StoredState) -> &mut u64 {
        match state {
            StoredState::Queued => &mut self.counts.queued,
            StoredState::Running => &mut self.counts.running,
            StoredState::Settled => &mut self.counts.settled,
        }
    }

    pub(super) fn execution(&self, id: ExecutionId) -> Option<StoredExecution> {
        self.by_id
            .get(&id)
            .map(|number| self.executions[number].execution.clone())
    }

    pub(super) fn settled(&self, after: u64, limit: usize) -> SettledPage {
        let behind = self.settled.range((Bound::Excluded(after), Bound::Unbounded));
        let executions = behind.take(limit).map(|(place, number)| {
            let execution = self.executions[number].execution.clone();
            let record = Bytes::new();
            (*place, StoredExecution { record, ..execution })
        });
        SettledPage {
            executions: executions.collect(),
            damaged: None,
            last: self.settlements_last,
            removed: self.settlements_removed,
        }
    }

    pub(super) fn audit(&self, id: ExecutionId) -> Option<Bytes> {
        self.by_id
            .get(&id)
            .and_then(|number| self.executions[number].audit.clone())
    }

    pub(super) fn removed(&self, id: ExecutionId) -> Option<RemovedExecution> {
        self.removed_by_id.get(&id).copied()
    }

    pub(super) fn list(&self, filter: &ListFilter, before: Option<u64>, limit: usize) -> Vec<StoredSummary> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let newest_first = self.executions.range((Bound::Unbounded, end)).rev();
        let summaries = newest_first.map(|(_, entry)| &entry.execution.summary);
        summaries
            .filter(|summary| lets_through(filter, summary))
            .take(limit)
            .cloned()
            .collect()
    }

    pub(super) fn unsettled(&self, after: Option<u64>, limit: usize) -> Vec<StoredExecution> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let oldest_first = self.unsettled.range((start, Bound::Unbounded)).take(limit);
        oldest_first
            .map(|number| self.executions[number].execution.clone())
            .collect()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }
}

fn lets_through(filter: &ListFilter, summary: &StoredSummary) -> bool {
    filter.state.is_none_or(|state| summary.state == state)
        && filter.status.is_none_or(|status| summary.status == status)
        && filter
            .plan_name
            .as_ref()
            .is_none_or(|name| summary.plan_name == *name)
        && filter.tag.as_ref().is_none_or(|tag| summary.tags.contains(tag))
        && filter
            .user_id
            .as_ref()
            .is_none_or(|user_id| summary.user_id.as_ref() == Some(user_id))
        && filter
            .accepted_after
            .is_none_or(|after| summary.accepted_at >= after)
        && filter
            .accepted_before
            .is_none_or(|before| summary.accepted_at < before)
        && filter
            .parent_execution_id
            .is_none_or(|parent| summary.parent_execution_id == Some(parent))
        && filter
            .namespaces
            .as_ref()
            .is_none_or(|namespaces| namespaces.contains(&summary.namespace))
}
