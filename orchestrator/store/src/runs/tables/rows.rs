//! Reads single rows of runs, and checks each against its checksum. Writes nothing.

use bytes::Bytes;
use escapement_model::{InputRequestId, RunId};
use rusqlite::types::{FromSqlError, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};
use sha2::{Digest, Sha256};

use super::columns::{
    PART_CONTENT, PART_ENTRY, PART_INPUT_REQUEST, PART_ROW, PART_SNAPSHOT, SUMMARY, corrupt, entry_sum,
    namespace_at, optional, place, reading, revision_sum, run_id_of, seq_of, snapshot_sum, summary,
};
use super::tombstones;
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::namespaces;
use crate::database::values::{checksum, column_number, number_of, optional_text};
use crate::runs::definitions::{Scope, StoredRevision};
use crate::runs::stored::{JournalEntry, RunSummary, StoredInputRequest};
use crate::runs::write::Snapshot;

/// Returns the number of a run, from the index alone, so that damage elsewhere can be told apart.
pub(super) fn number(connection: &Connection, id: &RunId) -> Result<Option<u64>, StoreFault> {
    number_by(
        connection,
        "SELECT number FROM run WHERE run_id = ?1",
        [id.as_bytes()],
    )
}

/// Returns the number of the run that a request of that key has created.
fn number_by_request(connection: &Connection, key: &str) -> Result<Option<u64>, StoreFault> {
    number_by(connection, "SELECT number FROM run WHERE request_key = ?1", [key])
}

fn number_by(connection: &Connection, sql: &str, key: impl Params) -> Result<Option<u64>, StoreFault> {
    let found = connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_row(key, |row| row.get(0)).optional())
        .map_err(working)?;
    found.map(number_of).transpose().map_err(working)
}

/// Returns the row of a number; `None` if there is none.
pub(super) fn row(connection: &Connection, number: u64) -> Result<Option<RunSummary>, StoreFault> {
    let sql = format!("SELECT {SUMMARY} FROM run WHERE number = ?1");
    let found = connection.prepare_cached(&sql).and_then(|mut select| {
        let found = select.query_row([column_number(number)], |row| Ok(summary(row)));
        found.optional()
    });
    found
        .map_err(|error| reading(number, PART_ROW, error))?
        .transpose()
}

/// Returns the run of that id.
pub(crate) fn run(connection: &Connection, id: &RunId) -> Result<Option<RunSummary>, StoreFault> {
    let Some(number) = number(connection, id)? else {
        return Ok(None);
    };
    match row(connection, number)? {
        Some(run) if run.run_id == *id => Ok(Some(run)),
        _ => Err(corrupt(number, PART_ROW)),
    }
}

/// Returns the id in a row that may be damaged otherwise.
pub(crate) fn run_id_at(connection: &Connection, number: u64) -> Result<Option<RunId>, StoreFault> {
    let sql = "SELECT run_id FROM run NOT INDEXED WHERE number = ?1";
    let read = connection.query_row(sql, [column_number(number)], |row| row.get::<_, [u8; 16]>(0));
    match read.optional() {
        Ok(bytes) => Ok(bytes.and_then(RunId::from_bytes)),
        Err(error) => match reading(number, PART_ROW, error) {
            StoreFault::CorruptRun { .. } => Ok(None),
            fault => Err(fault),
        },
    }
}

/// Returns the run that a request of that key has created, removed or not, and the digest of the request.
pub(super) fn created_by(
    connection: &Connection,
    key: &str,
) -> Result<Option<(RunId, [u8; 32])>, StoreFault> {
    let found = match number_by_request(connection, key)? {
        Some(number) => {
            let damaged = || corrupt(number, PART_ROW);
            let run = row(connection, number)?.ok_or_else(damaged)?;
            let request = run.created.request.filter(|request| request.key == key);
            Some((run.run_id, request.ok_or_else(damaged)?.digest))
        }
        None => tombstones::find_by_request(connection, key)?
            .and_then(|removed| Some((removed.run_id, removed.request?.digest))),
    };
    Ok(found)
}

/// The snapshot that a run must have, or have none.
pub(super) fn snapshot(connection: &Connection, run: &RunSummary) -> Result<Option<Snapshot>, StoreFault> {
    let number = run.number;
    let select = "SELECT seq, bytes, checksum FROM snapshot WHERE number = ?1";
    let found = connection.prepare_cached(select).and_then(|mut select| {
        let read = |row: &Row<'_>| {
            let seq = row.get(0).and_then(number_of)?;
            let bytes = row.get_ref(1)?.as_blob()?;
            let is_sound =
                row.get::<_, i64>(2)? == snapshot_sum(number, seq, bytes) && seq == run.snapshot_seq;
            Ok(is_sound.then(|| Snapshot {
                seq,
                bytes: Bytes::copy_from_slice(bytes),
            }))
        };
        select.query_row([column_number(number)], read).optional()
    });
    match found.map_err(|error| reading(number, PART_SNAPSHOT, error))? {
        None if run.snapshot_seq == 0 => Ok(None),
        Some(Some(snapshot)) => Ok(Some(snapshot)),
        None | Some(None) => Err(corrupt(number, PART_SNAPSHOT)),
    }
}

