//! What workers and the engine say to each other, parsed. Knows no wire format.

use crate::durable::DurableAccept;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_contract::{Outcome, Reported, Request, StepIndex};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, SessionId};

/// A message of a worker.
#[derive(Clone, Debug)]
pub enum FromWorker {
    /// First and once.
    Hello(Hello),
    /// Replaces all actions.
    RegisterActions {
        /// An older one is ignored.
        revision: u64,
        /// All of them.
        actions: Vec<ActionSpec>,
    },
    /// Absolute levels of credit.
    Capacity {
        /// An older one is ignored.
        revision: u64,
        /// Of the whole worker.
        max_in_flight: u32,
        /// Of single actions, by name.
        per_action: BTreeMap<String, u32>,
    },
    /// Still there.
    Heartbeat {
        /// Repeated in the acknowledgement.
        n: u64,
        /// XOR of the tokens that it has; `None` if the worker does not compare.
        in_flight_hash: Option<[u8; 16]>,
    },
    /// Answers to assignments and cancels.
    AttemptAcks {
        /// Their handlers run.
        started: Vec<AttemptToken>,
        /// They never ran.
        rejected: Vec<(AttemptToken, RejectReason)>,
        /// Their handlers have ended and no outcome follows.
        stopped: Vec<AttemptToken>,
    },
    /// Attempts that ended. An outcome that cannot be read is [`Outcome::Undecodable`].
    Outcomes {
        /// Those whose tokens are tokens.
        items: Vec<(AttemptToken, AttemptReport)>,
        /// The tokens of the others, as given: answered by [`ToWorker::UnknownOutcomes`].
        unreadable: Vec<Bytes>,
    },
    /// What the worker has; answers a request.
    Snapshot {
        /// That of the request.
        n: u64,
        /// Number of the last assignments that it had read; 0 for none.
        last_assignment_seq: u64,
        /// Everything it has.
        in_flight: Vec<InFlight>,
    },
    /// Wants to stop.
    Drain,
    /// The last message.
    Goodbye,
    /// An arm that this revision does not know; ignored.
    Unknown,
}

/// Registration and resume in one.
#[derive(Clone, Debug)]
pub struct Hello {
    /// The lowest revision that the worker speaks.
    pub protocol_min: u32,
    /// The highest revision that the worker speaks.
    pub protocol_max: u32,
    /// A label for people.
    pub worker_id: Arc<str>,
    /// A process lifetime of the worker.
    pub instance_id: InstanceId,
    /// What it has handlers for.
    pub actions: Vec<ActionSpec>,
    /// Number of attempts that it takes at a time.
    pub max_in_flight: u32,
    /// What it still has from before.
    pub in_flight: Vec<InFlight>,
    /// For people and dashboards.
    pub labels: BTreeMap<String, String>,
    /// Name and version of its software.
    pub build: String,
    /// Rises with each hello of the instance; 0 if it does not count them.
    pub hello_number: u64,
    /// The session of the last welcome that it read; `None` before the first.
    pub previous_session_id: Option<SessionId>,
    /// Owner of its registrations; empty without a policy.
    pub owner: Arc<str>,
}

/// An action that a worker has a handler for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionSpec {
    /// 1 to 100 code points.
    pub name: String,
    /// Number of attempts of it that the worker takes at a time; 0: as many as the worker takes at all.
    pub max_in_flight: u32,
    /// A sentence for people.
    pub description: String,
    /// JSON Schema of the payload, or empty.
    pub input_schema: String,
    /// Its attempts only wait for other steps and have slots of their own, for each depth of nesting.
    pub waits: bool,
    /// What the worker says of its nature, as it is encoded; empty if it says nothing. Never looked into.
    pub traits: Bytes,
}

/// An attempt that a worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Which attempt.
    pub token: AttemptToken,
    /// What the worker does with it.
    pub phase: InFlightPhase,
}

/// What a worker does with an attempt that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlightPhase {
    /// Its handler has not started.
    Received,
    /// Handler runs.
    Running,
    /// Its handler has ended; the outcome follows.
    Finished,
}

/// Reason why an attempt never ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// Not said.
    Unspecified,
    /// The worker is draining.
    Draining,
    /// There was no free slot.
    NoCapacity,
    /// The worker has no such handler.
    UnknownAction,
    /// It was cancelled first.
    Cancelled,
    /// The worker's lease had run out.
    LeaseExpired,
}

/// How an attempt ended, as its worker says.
#[derive(Clone, Debug)]
pub enum AttemptReport {
    /// The handler has a result.
    Outcome(Outcome),
    /// The worker may not do it and did nothing; another worker may. The error counts if no other one is there.
    Refused(Reported),
    /// The handler started and has no result.
    Released(ReleaseReason),
}

/// Reason why a worker gave a started attempt up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its drain deadline came.
    Drain,
    /// Its lease ran out.
    LeaseExpired,
}

