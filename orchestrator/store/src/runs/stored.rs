//! What a reader of runs gives back. Holds no connection.

use core::cmp::Ordering;

use bytes::Bytes;
use escapement_model::chain::Link;
use escapement_model::{InputRequestId, Namespace, RunId};

use super::definitions::{DefinitionKind, Scope};
use super::write::{ClientRequest, NewRun, RunProgress, Snapshot};

/// The index columns of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// 1, 2, 3, … in the order of creation, without gaps but for those that were removed.
    pub number: u64,
    /// Unique.
    pub run_id: RunId,
    /// What never changes.
    pub created: NewRun,
    /// What changes.
    pub progress: RunProgress,
    /// The number of the first entry that is kept.
    pub first_seq: u64,
    /// The number of the next entry.
    pub next_seq: u64,
    /// The last entry that the snapshot covers; 0 if there is none.
    pub snapshot_seq: u64,
    /// The link of the last entry.
    pub last_link: Link,
}

impl RunSummary {
    /// Its place in lists.
    pub fn key(&self) -> RunKey {
        RunKey {
            priority: self.created.priority,
            created_at: self.created.created_at,
            number: self.number,
        }
    }
}

/// The place of a run in lists: higher priority first, then later created, then higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    /// As created.
    pub priority: i32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The run's number.
    pub number: u64,
}

/// A run with what it is folded of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// The index columns.
    pub summary: RunSummary,
    /// The newest snapshot.
    pub snapshot: Option<Snapshot>,
    /// Entries behind the snapshot, in order; the rest is read with [`RunReader::journal`](super::RunReader::journal).
    pub tail: Vec<JournalEntry>,
}

/// A stretch of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPage {
    /// The number of the first entry that the store keeps; earlier ones were dropped.
    pub first_seq: u64,
    /// The number of the entry that will be written next.
    pub next_seq: u64,
    /// In order, without gaps.
    pub entries: Vec<JournalEntry>,
}

/// An entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// 1, 2, 3, … in its run.
    pub seq: u64,
    /// Its link in the chain of the run.
    pub link: Link,
    /// As written.
    pub bytes: Bytes,
}

/// An input request: what a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredInputRequest {
    /// 1, 2, 3, … in the order of opening, without gaps but for those whose run was removed.
    pub number: u64,
    /// Unique.
    pub id: InputRequestId,
    /// The run that asks.
    pub run_id: RunId,
    /// What it belongs to; [`Namespace::DEFAULT`] for what was opened before namespaces were kept.
    pub namespace: Namespace,
    /// As opened.
    pub kind: u8,
    /// As opened, or as closed.
    pub state: u8,
    /// Whose inbox it is in.
    pub owner: Option<String>,
    /// Unix milliseconds.
    pub opened_at: i64,
    /// Unix milliseconds.
    pub due_at: Option<i64>,
    /// Unix milliseconds; `None` while it is open.
    pub closed_at: Option<i64>,
    /// As opened, or as closed.
    pub record: Bytes,
}

/// Runs in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedPage {
    /// The next ones: the place of each, from 1 on, with its index columns. What ended before places were kept has none, and the place
    /// of a run that was removed by its name, or given up, stays empty.
    pub runs: Vec<(u64, RunSummary)>,
    /// The place of the next one, if the page ends in front of it because it is damaged.
    pub damaged: Option<u64>,
    /// The highest place that was given; 0 if none was.
    pub last: u64,
    /// The highest place whose run was removed because the policy did not keep it; 0 if there is none.
    pub removed: u64,
}