/// Entries of a run from that number on, as far as its row says that there are some, until `visit` says no.
/// A missing entry is damage.
pub(super) fn entries(
    connection: &Connection,
    run: &RunSummary,
    from: u64,
    mut visit: impl FnMut(JournalEntry) -> bool,
) -> Result<(), StoreFault> {
    let damaged = |error| reading(run.number, PART_ENTRY, error);
    let mut next = from.max(run.first_seq);
    if next >= run.next_seq {
        return Ok(());
    }
    let sql = "SELECT place, link, entry, checksum FROM journal WHERE place BETWEEN ?1 AND ?2 ORDER BY place";
    let mut select = connection.prepare_cached(sql).map_err(damaged)?;
    let bounds = [place(run.number, next), place(run.number, run.next_seq - 1)];
    let mut rows = select.query(bounds).map_err(damaged)?;
    while let Some(row) = rows.next().map_err(damaged)? {
        match entry(row).map_err(damaged)? {
            Some(entry) if entry.seq == next => {
                next += 1;
                if !visit(entry) {
                    return Ok(());
                }
            }
            _ => return Err(corrupt(run.number, PART_ENTRY)),
        }
    }
    if next == run.next_seq {
        return Ok(());
    }
    Err(corrupt(run.number, PART_ENTRY))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Option<JournalEntry>> {
    let place = row.get(0)?;
    let link: [u8; 32] = row.get(1)?;
    let bytes = row.get_ref(2)?.as_blob()?;
    let is_sound = row.get::<_, i64>(3)? == entry_sum(place, &link, bytes);
    Ok(is_sound.then(|| JournalEntry {
        seq: seq_of(place),
        link,
        bytes: Bytes::copy_from_slice(bytes),
    }))
}

/// Returns the content of that digest, checked.
pub(super) fn content(connection: &Connection, digest: &[u8; 32]) -> Result<Option<Bytes>, StoreFault> {
    let sql = "SELECT digest, bytes FROM content WHERE digest = ?1";
    let found = connection.prepare_cached(sql).and_then(|mut select| {
        let read = |row: &Row<'_>| {
            let bytes = row.get_ref(1)?.as_blob()?;
            let is_sound = row.get_ref(0)?.as_blob()? == digest && Sha256::digest(bytes)[..] == digest[..];
            Ok(is_sound.then(|| Bytes::copy_from_slice(bytes)))
        };
        select.query_row([digest], read).optional()
    });
    match found {
        Ok(None) => Ok(None),
        Ok(Some(Some(bytes))) => Ok(Some(bytes)),
        Ok(Some(None)) => Err(corrupt(first_pin(connection, digest)?, PART_CONTENT)),
        Err(error) => match reading(0, PART_CONTENT, error) {
            StoreFault::CorruptRun { part, .. } => Err(corrupt(first_pin(connection, digest)?, part)),
            fault => Err(fault),
        },
    }
}

/// Returns the document of a revision, checked.
pub(super) fn revision(
    connection: &Connection,
    revision: &[u8; 32],
    scopes: &[Scope],
) -> Result<Option<StoredRevision>, StoreFault> {
    let Some(content) = content_of_revision(connection, revision, scopes)? else {
        return Ok(None);
    };
    let document = self::content(connection, &content)?;
    let document = document.ok_or_else(|| corrupt(0, PART_CONTENT))?;
    Ok(Some(StoredRevision { content, document }))
}

