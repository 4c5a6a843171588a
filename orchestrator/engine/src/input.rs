//! Everything that can happen to an engine. Carries no channel and no clock.

use crate::answer::{
    ActionView, AttemptStanding, Caller, Ended, ExecutionView, ExplainAnswer, ForgetAnswer, Losses,
    Submitted, Watched, WorkerView, WorkersDrain,
};
use crate::keys::{CallerId, NamespaceKey, SessionKey, WriteId};
use crate::stored::{ActionMemory, LoadOutcome, Recovered, RecoveredParked, WriteOutcome};
use crate::worker::{AckVerdict, AttemptReport, FromWorker};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use escapement_contract::Request;
use escapement_model::planted::{self, Bug};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, SessionId};

/// An input. Inputs are handled one at a time, in the order in which they arrive.
#[derive(Clone, Debug)]
pub enum Input {
    /// What namespaces may take from now on: these, each once; every other has weight 1 and no limits of its own.
    /// Nothing that was accepted is lost, and nothing that runs is stopped.
    ShareOut(Vec<NamespaceShare>),
    /// A caller hands in a plan.
    Submit(Submission),
    /// A caller wants to know when an execution is settled.
    Wait {
        /// Who.
        caller: Caller<Ended>,
        /// Which.
        execution_id: ExecutionId,
    },
    /// A caller wants to know how an execution stands now.
    Describe {
        /// Who.
        caller: Caller<Option<ExecutionView>>,
        /// Which.
        execution_id: ExecutionId,
    },
    /// A caller wants to know why an execution and its steps are in their states.
    Explain {
        /// Who.
        caller: Caller<ExplainAnswer>,
        /// Which.
        execution_id: ExecutionId,
    },
    /// A caller wants a piece of the record of an execution.
    Watch(Watch),
    /// A caller does not wait any more. Changes no execution.
    CallerGone(CallerId),
    /// An operator asks for the workers.
    ListWorkers(Caller<Vec<WorkerView>>),
    /// An operator asks for the actions.
    ListActions(Caller<Vec<ActionView>>),
    /// Whose these tokens are, in their order.
    FindAttempts {
        /// Who.
        caller: Caller<Vec<AttemptStanding>>,
        /// The tokens.
        tokens: Vec<AttemptToken>,
    },
    /// Outcomes that come without a session. Answered item by item.
    ReportOutcomes {
        /// Who.
        caller: Caller<Vec<(AttemptToken, AckVerdict)>>,
        /// Attempts that ended.
        items: Vec<(AttemptToken, AttemptReport)>,
    },
    /// An operator takes workers out of service.
    DrainWorker {
        /// Who.
        caller: Caller<Option<WorkersDrain>>,
        /// Which.
        worker: WorkerSelector,
    },
    /// An operator ends the memory of an action.
    ForgetAction {
        /// Who.
        caller: Caller<ForgetAnswer>,
        /// Name.
        name: String,
    },
    /// An operator says that a worker process is gone.
    DeclareWorkerDead {
        /// Who.
        caller: Caller<Option<Losses>>,
        /// Which.
        instance_id: InstanceId,
    },
    /// An action that the store remembers; only before anything else.
    RecoverAction(ActionMemory),
    /// An execution that the store holds unsettled; only before anything but the actions, oldest first.
    Recover(Recovered),
    /// A queued execution that the store holds and whose request is not wanted yet; behind all others, oldest first.
    RecoverParked(RecoveredParked),
    /// What came of [`Effect::Load`](crate::Effect::Load).
    Loaded {
        /// Which.
        execution_id: ExecutionId,
        /// How it went.
        outcome: LoadOutcome,
    },
    /// A write is durable, or failed.
    Stored {
        /// Which.
        write: WriteId,
        /// How it went.
        outcome: WriteOutcome,
    },
    /// A worker opened a stream.
    SessionOpened {
        /// Which.
        session: SessionKey,
        /// Random, for this session.
        session_id: SessionId,
    },
    /// A worker said something.
    SessionMessage {
        /// Which.
        session: SessionKey,
        /// Its number on the stream.
        seq: u64,
        /// What.
        message: FromWorker,
    },
    /// A stream ended, for whatever reason. Says nothing about the worker's health.
    SessionClosed(SessionKey),
    /// Time has passed.
    Tick,
    /// The operator wants the orchestrator to stop.
    Drain {
        /// Milliseconds that running executions get.
        grace_ms: u64,
    },
}

