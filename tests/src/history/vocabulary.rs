//! The words in which a history is told: what was asked, what was answered. Judges nothing.

use escapement_model::{ExecutionId, PlanId};
use escapement_wire::v1;
use prost::Message;

/// Names one call, in the order in which calls were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub(super) u64);

/// A moment between two events, in one process life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(super) at: u64,
    pub(super) life: u64,
}

/// What a caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `SubmitPlan`, or `ExecutePlan` if it `waits` for the result.
    Submit {
        /// The id that the caller chose.
        execution: ExecutionId,
        /// The plan's id.
        plan: PlanId,
        /// Two requests are the same when their digests are. Of everything but the execution id.
        digest: u64,
        /// Of the plan; higher starts first.
        priority: i32,
        /// Executions with the same number are begun by the same workers, and are held back together or not at all: among
        /// these alone the order of starts is judged.
        queue: u64,
        /// The answer is the result.
        waits: bool,
    },
    /// Any call about one execution that changes nothing.
    Look {
        /// Which one.
        execution: ExecutionId,
        /// How.
        surface: Surface,
    },
    /// `WatchExecution` behind an entry that the caller has seen and whose hash it names.
    GoOn {
        /// Which one.
        execution: ExecutionId,
        /// That entry.
        after: Entry,
    },
    /// `ListExecutions`, all of its pages, without filters.
    List,
}

/// Where somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Surface {
    /// `GetExecution`.
    Get,
    /// `WaitExecution`.
    Wait,
    /// `ListExecutions`.
    List,
    /// `WatchExecution`.
    Watch,
    /// `ListAuditEntries`.
    Audit,
    /// `ExecutePlan`.
    Execute,
    /// `SubmitPlan`.
    Submit,
    /// The store's file, opened beside the orchestrator or after it.
    Store,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// How the execution stands.
    State(State),
    /// It was never accepted. `Refused("EXECUTION_NOT_FOUND")` counts as this.
    Absent,
    /// Any other refusal, by its reason.
    Refused(String),
    /// A part of the record.
    Entries {
        /// The first number that was wanted: 1, or higher. Of no account in later pieces of a stream.
        first: u64,
        /// What came, in the order in which it came.
        entries: Vec<Entry>,
        /// What the answer says about what follows.
        end: End,
    },
    /// All pages of a list. `is_complete` if every page was read.
    Listed {
        /// What was listed.
        executions: Vec<(ExecutionId, State)>,
        /// Nothing that was accepted before the question may be missing.
        is_complete: bool,
    },
}

/// How an execution stands. It only ever moves downwards in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Accepted durably, waits for admission.
    Queued,
    /// Steps run.
    Running {
        /// Unix milliseconds.
        started_at: i64,
    },
    /// Ended, seen without its result: in lists.
    Ended,
    /// Ended.
    Settled {
        /// Of the whole result, see [`hash_of_result`].
        result: u64,
    },
    /// Settled, and removed since.
    Removed,
}

/// An entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 1, 2, 3, ...
    pub sequence: u64,
    /// Of the whole entry.
    pub hash: u64,
    /// As far as it says how the execution stands.
    pub kind: EntryKind,
}

/// What an entry says about the state of its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// `accepted`.
    Accepted,
    /// `started`.
    Started {
        /// Unix milliseconds.
        at: i64,
    },
    /// `settled`, the last one.
    Settled,
    /// All others.
    Other,
}

/// What follows the last entry of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Perhaps more: a page that was cut, or a stream that goes on.
    Open,
    /// Nothing now: `next_sequence` was 0, or the stream was closed.
    Now,
    /// Same as `Now`, and the result came with the last entry.
    Result(u64),
}

/// What becomes of the orchestrator's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It was started.
    Began,
    /// It ended at once; the kernel keeps what it wrote.
    Killed,
    /// The machine ended at once; only what was synchronised is kept.
    PowerCut,
    /// It ended in order.
    Drained,
}

impl Life {
    pub(super) fn counted_as(self) -> &'static str {
        match self {
            Life::Began => "lives",
            Life::Killed => "kills",
            Life::PowerCut => "power cuts",
            Life::Drained => "drains",
        }
    }
}

impl State {
    /// Reads an answer; `None` if its state is none of the three, or its times or its result are missing.
    pub fn of(execution: &v1::Execution) -> Option<Self> {
        match execution.state() {
            v1::execution::State::Unspecified => None,
            v1::execution::State::Queued => Some(State::Queued),
            v1::execution::State::Running => Some(State::Running {
                started_at: execution.started_at?,
            }),
            v1::execution::State::Settled => Some(match &execution.result {
                Some(result) => State::Settled {
                    result: hash_of_result(result),
                },
                None => State::Ended,
            }),
        }
    }
}

impl Answer {
    /// Reads entries of a record. `first` is the `from_sequence` that was asked for.
    pub fn entries(first: i64, entries: &[v1::AuditEntry], end: End) -> Self {
        Answer::Entries {
            first: u64::try_from(first).unwrap_or(0).max(1),
            entries: entries.iter().map(Entry::of).collect(),
            end,
        }
    }
}

impl Entry {
    /// Reads an entry. A negative number becomes 0, which no entry may have.
    pub fn of(entry: &v1::AuditEntry) -> Self {
        use v1::audit_entry::Event;
        Entry {
            sequence: u64::try_from(entry.sequence).unwrap_or(0),
            hash: hash_of_bytes(&entry.encode_to_vec()),
            kind: match &entry.event {
                Some(Event::Accepted(_)) => EntryKind::Accepted,
                Some(Event::Started(started)) => EntryKind::Started {
                    at: started.started_at,
                },
                Some(Event::Settled(_)) => EntryKind::Settled,
                _ => EntryKind::Other,
            },
        }
    }
}

/// Of the whole result, byte for byte.
pub fn hash_of_result(result: &v1::PlanResult) -> u64 {
    hash_of_bytes(&result.encode_to_vec())
}

/// Returns a hash that stays the same on every machine: FNV-1a, finished so that all bits count.
pub fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}
