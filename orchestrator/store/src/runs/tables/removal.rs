//! Removes ended runs and leaves their ids. Never removes what has not ended, or a content that another run refers to.

use rusqlite::{Connection, ErrorCode, params};

use super::columns::{PART_REMOVED, PART_ROW, corrupt, place, reading};
use super::tally::RunTally;
use super::{contents, endings, rows, tombstones};
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::values::{column_number, number_of};
use crate::runs::limits::{ENTRIES_REMOVED_PER_STEP_MAX, RUNS_REMOVED_PER_STEP_MAX};
use crate::runs::removal::{RunRemoval, RunsRemoved};
use crate::runs::stored::{RemovedRun, RunSummary};

/// Behind which damage the next step begins: end and number of a run, and the place of a removed one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    run: (i64, u64),
    removed: i64,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            run: (i64::MIN, 0),
            removed: 0,
        }
    }
}

/// One step of removing runs for their age and their number.
pub(crate) fn remove_runs(
    connection: &Connection,
    tally: &mut RunTally,
    walk: &mut Walk,
    policy: &RunRemoval,
    now_unix_ms: i64,
) -> Result<RunsRemoved, StoreFault> {
    let before = policy.ended_before(now_unix_ms);
    let n_too_many = policy.n_too_many(tally.n_ended);
    if before.is_none() && n_too_many == 0 {
        return Ok(RunsRemoved::default());
    }
    let is_held = |place, ended_at| policy.holds(place, ended_at, now_unix_ms);
    let due = due(connection, walk.run, before, n_too_many, is_held)?;
    let (mut runs, mut n_entries) = (Vec::new(), 0);
    for (ended_at, number) in &due {
        match rows::row(connection, *number) {
            Ok(Some(run)) if run.progress.ended_at == Some(*ended_at) => {
                n_entries += run.next_seq - run.first_seq;
                runs.push(run);
            }
            Ok(_) | Err(StoreFault::CorruptRun { .. }) if runs.is_empty() => {
                walk.run = (*ended_at, *number);
                return Err(corrupt(*number, PART_ROW));
            }
            Ok(_) | Err(StoreFault::CorruptRun { .. }) => break,
            Err(fault) => return Err(fault),
        }
        if n_entries >= ENTRIES_REMOVED_PER_STEP_MAX {
            break;
        }
    }
    if runs.is_empty() {
        *walk = Walk {
            removed: walk.removed,
            ..Walk::default()
        };
        return Ok(RunsRemoved::default());
    }
    remove_all(connection, tally, &runs, now_unix_ms, true).inspect_err(|fault| {
        if let StoreFault::CorruptRun { number, .. } = fault {
            let at = due.iter().find(|(_, of)| of == number);
            walk.run = at.copied().unwrap_or(walk.run);
        }
    })?;
    Ok(RunsRemoved {
        n_runs: runs.len() as u64,
        n_ids: 0,
        has_more: runs.len() < due.len() || due.len() == RUNS_REMOVED_PER_STEP_MAX,
    })
}

/// The latest time among the runs with the highest numbers and the last removal.
pub(crate) fn newest_ms(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT max(at) FROM (SELECT * FROM \
               (SELECT updated_at AS at FROM run NOT INDEXED ORDER BY number DESC LIMIT ?1) \
               UNION ALL SELECT * FROM (SELECT removed_at FROM removed_run ORDER BY place DESC LIMIT 1))";
    connection.query_row(sql, [NEWEST_MAX], |row| row.get(0))
}

/// End and number of a run, and the column of its place in the order of ending.
type EndedRun = ((i64, u64), Option<[u8; 8]>);

/// The next runs that ended before that moment, and of those behind them `n_too_many` at most, whenever they ended; none behind one
/// that is held, by its place and its end.
fn due(
    connection: &Connection,
    after: (i64, u64),
    before: Option<i64>,
    n_too_many: u64,
    is_held: impl Fn(Option<u64>, i64) -> bool,
) -> Result<Vec<(i64, u64)>, StoreFault> {
    let sql = "SELECT ended_at, number, ending FROM run INDEXED BY run_ended WHERE ended_at IS NOT NULL \
               AND (ended_at, number) > (?1, ?2) ORDER BY ended_at, number LIMIT ?3";
    let (ended_at, number) = after;
    let next: Vec<EndedRun> = connection
        .prepare_cached(sql)
        .and_then(|mut select| {
            let bounds = params![ended_at, column_number(number), RUNS_REMOVED_PER_STEP_MAX as i64];
            let one = |row: &rusqlite::Row<'_>| {
                let run = (row.get(0)?, row.get(1).and_then(number_of)?);
                Ok((run, row.get(2)?))
            };
            select.query_map(bounds, one)?.collect()
        })
        .map_err(working)?;
    let is_due = |(nth, ((ended_at, _), place)): &(u64, EndedRun)| {
        (*nth < n_too_many || before.is_some_and(|before| *ended_at < before))
            && !is_held(place.map(u64::from_be_bytes), *ended_at)
    };
    let due = (0..).zip(next).take_while(is_due);
    Ok(due.map(|(_, (run, _))| run).collect())
}