/// A question for a piece of a record.
///
/// Answered once; a caller that wants more asks again from the next entry on.
/// After `NotLive` and `Settled` the store has the whole record.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Who.
    pub caller: Caller<Watched>,
    /// Which.
    pub execution_id: ExecutionId,
    /// The first entry wanted; 0 counts as 1.
    pub from_sequence: u64,
    /// The hash of the entry before it, if the caller has seen that one.
    pub after_hash: Option<[u8; 32]>,
    /// How much at most.
    pub piece: Piece,
    /// If there is no such entry yet: wait for it, or for the end. Otherwise the answer has none.
    pub waits: bool,
}

/// How much of a record is given at a time. One entry is, however large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Entries.
    pub entries_max: usize,
    /// About as many bytes; the entry that goes beyond is the last.
    pub bytes_max: usize,
}

/// Which workers an operator means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerSelector {
    /// A process.
    Instance(InstanceId),
    /// All that have this label and a session now.
    WorkerId(Arc<str>),
}

/// What one namespace may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceShare {
    /// Which.
    pub namespace: NamespaceKey,
    /// Share of the starts while others wait too, 1 to 1000.
    pub weight: u32,
    /// Executions of it that are accepted and not settled, at a time, nested ones counted. `None`: the engine's limit.
    pub max_live_executions: Option<u32>,
    /// Executions of it that run at a time, nested ones not counted. `None`: the engine's limit.
    pub max_running_executions: Option<u32>,
}

impl NamespaceShare {
    /// What a namespace has of which nothing is said.
    pub fn of(namespace: NamespaceKey) -> Self {
        Self {
            namespace,
            weight: 1,
            max_live_executions: None,
            max_running_executions: None,
        }
    }

    //
    /// How many more may run.
    pub(crate) fn running_room(self, n_running: usize) -> usize {
        let max = self.max_running_executions.map_or(usize::MAX, |max| max as usize);
        let max = match planted::is_on(Bug::NamespaceQuotaOffByOne) {
            true => max.saturating_add(1),
            false => max,
        };
        max.saturating_sub(n_running)
    }
}

/// A plan that a caller hands in.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Whose share it takes.
    pub namespace: NamespaceKey,
    /// Who, and what the caller wants to hear.
    pub submitter: Submitter,
    /// What, validated.
    pub request: Arc<Request>,
    /// The execution id to use if the caller gave none; random.
    pub fresh_id: ExecutionId,
    /// False if its caller may not know of the parent that it names: then that is a note.
    pub may_nest: bool,
    /// What the shell holds for it until it is decided whether it is accepted.
    pub until_decided: UntilDecided,
}

/// Something of the shell's that the engine drops once it is decided whether a submission is accepted,
/// even if no caller waits any more. The engine never looks into it.
#[derive(Clone, Debug, Default)]
pub struct UntilDecided(
    #[expect(dead_code, reason = "given back on drop")] Option<Arc<dyn Debug + Send + Sync>>,
);

impl UntilDecided {
    /// Holds a value.
    pub fn hold(value: impl Debug + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(value)))
    }
}

/// A caller that hands a plan in, by what it waits for.
#[derive(Clone, Copy, Debug)]
pub enum Submitter {
    /// For the accept to be durable.
    ForAccept(Caller<Submitted>),
    /// For the result to be durable.
    ForEnd(Caller<Ended>),
}

impl Submitter {
    /// Its number.
    pub fn id(self) -> CallerId {
        match self {
            Self::ForAccept(caller) => caller.id,
            Self::ForEnd(caller) => caller.id,
        }
    }
}
