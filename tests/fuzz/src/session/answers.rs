//! The callers of a run and its store: what each may be told, and when. Believes nothing that is not durable.

use super::plans::{PLANS, plan};
use crate::seeds;
use crate::source::Source;
use escapement_engine::{
    AttemptReport, Caller, CallerId, Ended, ExplainAnswer, Input, NamespaceKey, Piece, Reply, StoreWrite,
    Submission, Submitted, Submitter, UntilDecided, Watch, Watched, WorkerSelector, WriteConflict, WriteId,
    WriteOutcome,
};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, PlanId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is durable, and what is being written.
#[derive(Default)]
pub(crate) struct Disk {
    open: VecDeque<(WriteId, StoreWrite)>,
    /// Writes that failed and come again.
    failed: BTreeSet<WriteId>,
    seen: BTreeSet<WriteId>,
    accepted: BTreeMap<ExecutionId, [u8; 32]>,
    plans: BTreeMap<PlanId, ExecutionId>,
    started: BTreeSet<ExecutionId>,
    settled: BTreeSet<ExecutionId>,
    n_successes: usize,
}

impl Disk {
    pub(crate) fn written(&mut self, write: WriteId, content: StoreWrite) {
        let is_repeated = self.failed.remove(&write);
        assert!(
            self.seen.insert(write) != is_repeated,
            "a write is repeated only where it failed"
        );
        match &content {
            StoreWrite::Accept { .. } | StoreWrite::RememberActions { .. } => {}
            StoreWrite::Start { execution_id, .. } => {
                assert!(
                    self.accepted.contains_key(execution_id),
                    "accepted before it starts"
                );
            }
            StoreWrite::Settle { settlement, .. } => {
                let id = settlement.result.execution_id;
                assert!(self.accepted.contains_key(&id), "accepted before it is settled");
                assert!(!self.settled.contains(&id), "settled once");
            }
        }
        self.open.push_back((write, content));
    }

    pub(crate) fn oldest(&mut self) -> Option<(WriteId, StoreWrite)> {
        self.open.pop_front()
    }

    /// The write of a new execution is not repeated: nobody was told of it.
    pub(crate) fn failed(&mut self, write: WriteId, content: &StoreWrite) {
        if matches!(content, StoreWrite::Start { .. } | StoreWrite::Settle { .. }) {
            self.failed.insert(write);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.failed.is_empty()
    }

    /// What a store says to a write.
    pub(crate) fn apply(&mut self, content: &StoreWrite) -> WriteOutcome {
        match content {
            StoreWrite::Accept {
                execution_id,
                request,
                started_at,
                ..
            } => {
                if let Some(digest) = self.accepted.get(execution_id) {
                    return WriteOutcome::Conflict(WriteConflict::ExecutionIdUsed {
                        request_digest: *digest,
                    });
                }
                if let Some(other) = self.plans.get(&request.plan().id()) {
                    return WriteOutcome::Conflict(WriteConflict::PlanIdUsed { execution_id: *other });
                }
                self.accepted.insert(*execution_id, *request.digest());
                self.plans.insert(request.plan().id(), *execution_id);
                if started_at.is_some() {
                    self.started.insert(*execution_id);
                }
            }
            StoreWrite::Start { execution_id, .. } => {
                assert!(self.started.insert(*execution_id), "an execution starts once");
            }
            StoreWrite::Settle { settlement, .. } => {
                let is_first = self.settled.insert(settlement.result.execution_id);
                assert!(is_first, "an execution is settled once");
                self.n_successes += usize::from(settlement.result.error.is_none());
            }
            StoreWrite::RememberActions { .. } => {}
        }
        WriteOutcome::Durable
    }

    pub(crate) fn is_settled(&self, id: ExecutionId) -> bool {
        self.settled.contains(&id)
    }

    #[cfg(test)]
    pub(crate) fn n_settled(&self) -> usize {
        self.settled.len()
    }

    #[cfg(test)]
    pub(crate) fn n_successes(&self) -> usize {
        self.n_successes
    }

    pub(crate) fn check_end(&self) {
        assert!(
            self.accepted.keys().eq(self.settled.iter()),
            "what was accepted is settled"
        );
    }
}

/// What a caller may be answered.
#[derive(Clone, Copy, PartialEq)]
enum Wants {
    Accepted,
    Settled,
    Description,
    Explanation,
    /// The next entry of its watch, once it is told that it watches.
    Watch(u64),
    Workers,
    Actions,
    Acks(usize),
    Drained,
    Dead,
}

/// Calls that were made.
#[derive(Default)]
pub(crate) struct Callers {
    last: u64,
    open: BTreeMap<CallerId, Wants>,
    /// Who was told that it watches, with the next entry.
    /// Who does not wait any more; a word to it may still be on its way.
    gone: BTreeSet<CallerId>,
}

impl Callers {
    fn next<A>(&mut self, wants: Wants) -> Caller<A> {
        self.last += 1;
        self.open.insert(CallerId(self.last), wants);
        CallerId(self.last).into()
    }

    /// For whoever looks without being part of the run.
    pub(crate) fn observer<A>(&mut self) -> Caller<A> {
        self.last += 1;
        CallerId(self.last).into()
    }