/// A message to a worker.
#[derive(Clone, Debug)]
pub enum ToWorker {
    /// Answers `Hello`.
    Welcome(Welcome),
    /// Renews the lease.
    HeartbeatAck {
        /// That of the heartbeat.
        n: u64,
    },
    /// Work.
    Assignments(Vec<Assignment>),
    /// Answers outcomes.
    OutcomeAcks(Vec<(AttemptToken, AckVerdict)>),
    /// Answers outcomes whose tokens are no tokens, with the bytes as given.
    UnknownOutcomes(Vec<Bytes>),
    /// Attempts that are not wanted any more.
    Cancels(Vec<Cancel>),
    /// Asks for a snapshot.
    SnapshotRequest {
        /// Repeated in the snapshot.
        n: u64,
    },
    /// Answers `Drain`, or says that an operator drains the worker.
    DrainStarted {
        /// Sequence number of the last assignments; 0 for none.
        last_assignment_seq: u64,
    },
    /// The orchestrator is about to stop.
    Reconnect {
        /// Milliseconds over which workers spread their reconnects.
        jitter_ms: u64,
        /// Milliseconds until the stream is closed.
        deadline_ms: u64,
    },
    /// The stream ends on account of the worker.
    SessionError {
        /// What kind.
        code: SessionErrorCode,
        /// For people.
        detail: String,
        /// Milliseconds before a new session makes sense.
        retry_after_ms: u64,
    },
}

/// What a worker is told when its session begins.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Names the session.
    pub session_id: SessionId,
    /// Actions that were not taken.
    pub refused_actions: Vec<ActionRefusal>,
    /// One for each attempt that the worker reported.
    pub verdicts: Vec<(AttemptToken, KeepOrStop)>,
}

/// An action that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRefusal {
    /// The action's name as the worker gave it; the first 255 code points.
    pub name: String,
    /// For people.
    pub reason: &'static str,
}

/// What becomes of an attempt that a worker reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepOrStop {
    /// Go on.
    Keep,
    /// Its outcome would be refused.
    Stop,
}

/// An attempt for a worker. The shell takes action, payload and environment from the request.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The proof that it may be handed out.
    pub accept: DurableAccept,
    /// Names the attempt and proves that it was handed out.
    pub token: AttemptToken,
    /// Of which execution.
    pub execution_id: ExecutionId,
    /// Holds the step and the environment.
    pub request: Arc<Request>,
    /// Which step.
    pub step: StepIndex,
    /// 1 for the first.
    pub attempt: u32,
    /// Milliseconds that are left, at least 1.
    pub timeout_ms: u64,
}

/// The answer to one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckVerdict {
    /// It is in the state of the execution.
    Accepted,
    /// It was accepted before.
    Duplicate,
    /// The attempt was handed out again since.
    Stale,
    /// The attempt was over.
    AlreadyEnded,
    /// No such attempt was handed to this worker.
    Unknown,
    /// It could not be read; the attempt was settled with `UNKNOWN_ERROR`.
    Invalid,
}

/// An attempt to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Which.
    pub token: AttemptToken,
    /// Reason.
    pub reason: CancelReason,
    /// Milliseconds until the worker should give the handler up.
    pub grace_ms: u64,
}

/// Reason why an attempt is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The step's limit ran out.
    StepTimeout,
    /// The execution ended.
    ExecutionEnded,
    /// It is with another worker, or was settled as lost.
    Superseded,
}

/// Reason why a stream ends on account of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionErrorCode {
    /// A message out of order, or one that may not be sent now.
    ProtocolViolation,
    /// No revision that both speak.
    UnsupportedProtocol,
    /// A newer session of the same instance took over.
    Superseded,
    /// The worker broke a limit.
    LimitExceeded,
    /// Too many sessions, or the orchestrator stops.
    Unavailable,
    /// No sign of life for longer than the lease.
    LeaseExpired,
    /// An operator declared the worker dead.
    DeclaredDead,
}

impl ToWorker {
    /// Returns about how many bytes the message holds; payloads and environments are shared with their executions.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Welcome(welcome) => {
                let refused = welcome.refused_actions.iter();
                let refused = refused.map(|refusal| refusal.name.len() + ITEM_BYTES);
                size_of_val(welcome.verdicts.as_slice()) + refused.sum::<usize>()
            }
            Self::OutcomeAcks(items) => size_of_val(items.as_slice()),
            Self::UnknownOutcomes(tokens) => tokens.iter().map(|token| token.len() + ITEM_BYTES).sum(),
            Self::Cancels(items) => size_of_val(items.as_slice()),
            Self::Assignments(items) => size_of_val(items.as_slice()),
            Self::SessionError { detail, .. } => detail.len(),
            Self::HeartbeatAck { .. }
            | Self::SnapshotRequest { .. }
            | Self::DrainStarted { .. }
            | Self::Reconnect { .. } => 0,
        }
    }
}

/// Bytes of an item without its text.
const ITEM_BYTES: usize = 32;
