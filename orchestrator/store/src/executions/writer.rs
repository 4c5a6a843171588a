//! Applies a batch in a transaction. Opens nothing and decides nothing about what happens after a fault.

use bytes::Bytes;
use escapement_model::ExecutionId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{
    FIXED, PART_INDEX, Progress, audit_checksum, column_state, covered, encode_tags, fixed, outline_column,
    result_checksum, settlement_column, start_checksum, state_of,
};
use super::operators;
use super::reader::fetch;
use super::tally::ExecutionTally;
use super::tombstones;
use crate::database::connection::{reading, working};
use crate::database::namespaces;
use crate::database::values::{bound, column_number, number_of};
use crate::{AcceptWrite, ActionMemory, Conflict, Outcome, RemovedExecution, StoreFault, StoredState, Write};

const INSERT_EXECUTION: &str = "INSERT OR IGNORE INTO execution (number, execution_id, plan_id, \
     request_digest, priority, accepted_at, deadline_ms, parent_execution_id, plan_name, user_id, \
     request_id, tags, state, status, started_at, start_checksum, namespace) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14, ?15, ?16)";
const INSERT_ACCEPTED: &str = "INSERT INTO accepted_record (number, checksum, record) VALUES (?1, ?2, ?3)";
const INSERT_SETTLED: &str = "INSERT INTO settled_record (number, result_checksum, audit_checksum, result, \
     audit) VALUES (?1, ?2, ?3, ?4, ?5)";
// The number from an index, everything else from the row of that number: an entry that leads to another row
// is found out.
const SELECT_NUMBER: &str = "SELECT number FROM execution WHERE execution_id = ?1";
const SELECT_NUMBER_BY_PLAN: &str = "SELECT number FROM execution WHERE plan_id = ?1";
const SELECT_PROGRESS: &str = "SELECT execution_id, state, status, started_at, settled_at, start_checksum \
     FROM execution WHERE number = ?1";
const UPDATE_START: &str =
    "UPDATE execution SET state = ?2, started_at = ?3, start_checksum = ?4 WHERE number = ?1";
const UPDATE_SETTLE: &str = "UPDATE execution SET state = ?2, status = ?3, started_at = ?4, settled_at = ?5, outline = ?6, \
    settlement = ?7 WHERE number = ?1";

/// Applies the batch within the open transaction, and counts it in the tally.
pub(crate) fn apply(
    connection: &Connection,
    tally: &mut ExecutionTally,
    batch: &[Write],
) -> Result<Vec<Outcome>, StoreFault> {
    let mut outcomes = Vec::with_capacity(batch.len());
    for write in batch {
        outcomes.push(match write {
            Write::Accept(accepted) => accept(connection, tally, accepted)?,
            Write::Start {
                execution_id,
                started_at,
            } => start(connection, tally, execution_id, *started_at)?,
            Write::Settle {
                execution_id,
                status,
                started_at,
                settled_at,
                outline,
                result,
                audit,
            } => {
                let ending = Ending {
                    status: *status,
                    started_at: *started_at,
                    settled_at: *settled_at,
                    outline,
                    result,
                    audit,
                };
                settle(connection, tally, execution_id, &ending)?
            }
            Write::RememberActions(memories) => remember_actions(connection, memories)?,
            Write::Operator(write) => operators::append(connection, tally, write)?,
        });
    }
    Ok(outcomes)
}

fn remember_actions(connection: &Connection, memories: &[ActionMemory]) -> Result<Outcome, StoreFault> {
    for ActionMemory { name, left_ms } in memories {
        let left_ms = left_ms.map(|left_ms| i64::try_from(left_ms).unwrap_or(i64::MAX));
        let (sql, left_ms) = match left_ms {
            Some(left_ms) => (
                "INSERT INTO action_memory (name, left_ms) VALUES (?1, ?2) \
                 ON CONFLICT (name) DO UPDATE SET left_ms = excluded.left_ms",
                left_ms,
            ),
            None => ("DELETE FROM action_memory WHERE name = ?1 AND ?2 = 0", 0),
        };
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params![name, left_ms]))
            .map_err(working)?;
    }
    Ok(Outcome::Done { number: 0 })
}

