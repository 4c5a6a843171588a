//! What is left of removed runs: rows of `removed_run`. Removes nothing and decides nothing.

use escapement_model::RunId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};

use super::columns::{PART_REMOVED, corrupt, reading, request_of, run_id_of};
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::values::{bound, checksum, column_number, number_of, optional_text};
use crate::runs::stored::RemovedRun;

/// Columns in the order in which they are bound, read and summed; the sum is the one behind them.
const COLUMNS: usize = 10;
const NAMES: &str = "number, run_id, state, created_at, ended_at, removed_at, last_seq, link, request_key, \
     request_digest, checksum";

/// What is left of the run of that id.
pub(super) fn find(connection: &Connection, id: &RunId) -> Result<Option<RemovedRun>, StoreFault> {
    let found = one(connection, "run_id", [id.as_bytes()])?;
    led_to(found, |removed| removed.run_id == *id)
}

/// What is left of the run that a request of that key has created.
pub(super) fn find_by_request(connection: &Connection, key: &str) -> Result<Option<RemovedRun>, StoreFault> {
    let found = one(connection, "request_key", [key])?;
    led_to(found, |removed| {
        removed.request.as_ref().is_some_and(|request| request.key == key)
    })
}

/// A damaged index may lead to another row than the one that was asked for.
fn led_to(
    found: Option<RemovedRun>,
    is_that: impl FnOnce(&RemovedRun) -> bool,
) -> Result<Option<RemovedRun>, StoreFault> {
    match found {
        Some(removed) if !is_that(&removed) => Err(corrupt(removed.number, PART_REMOVED)),
        found => Ok(found),
    }
}

fn one(
    connection: &Connection,
    column: &str,
    parameters: impl Params,
) -> Result<Option<RemovedRun>, StoreFault> {
    let sql = format!("SELECT {NAMES} FROM removed_run WHERE {column} = ?1");
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut select| select.query_row(parameters, |row| Ok(decode(row))).optional())
        .map_err(working)?;
    found.transpose()
}

/// What is left at a place.
pub(super) fn at(connection: &Connection, place: u64) -> Result<Option<RemovedRun>, StoreFault> {
    one(connection, "place", [column_number(place)])
}

/// A row and its place.
pub(super) type Placed = (i64, Result<RemovedRun, StoreFault>);

/// Those at the places behind `after`, in the order of removal; at most `limit`.
pub(super) fn page(connection: &Connection, after: i64, limit: usize) -> Result<Vec<Placed>, StoreFault> {
    let sql = format!("SELECT {NAMES}, place FROM removed_run WHERE place > ?1 ORDER BY place LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql).map_err(working)?;
    let mut rows = statement
        .query(params![after, i64::try_from(limit).unwrap_or(i64::MAX)])
        .map_err(working)?;
    let mut page = Vec::new();
    while let Some(row) = rows.next().map_err(working)? {
        page.push((row.get(COLUMNS + 1).map_err(working)?, decode(row)));
    }
    Ok(page)
}

/// Keeps what is left of a run.
pub(super) fn insert(connection: &Connection, removed: &RemovedRun) -> rusqlite::Result<()> {
    let sql =
        format!("INSERT INTO removed_run ({NAMES}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
    let columns = values(removed);
    let sum = ValueRef::Integer(checksum(columns));
    connection
        .prepare_cached(&sql)?
        .execute(params_from_iter(columns.into_iter().chain([sum]).map(bound)))?;
    Ok(())
}

fn values(removed: &RemovedRun) -> [ValueRef<'_>; COLUMNS] {
    let request = removed.request.as_ref();
    [
        ValueRef::Integer(column_number(removed.number)),
        ValueRef::Blob(removed.run_id.as_bytes()),
        ValueRef::Integer(removed.state.into()),
        ValueRef::Integer(removed.created_at),
        ValueRef::Integer(removed.ended_at),
        ValueRef::Integer(removed.removed_at),
        ValueRef::Integer(column_number(removed.last_seq)),
        ValueRef::Blob(&removed.last_link),
        optional_text(request.map(|request| request.key.as_str())),
        request.map_or(ValueRef::Null, |request| ValueRef::Blob(&request.digest)),
    ]
}

/// Returns a row of [`NAMES`], checked.
fn decode(row: &Row<'_>) -> Result<RemovedRun, StoreFault> {
    let number = row.get(0).and_then(number_of).map_err(working)?;
    let read = || -> rusqlite::Result<_> {
        let removed = RemovedRun {
            number,
            run_id: run_id_of(row.get(1)?)?,
            state: row.get(2)?,
            created_at: row.get(3)?,
            ended_at: row.get(4)?,
            removed_at: row.get(5)?,
            last_seq: row.get(6).and_then(number_of)?,
            last_link: row.get(7)?,
            request: request_of(row.get(8)?, row.get(9)?)?,
        };
        Ok((removed, row.get::<_, i64>(COLUMNS)?))
    };
    match read().map_err(|error| reading(number, PART_REMOVED, error))? {
        (removed, expected) if checksum(values(&removed)) == expected => Ok(removed),
        _ => Err(corrupt(number, PART_REMOVED)),
    }
}
