//! Columns of an execution, there and back, and the checksums over them. Runs no statement.

use bytes::Bytes;
use escapement_model::{ExecutionId, PlanId};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::database::connection::{reading, working};
use crate::database::namespaces;
use crate::database::values::{checksum, column_number, number_of, optional_text};
use crate::{AcceptWrite, StoreFault, StoredState, StoredSummary};

/// Columns that never change, in the order in which they are bound, read and summed.
pub(crate) const FIXED: usize = 12;
/// All columns of a summary, in the order in which [`summary`] reads them; the table is called `e`.
pub(crate) const SUMMARY: &str = "e.number, e.execution_id, e.plan_id, e.request_digest, e.priority, \
     e.accepted_at, e.deadline_ms, e.parent_execution_id, e.plan_name, e.user_id, e.request_id, e.tags, \
     e.state, e.status, e.started_at, e.settled_at, e.outline, e.namespace";
/// The first column behind those of [`SUMMARY`].
pub(crate) const BEHIND_SUMMARY: usize = 18;

/// The place of the namespace in a row that begins with [`SUMMARY`].
const NAMESPACE: usize = 17;

/// What of an execution is damaged if a column of the index table is.
pub(crate) const PART_INDEX: &str = "index row";

/// Returns the columns of a new execution that never change.
pub(crate) fn fixed<'a>(number: u64, write: &'a AcceptWrite, tags: &'a [u8]) -> [ValueRef<'a>; FIXED] {
    [
        ValueRef::Integer(column_number(number)),
        ValueRef::Blob(write.execution_id.as_bytes()),
        ValueRef::Blob(write.plan_id.as_bytes()),
        ValueRef::Blob(&write.request_digest),
        ValueRef::Integer(write.priority.into()),
        ValueRef::Integer(write.accepted_at),
        ValueRef::Integer(write.deadline_ms),
        write
            .parent_execution_id
            .as_ref()
            .map_or(ValueRef::Null, |id| ValueRef::Blob(id.as_bytes())),
        ValueRef::Text(write.plan_name.as_bytes()),
        optional_text(write.user_id.as_deref()),
        optional_text(write.request_id.as_deref()),
        ValueRef::Blob(tags),
    ]
}

/// What the checksum of an accepted record covers, in order. The namespace came later: it counts only where it is not null.
pub(crate) fn covered<'a>(
    fixed: impl IntoIterator<Item = ValueRef<'a>>,
    namespace: Option<&'a str>,
    record: ValueRef<'a>,
) -> i64 {
    let namespace = namespace.map(|name| ValueRef::Text(name.as_bytes()));
    checksum(fixed.into_iter().chain(namespace).chain([record]))
}

/// The checksum that the accepted record of a row must have that begins with [`SUMMARY`].
pub(crate) fn accepted_checksum(row: &Row<'_>, record: ValueRef<'_>) -> rusqlite::Result<i64> {
    let fixed: Vec<ValueRef<'_>> = (0..FIXED)
        .map(|column| row.get_ref(column))
        .collect::<rusqlite::Result<_>>()?;
    let namespace = row.get_ref(NAMESPACE)?.as_str_or_null()?;
    Ok(covered(fixed, namespace, record))
}

/// Returns the checksum of a result, over the columns that are set with it.
pub(crate) fn result_checksum(
    number: u64,
    execution_id: &ExecutionId,
    status: u8,
    started_at: Option<i64>,
    settled_at: i64,
    result: &[u8],
) -> i64 {
    checksum([
        ValueRef::Integer(column_number(number)),
        ValueRef::Blob(execution_id.as_bytes()),
        ValueRef::Integer(status.into()),
        started_at.map_or(ValueRef::Null, ValueRef::Integer),
        ValueRef::Integer(settled_at),
        ValueRef::Blob(result),
    ])
}

/// The checksum of the start of what is running, or is withheld from it.
pub(crate) fn start_checksum(number: u64, execution_id: &ExecutionId, started_at: Option<i64>) -> i64 {
    checksum([
        ValueRef::Integer(column_number(number)),
        ValueRef::Blob(execution_id.as_bytes()),
        started_at.map_or(ValueRef::Null, ValueRef::Integer),
    ])
}

/// Returns an outline as a column: with a checksum of its own in front, since lists read it without the result.
pub(crate) fn outline_column(number: u64, outline: &[u8]) -> Vec<u8> {
    let sum = outline_checksum(number, outline);
    [&sum.to_le_bytes()[..], outline].concat()
}

/// Returns the outline in a column; `None` if it is not as it was written.
fn outline_of(number: u64, column: &[u8]) -> Option<Bytes> {
    let (sum, outline) = column.split_first_chunk()?;
    let is_sound = i64::from_le_bytes(*sum) == outline_checksum(number, outline);
    is_sound.then(|| Bytes::copy_from_slice(outline))
}

fn outline_checksum(number: u64, outline: &[u8]) -> i64 {
    checksum([ValueRef::Integer(column_number(number)), ValueRef::Blob(outline)])
}

