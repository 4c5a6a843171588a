//! Requests of callers that were answered, and the runs that they were about: rows of `request`. Answers none.

use escapement_model::RunId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::columns::{PART_REQUEST, corrupt, reading, run_id_of};
use super::refusal::Refusal;
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::values::{checksum, column_number, number_of};
use crate::runs::stored::RunSummary;
use crate::runs::write::{ClientRequest, RunConflict};

/// Columns in the order in which they are bound, read and summed; the sum is the one behind them.
const NAMES: &str = "place, key, number, run_id, digest, checksum";

/// A row.
pub(super) struct Answered {
    pub(super) place: u64,
    number: u64,
    pub(super) run_id: RunId,
    pub(super) request: ClientRequest,
}

/// Keeps a request that is answered by a write of that run.
pub(super) fn insert(
    connection: &Connection,
    run: &RunSummary,
    request: &ClientRequest,
) -> Result<(), Refusal> {
    if let Some(used) = by_key(connection, &request.key)? {
        let (run_id, digest) = (used.run_id, used.request.digest);
        return Err(RunConflict::RequestUsed { run_id, digest }.into());
    }
    let place: Option<i64> = connection
        .prepare_cached("SELECT max(place) FROM request")?
        .query_row([], |row| row.get(0))?;
    let answered = Answered {
        place: place.map_or(Ok(0), number_of)? + 1,
        number: run.number,
        run_id: run.run_id,
        request: request.clone(),
    };
    let sql = format!("INSERT INTO request ({NAMES}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    connection.prepare_cached(&sql)?.execute(params![
        column_number(answered.place),
        request.key,
        column_number(run.number),
        run.run_id.as_bytes(),
        request.digest,
        sum(&answered),
    ])?;
    Ok(())
}

/// Returns the answered request of that key.
pub(super) fn by_key(connection: &Connection, key: &str) -> Result<Option<Answered>, StoreFault> {
    match one(connection, "key", [key])? {
        Some(answered) if answered.request.key != key => Err(corrupt(answered.number, PART_REQUEST)),
        found => Ok(found),
    }
}

/// Returns the answered request at a place.
pub(super) fn at(connection: &Connection, place: u64) -> Result<Option<Answered>, StoreFault> {
    one(connection, "place", [column_number(place)])
}

/// Returns the answered requests about a run, whole or damaged.
pub(super) fn of_run(connection: &Connection, number: u64) -> Result<Vec<Answered>, StoreFault> {
    let sql = format!("SELECT {NAMES} FROM request WHERE number = ?1 ORDER BY place");
    let damaged = |error| reading(number, PART_REQUEST, error);
    let mut select = connection.prepare_cached(&sql).map_err(damaged)?;
    let mut rows = select.query([column_number(number)]).map_err(damaged)?;
    let mut answered = Vec::new();
    while let Some(row) = rows.next().map_err(damaged)? {
        answered.push(decode(row)?);
    }
    Ok(answered)
}

fn one(connection: &Connection, column: &str, key: impl Params) -> Result<Option<Answered>, StoreFault> {
    let sql = format!("SELECT {NAMES} FROM request WHERE {column} = ?1");
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut select| select.query_row(key, |row| Ok(decode(row))).optional())
        .map_err(working)?;
    found.transpose()
}

/// Returns a row of [`NAMES`], checked.
fn decode(row: &Row<'_>) -> Result<Answered, StoreFault> {
    let number = row.get(2).and_then(number_of).map_err(working)?;
    let read = || -> rusqlite::Result<_> {
        let answered = Answered {
            place: row.get(0).and_then(number_of)?,
            number,
            run_id: run_id_of(row.get(3)?)?,
            request: ClientRequest {
                key: row.get(1)?,
                digest: row.get(4)?,
            },
        };
        Ok((answered, row.get::<_, i64>(5)?))
    };
    match read().map_err(|error| reading(number, PART_REQUEST, error))? {
        (answered, expected) if sum(&answered) == expected => Ok(answered),
        _ => Err(corrupt(number, PART_REQUEST)),
    }
}

fn sum(answered: &Answered) -> i64 {
    checksum([
        ValueRef::Integer(column_number(answered.place)),
        ValueRef::Text(answered.request.key.as_bytes()),
        ValueRef::Integer(column_number(answered.number)),
        ValueRef::Blob(answered.run_id.as_bytes()),
        ValueRef::Blob(&answered.request.digest),
    ])
}
