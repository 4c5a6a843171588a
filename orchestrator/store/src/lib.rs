//! Durability behind one trait: executions are numbered, indexed and kept as opaque records.
//! Knows no rule of the contract, never looks into a record, reads no clock, and never waits for a network.
//!
//! An execution has a number (1, 2, 3, … without gaps, in the order of acceptance), index columns that lists
//! filter by, and up to three records: what was accepted, its result, and its audit.
//! A state only climbs (queued, running, settled), and a settled execution never changes.
//! It can be removed on purpose; then its number stays counted and its ids stay used.

#![warn(clippy::too_many_lines)]

pub mod backup;
mod database;
mod earlier;
pub mod embedded;
mod examination;
mod executions;
mod fault;
mod lending;
mod operators;
mod removal;
pub mod runs;
mod stored;
mod tally;
mod tally_part;
mod write;

use bytes::Bytes;
use escapement_model::ExecutionId;

use self::runs::{BatchOutcome, RunBatch, RunStore};

pub use database::{Checkpointing, EmbeddedOptions, Files, Lock, OpenFile};
pub use embedded::Embedded;
pub use fault::{FaultSource, StoreFault};
pub use lending::{Lending, Lent};
pub use operators::{
    OPERATOR_ENTRY_BYTES_MAX, OPERATORS_REMOVED_MAX, OperatorAction, OperatorDeed, OperatorEntry,
    OperatorFilter, OperatorIntent, OperatorWrite,
};
pub use removal::{FeedMark, Held, REMOVED_PER_STEP_MAX, Removal, Removed, RemovedExecution};
pub use stored::{Counts, ListFilter, SettledPage, StoredExecution, StoredState, StoredSummary};
pub use write::{AcceptWrite, ActionMemory, Conflict, Outcome, Write};

/// The one writer of a store.
///
/// The API blocks; a caller that must not wait runs it on a thread of its own.
///
/// An accept may answer with a conflict although the caller saw none in its memory: another writer may have
/// been first. Today's implementations have one writer; a store that several orchestrators share gives each
/// of them an ownership epoch when it opens and fences commits of an older epoch, without another shape of
/// this trait.
pub trait Store: Send {
    /// Applies the writes in order in one transaction; returns after they are durable.
    ///
    /// One outcome per write, in the same order. Writes of one batch see each other. A conflict is an outcome
    /// of its own write and does not hurt the others. An empty batch changes nothing; it fails if no batch could be
    /// acknowledged any more.
    ///
    /// # Errors
    /// [`StoreFault::Full`] and [`StoreFault::Busy`]: nothing was written, the batch may be tried again.
    /// [`StoreFault::Fatal`]: the batch is either wholly there after a restart or not at all; every later
    /// commit is refused in the same way. [`StoreFault::Corrupt`]: a conflict could not be told because the
    /// execution that it is with is damaged; nothing was written, and the batch goes through without that
    /// write.
    fn commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, StoreFault>;

    /// One bounded step of removal, durable when it returns: settled executions that the policy does not keep,
    /// in the order of acceptance, and the ids of removed executions that it does not keep any longer.
    ///
    /// Never removes what is not settled. What is damaged is never removed either: a step ends in front of it,
    /// and the error comes if it would be the first of its step; the next step begins after it.
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn remove_settled(&mut self, policy: &Removal, now_unix_ms: i64) -> Result<Removed, StoreFault>;

    /// Returns a reader of the same data that works on its own connection, from any thread, concurrently.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if no further connection can be had.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreFault>;
}

/// A store of executions and runs. One sync makes writes of both durable.
pub trait JointStore: Store + RunStore {
    /// Applies writes of executions, a batch of runs and writes that need that batch in one transaction; returns after all are
    /// durable.
    ///
    /// A refusal of the batch of runs, damage included, concerns that batch and the writes that need it. The other writes are
    /// applied.
    ///
    /// # Errors
    /// As [`Store::commit`]: nothing was written.
    fn commit_together(
        &mut self,
        writes: &[Write],
        batch: &RunBatch,
        dependent: &[Write],
    ) -> Result<Together, StoreFault>;
}

