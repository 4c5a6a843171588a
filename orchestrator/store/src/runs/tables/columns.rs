//! Rows of the tables of runs, there and back, with their checksums. Runs no statement.

use escapement_model::{Namespace, RunId};
use rusqlite::types::{FromSqlError, ValueRef};
use rusqlite::{ErrorCode, Row};

use crate::StoreFault;
use crate::database::connection::working;
use crate::database::namespaces;
use crate::database::values::{checksum, column_number, number_of, optional_text};
use crate::runs::stored::RunSummary;
use crate::runs::write::{ClientRequest, NewRun, RunProgress};

/// Columns of a run, in the order in which they are bound, read and summed; the sum is the one behind them.
pub(super) const COLUMNS: usize = 20;
pub(super) const SUMMARY: &str = "number, run_id, owner, priority, created_at, plan, goal, trigger_id, session, \
     parent, request_key, request_digest, state, updated_at, due_at, ended_at, first_seq, next_seq, snapshot_seq, \
     link, checksum, namespace";
/// The place of the namespace, which came later, in a row of [`SUMMARY`].
const NAMESPACE: usize = COLUMNS + 1;

pub(super) const PART_ROW: &str = "index row";
pub(super) const PART_ENTRY: &str = "journal";
pub(super) const PART_SNAPSHOT: &str = "snapshot";
pub(super) const PART_CONTENT: &str = "content";
pub(super) const PART_INPUT_REQUEST: &str = "input request";
pub(super) const PART_REQUEST: &str = "answered request";
pub(super) const PART_REMOVED: &str = "row of a removed run";

/// Half of a place: entries of one run.
const SEQ_BITS: u32 = 32;

/// Where an entry lies.
pub(super) fn place(number: u64, seq: u64) -> i64 {
    assert!(
        number >> (63 - SEQ_BITS) == 0 && seq >> SEQ_BITS == 0,
        "numbers of runs and entries fit into their halves of a place"
    );
    column_number(number << SEQ_BITS | seq)
}

/// Returns the entry at a place.
pub(super) fn seq_of(place: i64) -> u64 {
    place.unsigned_abs() & ((1 << SEQ_BITS) - 1)
}

pub(super) fn corrupt(number: u64, part: &'static str) -> StoreFault {
    StoreFault::CorruptRun { number, part }
}

/// What an error means while reading one run: damage of its bytes or pages is its own.
pub(super) fn reading(number: u64, part: &'static str, error: rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        None | Some(ErrorCode::DatabaseCorrupt) => corrupt(number, part),
        Some(_) => working(error),
    }
}

/// Null if there is none.
pub(super) fn optional(value: Option<i64>) -> ValueRef<'static> {
    value.map_or(ValueRef::Null, ValueRef::Integer)
}

/// Returns the columns of a run.
pub(super) fn values(run: &RunSummary) -> [ValueRef<'_>; COLUMNS] {
    let RunSummary {
        number,
        run_id,
        created,
        progress,
        first_seq,
        next_seq,
        snapshot_seq,
        last_link,
    } = run;
    let parent = created.parent.as_ref();
    let request = created.request.as_ref();
    [
        ValueRef::Integer(column_number(*number)),
        ValueRef::Blob(run_id.as_bytes()),
        optional_text(created.owner.as_deref()),
        ValueRef::Integer(created.priority.into()),
        ValueRef::Integer(created.created_at),
        optional_text(created.plan.as_deref()),
        optional_text(created.goal.as_deref()),
        optional_text(created.trigger.as_deref()),
        optional_text(created.session.as_deref()),
        parent.map_or(ValueRef::Null, |id| ValueRef::Blob(id.as_bytes())),
        optional_text(request.map(|request| request.key.as_str())),
        request.map_or(ValueRef::Null, |request| ValueRef::Blob(&request.digest)),
        ValueRef::Integer(progress.state.into()),
        ValueRef::Integer(progress.updated_at),
        optional(progress.due_at),
        optional(progress.ended_at),
        ValueRef::Integer(column_number(*first_seq)),
        ValueRef::Integer(column_number(*next_seq)),
        ValueRef::Integer(column_number(*snapshot_seq)),
        ValueRef::Blob(last_link),
    ]
}

