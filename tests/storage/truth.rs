//! What a store must show: every acknowledged write, and nothing else. Shares no code with the store.

use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_model::ExecutionId;
use escapement_store::{
    AcceptWrite, Conflict, Counts, ListFilter, Outcome, Reader, Store, StoreFault, StoredExecution,
    StoredState, StoredSummary, Write,
};

/// All that was acknowledged, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    executions: Vec<Known>,
    by_id: BTreeMap<ExecutionId, usize>,
}

/// An execution as it must be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) stored: StoredExecution,
    pub(crate) audit: Option<Bytes>,
}

impl Truth {
    pub(crate) fn executions(&self) -> &[Known] {
        &self.executions
    }

    pub(crate) fn find(&self, id: ExecutionId) -> Option<&Known> {
        self.by_id.get(&id).map(|index| &self.executions[*index])
    }

    /// What must come of a batch.
    pub(crate) fn apply(&mut self, batch: &[Write]) -> Vec<Outcome> {
        batch.iter().map(|write| self.apply_one(write)).collect()
    }

    fn apply_one(&mut self, write: &Write) -> Outcome {
        match write {
            Write::Accept(accept) => self.accept(accept),
            Write::Start {
                execution_id,
                started_at,
            } => self.change(*execution_id, |known| {
                let summary = &mut known.stored.summary;
                match summary.state {
                    StoredState::Queued => {
                        summary.state = StoredState::Running;
                        summary.started_at = *started_at;
                        None
                    }
                    StoredState::Running => Some(Conflict::AlreadyStarted),
                    StoredState::Settled => Some(Conflict::AlreadySettled),
                }
            }),
            Write::RememberActions(_) | Write::Operator(_) => Outcome::Done { number: 0 },
            Write::Settle {
                execution_id,
                status,
                started_at,
                settled_at,
                outline,
                result,
                audit,
            } => self.change(*execution_id, |known| {
                let summary = &mut known.stored.summary;
                if summary.state == StoredState::Settled {
                    return Some(Conflict::AlreadySettled);
                }
                summary.state = StoredState::Settled;
                summary.status = *status;
                summary.started_at = summary.started_at.or(*started_at);
                summary.settled_at = Some(*settled_at);
                summary.outline = Some(outline.clone());
                known.stored.result = Some(result.clone());
                known.audit = Some(audit.clone());
                None
            }),
        }
    }

    fn accept(&mut self, accept: &AcceptWrite) -> Outcome {
        if let Some(known) = self.find(accept.execution_id) {
            let request_digest = known.stored.summary.request_digest;
            return Outcome::Conflict(Conflict::ExecutionIdUsed { request_digest });
        }
        let holder = self
            .executions
            .iter()
            .map(|known| &known.stored.summary)
            .find(|summary| summary.plan_id == accept.plan_id);
        if let Some(holder) = holder {
            return Outcome::Conflict(Conflict::PlanIdUsed {
                execution_id: holder.execution_id,
            });
        }
        let number = self.executions.len() as u64 + 1;
        let accept = accept.clone();
        let summary = StoredSummary {
            number,
            execution_id: accept.execution_id,
            plan_id: accept.plan_id,
            request_digest: accept.request_digest,
            priority: accept.priority,
            state: match accept.started_at {
                Some(_) => StoredState::Running,
                None => StoredState::Queued,
            },
            status: 0,
            accepted_at: accept.accepted_at,
            started_at: accept.started_at,
            settled_at: None,
            deadline_ms: accept.deadline_ms,
            parent_execution_id: accept.parent_execution_id,
            plan_name: accept.plan_name,
            user_id: accept.user_id,
            request_id: accept.request_id,
            tags: accept.tags,
            namespace: accept.namespace,
            outline: None,
        };
        self.by_id.insert(summary.execution_id, self.executions.len());
        self.executions.push(Known {
            stored: StoredExecution {
                summary,
                record: accept.record,
                result: None,
            },
            audit: None,
        });
        Outcome::Done { number }
    }

    fn change(&mut self, id: ExecutionId, change: impl FnOnce(&mut Known) -> Option<Conflict>) -> Outcome {
        let Some(index) = self.by_id.get(&id) else {
            return Outcome::Conflict(Conflict::NotFound);
        };
        let number = *index as u64 + 1;
        change(&mut self.executions[*index]).map_or(Outcome::Done { number }, Outcome::Conflict)
    }

    pub(crate) fn counts(&self) -> Counts {
        let of = |state| {
            let states = self.executions.iter().map(|known| known.stored.summary.state);
            states.filter(|found| *found == state).count() as u64
        };
        Counts {
            queued: of(StoredState::Queued),
            running: of(StoredState::Running),
            settled: of(StoredState::Settled),
            removed: 0,
        }
    }

    pub(crate) fn unsettled(&self) -> Vec<StoredExecution> {
        let all = self.executions.iter().map(|known| &known.stored);
        all.filter(|stored| stored.summary.state < StoredState::Settled)
            .cloned()
            .collect()
    }

    /// Returns the first thing that the store shows otherwise.
    pub(crate) fn differs(&self, store: &dyn Store) -> Option<String> {
        self.difference(&*store.reader().unwrap())
            .unwrap_or_else(|fault| Some(format!("a fault where nothing is damaged: {fault:?}")))
    }

    fn difference(&self, reader: &dyn Reader) -> Result<Option<String>, StoreFault> {
        let counts = reader.counts()?;
        if counts != self.counts() {
            return Ok(Some(format!("{counts:?} instead of {:?}", self.counts())));
        }
        for known in &self.executions {
            let summary = &known.stored.summary;
            let found = reader.execution(summary.execution_id)?;
            if found.as_ref() != Some(&known.stored) {
                return Ok(Some(format!("number {}: {found:?}", summary.number)));
            }
            if reader.audit(summary.execution_id)? != known.audit {
                return Ok(Some(format!("number {}: another audit", summary.number)));
            }
        }
        let listed = reader.list(&ListFilter::default(), None, usize::MAX)?;
        let expected: Vec<_> = self
            .executions
            .iter()
            .rev()
            .map(|known| &known.stored.summary)
            .collect();
        if !listed.iter().eq(expected) {
            return Ok(Some(format!("the list shows {} executions", listed.len())));
        }
        let unsettled = reader.unsettled(None, usize::MAX)?;
        Ok((unsettled != self.unsettled()).then(|| format!("{} unsettled", unsettled.len())))
    }
}

/// What must be there, and what may be there in its place: a batch whose end nobody heard of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) certain: Truth,
    pub(crate) possible: Option<Truth>,
}

impl Expected {
    pub(crate) fn certain(truth: Truth) -> Self {
        Self {
            certain: truth,
            possible: None,
        }
    }

    /// Which of the two the store shows, wholly.
    #[track_caller]
    pub(crate) fn found(self, store: &dyn Store, when: &dyn Fn() -> String) -> Truth {
        let Some(certain) = self.certain.differs(store) else {
            return self.certain;
        };
        let Some(truth) = self.possible else {
            panic!("{}: {certain}", when());
        };
        if let Some(possible) = truth.differs(store) {
            panic!(
                "{}: neither nothing of a batch ({certain}) nor all of it ({possible})",
                when()
            );
        }
        truth
    }
}