fn accept(
    connection: &Connection,
    tally: &mut ExecutionTally,
    write: &AcceptWrite,
) -> Result<Outcome, StoreFault> {
    let number = tally.number_last + 1;
    // A store that has removed nothing pays nothing for it.
    if tally.n_removed > 0
        && let Some(removed) = tombstones::in_the_way(connection, write)?
    {
        return conflict_with_removed(connection, write, removed).map(Outcome::Conflict);
    }
    let tags = encode_tags(&write.tags);
    let columns = fixed(number, write, &tags);
    let state = if write.started_at.is_some() {
        StoredState::Running
    } else {
        StoredState::Queued
    };

    let mut insert = connection.prepare_cached(INSERT_EXECUTION).map_err(working)?;
    for (index, column) in (1..).zip(columns) {
        insert.raw_bind_parameter(index, bound(column)).map_err(working)?;
    }
    insert
        .raw_bind_parameter(FIXED + 1, column_state(state))
        .map_err(working)?;
    insert
        .raw_bind_parameter(FIXED + 2, write.started_at)
        .map_err(working)?;
    let start_sum = write
        .started_at
        .map(|at| start_checksum(number, &write.execution_id, Some(at)));
    insert.raw_bind_parameter(FIXED + 3, start_sum).map_err(working)?;
    let namespace = namespaces::column_of(&write.namespace);
    insert.raw_bind_parameter(FIXED + 4, namespace).map_err(working)?;
    if insert.raw_execute().map_err(working)? == 0 {
        return conflict_of(connection, write).map(Outcome::Conflict);
    }

    let record = ValueRef::Blob(&write.record);
    let sum = covered(columns, namespace, record);
    connection
        .prepare_cached(INSERT_ACCEPTED)
        .and_then(|mut insert| insert.execute(params![column_number(number), sum, bound(record)]))
        .map_err(working)?;
    tally.number_last = number;
    match state {
        StoredState::Queued => tally.n_queued += 1,
        StoredState::Running | StoredState::Settled => tally.n_running += 1,
    }
    Ok(Outcome::Done { number })
}

/// Returns the conflict with an execution that was removed. The execution id is asked first, everywhere.
fn conflict_with_removed(
    connection: &Connection,
    write: &AcceptWrite,
    removed: RemovedExecution,
) -> Result<Conflict, StoreFault> {
    let RemovedExecution {
        execution_id,
        request_digest,
        ..
    } = removed;
    if execution_id == write.execution_id {
        return Ok(Conflict::ExecutionIdUsed { request_digest });
    }
    Ok(match digest_of(connection, &write.execution_id)? {
        Some(request_digest) => Conflict::ExecutionIdUsed { request_digest },
        None => Conflict::PlanIdUsed { execution_id },
    })
}

/// Returns the number that an index has for a key.
fn number_by(connection: &Connection, sql: &str, key: &[u8; 16]) -> Result<Option<u64>, StoreFault> {
    let found = connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_row([key], |row| row.get(0)).optional())
        .map_err(working)?;
    found.map(number_of).transpose().map_err(working)
}

/// Returns the digest of the request of an execution that is there.
fn digest_of(connection: &Connection, id: &ExecutionId) -> Result<Option<[u8; 32]>, StoreFault> {
    let Some(number) = number_by(connection, SELECT_NUMBER, id.as_bytes())? else {
        return Ok(None);
    };
    // Checked like any answer: the caller learns from it whether the request is the same.
    let found = fetch(connection, number)?.summary;
    if found.execution_id != *id {
        return Err(corrupt(number));
    }
    Ok(Some(found.request_digest))
}

/// Returns the reason why an accept inserted nothing. The execution id is asked first.
fn conflict_of(connection: &Connection, write: &AcceptWrite) -> Result<Conflict, StoreFault> {
    if let Some(request_digest) = digest_of(connection, &write.execution_id)? {
        return Ok(Conflict::ExecutionIdUsed { request_digest });
    }
    let Some(number) = number_by(connection, SELECT_NUMBER_BY_PLAN, write.plan_id.as_bytes())? else {
        // Neither id is taken, so the number is: the tally and the table disagree.
        return Err(StoreFault::Fatal("the next number is taken already".into()));
    };
    let found = fetch(connection, number)?.summary;
    if found.plan_id != write.plan_id {
        return Err(corrupt(number));
    }
    Ok(Conflict::PlanIdUsed {
        execution_id: found.execution_id,
    })
}

fn corrupt(number: u64) -> StoreFault {
    StoreFault::Corrupt {
        number,
        part: PART_INDEX,
    }
}

/// Where an execution stands now.
struct Place {
    number: u64,
    state: StoredState,
    started_at: Option<i64>,
}

