//! Gives up one execution that is damaged, so that nothing meets it again. Touches nothing that is whole.

use escapement_model::{ExecutionId, PlanId};
use rusqlite::{Connection, OptionalExtension};

use super::reader::{fetch, fetch_audit};
use super::tally::{ExecutionCensus, ExecutionTally};
use super::tombstones;
use crate::database::connection::working;
use crate::database::values::column_number;
use crate::{RemovedExecution, StoreFault};

/// What came of giving an execution up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// Nothing: all of it can be read.
    Whole,
    /// Nothing: it is not there, because it was never accepted, or was removed or given up before.
    Missing,
    /// It is gone for good.
    Done {
        /// Id, if it could be read; it and the plan's are refused as used, as those of a removed execution are.
        execution_id: Option<ExecutionId>,
    },
}

/// Within the open transaction.
pub(crate) fn give_up(
    connection: &Connection,
    tally: &mut ExecutionTally,
    number: u64,
    now_unix_ms: i64,
) -> Result<GivenUp, StoreFault> {
    let is_whole = match fetch(connection, number).and_then(|_| fetch_audit(connection, number)) {
        Ok(_) => true,
        Err(StoreFault::Corrupt { .. }) => false,
        Err(fault) => return Err(fault),
    };
    let given_up = if is_whole {
        GivenUp::Whole
    } else {
        remove(connection, number, now_unix_ms).map_err(working)?
    };
    if matches!(given_up, GivenUp::Done { .. }) {
        // Its state may be what is damaged.
        tally.count_anew(&ExecutionCensus::take(connection).map_err(working)?);
    }
    Ok(given_up)
}

fn remove(connection: &Connection, number: u64, now_unix_ms: i64) -> rusqlite::Result<GivenUp> {
    let left = what_is_left(connection, number, now_unix_ms);
    let mut n_deleted = 0;
    for table in ["execution", "accepted_record", "settled_record"] {
        let sql = format!("DELETE FROM {table} WHERE number = ?1");
        n_deleted += connection.execute(&sql, [column_number(number)])?;
    }
    if n_deleted == 0 {
        return Ok(GivenUp::Missing);
    }
    // Another removed execution may have an id that this one only shows because it is damaged.
    let kept = left.filter(|left| tombstones::insert(connection, left).is_ok());
    Ok(GivenUp::Done {
        execution_id: kept.map(|left| left.execution_id),
    })
}

/// `None` if its ids cannot be read.
fn what_is_left(connection: &Connection, number: u64, now_unix_ms: i64) -> Option<RemovedExecution> {
    let sql = "SELECT execution_id, plan_id, request_digest, settled_at FROM execution NOT INDEXED \
               WHERE number = ?1";
    let read = connection.query_row(sql, [column_number(number)], |row| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get::<_, Option<i64>>(3)?,
        ))
    });
    let (execution_id, plan_id, request_digest, settled_at) = read.optional().ok()??;
    Some(RemovedExecution {
        number,
        execution_id: ExecutionId::from_bytes(execution_id)?,
        plan_id: PlanId::from_bytes(plan_id)?,
        request_digest,
        settled_at: settled_at.unwrap_or(now_unix_ms),
        removed_at: now_unix_ms,
    })
}