/// Which runs a list shows; all conditions that are given must hold. The default shows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// In one of these scopes; an empty list lets nothing through.
    pub scopes: Option<Vec<Scope>>,
    /// In one of these states; none stands for any.
    pub states: Vec<u8>,
    /// Has not ended. What the owner of a scope has in such states is found at once if these are given, too.
    pub is_live: bool,
    /// The saved plan, exactly.
    pub plan: Option<String>,
    /// The goal, exactly.
    pub goal: Option<String>,
    /// The trigger, exactly.
    pub trigger: Option<String>,
    /// The session, exactly.
    pub session: Option<String>,
    /// The run that asked.
    pub parent: Option<RunId>,
    /// Which come first.
    pub order: RunOrder,
}

/// Which runs a list shows first; those of a higher priority come before all others in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// Later created first, then the higher number, as [`RunKey`] has them.
    #[default]
    NewestFirst,
    /// Earlier created first, then the lower number: the order of a queue.
    OldestFirst,
}

impl RunOrder {
    /// Less if a list shows `one` before `other`.
    pub fn compare(self, one: RunKey, other: RunKey) -> Ordering {
        match self {
            Self::NewestFirst => other.cmp(&one),
            Self::OldestFirst => {
                let age = |key: RunKey| (key.created_at, key.number);
                let by_priority = other.priority.cmp(&one.priority);
                by_priority.then(age(one).cmp(&age(other)))
            }
        }
    }
}

/// A page of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPage {
    /// In the order of the list.
    pub runs: Vec<RunSummary>,
    /// Where the next page goes on, if there may be more; also behind a page that is short or has none, since a page looks at
    /// [`ROWS_LOOKED_AT_MAX`](super::limits::ROWS_LOOKED_AT_MAX) rows at most.
    pub next: Option<RunKey>,
}

/// A page of open input requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputRequestPage {
    /// The oldest first.
    pub requests: Vec<StoredInputRequest>,
    /// The number behind which the next page goes on, if there may be more; also behind a page that is short or has none, since a
    /// page looks at [`ROWS_LOOKED_AT_MAX`](super::limits::ROWS_LOOKED_AT_MAX) rows at most.
    pub next: Option<u64>,
}

/// A list whose entries are counted.
#[derive(Clone, Copy, Debug)]
pub enum Listing<'a> {
    /// Runs, as [`RunReader::list`](super::RunReader::list) shows them.
    Runs(&'a RunFilter),
    /// Definitions, as [`RunReader::definitions`](super::RunReader::definitions) shows them.
    Definitions {
        /// Kind of the definitions.
        kind: DefinitionKind,
        /// Scopes of the list.
        scopes: Option<&'a [Scope]>,
    },
    /// Requests, as [`RunReader::open_input_requests`](super::RunReader::open_input_requests) shows them.
    OpenInputRequests {
        /// Scopes of the list.
        scopes: Option<&'a [Scope]>,
        /// Kind of the requests. `None`: any.
        kind: Option<u8>,
        /// Run that opened them. `None`: any.
        run_id: Option<RunId>,
    },
}

/// The number of entries of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCount {
    /// Number of entries that were found, at most [`ROWS_LOOKED_AT_MAX`](super::limits::ROWS_LOOKED_AT_MAX).
    pub n: u64,
    /// True if rows were left out, so that the list may be longer.
    pub is_at_least: bool,
}

/// What is left of a run that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedRun {
    /// Number.
    pub number: u64,
    /// Refused as used.
    pub run_id: RunId,
    /// As it ended.
    pub state: u8,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub ended_at: i64,
    /// Unix milliseconds.
    pub removed_at: i64,
    /// The number of its last entry.
    pub last_seq: u64,
    /// The link of its last entry.
    pub last_link: Link,
    /// The request that created it.
    pub request: Option<ClientRequest>,
}

/// The numbers that were given last, as of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastNumbers {
    /// Of a notice of any stream; 0 if there never was one.
    pub notice: u64,
    /// Of an input request; 0 if there never was one.
    pub input_request: u64,
}

/// How many runs there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Not ended.
    pub live: u64,
    /// Ended, and not removed.
    pub ended: u64,
    /// Ended and removed on purpose.
    pub removed: u64,
}