/// Returns the checksum over them and the namespace.
pub(super) fn sum(run: &RunSummary) -> i64 {
    checksum(
        values(run)
            .into_iter()
            .chain(namespaces::covered(&run.created.namespace)),
    )
}

/// Returns the namespace in a column of that place.
pub(super) fn namespace_at(row: &Row<'_>, place: usize) -> rusqlite::Result<Namespace> {
    let column: Option<String> = row.get(place)?;
    namespaces::of_column(column.as_deref()).ok_or_else(|| FromSqlError::InvalidType.into())
}

/// Returns a row of [`SUMMARY`], checked.
pub(super) fn summary(row: &Row<'_>) -> Result<RunSummary, StoreFault> {
    let number = row.get(0).and_then(number_of).map_err(working)?;
    let read = decode(number, row).and_then(|run| Ok((run, row.get::<_, i64>(COLUMNS)?)));
    match read.map_err(|error| reading(number, PART_ROW, error))? {
        (run, expected) if sum(&run) == expected => Ok(run),
        _ => Err(corrupt(number, PART_ROW)),
    }
}

fn decode(number: u64, row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    let parent: Option<[u8; 16]> = row.get(9)?;
    let parent = parent.map(run_id_of).transpose()?;
    let request = request_of(row.get(10)?, row.get(11)?)?;
    Ok(RunSummary {
        number,
        run_id: run_id_of(row.get(1)?)?,
        created: NewRun {
            namespace: namespace_at(row, NAMESPACE)?,
            owner: row.get(2)?,
            priority: row.get(3)?,
            created_at: row.get(4)?,
            plan: row.get(5)?,
            goal: row.get(6)?,
            trigger: row.get(7)?,
            session: row.get(8)?,
            parent,
            request,
        },
        progress: RunProgress {
            state: row.get(12)?,
            updated_at: row.get(13)?,
            due_at: row.get(14)?,
            ended_at: row.get(15)?,
        },
        first_seq: row.get(16).and_then(number_of)?,
        next_seq: row.get(17).and_then(number_of)?,
        snapshot_seq: row.get(18).and_then(number_of)?,
        last_link: row.get(19)?,
    })
}

/// Returns the id in a column.
pub(super) fn run_id_of(bytes: [u8; 16]) -> rusqlite::Result<RunId> {
    RunId::from_bytes(bytes).ok_or_else(|| FromSqlError::InvalidType.into())
}

/// Returns the client's request in two columns.
pub(super) fn request_of(
    key: Option<String>,
    digest: Option<[u8; 32]>,
) -> rusqlite::Result<Option<ClientRequest>> {
    match (key, digest) {
        (Some(key), Some(digest)) => Ok(Some(ClientRequest { key, digest })),
        (None, None) => Ok(None),
        _ => Err(FromSqlError::InvalidType.into()),
    }
}

/// Returns the checksum of an entry at a place.
pub(super) fn entry_sum(place: i64, link: &[u8], entry: &[u8]) -> i64 {
    checksum([
        ValueRef::Integer(place),
        ValueRef::Blob(link),
        ValueRef::Blob(entry),
    ])
}

/// Returns the checksum of the digest of a revision at its document.
pub(super) fn revision_sum(content: &[u8], revision: &[u8]) -> i64 {
    checksum([ValueRef::Blob(content), ValueRef::Blob(revision)])
}

/// Returns the checksum of a snapshot.
pub(super) fn snapshot_sum(number: u64, seq: u64, bytes: &[u8]) -> i64 {
    checksum([
        ValueRef::Integer(column_number(number)),
        ValueRef::Integer(column_number(seq)),
        ValueRef::Blob(bytes),
    ])
}
