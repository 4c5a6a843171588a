//! What is left of removed executions: rows of `removed_execution`. Removes nothing and decides nothing.

use escapement_model::{ExecutionId, PlanId};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::database::connection::{reading, working};
use crate::database::values::{checksum, column_number, number_of};
use crate::{AcceptWrite, RemovedExecution, StoreFault};

/// What of a removed execution is damaged.
pub(crate) const PART_REMOVED: &str = "row of a removed execution";

/// Columns in the order in which they are bound, read and summed; the sum is the last one.
const COLUMNS: usize = 7;
const SELECT_BY_ID: &str = "SELECT number, execution_id, plan_id, request_digest, settled_at, removed_at, \
     checksum FROM removed_execution WHERE execution_id = ?1";
const SELECT_BY_PLAN: &str = "SELECT number, execution_id, plan_id, request_digest, settled_at, removed_at, \
     checksum FROM removed_execution WHERE plan_id = ?1";
const SELECT_PAGE: &str = "SELECT number, execution_id, plan_id, request_digest, settled_at, removed_at, \
     checksum, place FROM removed_execution WHERE place > ?1 ORDER BY place LIMIT ?2";
const INSERT: &str = "INSERT INTO removed_execution (number, execution_id, plan_id, request_digest, \
     settled_at, removed_at, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// What is left of the execution of that id.
pub(crate) fn find(
    connection: &Connection,
    id: &ExecutionId,
) -> Result<Option<RemovedExecution>, StoreFault> {
    let found = one(connection, SELECT_BY_ID, [id.as_bytes()])?;
    led_to(found, |removed| removed.execution_id == *id)
}

/// Returns a removed execution whose id or plan an accept wants to use; the one with its execution id first.
pub(crate) fn in_the_way(
    connection: &Connection,
    write: &AcceptWrite,
) -> Result<Option<RemovedExecution>, StoreFault> {
    if let Some(removed) = find(connection, &write.execution_id)? {
        return Ok(Some(removed));
    }
    let found = one(connection, SELECT_BY_PLAN, [write.plan_id.as_bytes()])?;
    led_to(found, |removed| removed.plan_id == write.plan_id)
}

/// A damaged index may lead to another row than the one that was asked for.
fn led_to(
    found: Option<RemovedExecution>,
    is_that: impl FnOnce(&RemovedExecution) -> bool,
) -> Result<Option<RemovedExecution>, StoreFault> {
    match found {
        Some(removed) if !is_that(&removed) => Err(StoreFault::Corrupt {
            number: removed.number,
            part: PART_REMOVED,
        }),
        found => Ok(found),
    }
}

/// A row and its place.
pub(crate) struct Placed {
    pub(super) place: i64,
    pub(super) removed: Result<RemovedExecution, StoreFault>,
}

/// Those at the places behind `after`, in the order of removal; at most `limit`.
pub(crate) fn page(connection: &Connection, after: i64, limit: usize) -> Result<Vec<Placed>, StoreFault> {
    let mut statement = connection.prepare_cached(SELECT_PAGE).map_err(working)?;
    let mut rows = statement
        .query(params![after, i64::try_from(limit).unwrap_or(i64::MAX)])
        .map_err(working)?;
    let mut page = Vec::new();
    while let Some(row) = rows.next().map_err(working)? {
        page.push(Placed {
            place: row.get(COLUMNS).map_err(working)?,
            removed: decode(row),
        });
    }
    Ok(page)
}

/// Keeps what is left of an execution.
pub(crate) fn insert(connection: &Connection, removed: &RemovedExecution) -> rusqlite::Result<()> {
    let number = column_number(removed.number);
    connection.prepare_cached(INSERT)?.execute(params![
        number,
        removed.execution_id.as_bytes(),
        removed.plan_id.as_bytes(),
        removed.request_digest,
        removed.settled_at,
        removed.removed_at,
        sum(&values(&number, removed)),
    ])?;
    Ok(())
}

fn one(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Option<RemovedExecution>, StoreFault> {
    let found = connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_row(parameters, |row| Ok(decode(row))).optional())
        .map_err(working)?;
    found.transpose()
}

fn values<'a>(number: &'a i64, removed: &'a RemovedExecution) -> [ValueRef<'a>; COLUMNS - 1] {
    [
        ValueRef::Integer(*number),
        ValueRef::Blob(removed.execution_id.as_bytes()),
        ValueRef::Blob(removed.plan_id.as_bytes()),
        ValueRef::Blob(&removed.request_digest),
        ValueRef::Integer(removed.settled_at),
        ValueRef::Integer(removed.removed_at),
    ]
}

fn sum(values: &[ValueRef<'_>]) -> i64 {
    checksum(values.iter().copied())
}

/// Returns a row that begins with the columns of [`INSERT`].
fn decode(row: &Row<'_>) -> Result<RemovedExecution, StoreFault> {
    let number: i64 = row.get(0).map_err(working)?;
    let corrupt = || StoreFault::Corrupt {
        number: u64::try_from(number).unwrap_or_default(),
        part: PART_REMOVED,
    };
    let read = || -> rusqlite::Result<_> {
        Ok((
            ExecutionId::from_bytes(row.get(1)?),
            PlanId::from_bytes(row.get(2)?),
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.get::<_, i64>(6)?,
        ))
    };
    let (Some(execution_id), Some(plan_id), request_digest, settled_at, removed_at, expected) =
        read().map_err(|error| reading(number.unsigned_abs(), PART_REMOVED, error))?
    else {
        return Err(corrupt());
    };
    if number < 1 {
        return Err(corrupt());
    }
    let removed = RemovedExecution {
        number: number_of(number).map_err(working)?,
        execution_id,
        plan_id,
        request_digest,
        settled_at,
        removed_at,
    };
    if sum(&values(&number, &removed)) == expected {
        Ok(removed)
    } else {
        Err(corrupt())
    }
}
