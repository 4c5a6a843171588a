//! Durability of runs behind one trait: runs are numbered, indexed and kept as journals of opaque entries.
//! Knows no rule of runs, never looks into an entry, and reads no clock.
//!
//! A run has a number (1, 2, 3, … without gaps, in the order of creation), index columns that lists filter by, a
//! journal whose entries are numbered from 1 without gaps and chained by hash, at most one snapshot, contents that it
//! refers to, and input requests.
//! A run only grows until it ends, and an ended run never changes. It can be removed on purpose; then its number stays
//! counted and its ids stay used.
//!
//! Beside the runs there are definitions: saved plans, action profiles, sessions, triggers and their firings, goals. A change of
//! one is a commit of its own, or part of a batch, as that of a session and of a firing. And there is an outbox of notices.
//!
//! Artifacts are not kept here yet.

mod bounds;
mod content;
mod definitions;
pub mod limits;
mod notices;
mod removal;
mod stored;
pub(crate) mod tables;
mod write;

use bytes::Bytes;
use escapement_model::{InputRequestId, RunId};

pub use self::bounds::TooLarge;
pub use self::content::Content;
pub use self::definitions::{
    Definition, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionOutcome, DefinitionPage,
    DefinitionPut, DefinitionWrite, ExpectedVersion, Scope, StoredRevision,
};
pub use self::notices::{NewNotice, StoredNotice};
pub use self::removal::{RunRemoval, RunRemoved, RunsRemoved};
pub use self::stored::{
    EndedPage, InputRequestPage, JournalEntry, JournalPage, LastNumbers, ListCount, Listing, RemovedRun,
    RunCounts, RunFilter, RunKey, RunOrder, RunPage, RunSummary, StoredInputRequest, StoredRun,
};
pub use self::tables::give_up::RunGivenUp;
pub use self::write::{
    BatchOutcome, ClientRequest, ClosedInputRequest, NewInputRequest, NewRun, RunBatch, RunConflict,
    RunProgress, RunWrite, Snapshot,
};
use crate::StoreFault;

/// The one writer of a store of runs.
///
/// The API blocks; a caller that must not wait runs it on a thread of its own.
pub trait RunStore: Send {
    /// Applies the whole batch in one transaction, in its order, or nothing of it; returns after it is durable.
    ///
    /// An empty batch changes nothing; it fails if no batch could be acknowledged any more.
    ///
    /// # Errors
    /// [`StoreFault::Full`] and [`StoreFault::Busy`]: nothing was written, the batch may be tried again.
    /// [`StoreFault::Fatal`]: the batch is either wholly there after a restart or not at all; every later commit is
    /// refused in the same way. [`StoreFault::CorruptRun`]: a run of the batch is damaged where the write builds on
    /// it; nothing was written, and the batch goes through without that run.
    fn commit(&mut self, batch: &RunBatch) -> Result<BatchOutcome, StoreFault>;

    /// One bounded step of removal, durable when it returns: ended runs that the policy does not keep, those that
    /// ended first, and the ids of removed runs that it does not keep any longer.
    ///
    /// Never removes what has not ended, nor a content that another run refers to. What is damaged is never removed
    /// either: a step ends in front of it, and the error comes if it would be the first of its step; the next step
    /// goes on behind it.
    ///
    /// # Errors
    /// As [`RunStore::commit`].
    fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> Result<RunsRemoved, StoreFault>;

    /// Removes one ended run, however young; durable when it returns.
    ///
    /// # Errors
    /// As [`RunStore::commit`].
    fn remove_run(&mut self, id: RunId, now_unix_ms: i64) -> Result<RunRemoved, StoreFault>;

    /// Removes one run, whether it has ended or not and whatever of it is damaged; durable when it returns. One that has not ended
    /// leaves its id as if it had ended now, in this state. Never [`RunRemoved::Live`].
    ///
    /// # Errors
    /// As [`RunStore::commit`]; [`StoreFault::CorruptRun`] if not even the removal can be done.
    fn discard_run(&mut self, id: RunId, state: u8, now_unix_ms: i64) -> Result<RunRemoved, StoreFault>;

