//! Gives up one run that is damaged, so that nothing meets it again. Touches nothing that is whole.

use escapement_model::RunId;
use rusqlite::Connection;

use super::examine::runs::parts_of;
use super::tally::{RunCensus, RunTally};
use super::{removal, rows, tombstones};
use crate::StoreFault;
use crate::database::connection::working;
use crate::runs::removal::RunRemoved;
use crate::runs::stored::{RemovedRun, RunSummary};

/// What came of giving a run up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunGivenUp {
    /// Nothing: all of it can be read.
    Whole,
    /// Nothing: it is not there, because it was never created, or was removed or given up before.
    Missing,
    /// It is gone for good.
    Done {
        /// Id, if it could be read; it is refused as used, as that of a removed run is.
        run_id: Option<RunId>,
    },
}

/// Within the open transaction.
pub(crate) fn give_up(
    connection: &Connection,
    tally: &mut RunTally,
    number: u64,
    now_unix_ms: i64,
) -> Result<RunGivenUp, StoreFault> {
    let (_, parts) = parts_of(connection, number)?;
    let given_up = if parts.is_empty() {
        RunGivenUp::Whole
    } else {
        remove(connection, number, now_unix_ms)?
    };
    if !matches!(given_up, RunGivenUp::Done { .. }) {
        return Ok(given_up);
    }
    // Its state may be what is damaged.
    tally.count_anew(&RunCensus::take(connection).map_err(working)?);
    Ok(given_up)
}

/// Removes a run whatever of it is damaged, within the open transaction.
pub(crate) fn discard(
    connection: &Connection,
    tally: &mut RunTally,
    id: &RunId,
    state: u8,
    now_unix_ms: i64,
) -> Result<RunRemoved, StoreFault> {
    let Some(number) = rows::number(connection, id)? else {
        return Ok(RunRemoved::NotFound);
    };
    let left = match what_is_left(connection, number, now_unix_ms)? {
        Some(left) if left.run_id == *id => left,
        _ => id_alone(number, *id, now_unix_ms),
    };
    let has_ended = whole_row(connection, number)?.is_some_and(|run| run.progress.ended_at.is_some());
    let left = RemovedRun {
        state: if has_ended { left.state } else { state },
        ..left
    };
    removal::delete(connection, number)?;
    tombstones::insert(connection, &left).map_err(|error| removal::damage(number, error))?;
    // Its state may be what is damaged.
    tally.count_anew(&RunCensus::take(connection).map_err(working)?);
    Ok(RunRemoved::Done)
}

fn remove(connection: &Connection, number: u64, now_unix_ms: i64) -> Result<RunGivenUp, StoreFault> {
    let left = what_is_left(connection, number, now_unix_ms)?;
    if removal::delete(connection, number)? == 0 {
        return Ok(RunGivenUp::Missing);
    }
    // Another removed run may have an id that this one only shows because it is damaged.
    let kept = left.filter(|left| tombstones::insert(connection, left).is_ok());
    Ok(RunGivenUp::Done {
        run_id: kept.map(|left| left.run_id),
    })
}

/// `None` if its id cannot be read.
fn what_is_left(
    connection: &Connection,
    number: u64,
    now_unix_ms: i64,
) -> Result<Option<RemovedRun>, StoreFault> {
    if let Some(run) = whole_row(connection, number)? {
        return Ok(Some(removal::left_of(&run, now_unix_ms)));
    }
    let run_id = rows::run_id_at(connection, number)?;
    Ok(run_id.map(|run_id| id_alone(number, run_id, now_unix_ms)))
}

/// `None` if there is none, or it is damaged.
fn whole_row(connection: &Connection, number: u64) -> Result<Option<RunSummary>, StoreFault> {
    match rows::row(connection, number) {
        Err(StoreFault::CorruptRun { .. }) => Ok(None),
        read => read,
    }
}

/// What is left of a run of which nothing but its id is known.
fn id_alone(number: u64, run_id: RunId, now_unix_ms: i64) -> RemovedRun {
    RemovedRun {
        number,
        run_id,
        state: 0,
        created_at: now_unix_ms,
        ended_at: now_unix_ms,
        removed_at: now_unix_ms,
        last_seq: 0,
        last_link: [0; 32],
        request: None,
    }
}
