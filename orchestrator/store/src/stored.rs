//! What a reader gives back. Holds no connection.

use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace, PlanId};

/// How far an execution is. States only climb, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredState {
    /// Accepted, not started.
    Queued,
    /// Started, or withheld from running; not settled.
    Running,
    /// Over.
    Settled,
}

/// The index columns of one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSummary {
    /// 1, 2, 3, … in the order of acceptance, without gaps but for those that were removed.
    pub number: u64,
    /// Unique.
    pub execution_id: ExecutionId,
    /// Unique.
    pub plan_id: PlanId,
    /// Digest of the accepted request.
    pub request_digest: [u8; 32],
    /// As accepted.
    pub priority: i32,
    /// How far it is.
    pub state: StoredState,
    /// As settled; 0 until then.
    pub status: u8,
    /// Unix milliseconds.
    pub accepted_at: i64,
    /// Unix milliseconds; `None` while queued, and for what never started.
    pub started_at: Option<i64>,
    /// Unix milliseconds; `None` until settled.
    pub settled_at: Option<i64>,
    /// Unix milliseconds.
    pub deadline_ms: i64,
    /// The execution that asked for this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// The plan's name.
    pub plan_name: String,
    /// Who asked.
    pub user_id: Option<String>,
    /// The caller's own id of the request.
    pub request_id: Option<String>,
    /// The plan's tags, in its order.
    pub tags: Vec<String>,
    /// As settled; `None` until then, and for what was settled before outlines were kept.
    pub outline: Option<Bytes>,
    /// What it belongs to; [`Namespace::DEFAULT`] for what was accepted before namespaces were kept.
    pub namespace: Namespace,
}

/// An execution with its records, the audit excepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExecution {
    /// The index columns.
    pub summary: StoredSummary,
    /// What was accepted.
    pub record: Bytes,
    /// The result; present exactly when settled.
    pub result: Option<Bytes>,
}

/// Executions in the order in which they were settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledPage {
    /// The next ones: the place of each, from 1 on, with its index columns and its result, and an empty accepted record.
    /// What was settled before places were kept has none.
    pub executions: Vec<(u64, StoredExecution)>,
    /// The place of the next one, if the page ends in front of it because it is damaged.
    pub damaged: Option<u64>,
    /// The highest place that was given; 0 if none was.
    pub last: u64,
    /// The highest place whose execution was removed on purpose; 0 if there is none. Places behind it have no gaps.
    pub removed: u64,
}

/// Which executions a list shows; all conditions that are given must hold. The default shows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// In exactly this state.
    pub state: Option<StoredState>,
    /// Settled with this status; 0 lets through what is not settled.
    pub status: Option<u8>,
    /// The plan's name, exactly.
    pub plan_name: Option<String>,
    /// One of the tags, exactly.
    pub tag: Option<String>,
    /// Who asked, exactly.
    pub user_id: Option<String>,
    /// Unix milliseconds, inclusive.
    pub accepted_after: Option<i64>,
    /// Unix milliseconds, exclusive.
    pub accepted_before: Option<i64>,
    /// The execution that asked.
    pub parent_execution_id: Option<ExecutionId>,
    /// In one of these namespaces; an empty list lets nothing through.
    pub namespaces: Option<Vec<Namespace>>,
}

/// Number of executions by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted, not started.
    pub queued: u64,
    /// Started, not settled.
    pub running: u64,
    /// Over, and not removed.
    pub settled: u64,
    /// Over and removed on purpose.
    pub removed: u64,
}

impl Counts {
    /// Executions ever accepted, which is also the highest number.
    pub fn accepted(&self) -> u64 {
        // In a damaged file a count may be anything.
        [self.queued, self.running, self.settled, self.removed]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}