    /// Changes one definition in a transaction of its own; durable when it returns.
    ///
    /// # Errors
    /// As [`RunStore::commit`]; [`StoreFault::CorruptDefinition`] if it is damaged and is not to be deleted.
    ///
    /// # Panics
    /// If a part is larger than [`limits`] allow.
    fn define(&mut self, write: &DefinitionWrite) -> Result<DefinitionOutcome, StoreFault>;

    /// Returns a reader of the same data that works on its own connection, from any thread, concurrently.
    ///
    /// # Errors
    /// [`StoreFault::Open`] if no further connection can be had.
    fn reader(&self) -> Result<Box<dyn RunReader>, StoreFault>;
}

/// Reads what is durable. Each call sees one moment: all of a batch or nothing of it.
///
/// Everything is checked whenever it is read. A damaged run is reported as [`StoreFault::CorruptRun`] and hurts only
/// itself. A page ends in front of damage, and the error comes if it would be the first of its page; a caller that
/// wants to go on continues behind its number. A page may also end early because its records are large, or because many rows
/// were looked at for it: what it has says whether there may be more. Without such a word an empty page is the last one.
pub trait RunReader: Send {
    /// Returns the index columns, snapshot, and the entries behind it up to `bytes_max`; at least one, if there is one.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] if this run is damaged; otherwise as the implementation fails.
    fn run(&self, id: RunId, bytes_max: usize) -> Result<Option<StoredRun>, StoreFault>;

    /// Returns the index columns alone.
    ///
    /// # Errors
    /// As [`RunReader::run`].
    fn summary(&self, id: RunId) -> Result<Option<RunSummary>, StoreFault>;

    /// Entries from that number on, or from the first that is kept, up to `bytes_max`; at least one, if there is one.
    ///
    /// # Errors
    /// As [`RunReader::run`].
    fn journal(&self, id: RunId, from: u64, bytes_max: usize) -> Result<Option<JournalPage>, StoreFault>;

    /// Index columns of runs that have not ended, oldest (lowest number) first, at most `limit`; for a restart.
    /// `after` is a number, exclusive: the last number of the page before.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] as the trait says; otherwise as the implementation fails.
    fn live(&self, after: Option<u64>, limit: usize) -> Result<Vec<RunSummary>, StoreFault>;

    /// Index columns of what the filter lets through, in its order, at most `limit`. `behind` is [`RunPage::next`] of the page
    /// before. Leaves out what is damaged.
    ///
    /// # Errors
    /// As the implementation fails.
    fn list(&self, filter: &RunFilter, behind: Option<RunKey>, limit: usize) -> Result<RunPage, StoreFault>;

