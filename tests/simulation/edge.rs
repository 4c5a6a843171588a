//! What the edge of the orchestrator does with a caller's question: the engine first, and the store where the engine
//! says that it does not have it. Decides nothing itself.

use crate::callers::{Asked, CallNumber, Question, Told};
use crate::orchestrator::Call;
use crate::shares;
use crate::world::{Happening, World};
use escapement_codec::execution;
use escapement_codec::namespaces;
use escapement_codec::stored;
use escapement_contract::Persisted;
use escapement_engine::{
    Ended, ExecutionView, Input, LoadOutcome, Refusal, Reply, Submission, Submitted, Submitter, UntilDecided,
};
use escapement_host::recovery;
use escapement_model::ExecutionId;
use escapement_store::{ListFilter, StoredExecution, StoredState, StoredSummary};
use escapement_tests::history::{State, hash_of_result};
use std::sync::Arc;

/// What the edge reads from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Execution(ExecutionId),
    Result(ExecutionId),
    /// Entries, from this one on. `ends`: with the result behind the last one.
    Record {
        id: ExecutionId,
        from: u64,
        after: Option<[u8; 32]>,
        ends: bool,
    },
    /// From this number down; what was read so far is with the call.
    List {
        before: Option<u64>,
        page: usize,
    },
}

impl World {
    /// A question has come to the orchestrator's machine.
    pub(crate) fn question_arrives(&mut self, call: CallNumber) {
        let Some(Asked { question, boot, .. }) = self.calls.get(&call) else {
            return;
        };
        let (question, boot) = (*question, *boot);
        let frozen_until_ms = self.orchestrator_frozen_until_ms();
        if frozen_until_ms > self.now_ms {
            return self.plan(frozen_until_ms - self.now_ms, Happening::QuestionArrives { call });
        }
        // Its connection goes to one process, and ends with it.
        let process = self.orchestrator.as_mut();
        let Some(process) = process.filter(|process| process.boot == boot) else {
            return self.tell(call, Told::Broken);
        };
        let about = Call::Asked(call, question);
        match question {
            Question::Submit { job, waits } => {
                let request = Arc::clone(&self.jobs[job].request);
                let fresh_id = self.jobs[job].id;
                let namespace = namespaces::key(&shares::namespace(self.jobs[job].namespace));
                let submission = |submitter| {
                    Input::Submit(Submission {
                        namespace,
                        submitter,
                        request,
                        fresh_id,
                        may_nest: true,
                        until_decided: UntilDecided::default(),
                    })
                };
                if waits {
                    process.call(about, |caller| submission(Submitter::ForEnd(caller)));
                } else {
                    process.call(about, |caller| submission(Submitter::ForAccept(caller)));
                }
            }
            Question::Get(execution_id) => {
                process.call(about, |caller| Input::Describe { caller, execution_id })
            }
            Question::Wait { id, timeout_ms: 0 } => self.describe(call, id),
            Question::Wait { id, timeout_ms } => {
                process.call(about, |caller| Input::Wait {
                    caller,
                    execution_id: id,
                });
                self.plan(timeout_ms, Happening::WaitIsOver { boot, call });
            }
            Question::Audit(_) | Question::Watch { .. } => self.ask_for_entries(call, question),
            Question::List { page } => self.read_soon(call, Read::List { before: None, page }),
        }
    }

    fn describe(&mut self, call: CallNumber, execution_id: ExecutionId) {
        if let Some(process) = &mut self.orchestrator {
            let about = Call::Asked(call, Question::Get(execution_id));
            process.call(about, |caller| Input::Describe { caller, execution_id });
        }
    }

    /// The time that a caller wanted to wait is over: it is told how things stand.
    pub(crate) fn wait_is_over(&mut self, boot: u64, call: CallNumber) {
        if let Some(id) = self.leave(Some(boot), call) {
            self.describe(call, id);
        }
    }

    /// Its connection ends: the engine forgets it.
    pub(crate) fn caller_leaves(&mut self, call: CallNumber) {
        self.leave(None, call);
    }