/// What of an execution changes while it goes on.
pub(crate) struct Progress {
    pub(super) state: StoredState,
    pub(super) status: u8,
    pub(super) started_at: Option<i64>,
    pub(super) settled_at: Option<i64>,
    /// Null in rows of older versions.
    pub(super) start_sum: Option<i64>,
}

impl Progress {
    /// Whether it is as it was written. Settled executions are covered by the checksum of their result.
    pub(crate) fn is_sound(&self, number: u64, execution_id: &ExecutionId) -> bool {
        let is_unsettled = (self.status, self.settled_at) == (0, None);
        match (self.state, self.started_at) {
            (StoredState::Queued, None) => is_unsettled,
            (StoredState::Running, started_at) => {
                let expected = start_checksum(number, execution_id, started_at);
                // Older versions kept no checksum, and withheld nothing.
                let is_sound = self.start_sum.map_or(started_at.is_some(), |sum| sum == expected);
                is_unsettled && is_sound
            }
            (StoredState::Queued, Some(_)) => false,
            (StoredState::Settled, _) => true,
        }
    }
}

/// Returns the checksum of an audit.
pub(crate) fn audit_checksum(number: u64, audit: &[u8]) -> i64 {
    checksum([ValueRef::Integer(column_number(number)), ValueRef::Blob(audit)])
}

/// Returns a place in the order of settling as a column, which sorts as the places do.
pub(crate) fn settlement_column(place: u64) -> [u8; 8] {
    place.to_be_bytes()
}

/// Returns the place in such a column; `None` if there is none.
pub(crate) fn settlement_of(column: Option<[u8; 8]>) -> Option<u64> {
    column.map(u64::from_be_bytes)
}

/// Tags in one column: each with its length in front.
pub(crate) fn encode_tags<'a>(tags: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    let mut column = Vec::new();
    for tag in tags {
        let length = u32::try_from(tag.len()).expect("a tag has at most some hundred code points");
        column.extend_from_slice(&length.to_le_bytes());
        column.extend_from_slice(tag.as_bytes());
    }
    column
}

pub(crate) fn decode_tags(mut column: &[u8]) -> Option<Vec<String>> {
    let mut tags = Vec::new();
    while let Some((length, rest)) = column.split_first_chunk::<4>() {
        let (tag, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        tags.push(std::str::from_utf8(tag).ok()?.to_owned());
        column = rest;
    }
    column.is_empty().then_some(tags)
}

/// Returns a row that begins with [`SUMMARY`].
pub(crate) fn summary(row: &Row<'_>) -> Result<StoredSummary, StoreFault> {
    let number = row.get(0).and_then(number_of).map_err(working)?;
    decode(number, row)
        .map_err(|error| reading(number, PART_INDEX, error))?
        .ok_or(StoreFault::Corrupt {
            number,
            part: PART_INDEX,
        })
}

fn decode(number: u64, row: &Row<'_>) -> rusqlite::Result<Option<StoredSummary>> {
    let parent: Option<[u8; 16]> = row.get(7)?;
    let (Some(execution_id), Some(plan_id), Some(tags), Some(state)) = (
        ExecutionId::from_bytes(row.get(1)?),
        PlanId::from_bytes(row.get(2)?),
        decode_tags(row.get_ref(11)?.as_blob()?),
        state_of(row.get(12)?),
    ) else {
        return Ok(None);
    };
    let Some(namespace) = namespaces::of_column(row.get_ref(NAMESPACE)?.as_str_or_null()?) else {
        return Ok(None);
    };
    let parent_execution_id = parent.map(ExecutionId::from_bytes);
    let outline = row.get_ref(16)?.as_blob_or_null()?;
    let outline = outline.map(|column| outline_of(number, column));
    if parent_execution_id == Some(None) || outline == Some(None) {
        return Ok(None);
    }
    Ok(Some(StoredSummary {
        number,
        execution_id,
        plan_id,
        request_digest: row.get(3)?,
        priority: row.get(4)?,
        state,
        status: row.get(13)?,
        accepted_at: row.get(5)?,
        started_at: row.get(14)?,
        settled_at: row.get(15)?,
        deadline_ms: row.get(6)?,
        parent_execution_id: parent_execution_id.flatten(),
        plan_name: row.get(8)?,
        user_id: row.get(9)?,
        request_id: row.get(10)?,
        tags,
        outline: outline.flatten(),
        namespace,
    }))
}

/// Returns the state as a column; the migrations know these numbers.
pub(crate) fn column_state(state: StoredState) -> i64 {
    match state {
        StoredState::Queued => 0,
        StoredState::Running => 1,
        StoredState::Settled => 2,
    }
}

/// Returns the state of a column.
pub(crate) fn state_of(column: i64) -> Option<StoredState> {
    match column {
        0 => Some(StoredState::Queued),
        1 => Some(StoredState::Running),
        2 => Some(StoredState::Settled),
        _ => None,
    }
}