    /// Counts the entries of a list along the indexes, in at most [`ROWS_LOOKED_AT_MAX`](limits::ROWS_LOOKED_AT_MAX) rows, which
    /// are not read as a whole. Counts what is damaged, too.
    ///
    /// # Errors
    /// As the implementation fails.
    fn count(&self, listing: Listing<'_>) -> Result<ListCount, StoreFault>;

    /// What ended behind that place, in the order of ending, at most `limit`, of one moment.
    ///
    /// Damage is no error: the page ends in front of it and says so.
    ///
    /// # Errors
    /// As the implementation fails.
    fn ended(&self, after: u64, limit: usize) -> Result<EndedPage, StoreFault>;

    /// Returns the index columns of the run of that saved plan that was created last.
    ///
    /// # Errors
    /// As [`RunReader::run`].
    fn newest_run_of(&self, plan: &str) -> Result<Option<RunSummary>, StoreFault>;

    /// Returns the content of that digest.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] with the first run that refers to it, 0 if none does, if it is damaged; otherwise
    /// as the implementation fails.
    fn content(&self, digest: &[u8; 32]) -> Result<Option<Bytes>, StoreFault>;

    /// Returns the document of the revision of that digest, as long as a run or a saved plan of one of these scopes refers to it: the
    /// bytes that one of these brought.
    ///
    /// # Errors
    /// As [`RunReader::content`].
    fn revision(&self, digest: &[u8; 32], scopes: &[Scope]) -> Result<Option<StoredRevision>, StoreFault>;

    /// Returns the digest of the content that [`RunReader::revision`] reads, which is not read for it.
    ///
    /// # Errors
    /// As [`RunReader::content`], as far as it is about which content that is.
    fn content_of_revision(
        &self,
        digest: &[u8; 32],
        scopes: &[Scope],
    ) -> Result<Option<[u8; 32]>, StoreFault>;

    /// Returns the definition of that name.
    ///
    /// # Errors
    /// [`StoreFault::CorruptDefinition`] if it is damaged; otherwise as the implementation fails.
    fn definition(&self, kind: DefinitionKind, name: &str) -> Result<Option<Definition>, StoreFault>;

    /// Definitions of that kind in one of these scopes, or all of them, in the order of [`DefinitionKey`], highest first, at most
    /// `limit`. `before` is [`DefinitionPage::next`] of the page before. Leaves out what is damaged.
    ///
    /// # Errors
    /// As the implementation fails.
    fn definitions(
        &self,
        kind: DefinitionKind,
        scopes: Option<&[Scope]>,
        before: Option<DefinitionKey>,
        limit: usize,
    ) -> Result<DefinitionPage, StoreFault>;

    /// Definitions of that kind by their names, lowest first, at most `limit`. `after` is the name of the last one of the page
    /// before. Leaves out what is damaged.
    ///
    /// # Errors
    /// As the implementation fails.
    fn definitions_by_name(
        &self,
        kind: DefinitionKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<DefinitionPage, StoreFault>;

    /// How many definitions of that kind there are, damaged ones included.
    ///
    /// # Errors
    /// As the implementation fails.
    fn n_definitions(&self, kind: DefinitionKind) -> Result<usize, StoreFault>;

    /// One input request, open or closed.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] if it is damaged; otherwise as the implementation fails.
    fn input_request(&self, id: InputRequestId) -> Result<Option<StoredInputRequest>, StoreFault>;

    /// Returns open input requests in one of these scopes, or all of them, oldest first, at most `limit`.
    /// `after` is [`InputRequestPage::next`] of the page before, or any other number, exclusive. Leaves out
    /// damaged requests.
    ///
    /// # Errors
    /// As the implementation fails.
    fn open_input_requests(
        &self,
        scopes: Option<&[Scope]>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<InputRequestPage, StoreFault>;

    /// Notices of a stream behind that number, in the order of their numbers, at most `limit`. Leaves out what is damaged.
    ///
    /// # Errors
    /// As the implementation fails.
    fn notices(&self, stream: &str, after: u64, limit: usize) -> Result<Vec<StoredNotice>, StoreFault>;

    /// Which notice of the stream is the last one up to that number, as [`StoredNotice::n`] counts them; 0 if there is none.
    /// `None` if notices of the stream behind that number may be gone, or if no notice has had that number.
    ///
    /// # Errors
    /// As the implementation fails.
    fn notices_until(&self, stream: &str, number: u64) -> Result<Option<u64>, StoreFault>;

    /// Returns the numbers that were given last.
    ///
    /// # Errors
    /// As the implementation fails.
    fn last_numbers(&self) -> Result<LastNumbers, StoreFault>;

    /// Returns the run that the client's request of that key has created, removed or not, and the digest of the request.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] if that run is damaged; otherwise as the implementation fails.
    fn created_by(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, StoreFault>;

    /// Returns the run that the client's request of that key was about, if it was answered and did not create the run, and the
    /// digest of the request. Forgotten when the run is removed.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] if what is kept of the request is damaged; otherwise as the implementation fails.
    fn answered(&self, key: &str) -> Result<Option<(RunId, [u8; 32])>, StoreFault>;

    /// What is left of a run that was removed; `None` if it is there, was never created, or its ids are forgotten.
    ///
    /// # Errors
    /// [`StoreFault::CorruptRun`] if what is left is damaged; otherwise as the implementation fails.
    fn removed(&self, id: RunId) -> Result<Option<RemovedRun>, StoreFault>;

    /// How many runs there are.
    ///
    /// # Errors
    /// As the implementation fails.
    fn counts(&self) -> Result<RunCounts, StoreFault>;
}