    /// Takes a call from the engine, where that has it. Says what it was about.
    fn leave(&mut self, boot: Option<u64>, call: CallNumber) -> Option<ExecutionId> {
        let process = self.orchestrator.as_mut()?;
        if boot.is_some_and(|boot| boot != process.boot) {
            return None;
        }
        let left = process.leave(|about| matches!(about, Call::Asked(other, _) if *other == call));
        left.into_iter().find_map(|about| match about {
            Call::Asked(_, Question::Wait { id, .. }) => Some(id),
            _ => None,
        })
    }

    /// The engine answers a question, or a part of it.
    pub(crate) fn answered(&mut self, call: CallNumber, question: Question, reply: Reply) {
        match (question, reply) {
            (Question::Submit { job, .. }, Reply::Submitted(Submitted::Accepted(view))) => {
                let id = view.execution_id;
                assert_eq!(id, self.jobs[job].id);
                assert!(
                    self.storage.is_accepted(id) || self.is_in_store(id),
                    "{id} is told to be accepted before it is durable"
                );
                // Whoever watches it keeps it in memory, so that what waits is looked at when it runs.
                if view.started_at.is_some() || self.dice.percent(30) {
                    self.process().follow(id);
                }
                self.tell(call, Told::State(live_state(&view)));
            }
            (Question::Get(_), Reply::Described(Some(view))) => {
                self.tell(call, Told::State(live_state(&view)))
            }
            (Question::Submit { waits: true, .. }, Reply::Ended(Ended::Settled(settled))) => {
                self.check_settled(&settled);
                self.tally().count("results told");
                let result = hash_of_result(&execution::result(&settled.result));
                self.tell(call, Told::State(State::Settled { result }));
            }
            (Question::Wait { id, .. }, Reply::Ended(Ended::Settled(_) | Ended::NotLive)) => {
                self.describe(call, id)
            }
            (
                Question::Submit { job, waits },
                Reply::Submitted(Submitted::NotLive) | Reply::Ended(Ended::NotLive),
            ) => {
                let id = self.jobs[job].id;
                let read = if waits {
                    Read::Result(id)
                } else {
                    Read::Execution(id)
                };
                self.read_soon(call, read);
            }
            (Question::Get(id), Reply::Described(None)) => self.read_soon(call, Read::Execution(id)),
            (_, Reply::Submitted(Submitted::Refused(refusal)) | Reply::Ended(Ended::Refused(refusal))) => {
                let reason = reason(refusal);
                self.truth.tally.count(&format!("refused: {reason}"));
                self.tell(call, Told::Refused(reason));
            }
            (Question::Audit(_) | Question::Watch { .. }, Reply::Watched(reply)) => {
                self.entries_answered(call, question, reply)
            }
            (question, reply) => panic!("{question:?} is answered by {reply:?}"),
        }
    }

    pub(crate) fn check_settled(&self, settled: &Persisted) {
        let id = settled.result.execution_id;
        assert!(
            self.storage.is_settled(id),
            "{id} is told to have settled before it is durable"
        );
    }

    fn is_in_store(&self, id: ExecutionId) -> bool {
        let found = self.storage.reader().execution(id);
        found.expect("the store can be read").is_some()
    }

    // ---- reading the store ----

    /// Another thread reads, while everything else goes on.
    pub(crate) fn read_soon(&mut self, call: CallNumber, read: Read) {
        let Some(boot) = self.orchestrator.as_ref().map(|process| process.boot) else {
            return;
        };
        let after_ms = self.dice.roll(4);
        self.plan(after_ms, Happening::Reads { boot, call, read });
    }