/// `Err` of the inner result: the conflict of a write to an execution that is not there.
fn place(
    connection: &Connection,
    tally: &ExecutionTally,
    id: &ExecutionId,
) -> Result<Result<Place, Conflict>, StoreFault> {
    let Some(number) = number_by(connection, SELECT_NUMBER, id.as_bytes())? else {
        let was_removed = tally.n_removed > 0 && tombstones::find(connection, id)?.is_some();
        return Ok(Err(if was_removed {
            Conflict::AlreadySettled
        } else {
            Conflict::NotFound
        }));
    };
    let progress = connection
        .prepare_cached(SELECT_PROGRESS)
        .and_then(|mut select| {
            select.query_row([column_number(number)], |row| {
                let state = state_of(row.get(1)?).filter(|_| {
                    let row_id = row.get_ref(0).and_then(|id| Ok(id.as_blob()?));
                    row_id.is_ok_and(|row_id| row_id == id.as_bytes())
                });
                let Some(state) = state else {
                    return Ok(None);
                };
                Ok(Some(Progress {
                    state,
                    status: row.get(2)?,
                    started_at: row.get(3)?,
                    settled_at: row.get(4)?,
                    start_sum: row.get(5)?,
                }))
            })
        })
        .map_err(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => corrupt(number),
            error => reading(number, PART_INDEX, error),
        })?;
    match progress {
        Some(progress) if progress.is_sound(number, id) => Ok(Ok(Place {
            number,
            state: progress.state,
            started_at: progress.started_at,
        })),
        _ => Err(corrupt(number)),
    }
}

fn start(
    connection: &Connection,
    tally: &mut ExecutionTally,
    id: &ExecutionId,
    started_at: Option<i64>,
) -> Result<Outcome, StoreFault> {
    let place = match place(connection, tally, id)? {
        Ok(place) => place,
        Err(conflict) => return Ok(Outcome::Conflict(conflict)),
    };
    match place.state {
        StoredState::Queued => {}
        StoredState::Running => return Ok(Outcome::Conflict(Conflict::AlreadyStarted)),
        StoredState::Settled => return Ok(Outcome::Conflict(Conflict::AlreadySettled)),
    }
    let number = column_number(place.number);
    connection
        .prepare_cached(UPDATE_START)
        .and_then(|mut update| {
            let sum = start_checksum(place.number, id, started_at);
            update.execute(params![
                number,
                column_state(StoredState::Running),
                started_at,
                sum
            ])
        })
        .map_err(working)?;
    tally.n_queued -= 1;
    tally.n_running += 1;
    Ok(Outcome::Done { number: place.number })
}

/// What a settle brings.
struct Ending<'a> {
    status: u8,
    started_at: Option<i64>,
    settled_at: i64,
    outline: &'a Bytes,
    result: &'a Bytes,
    audit: &'a Bytes,
}

fn settle(
    connection: &Connection,
    tally: &mut ExecutionTally,
    id: &ExecutionId,
    ending: &Ending<'_>,
) -> Result<Outcome, StoreFault> {
    let place = match place(connection, tally, id)? {
        Ok(place) => place,
        Err(conflict) => return Ok(Outcome::Conflict(conflict)),
    };
    match place.state {
        StoredState::Queued => tally.n_queued -= 1,
        StoredState::Running => tally.n_running -= 1,
        StoredState::Settled => return Ok(Outcome::Conflict(Conflict::AlreadySettled)),
    }
    tally.n_settled += 1;
    tally.settlements_last += 1;
    let Ending {
        status,
        settled_at,
        outline,
        result,
        audit,
        ..
    } = *ending;
    let started_at = place.started_at.or(ending.started_at);
    let number = column_number(place.number);
    connection
        .prepare_cached(UPDATE_SETTLE)
        .and_then(|mut update| {
            let state = column_state(StoredState::Settled);
            let outline = outline_column(place.number, outline);
            let settlement = settlement_column(tally.settlements_last);
            update.execute(params![
                number, state, status, started_at, settled_at, outline, settlement
            ])
        })
        .map_err(working)?;
    let result_sum = result_checksum(place.number, id, status, started_at, settled_at, result);
    let audit_sum = audit_checksum(place.number, audit);
    connection
        .prepare_cached(INSERT_SETTLED)
        .and_then(|mut insert| {
            insert.execute(params![number, result_sum, audit_sum, &result[..], &audit[..]])
        })
        .map_err(working)?;
    Ok(Outcome::Done { number: place.number })
}
