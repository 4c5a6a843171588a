//! What callers are told. Each question has a type of answer, and a caller names it: no other answer reaches it.
//! Decides none of them.

use crate::durable::DurableAccept;
use crate::keys::CallerId;
use crate::worker::AckVerdict;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::marker::PhantomData;
use escapement_contract::{AuditEntry, ExecutionFacts, Explanation, Persisted, Progress, Request};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, SessionId};

/// A call that waits for an `A`.
pub struct Caller<A> {
    /// Number.
    pub id: CallerId,
    answer: PhantomData<fn() -> A>,
}

impl<A> From<CallerId> for Caller<A> {
    fn from(id: CallerId) -> Self {
        let answer = PhantomData;
        Self { id, answer }
    }
}

impl<A> Clone for Caller<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Caller<A> {}

impl<A> fmt::Debug for Caller<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// What answers one kind of question.
pub trait Answer: Sized {
    /// Puts it among all answers.
    fn into_reply(self) -> Reply;

    /// Returns the answer in a reply, `None` if the reply is to another kind of question.
    fn from_reply(reply: Reply) -> Option<Self>;
}

macro_rules! replies {
    ($($(#[$doc:meta])* $variant:ident($answer:ty),)+) => {
        /// The answer to a call.
        #[derive(Clone, Debug)]
        pub enum Reply {
            $($(#[$doc])* $variant($answer),)+
        }

        $(impl Answer for $answer {
            fn into_reply(self) -> Reply {
                Reply::$variant(self)
            }

            fn from_reply(reply: Reply) -> Option<Self> {
                match reply {
                    Reply::$variant(answer) => Some(answer),
                    _ => None,
                }
            }
        })+
    };
}

replies! {
    /// To a plan that is handed in, by a caller who waits for its accept.
    Submitted(Submitted),
    /// To a plan that is handed in, or a question about one, by a caller who waits for its end.
    Ended(Ended),
    /// How an execution stands; `None` if the store alone says.
    Described(Option<ExecutionView>),
    /// Reason why an execution and its steps are in their states.
    Explained(ExplainAnswer),
    /// A piece of the record of an execution.
    Watched(Watched),
    /// The workers, by worker id.
    Workers(Vec<WorkerView>),
    /// The actions, by name.
    Actions(Vec<ActionView>),
    /// Whose tokens are, in their order.
    Attempts(Vec<AttemptStanding>),
    /// What became of outcomes that came without a session, in their order.
    OutcomeAcks(Vec<(AttemptToken, AckVerdict)>),
    /// Workers are out of service; `None` if no session has this instance id or worker id.
    WorkersDrain(Option<WorkersDrain>),
    /// A worker's attempts are settled; `None` if no session has this instance id.
    DeclaredDead(Option<Losses>),
    /// What came of the wish that an action be forgotten.
    ActionForgotten(ForgetAnswer),
}

/// What comes of a plan that is handed in.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// The execution is accepted; this is how it stands.
    Accepted(ExecutionView),
    /// The execution was accepted before, and the store alone says how it stands.
    NotLive,
    /// The request is not accepted.
    Refused(Refusal),
}

/// What comes of waiting for the end of an execution.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The execution ended.
    Settled(Persisted),
    /// The store alone says how it stands: it is settled, it is queued and not in memory, or it was never accepted.
    NotLive,
    /// The request is not accepted, or the store does not take the result.
    Refused(Refusal),
}

/// Reason why an execution and its steps are in their states.
#[derive(Clone, Debug)]
pub enum ExplainAnswer {
    /// It is live.
    Live(Box<Explained>),
    /// It waits, and its request is in the store alone.
    Parked(ExplainedParked),
    /// The store alone says.
    NotLive,
}

/// A piece of a record.
#[derive(Clone, Debug)]
pub enum Watched {
    /// In order, without gaps; shared by all who wait for the same.
    Entries(Arc<[AuditEntry]>, IsAll),
    /// The execution ended; the rest of its audit trail is in this and in the store.
    Settled(Persisted),
    /// The store alone has the record.
    NotLive,
    /// The entry before the first one wanted is not there, or has another hash: what the caller saw was not durable, and a
    /// crash took it back.
    Rewritten,
}

/// What is known of an attempt by its token.
#[derive(Clone, Debug)]
pub enum AttemptStanding {
    /// It is under way.
    UnderWay(AttemptHolder),
    /// It is over, and its worker, which is this process, has not said that it knows that.
    Over(InstanceId),
    /// It is over, and was released.
    Ended,
    /// No attempt of this process has the token, or had it lately.
    Unknown,
}

/// An attempt that is under way.
#[derive(Clone, Debug)]
pub struct AttemptHolder {
    /// The worker process that has it.
    pub instance_id: InstanceId,
    /// The execution whose step it carries out.
    pub execution_id: ExecutionId,
    /// What was accepted.
    pub request: Arc<Request>,
}

/// Workers that get no new work any more.
#[derive(Clone, Debug)]
pub struct WorkersDrain {
    /// By worker id.
    pub workers: Vec<WorkerView>,
    /// Names of actions of theirs that no other live worker offers, sorted.
    pub actions_without_worker: Vec<Arc<str>>,
}

/// What a worker that is gone had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Attempts that had started.
    pub n_lost: u32,
    /// Attempts that had not, and wait for another worker.
    pub n_returned: u32,
}

/// What comes of the wish that an action be forgotten: it is registered no more, unless a worker offers it again, and a restart does
/// not bring it back. `None` if a live worker offers it or the operator declares it, so that forgetting it would have no effect.
/// Refused if the store did not take it: it is forgotten in this process, and the write is tried again in a while.
pub type ForgetAnswer = Option<Result<ActionForgotten, Refusal>>;

/// An action that is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionForgotten {
    /// It was registered.
    pub was_known: bool,
    /// Queued executions that would have begun with it, and fail with `ACTION_NOT_FOUND` in their turn.
    pub n_queued: usize,
}