/// Returns the digest of the content that holds the document of a revision, and that something of these scopes refers to.
pub(super) fn content_of_revision(
    connection: &Connection,
    revision: &[u8; 32],
    scopes: &[Scope],
) -> Result<Option<[u8; 32]>, StoreFault> {
    let mut parameters = vec![Value::Blob(revision.to_vec())];
    let mut sql = "SELECT digest, revision, revision_checksum FROM content INDEXED BY content_by_revision \
                   WHERE revision = ?1"
        .to_owned();
    if !scopes.contains(&Scope::EVERYTHING) {
        let of_run = condition_of("run", scopes, &mut parameters);
        let of_definition = condition_of("definition", scopes, &mut parameters);
        sql.push_str(&format!(
            " AND (EXISTS (SELECT 1 FROM pin INDEXED BY pin_by_digest JOIN run ON run.number = pin.number \
             WHERE pin.digest = content.digest AND pin.number > 0 AND {of_run}) \
             OR EXISTS (SELECT 1 FROM pin INDEXED BY pin_by_digest JOIN definition ON definition.number = -pin.number \
             WHERE pin.digest = content.digest AND pin.number < 0 AND {of_definition}))"
        ));
    }
    sql.push_str(" ORDER BY place LIMIT 1");
    let found = connection.prepare_cached(&sql).and_then(|mut select| {
        let read = |row: &Row<'_>| {
            let content: [u8; 32] = row.get(0)?;
            let is_sound = row.get_ref(1)?.as_blob()? == revision
                && row.get::<_, i64>(2)? == revision_sum(&content, revision);
            Ok(is_sound.then_some(content))
        };
        select.query_row(params_from_iter(parameters), read).optional()
    });
    match found.map_err(|error| reading(0, PART_CONTENT, error))? {
        Some(None) => Err(corrupt(0, PART_CONTENT)),
        found => Ok(found.flatten()),
    }
}

/// Returns the condition that a row of the table belongs to one of these scopes.
fn condition_of(table: &str, scopes: &[Scope], parameters: &mut Vec<Value>) -> String {
    let mut any = vec!["false".to_owned()];
    for scope in scopes {
        let mut all = "true".to_owned();
        if let Some(namespace) = &scope.namespace {
            let column = format!("{table}.namespace");
            all += &namespaces::condition(&column, std::slice::from_ref(namespace), parameters);
        }
        if let Some(owner) = &scope.owner {
            parameters.push(Value::Text(owner.clone()));
            all += &format!(" AND {table}.owner = ?{}", parameters.len());
        }
        any.push(format!("({all})"));
    }
    format!("({})", any.join(" OR "))
}

/// Returns a row of `digest, revision, revision_checksum, bytes`: the digest, and whether everything agrees with it.
pub(super) fn content_of(row: &Row<'_>) -> rusqlite::Result<([u8; 32], bool)> {
    let digest: [u8; 32] = row.get(0)?;
    let revision: Option<[u8; 32]> = row.get(1)?;
    let sum: Option<i64> = row.get(2)?;
    let is_sound = sum == revision.map(|revision| revision_sum(&digest, &revision))
        && Sha256::digest(row.get_ref(3)?.as_blob()?)[..] == digest;
    Ok((digest, is_sound))
}

/// Returns the digest of the content at a place, if its bytes have it.
pub(super) fn content_at(connection: &Connection, place: u64) -> Result<Option<[u8; 32]>, StoreFault> {
    let sql = "SELECT digest, revision, revision_checksum, bytes FROM content NOT INDEXED WHERE place = ?1";
    let found = connection.prepare_cached(sql).and_then(|mut select| {
        let read = |row: &Row<'_>| {
            let (digest, is_sound) = content_of(row)?;
            Ok(is_sound.then_some(digest))
        };
        select.query_row([column_number(place)], read).optional()
    });
    match found.map_err(|error| reading(0, PART_CONTENT, error))? {
        Some(None) => Err(corrupt(0, PART_CONTENT)),
        found => Ok(found.flatten()),
    }
}

/// Returns the first run that refers to a content; 0 if none does.
fn first_pin(connection: &Connection, digest: &[u8; 32]) -> Result<u64, StoreFault> {
    Ok(pins(connection, digest)?.first().copied().unwrap_or_default())
}

/// The runs that refer to a content.
pub(super) fn pins(connection: &Connection, digest: &[u8; 32]) -> Result<Vec<u64>, StoreFault> {
    let sql =
        "SELECT number FROM pin INDEXED BY pin_by_digest WHERE digest = ?1 AND number > 0 ORDER BY number";
    connection
        .prepare_cached(sql)
        .and_then(|mut select| {
            select
                .query_map([digest], |row| row.get(0).and_then(number_of))?
                .collect()
        })
        .map_err(working)
}

/// Whether a run, or under its negative number a definition, refers to a content, as the index by contents has it.
/// Very many may refer to one content, and a look at each of them must not walk them all.
pub(super) fn is_pinned_by(
    connection: &Connection,
    digest: &[u8; 32],
    number: i64,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM pin INDEXED BY pin_by_digest WHERE digest = ?1 AND number = ?2";
    connection.prepare_cached(sql)?.exists(params![digest, number])
}

/// Whether a run or a definition refers to a content.
pub(super) fn is_pinned(connection: &Connection, digest: &[u8; 32]) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM pin INDEXED BY pin_by_digest WHERE digest = ?1";
    connection.prepare_cached(sql)?.exists([digest])
}

