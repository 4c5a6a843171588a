//! Gives up one run that is damaged, so that nothing meets it again. Touches nothing that is whole.

use escapement_model::RunId;
use rusqlite::Connection;

use super::examine::parts_of;
use super::tally::{Census, Tally};
use super::{removal, rows, tombstones};
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::work;
use crate::runs::stored::RemovedRun;

/// What came of giving a run up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunGivenUp {
    /// Nothing: all of it can be read.
    Whole,
    /// Nothing: it is not there, because it was never created, or was removed or given up before.
    Missing,
    /// It is gone for good.
    Done {
        /// Its id, if it could be read; it is refused as used, as that of a removed run is.
        run_id: Option<RunId>,
    },
}

/// In one transaction; the tally is the new one if it succeeds.
pub(super) fn give_up(
    connection: &Connection,
    tally: &mut Tally,
    number: u64,
    now_unix_ms: i64,
) -> Result<RunGivenUp, StoreFault> {
    work::begin(connection, tally.n_commits)?;
    let (_, parts) = parts_of(connection, number)?;
    let given_up = if parts.is_empty() {
        RunGivenUp::Whole
    } else {
        remove(connection, number, now_unix_ms)?
    };
    if !matches!(given_up, RunGivenUp::Done { .. }) {
        work::roll_back(connection).map_err(|fault| StoreFault::Fatal(fault.into()))?;
        return Ok(given_up);
    }
    // Its state may be what is damaged.
    tally.count_anew(&Census::take(connection).map_err(working)?);
    tally.commit(connection)?;
    Ok(given_up)
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
    let whole = match rows::row(connection, number) {
        Ok(run) => run,
        Err(StoreFault::CorruptRun { .. }) => None,
        Err(fault) => return Err(fault),
    };
    if let Some(run) = whole {
        return Ok(Some(removal::left_of(&run, now_unix_ms)));
    }
    Ok(rows::run_id_at(connection, number)?.map(|run_id| RemovedRun {
        number,
        run_id,
        state: 0,
        created_at: now_unix_ms,
        ended_at: now_unix_ms,
        removed_at: now_unix_ms,
        last_seq: 0,
        last_link: [0; 32],
        request: None,
    }))
}