    pub(crate) fn submit(&mut self, source: &mut Source<'_>) -> Input {
        let byte = source.byte();
        let submitter = if byte >= 128 {
            Submitter::ForAccept(self.next(Wants::Accepted))
        } else {
            Submitter::ForEnd(self.next(Wants::Settled))
        };
        let mut random = [0xee; 16];
        random[..8].copy_from_slice(&submitter.id().0.to_be_bytes());
        Input::Submit(Submission {
            namespace: NamespaceKey::default(),
            submitter,
            request: plan(byte % PLANS),
            fresh_id: ExecutionId::from_random(random),
            may_nest: true,
            until_decided: UntilDecided::default(),
        })
    }

    pub(crate) fn ask(&mut self, source: &mut Source<'_>) -> Input {
        let execution_id = seeds::id(3, source.byte() % 5).parse().expect("it is one");
        let byte = source.byte();
        match byte % 5 {
            0 => Input::Wait {
                caller: self.next(Wants::Settled),
                execution_id,
            },
            1 if byte >= 128 => Input::Explain {
                caller: self.next(Wants::Explanation),
                execution_id,
            },
            1 => Input::Describe {
                caller: self.next(Wants::Description),
                execution_id,
            },
            2 => {
                let from_sequence = u64::from(source.byte() % 40);
                Input::Watch(Watch {
                    caller: self.next(Wants::Watch(from_sequence.max(1))),
                    execution_id,
                    from_sequence,
                    after_hash: None,
                    piece: Piece {
                        entries_max: 1 + usize::from(source.byte() % 4),
                        bytes_max: 1 << 10,
                    },
                    waits: source.byte().is_multiple_of(2),
                })
            }
            3 => Input::ListWorkers(self.next(Wants::Workers)),
            _ => Input::ListActions(self.next(Wants::Actions)),
        }
    }

    pub(crate) fn report(&mut self, items: Vec<(AttemptToken, AttemptReport)>) -> Input {
        let caller = self.next(Wants::Acks(items.len()));
        Input::ReportOutcomes { caller, items }
    }

    pub(crate) fn operate(&mut self, source: &mut Source<'_>) -> Input {
        let byte = source.byte();
        let instance_id = InstanceId::new([byte % 4; 16]);
        match byte / 4 % 4 {
            0 => Input::DeclareWorkerDead {
                caller: self.next(Wants::Dead),
                instance_id,
            },
            1 => Input::DrainWorker {
                caller: self.next(Wants::Drained),
                worker: WorkerSelector::WorkerId("worker".into()),
            },
            _ => Input::DrainWorker {
                caller: self.next(Wants::Drained),
                worker: WorkerSelector::Instance(instance_id),
            },
        }
    }

    /// One of those that wait, or watch, goes away.
    pub(crate) fn leave(&mut self, source: &mut Source<'_>) -> Option<Input> {
        let waiting: Vec<CallerId> = self.open.keys().copied().collect();
        let caller = *waiting.get(source.below(8))?;
        self.open.remove(&caller);
        self.gone.insert(caller);
        Some(Input::CallerGone(caller))
    }

    pub(crate) fn answered(&mut self, caller: CallerId, reply: &Reply, disk: &Disk) {
        if self.gone.contains(&caller) {
            return;
        }
        let wants = self.open.remove(&caller).expect("each call is answered once");
        let is_fitting = match (wants, reply) {
            (Wants::Accepted, Reply::Submitted(Submitted::Accepted(view)))
            | (Wants::Description, Reply::Described(Some(view))) => {
                disk.accepted.contains_key(&view.execution_id)
            }
            (Wants::Explanation, Reply::Explained(ExplainAnswer::Live(explained))) => {
                let plan = explained.request.plan();
                let steps = explained.explanation.steps.iter();
                steps
                    .map(|facts| (facts.describe(plan), facts.rules()))
                    .all(|(words, rules)| !words.is_empty() && !rules.is_empty())
                    && disk.accepted.contains_key(&explained.execution_id)
            }
            (Wants::Settled, Reply::Ended(Ended::Settled(persisted)))
            | (Wants::Watch(_), Reply::Watched(Watched::Settled(persisted))) => {
                disk.is_settled(persisted.result.execution_id)
            }
            (Wants::Accepted, Reply::Submitted(Submitted::Refused(_) | Submitted::NotLive))
            | (Wants::Settled, Reply::Ended(Ended::Refused(_) | Ended::NotLive))
            | (Wants::Description, Reply::Described(None))
            | (Wants::Watch(_), Reply::Watched(Watched::NotLive))
            | (Wants::Explanation, Reply::Explained(ExplainAnswer::Parked(_) | ExplainAnswer::NotLive))
            | (Wants::Workers, Reply::Workers(_))
            | (Wants::Actions, Reply::Actions(_))
            | (Wants::Drained, Reply::WorkersDrain(_))
            | (Wants::Dead, Reply::DeclaredDead(_)) => true,
            (Wants::Watch(next), Reply::Watched(Watched::Entries(entries, _))) => entries
                .iter()
                .zip(next..)
                .all(|(entry, sequence)| entry.sequence == sequence),
            (Wants::Acks(n_items), Reply::OutcomeAcks(acks)) => acks.len() == n_items,
            _ => false,
        };
        assert!(is_fitting, "{reply:?} is no answer, or none that may be told now");
    }

    pub(crate) fn check_end(&self) {
        assert!(
            self.open.is_empty(),
            "every call is answered: {} are not",
            self.open.len()
        );
    }
}