/// Returns the numbers of the definitions that refer to a content.
pub(super) fn pins_of_definitions(
    connection: &Connection,
    digest: &[u8; 32],
) -> Result<Vec<u64>, StoreFault> {
    let sql = "SELECT -number FROM pin INDEXED BY pin_by_digest WHERE digest = ?1 AND number < 0 \
               ORDER BY number DESC";
    connection
        .prepare_cached(sql)
        .and_then(|mut select| {
            select
                .query_map([digest], |row| row.get(0).and_then(number_of))?
                .collect()
        })
        .map_err(working)
}

/// Returns the contents that a run refers to, or under its negative number a definition.
pub(super) fn digests(connection: &Connection, number: i64) -> rusqlite::Result<Vec<[u8; 32]>> {
    connection
        .prepare_cached("SELECT digest FROM pin WHERE number = ?1")?
        .query_map([number], |row| row.get(0))?
        .collect()
}

/// Columns of an input request, in the order in which they are bound, read and summed; the sum is the one behind them.
pub(super) const INPUT_REQUEST: &str = "place, input_request_id, number, run_id, kind, state, owner, opened_at, \
     due_at, closed_at, record, checksum, namespace";

/// Returns the checksum of an input request of the run of that number.
pub(super) fn input_request_sum(number: u64, request: &StoredInputRequest) -> i64 {
    let columns = [
        ValueRef::Integer(column_number(request.number)),
        ValueRef::Blob(request.id.as_bytes()),
        ValueRef::Integer(column_number(number)),
        ValueRef::Blob(request.run_id.as_bytes()),
        ValueRef::Integer(request.kind.into()),
        ValueRef::Integer(request.state.into()),
        optional_text(request.owner.as_deref()),
        ValueRef::Integer(request.opened_at),
        optional(request.due_at),
        optional(request.closed_at),
        ValueRef::Blob(&request.record),
    ];
    checksum(columns.into_iter().chain(namespaces::covered(&request.namespace)))
}

/// An input request with the number of its run.
pub(super) type OfRun = (u64, StoredInputRequest);

/// Returns the input request of that id.
pub(super) fn input_request(
    connection: &Connection,
    id: &InputRequestId,
) -> Result<Option<OfRun>, StoreFault> {
    match one_input_request(connection, "input_request_id", [id.as_bytes()])? {
        Some((number, request)) if request.id != *id => Err(corrupt(number, PART_INPUT_REQUEST)),
        found => Ok(found),
    }
}

/// Returns the input request at a place.
pub(super) fn input_request_at(connection: &Connection, place: u64) -> Result<Option<OfRun>, StoreFault> {
    one_input_request(connection, "place", [column_number(place)])
}

fn one_input_request(
    connection: &Connection,
    column: &str,
    key: impl Params,
) -> Result<Option<OfRun>, StoreFault> {
    let sql = format!("SELECT {INPUT_REQUEST} FROM input_request WHERE {column} = ?1");
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut select| {
            let found = select.query_row(key, |row| Ok(decode_input_request(row)));
            found.optional()
        })
        .map_err(working)?;
    found.transpose()
}

/// Returns a row of [`INPUT_REQUEST`], checked.
pub(super) fn decode_input_request(row: &Row<'_>) -> Result<OfRun, StoreFault> {
    let number = row.get(2).and_then(number_of).map_err(working)?;
    let read = || -> rusqlite::Result<_> {
        let id = InputRequestId::from_bytes(row.get(1)?).ok_or(FromSqlError::InvalidType)?;
        let request = StoredInputRequest {
            number: row.get(0).and_then(number_of)?,
            id,
            run_id: run_id_of(row.get(3)?)?,
            namespace: namespace_at(row, 12)?,
            kind: row.get(4)?,
            state: row.get(5)?,
            owner: row.get(6)?,
            opened_at: row.get(7)?,
            due_at: row.get(8)?,
            closed_at: row.get(9)?,
            record: Bytes::copy_from_slice(row.get_ref(10)?.as_blob()?),
        };
        Ok((request, row.get::<_, i64>(11)?))
    };
    match read().map_err(|error| reading(number, PART_INPUT_REQUEST, error))? {
        (request, expected) if input_request_sum(number, &request) == expected => Ok((number, request)),
        _ => Err(corrupt(number, PART_INPUT_REQUEST)),
    }
}

/// Returns the input requests of a run, whole or damaged.
pub(super) fn input_requests_of(
    connection: &Connection,
    number: u64,
) -> Result<Vec<StoredInputRequest>, StoreFault> {
    let sql = format!("SELECT {INPUT_REQUEST} FROM input_request WHERE number = ?1 ORDER BY place");
    let damaged = |error| reading(number, PART_INPUT_REQUEST, error);
    let mut select = connection.prepare_cached(&sql).map_err(damaged)?;
    let mut rows = select.query(params![column_number(number)]).map_err(damaged)?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next().map_err(damaged)? {
        requests.push(decode_input_request(row)?.1);
    }
    Ok(requests)
}
