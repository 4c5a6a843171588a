//! What a line of the journal says. Holds no rule.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Hex, Uuid};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the file, 1 for the first.
    pub line: usize,
    /// Milliseconds on the engine's clock; starts again with each boot.
    pub t: u64,
    /// The number of the session in this boot; 0 if the line is about none.
    pub session: u64,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A process of the orchestrator began.
    Boot {
        /// Its `boot_id`.
        boot: Hex,
        /// Its wall clock when `t` was 0, where the journal says so.
        unix_ms: Option<i64>,
    },
    /// So many lines are missing here.
    Dropped(u64),
    /// A stream began.
    Opened,
    /// The transport ended the stream.
    Closed,
    /// The engine ended the stream.
    Ended,
    /// The engine read a message.
    In {
        /// Its number on the stream.
        seq: u64,
        /// What it says.
        message: FromWorker,
    },
    /// The engine sent a message.
    Out {
        /// Its number on the stream.
        seq: u64,
        /// What it says.
        message: ToWorker,
    },
    /// A call that is no session.
    Call(Call),
    /// The answer to such a call, where it stands in a line of its own.
    Reply(Reply),
}

/// From a worker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "m", rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum FromWorker {
    Hello(Hello),
    RegisterActions {
        revision: u64,
        actions: BTreeMap<String, ActionLevel>,
    },
    Capacity(Capacity),
    Heartbeat {
        n: u64,
        #[serde(deserialize_with = "Option::deserialize")]
        hash: Option<Hex>,
    },
    AttemptAcks {
        started: Vec<Hex>,
        rejected: Vec<(Hex, RejectReason)>,
        stopped: Vec<Hex>,
    },
    Outcomes {
        items: Vec<(Hex, OutcomeKind)>,
        unreadable: u64,
    },
    Snapshot {
        n: u64,
        last_assignment_seq: u64,
        in_flight: BTreeMap<Hex, Phase>,
    },
    Drain {},
    Goodbye {},
    Unknown {},
}

/// Registration and resume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub struct Hello {
    pub worker: String,
    pub instance: Hex,
    pub hello_number: u64,
    #[serde(default)]
    pub previous: Previous,
    pub max_in_flight: u32,
    pub actions: BTreeMap<String, ActionLevel>,
    pub in_flight: BTreeMap<Hex, Phase>,
}

/// The session of the last `Welcome` that a worker read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<Hex>")]
pub enum Previous {
    /// The journal does not tell what the worker says.
    #[default]
    Untold,
    /// The worker names none.
    Nothing,
    /// This one.
    Session(Hex),
}

impl From<Option<Hex>> for Previous {
    fn from(named: Option<Hex>) -> Self {
        named.map_or(Self::Nothing, Self::Session)
    }
}

/// What a worker says of one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ActionLevel {
    /// 0: only the worker's level bounds it.
    pub max: u32,
    /// It does not count against the worker's level.
    pub waits: bool,
}

/// New levels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub struct Capacity {
    pub revision: u64,
    pub max_in_flight: u32,
    pub per_action: BTreeMap<String, u32>,
}

/// To a worker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "m", rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum ToWorker {
    Welcome {
        session: Hex,
        refused: Vec<String>,
        verdicts: BTreeMap<Hex, Resumption>,
    },
    Assignments {
        items: Vec<AssignedItem>,
    },
    OutcomeAcks {
        items: Vec<(Hex, Verdict)>,
    },
    /// `OutcomeAcks` of outcomes that were not readable at all.
    UnknownOutcomes {
        count: u64,
    },
    HeartbeatAck {
        n: u64,
    },
    Cancels {
        items: Vec<(Hex, CancelReason)>,
    },
    SnapshotRequest {
        n: u64,
    },
    DrainStarted {
        last_assignment_seq: u64,
    },
    Reconnect {
        jitter_ms: i64,
        deadline_ms: i64,
    },
    SessionError {
        code: String,
    },
}

/// An attempt that is handed out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub struct AssignedItem {
    pub token: Hex,
    pub execution: Uuid,
    pub step: Uuid,
    pub attempt: u32,
    pub action: String,
    pub timeout_ms: i64,
}

/// What a worker does with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum Phase {
    Received,
    Running,
    Finished,
}

/// Reason why an attempt did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum RejectReason {
    Unspecified,
    Draining,
    NoCapacity,
    UnknownAction,
    Cancelled,
    LeaseExpired,
}

/// What an outcome is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum OutcomeKind {
    Success,
    Failure,
    /// A failure that is `not_here`.
    Refused,
    Released,
    /// It cannot be read.
    Invalid,
}

/// What became of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum Verdict {
    Accepted,
    Duplicate,
    Stale,
    AlreadyEnded,
    Unknown,
    Invalid,
}

/// What becomes of an attempt that a `Hello` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum Resumption {
    Keep,
    Stop,
}

/// Reason why an attempt is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum CancelReason {
    StepTimeout,
    ExecutionEnded,
    Superseded,
}

/// A call that is no session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "m", rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in the protos, which are the documentation")]
pub enum Call {
    ReportOutcomes {
        items: Vec<(Hex, OutcomeKind)>,
        /// Absent if the answer stands in a line of its own.
        #[serde(default)]
        verdicts: Option<Vec<Verdict>>,
        /// Joins the call with its answer.
        #[serde(default)]
        call: Option<serde_json::Value>,
    },
    DrainWorker {
        #[serde(deserialize_with = "Option::deserialize")]
        instance: Option<Hex>,
        #[serde(deserialize_with = "Option::deserialize")]
        worker: Option<String>,
    },
    DeclareWorkerDead {
        instance: Hex,
    },
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "m", rename_all = "snake_case")]
pub enum Reply {
    /// A verdict for each item of the call, in their order.
    ReportOutcomes {
        /// As in the call.
        call: serde_json::Value,
        /// What became of the items.
        verdicts: Vec<Verdict>,
    },
}
