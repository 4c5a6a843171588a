//! What a memory store holds, in ordered collections. Knows neither faults nor time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use escapement_model::{ExecutionId, PlanId};

use crate::{
    AcceptWrite, Conflict, Counts, ListFilter, Outcome, StoredExecution, StoredState, StoredSummary, Write,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    executions: BTreeMap<u64, Entry>,
    by_id: BTreeMap<ExecutionId, u64>,
    by_plan: BTreeMap<PlanId, u64>,
    unsettled: BTreeSet<u64>,
    counts: Counts,
}

#[derive(Clone, Debug)]
struct Entry {
    execution: StoredExecution,
    audit: Option<Bytes>,
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
                result,
                audit,
            } => self.settle(*execution_id, |entry| {
                let summary = &mut entry.execution.summary;
                summary.status = *status;
                summary.started_at = summary.started_at.or(*started_at);
                summary.settled_at = Some(*settled_at);
                entry.execution.result = Some(result.clone());
                entry.audit = Some(audit.clone());
            }),
        };
        applied.map_or_else(Outcome::Conflict, |number| Outcome::Done { number })
    }

    fn accept(&mut self, write: &AcceptWrite) -> Result<u64, Conflict> {
        if let Some(number) = self.by_id.get(&write.execution_id) {
            let request_digest = self.executions[number].execution.summary.request_digest;
            return Err(Conflict::ExecutionIdUsed { request_digest });
        }
        if let Some(number) = self.by_plan.get(&write.plan_id) {
            let execution_id = self.executions[number].execution.summary.execution_id;
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
            },
        );
        Ok(number)
    }

    fn start(&mut self, id: ExecutionId, started_at: i64) -> Result<u64, Conflict> {
        let number = *self.by_id.get(&id).ok_or(Conflict::NotFound)?;
        let summary = &mut self.entry(number).execution.summary;
        match summary.state {
            StoredState::Queued => {}
            StoredState::Running => return Err(Conflict::AlreadyStarted),
            StoredState::Settled => return Err(Conflict::AlreadySettled),
        }
        summary.state = StoredState::Running;
        summary.started_at = Some(started_at);
        self.counts.queued -= 1;
        self.counts.running += 1;
        Ok(number)
    }

    fn settle(&mut self, id: ExecutionId, end: impl FnOnce(&mut Entry)) -> Result<u64, Conflict> {
        let number = *self.by_id.get(&id).ok_or(Conflict::NotFound)?;
        let entry = self.entry(number);
        let before = entry.execution.summary.state;
        if before == StoredState::Settled {
            return Err(Conflict::AlreadySettled);
        }
        entry.execution.summary.state = StoredState::Settled;
        end(entry);
        *self.count(before) -= 1;
        self.counts.settled += 1;
        self.unsettled.remove(&number);
        Ok(number)
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

    pub(super) fn audit(&self, id: ExecutionId) -> Option<Bytes> {
        self.by_id
            .get(&id)
            .and_then(|number| self.executions[number].audit.clone())
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
}
