//! Everything that an engine wants done. Does none of it.

use crate::input::{ActionMemory, CallerId, SessionKey, WriteId};
use crate::worker::{AckVerdict, ToWorker};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_contract::{
    AuditEntry, Evidence, ExecutionFacts, Explanation, Persisted, Progress, Request, Settlement,
};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, SessionId};

/// One thing to do. The shell carries effects out in the order in which it gets them.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Write to the store and report back with `Input::Stored`. Writes MUST be applied in this order.
    Write {
        /// Comes back with the outcome.
        write: WriteId,
        /// What.
        content: StoreWrite,
    },
    /// Read the request of a queued execution and report back with `Input::Loaded`.
    Load {
        /// Which.
        execution_id: ExecutionId,
    },
    /// Answer a call. Each caller gets one.
    Reply {
        /// Who.
        caller: CallerId,
        /// What.
        reply: Reply,
    },
    /// Send a message to a worker. None is larger than `limits::SESSION_MESSAGE_BYTES_MAX` on the wire.
    Send {
        /// On which stream.
        session: SessionKey,
        /// Its number on the stream: 1, 2, 3, ...
        seq: u64,
        /// What.
        message: ToWorker,
    },
    /// End a stream once what was sent is written.
    CloseSession(SessionKey),
    /// Tell the event sinks; best effort, never waits.
    EmitEvent(Persisted),
    /// Tell the error handler, if there is one; best effort, never waits.
    NotifyErrorHandler(Persisted),
    /// A worker is gone for good, and with it what it had. For the log.
    WorkerLost {
        /// Its label.
        worker_id: Arc<str>,
        /// How it is known.
        evidence: Evidence,
        /// Attempts that had started.
        n_lost: u32,
        /// Attempts that had not, and wait for another worker.
        n_returned: u32,
    },
    /// Tell the operator, in the log.
    Note(Notice),
    /// The drain is over: the process may exit.
    Drained {
        /// Executions that still run when the grace is over; the restart settles them.
        n_unfinished: usize,
    },
    /// A record could not be written within bounds, and not for want of space: stop acknowledging and exit;
    /// the restart settles what is open.
    GiveUp {
        /// How many writes of it failed.
        attempts: u32,
    },
}

/// One write.
#[derive(Clone, Debug)]
pub enum StoreWrite {
    /// A new execution.
    Accept {
        /// Its id.
        execution_id: ExecutionId,
        /// What was asked.
        request: Arc<Request>,
        /// Unix milliseconds.
        accepted_at: i64,
        /// Unix milliseconds.
        deadline_ms: i64,
        /// Unix milliseconds; present where it starts at once.
        started_at: Option<i64>,
    },
    /// An execution left the queue.
    Start {
        /// Which.
        execution_id: ExecutionId,
        /// Unix milliseconds.
        started_at: i64,
    },
    /// An execution ended.
    Settle {
        /// Result and record.
        settlement: Arc<Settlement>,
    },
    /// What is known of actions whose workers may be away. Losing it harms no execution that was accepted.
    RememberActions {
        /// Each name once; at most 1,024.
        memories: Vec<ActionMemory>,
    },
}