/// Removes these ended runs within the open transaction. `as_policy`: the policy no longer keeps them; else one of them is named.
pub(crate) fn remove_all(
    connection: &Connection,
    tally: &mut RunTally,
    runs: &[RunSummary],
    now_unix_ms: i64,
    as_policy: bool,
) -> Result<(), StoreFault> {
    for run in runs {
        if as_policy && let Some(place) = endings::place_of(connection, run.number)? {
            tally.endings_removed = tally.endings_removed.max(place);
        }
        let left = left_of(run, now_unix_ms);
        delete(connection, run.number)?;
        tombstones::insert(connection, &left).map_err(|error| damage(run.number, error))?;
        tally.n_ended -= 1;
        tally.n_removed += 1;
    }
    Ok(())
}

/// What is left of a run that is removed now.
pub(super) fn left_of(run: &RunSummary, now_unix_ms: i64) -> RemovedRun {
    RemovedRun {
        number: run.number,
        run_id: run.run_id,
        state: run.progress.state,
        created_at: run.created.created_at,
        ended_at: run.progress.ended_at.unwrap_or(now_unix_ms),
        removed_at: now_unix_ms,
        last_seq: run.next_seq - 1,
        last_link: run.last_link,
        request: run.created.request.clone(),
    }
}

/// Deletes everything of a run; says how many rows of the table of runs that were.
pub(super) fn delete(connection: &Connection, number: u64) -> Result<usize, StoreFault> {
    contents::release_all(connection, number)?;
    let column = column_number(number);
    let whole = [place(number, 0), place(number, u32::MAX.into())];
    let delete = || -> rusqlite::Result<usize> {
        connection
            .prepare_cached("DELETE FROM journal WHERE place BETWEEN ?1 AND ?2")?
            .execute(whole)?;
        connection
            .prepare_cached("DELETE FROM snapshot WHERE number = ?1")?
            .execute([column])?;
        connection
            .prepare_cached("DELETE FROM input_request WHERE number = ?1")?
            .execute([column])?;
        connection
            .prepare_cached("DELETE FROM request WHERE number = ?1")?
            .execute([column])?;
        connection
            .prepare_cached("DELETE FROM run WHERE number = ?1")?
            .execute([column])
    };
    delete().map_err(|error| reading(number, PART_ROW, error))
}

/// Returns a key that an index holds already, or lacks, is damage of that one run.
pub(super) fn damage(number: u64, error: rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => corrupt(number, PART_REMOVED),
        _ => reading(number, PART_REMOVED, error),
    }
}

/// Forgets the ids of runs that were removed long enough ago, one step of them.
pub(crate) fn forget_ids(
    connection: &Connection,
    tally: &mut RunTally,
    walk: &mut Walk,
    policy: &RunRemoval,
    now_unix_ms: i64,
) -> Result<RunsRemoved, StoreFault> {
    let Some(before) = policy.removed_before(now_unix_ms) else {
        return Ok(RunsRemoved::default());
    };
    let mut due = Vec::new();
    for (place, removed) in tombstones::page(connection, walk.removed, RUNS_REMOVED_PER_STEP_MAX)? {
        match removed {
            Ok(removed) if removed.removed_at < before => due.push(place),
            Err(fault) if due.is_empty() => {
                walk.removed = place;
                return Err(fault);
            }
            Ok(_) | Err(_) => break,
        }
    }
    if due.is_empty() {
        walk.removed = 0;
        return Ok(RunsRemoved::default());
    }
    for place in &due {
        connection
            .prepare_cached("DELETE FROM removed_run WHERE place = ?1")
            .and_then(|mut delete| delete.execute([place]))
            .map_err(working)?;
    }
    tally.n_removed -= due.len() as u64;
    tally.n_forgotten += due.len() as u64;
    Ok(RunsRemoved {
        n_runs: 0,
        n_ids: due.len() as u64,
        has_more: due.len() == RUNS_REMOVED_PER_STEP_MAX,
    })
}

/// Runs whose times are looked at.
const NEWEST_MAX: i64 = 64;