/// Reason why a request is not accepted.
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
    /// Too many executions of its namespace are accepted and not settled.
    NamespaceQuota {
        /// How many may be.
        max_live_executions: u32,
    },
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
    /// The proof that it may be shown.
    pub accept: DurableAccept,
    /// Id.
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

/// Reason why a live execution and its steps are in their states.
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

/// Reason why an execution waits whose request is in the store alone. All its steps wait for its start.
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
    /// Stream broke.
    Suspect,
    /// Finishes what it has.
    Draining,
}

/// A worker session.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// The worker's label.
    pub worker_id: Arc<str>,
    /// A process lifetime.
    pub instance_id: InstanceId,
    /// A stream.
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
    /// Software.
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

/// An action and who offers it.
#[derive(Clone, Debug)]
pub struct ActionView {
    /// Name.
    pub name: Arc<str>,
    /// As a worker described it.
    pub description: Arc<str>,
    /// JSON Schema, or empty.
    pub input_schema: Arc<str>,
    /// What workers say of its nature, each different saying once.
    pub traits: Vec<Bytes>,
    /// Active sessions that offer it.
    pub workers: u32,
    /// Attempts that could run at a time, if its workers did nothing else.
    pub slots: u32,
    /// Attempts that could start now.
    pub free_slots: u32,
    /// Attempts that run.
    pub in_flight: u32,
    /// Steps that wait for a worker.
    pub waiting: u32,
    /// Milliseconds since the first of these began to wait; 0 if there is none.
    pub oldest_wait_ms: u64,
    /// Executions that are held back in the queue, since no worker offers any action that they begin with; this is one of them.
    pub held_back: u32,
    /// The operator declares it.
    pub is_declared: bool,
    /// For how many milliseconds it stays registered if no worker offers it meanwhile; `None` if one does, or if it is
    /// declared.
    pub registered_for_ms: Option<u64>,
}

impl ActionView {
    /// What workers of the action have to do: steps that wait, attempts that run, and executions that are held back, each of which
    /// begins with one step of it at least.
    pub fn demand(&self) -> u64 {
        u64::from(self.waiting) + u64::from(self.in_flight) + u64::from(self.held_back)
    }
}