/// Outcomes of a commit of both.
#[derive(Debug)]
pub struct Together {
    /// Outcomes of the writes of executions.
    pub outcomes: Vec<Outcome>,
    /// Outcome of the batch of runs.
    pub of_runs: Result<BatchOutcome, StoreFault>,
    /// Outcomes of the writes that need the batch; empty if it was refused.
    pub dependent: Vec<Outcome>,
}

/// Reads what is durable. Each call sees one moment: all of a batch or nothing of it.
///
/// A damaged execution is reported as [`StoreFault::Corrupt`] and hurts only itself: a page ends in front of
/// it, and the error comes if it would be the first of its page. A caller that wants to go on continues
/// behind its number. A page may also end early because its records are large. A page that is shorter than
/// its limit is therefore not always the last one; an empty page is.
///
/// Records are checked whenever they are read. Lists read index columns only, which are checked together with
/// the records: a list may show a damaged column that [`Reader::execution`] refuses.
pub trait Reader: Send {
    /// Returns the index columns, accepted record and result record; without the audit.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] if this execution is damaged; otherwise as the implementation fails.
    fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreFault>;

    /// The same; if a settled execution is damaged in nothing but its accepted record, its index columns as they
    /// read and its result, with an empty accepted record.
    ///
    /// # Errors
    /// As [`Reader::execution`].
    fn execution_or_ending(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreFault> {
        self.execution(id)
    }

    /// Returns the audit record of a settled execution; `None` if the execution is unknown or not settled.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] if this record is damaged; otherwise as the implementation fails.
    fn audit(&self, id: ExecutionId) -> Result<Option<Bytes>, StoreFault>;

    /// What is left of an execution that was removed; `None` if it is there, was never accepted, or its ids
    /// are forgotten.
    ///
    /// Ask for the execution first: it may be removed in between, and it never comes back.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] if what is left is damaged; otherwise as the implementation fails.
    fn removed(&self, id: ExecutionId) -> Result<Option<RemovedExecution>, StoreFault>;

    /// Index columns of what the filter lets through, newest (highest number) first, at most `limit`.
    /// `before` is a number, exclusive: the last number of the page before.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] as the trait says; otherwise as the implementation fails.
    fn list(
        &self,
        filter: &ListFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredSummary>, StoreFault>;

    /// What is queued or running, oldest (lowest number) first, at most `limit`; for a restart.
    /// `after` is a number, exclusive: the last number of the page before.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] as the trait says; otherwise as the implementation fails.
    fn unsettled(&self, after: Option<u64>, limit: usize) -> Result<Vec<StoredExecution>, StoreFault>;

    /// The same executions in the same order, index columns only.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] as the trait says; otherwise as the implementation fails.
    fn unsettled_summaries(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredSummary>, StoreFault> {
        let page = self.unsettled(after, limit)?;
        Ok(page.into_iter().map(|execution| execution.summary).collect())
    }

    /// What was settled behind that place, in the order of settling, at most `limit`, of one moment.
    ///
    /// Damage is no error: the page ends in front of it and says so.
    ///
    /// # Errors
    /// As the implementation fails.
    fn settled(&self, after: u64, limit: usize) -> Result<SettledPage, StoreFault>;

    /// Returns the actions that are remembered, by name. What does not read as a memory is left out.
    ///
    /// # Errors
    /// As the implementation fails.
    fn remembered_actions(&self) -> Result<Vec<ActionMemory>, StoreFault>;

    /// What operators did, newest first, at most `limit`. `before` is the number of an intent, exclusive: that of the last act of
    /// the page before.
    ///
    /// # Errors
    /// [`StoreFault::Corrupt`] if an entry is damaged; otherwise as the implementation fails.
    fn operator_actions(
        &self,
        filter: &OperatorFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<OperatorAction>, StoreFault>;

    /// Returns the number of executions by state.
    ///
    /// # Errors
    /// As the implementation fails.
    fn counts(&self) -> Result<Counts, StoreFault>;
}