/// What operators should know though no call asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Executions begin to be held back, because no live worker offers the action.
    HeldBack {
        /// Its name.
        action: Arc<str>,
    },
    /// A worker offers an action again for which executions were held back.
    Offered {
        /// Its name.
        action: Arc<str>,
    },
    /// Steps ended with `ACTION_NOT_FOUND`.
    NotFound {
        /// The name of their action.
        action: Arc<str>,
        /// How many since that was said last.
        n_steps: u64,
    },
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The execution is accepted; this is how it stands.
    Accepted(ExecutionView),
    /// How an execution stands.
    Described(ExecutionView),
    /// Why a live execution and its steps stand where they do.
    Explained(Box<Explained>),
    /// Why an execution waits whose request stands in the store alone.
    ExplainedParked(ExplainedParked),
    /// The execution ended.
    Settled(Persisted),
    /// The store alone says how it stands: it is settled, it is queued and not in memory, or it was never accepted.
    NotLive,
    /// The entry before the first one wanted is not there, or has another hash: what the caller saw was not durable, and a
    /// crash took it back.
    Rewritten,
    /// The request is not accepted.
    Refused(Refusal),
    /// The workers, by worker id.
    Workers(Vec<WorkerView>),
    /// These workers get no new work any more.
    WorkersDrain {
        /// By worker id.
        workers: Vec<WorkerView>,
        /// Names of actions of theirs that no other live worker offers, sorted.
        actions_without_worker: Vec<Arc<str>>,
    },
    /// The actions, by name.
    Actions(Vec<ActionView>),
    /// A piece of the record, in order, without gaps; shared by all who wait for the same.
    Entries(Arc<[AuditEntry]>, IsAll),
    /// What became of outcomes that came without a session, in their order.
    OutcomeAcks(Vec<(AttemptToken, AckVerdict)>),
    /// No session has this instance id or worker id.
    NoSuchWorker,
    /// The action is registered no more, unless a worker offers it again.
    ActionForgotten {
        /// It was registered.
        was_known: bool,
        /// Queued executions that would have begun with it, and fail with `ACTION_NOT_FOUND` in their turn.
        n_queued: usize,
    },
    /// A live worker offers the action, or the operator declares it: forgetting it would have no effect.
    ActionInUse,
    /// The worker's attempts are settled.
    DeclaredDead {
        /// Attempts that had started.
        n_lost: u32,
        /// Attempts that had not, and wait for another worker.
        n_returned: u32,
    },
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The execution id is in use for another request.
    ExecutionIdUsed,
    /// The plan id was accepted under another execution id.
    PlanIdUsed {
        /// That one.
        execution_id: ExecutionId,
    },
    /// Too many executions are accepted and not settled.
    QueueFull,
    /// Plans execute plans deeper than the limit.
    NestedTooDeep,
    /// The parent has as many live children as steps with workers.
    TooManyChildren,
    /// The orchestrator stops.
    Draining,
    /// The store has no space, or what waits for space comes first. Nothing was written.
    StoreFull,
    /// The store could not take the record; whether it did is not known until it is asked for.
    StoreFailed,
}

/// How a live execution stands.
#[derive(Clone, Debug)]
pub struct ExecutionView {
    /// Its id.
    pub execution_id: ExecutionId,
    /// What was asked.
    pub request: Arc<Request>,
    /// Unix milliseconds.
    pub accepted_at: i64,
    /// Unix milliseconds; absent while queued.
    pub started_at: Option<i64>,
    /// Unix milliseconds.
    pub deadline_ms: i64,
    /// Counts of steps.
    pub progress: Progress,
}

/// Why a live execution and its steps stand where they do.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Which.
    pub execution_id: ExecutionId,
    /// What was asked.
    pub request: Arc<Request>,
    /// Its start is durable.
    pub has_started: bool,
    /// Unix milliseconds of the moment that is explained.
    pub at_unix_ms: i64,
    /// The facts.
    pub explanation: Explanation,
}

/// Why an execution waits whose request stands in the store alone. All its steps wait for its start.
#[derive(Clone, Debug)]
pub struct ExplainedParked {
    /// Unix milliseconds of the moment that is explained.
    pub at_unix_ms: i64,
    /// The facts.
    pub execution: ExecutionFacts,
}

/// True if a piece of a record ends with the last entry that may be seen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsAll(pub bool);

/// What a session may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Takes work.
    Active,
    /// Its stream broke.
    Suspect,
    /// Finishes what it has.
    Draining,
}

/// One worker session.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// The worker's label.
    pub worker_id: Arc<str>,
    /// One process lifetime.
    pub instance_id: InstanceId,
    /// One stream.
    pub session_id: SessionId,
    /// What it may do.
    pub state: SessionState,
    /// Credits.
    pub max_in_flight: u32,
    /// Attempts that it has.
    pub in_flight: u32,
    /// Names, sorted.
    pub actions: Vec<Arc<str>>,
    /// For people.
    pub labels: BTreeMap<String, String>,
    /// Its software.
    pub build: String,
    /// Milliseconds since its last heartbeat.
    pub heartbeat_age_ms: u64,
    /// Milliseconds since it began.
    pub session_age_ms: u64,
    /// Attempts among these that it was told to stop and still has.
    pub stopping: u32,
    /// Milliseconds since the oldest of them was told; 0 for none.
    pub stopping_age_ms: u64,
}

/// One action and who offers it.
#[derive(Clone, Debug)]
pub struct ActionView {
    /// Its name.
    pub name: Arc<str>,
    /// As a worker described it.
    pub description: Arc<str>,
    /// JSON Schema, or empty.
    pub input_schema: Arc<str>,
    /// Active sessions that offer it.
    pub workers: u32,
    /// Attempts that could start now.
    pub free_slots: u32,
    /// Attempts that run.
    pub in_flight: u32,
    /// Steps that wait for a worker.
    pub waiting: u32,
    /// The operator declares it.
    pub is_declared: bool,
    /// For how many milliseconds it stays registered if no worker offers it meanwhile; `None` if one does, or if it is
    /// declared.
    pub registered_for_ms: Option<u64>,
}