    pub(crate) fn reads(&mut self, boot: u64, call: CallNumber, read: Read) {
        if self
            .orchestrator
            .as_ref()
            .is_none_or(|process| process.boot != boot)
        {
            return;
        }
        self.tally().count("reads of the store");
        let told = match read {
            Read::Execution(id) => match self.stored(id) {
                None => Told::Absent,
                Some(stored) => Told::State(stored_state(&stored)),
            },
            Read::Result(id) => match self.stored(id).map(|stored| stored_state(&stored)) {
                None => Told::Refused("EXECUTION_NOT_FOUND"),
                Some(settled @ State::Settled { .. }) => Told::State(settled),
                // As the edge says it of a write that is in doubt.
                Some(_) => Told::Refused("STORE_FAILED"),
            },
            Read::Record {
                id,
                from,
                after,
                ends,
            } => self.record(id, from, after, ends),
            Read::List { before, page } => return self.list_page(call, before, page),
        };
        self.tell(call, told);
    }

    /// Reads a request that the engine keeps in the store alone, for its turn.
    pub(crate) fn load(&mut self, boot: u64, execution_id: ExecutionId) {
        if self
            .orchestrator
            .as_ref()
            .is_none_or(|process| process.boot != boot)
        {
            return;
        }
        self.tally().count("requests loaded");
        let outcome = if self.is_stormy && self.dice.percent(5) {
            LoadOutcome::Failed
        } else {
            recovery::load(self.storage.reader(), execution_id)
        };
        self.process().batch.loaded.push((execution_id, outcome));
    }

    pub(crate) fn stored(&self, id: ExecutionId) -> Option<StoredExecution> {
        let found = self.storage.reader().execution(id);
        found.expect("the store can be read")
    }

    /// One page after another, each at a time of its own, as a caller asks for them.
    fn list_page(&mut self, call: CallNumber, before: Option<u64>, page: usize) {
        let summaries = self.storage.reader().list(&ListFilter::default(), before, page);
        let summaries = summaries.expect("the store can be read");
        let listed: Vec<_> = summaries.iter().map(listed_state).collect();
        let Some(asked) = self.calls.get_mut(&call) else {
            return;
        };
        asked.listed.extend(listed);
        match summaries.last() {
            Some(last) => {
                let before = Some(last.number);
                self.read_soon(call, Read::List { before, page });
            }
            None => {
                let listed = std::mem::take(&mut asked.listed);
                self.tell(call, Told::Listed(listed));
            }
        }
    }
}

/// Lists show how far an execution is, not how it ended.
fn listed_state(summary: &StoredSummary) -> (ExecutionId, State) {
    let id = summary.execution_id;
    let state = match (summary.state, summary.started_at) {
        (StoredState::Settled, _) => State::Ended,
        (StoredState::Running, Some(started_at)) => State::Running { started_at },
        (StoredState::Queued, _) => State::Queued,
        (StoredState::Running, None) => panic!("{id} runs and was not started"),
    };
    (id, state)
}

/// How a live execution stands.
fn live_state(view: &ExecutionView) -> State {
    match view.started_at {
        None => State::Queued,
        Some(started_at) => State::Running { started_at },
    }
}

/// How an execution stands in the store.
pub(crate) fn stored_state(stored: &StoredExecution) -> State {
    let id = stored.summary.execution_id;
    match (&stored.result, stored.summary.started_at) {
        (Some(record), _) => {
            let result = stored::decode_result(record).expect("a result can be read");
            assert_eq!(
                result.execution_id,
                id.to_string(),
                "a result is that of its execution"
            );
            State::Settled {
                result: hash_of_result(&result),
            }
        }
        (None, Some(started_at)) => State::Running { started_at },
        (None, None) => State::Queued,
    }
}

/// Returns the reason that a caller reads.
fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::ExecutionIdUsed => "EXECUTION_ID_IN_USE",
        Refusal::PlanIdUsed { .. } => "PLAN_ID_USED",
        Refusal::QueueFull => "QUEUE_FULL",
        Refusal::NamespaceQuota { .. } => "NAMESPACE_QUOTA",
        Refusal::NestedTooDeep => "NESTED_TOO_DEEP",
        Refusal::TooManyChildren => "TOO_MANY_CHILDREN",
        Refusal::Draining => "DRAINING",
        Refusal::StoreFull => "STORE_FULL",
        Refusal::StoreFailed => "STORE_FAILED",
    }
}
