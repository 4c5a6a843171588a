//! A step of removal: chooses along the numbers, checks what it chose, removes it in one transaction.
//! Never removes what is not settled or what is damaged, and decides no policy.
//!
//! There is no index by the time of settling, because every settle would pay for it: a pass walks the narrow
//! table from the lowest number on, a bounded part of it in each step, and ends if nothing behind can be due.
//! The times of acceptance say where that is, as far as they rise with the numbers: a clock that was ahead for a
//! while leaves rows behind which older ones stand.

mod by_place;
mod ids;

use escapement_model::planted::{self, Bug};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use super::columns::{
    BEHIND_SUMMARY, PART_INDEX, SUMMARY, accepted_checksum, column_state, settlement_of, summary,
};
use super::reader::PART_ACCEPTED;
use super::tally::ExecutionTally;
use super::tombstones;
use crate::database::connection::{reading, working};
use crate::database::values::{column_number, number_of};
use crate::database::work;
use crate::removal::REMOVED_PER_STEP_MAX;
use crate::{Removal, Removed, RemovedExecution, StoreFault, StoredState, StoredSummary};

pub(crate) use self::ids::forget_ids;

/// Rows of executions that one step walks past.
const ROWS_PER_STEP_MAX: usize = 1_000;
/// Bytes of accepted records at which a step ends early.
const BYTES_PER_STEP_MAX: usize = 1 << 20;

/// How far a time may lie below an earlier one within a stretch, in milliseconds.
const SLACK_MS: i64 = 60_000;
/// Stretches that are remembered; if there are more, passes go to the end.
const STRETCHES_MAX: usize = 256;

/// Executions that say what time it was when the store was last in use.
const NEWEST_MAX: i64 = 64;

/// How far the passes are. Not durable: a restart begins them anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// The last number that this pass has looked at.
    number: u64,
    /// The last place of a removed execution that this pass has looked at.
    place: i64,
    /// The last place in the order of settling whose execution this pass found damaged.
    settlement: u64,
    /// True if this pass could not read the order of settling.
    is_index_passed: bool,
    /// True once a pass came to the end and left no settled execution without a place in the order of settling. None is ever added.
    are_all_placed: bool,
    /// True if this pass left one.
    met_unplaced: bool,
    /// The rows that this pass has looked at; `None` if it has not looked at all of them.
    met: Option<Vec<Stretch>>,
    /// All rows: what the last pass that came to the end has met, and what was accepted since. `None` until one came
    /// there, and then no pass ends before.
    all: Option<Vec<Stretch>>,
}

/// Neighbours whose times of acceptance, Unix milliseconds, do not fall; a clock that is set back begins another.
#[derive(Clone, Debug)]
struct Stretch {
    first: u64,
    earliest: i64,
    latest: i64,
}

impl Walk {
    /// Takes note of an execution that was accepted.
    pub(crate) fn accepted(&mut self, number: u64, accepted_at: i64) {
        add(&mut self.all, number, accepted_at);
    }

    /// Returns true if everything behind that row was accepted at `before` or later.
    fn ends_at(&self, row: &Place, before: i64) -> bool {
        let is_later = |all: &[Stretch]| {
            let mut behind = all.iter().rev().take_while(|stretch| stretch.first > row.number);
            behind.all(|stretch| stretch.earliest >= before)
        };
        row.time().saturating_sub(SLACK_MS) >= before && self.all.as_deref().is_some_and(is_later)
    }

    /// The pass is over; it came to the last row or not.
    fn end(&mut self, is_at_last: bool) {
        let met = self.met.take();
        if is_at_last && met.is_some() {
            self.all = met;
        }
        self.are_all_placed |= is_at_last && !self.met_unplaced;
        self.met_unplaced = false;
        self.is_index_passed = false;
        self.number = 0;
        self.settlement = 0;
    }
}

fn add(stretches: &mut Option<Vec<Stretch>>, number: u64, time: i64) {
    let Some(all) = stretches else { return };
    let is_full = all.len() == STRETCHES_MAX;
    match all.last_mut() {
        Some(last) if time >= last.latest.saturating_sub(SLACK_MS) => {
            last.earliest = last.earliest.min(time);
            last.latest = last.latest.max(time);
        }
        _ if is_full => *stretches = None,
        _ => all.push(Stretch {
            first: number,
            earliest: time,
            latest: time,
        }),
    }
}

/// Returns the latest time among the newest executions, the last removal and the last act of an operator; if the clock was set
/// back among those executions, the earliest time since.
pub(crate) fn newest_ms(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT accepted_at, coalesce(settled_at, accepted_at) FROM execution NOT INDEXED \
               ORDER BY number DESC LIMIT ?1";
    let mut times = connection
        .prepare(sql)?
        .query_map([NEWEST_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<(i64, i64)>>>()?;
    times.reverse();
    let mut latest_accept = i64::MIN;
    let set_back = times.iter().filter_map(|&(accepted_at, settled_at)| {
        latest_accept = latest_accept.max(accepted_at);
        let earliest = accepted_at.min(settled_at);
        (earliest < latest_accept.saturating_sub(SLACK_MS)).then_some(earliest)
    });
    if let Some(earliest) = set_back.min() {
        return Ok(Some(earliest));
    }
    let sql = "SELECT removed_at FROM removed_execution NOT INDEXED ORDER BY place DESC LIMIT 1";
    let of_removal = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let sql = "SELECT at FROM operator_entry ORDER BY number DESC LIMIT 1";
    let of_operators: Option<i64> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let of_executions = times
        .iter()
        .map(|&(accepted_at, settled_at)| accepted_at.max(settled_at));
    Ok(of_executions.chain(of_removal).chain(of_operators).max())
}

/// What a step wants to remove, and where its walk ended.
struct Chosen<T> {
    items: Vec<T>,
    has_more: bool,
    /// True if no row stands behind the last one that was looked at.
    is_at_last: bool,
    end: u64,
}

/// Executions, one step of them, within the open transaction.
pub(crate) fn remove_executions(
    connection: &Connection,
    tally: &mut ExecutionTally,
    walk: &mut Walk,
    policy: &Removal,
    now_unix_ms: i64,
) -> Result<Removed, StoreFault> {
    let n_excess = policy.n_excess(tally.n_settled);
    let before = policy.settled_before(now_unix_ms);
    let spared_from = policy.spared_from(now_unix_ms);
    let by_place = |tally: &mut ExecutionTally, walk: &mut Walk| {
        if n_excess == 0 || !walk.are_all_placed || walk.is_index_passed {
            return Ok(0);
        }
        by_place::remove_first_settled(
            connection,
            tally,
            walk,
            (n_excess, spared_from),
            policy,
            now_unix_ms,
        )
    };
    let n_executions = by_place(tally, walk)?;
    if n_executions > 0 {
        return Ok(Removed {
            n_executions,
            n_ids: 0,
            has_more: n_executions < n_excess || before.is_some(),
        });
    }
    let n_unplaced = if walk.are_all_placed { 0 } else { n_excess };
    if n_unplaced == 0 && before.is_none() {
        walk.end(false);
        return Ok(Removed::default());
    }
    let is_held = |place: &Place| policy.holds(place.settlement, place.settled_at, now_unix_ms);
    let mut chosen = choose(connection, walk, (n_unplaced, spared_from), before, is_held)?;
    let n_chosen = chosen.items.len();
    let first = chosen.items.first().map_or(0, |summary| summary.number);
    let applied = apply(connection, tally, &mut chosen.items, |tally, summary| {
        tally.n_settled -= 1;
        tally.n_removed += 1;
        remove(connection, summary, now_unix_ms)
            .map(|place| tally.settlements_removed = tally.settlements_removed.max(place))
    });
    if let Err(fault) = applied {
        if matches!(fault, StoreFault::Corrupt { .. }) {
            walk.number = first;
            walk.met = None;
        }
        return Err(fault);
    }
    if let Some(last) = chosen.items.last()
        && chosen.items.len() < n_chosen
    {
        chosen.has_more = true;
        chosen.end = last.number;
        walk.met = None;
    }
    if chosen.has_more {
        walk.number = chosen.end;
    } else {
        walk.end(chosen.is_at_last);
    }
    let mut n_executions = chosen.items.len() as u64;
    let has_excess = n_executions < n_unplaced && walk.are_all_placed;
    if has_excess && n_executions == 0 {
        n_executions = by_place(tally, walk)?;
    }
    Ok(Removed {
        n_executions,
        n_ids: 0,
        has_more: chosen.has_more || has_excess && n_executions > 0,
    })
}

/// Does one thing for each item. What meets damage is left out with all that is behind it; it is the fault if it is the first.
fn apply<T>(
    connection: &Connection,
    tally: &mut ExecutionTally,
    items: &mut Vec<T>,
    one: impl Fn(&mut ExecutionTally, &T) -> Result<(), StoreFault>,
) -> Result<(), StoreFault> {
    while !items.is_empty() {
        let (mut after, mut at) = (*tally, 0);
        let applied = work::whole(connection, || {
            items.iter().enumerate().try_for_each(|(index, item)| {
                at = index;
                one(&mut after, item)
            })
        });
        match applied {
            Ok(()) => {
                *tally = after;
                break;
            }
            Err(StoreFault::Corrupt { .. }) if at > 0 => items.truncate(at),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// Walks on from where the last step ended. The excess is taken from what has no place in the order of settling, which settled
/// before everything that has one.
fn choose(
    connection: &Connection,
    walk: &mut Walk,
    (mut n_excess, spared_from): (u64, Option<i64>),
    before: Option<i64>,
    is_held: impl Fn(&Place) -> bool,
) -> Result<Chosen<StoredSummary>, StoreFault> {
    let sql = "SELECT number, state, settled_at, accepted_at, settlement FROM execution NOT INDEXED WHERE number > ?1 \
               ORDER BY number LIMIT ?2";
    let mut select = connection.prepare_cached(sql).map_err(working)?;
    let mut rows = select
        .query(params![column_number(walk.number), ROWS_PER_STEP_MAX as i64])
        .map_err(working)?;
    let mut chosen = Chosen {
        items: Vec::new(),
        has_more: false,
        is_at_last: false,
        end: walk.number,
    };
    if walk.number == 0 {
        walk.met = Some(Vec::new());
        walk.met_unplaced = false;
    }
    let (mut n_rows, mut n_bytes) = (0, 0);
    loop {
        let place = match Place::next(&mut rows) {
            Ok(Some(place)) => place,
            Ok(None) => break,
            Err(error) => {
                // A damaged page: it is passed number by number.
                let fault = reading(chosen.end + 1, PART_INDEX, error);
                return stopped(chosen, walk, fault);
            }
        };
        n_rows += 1;
        let none_is_due = n_excess == 0 || spared_from.is_some_and(|from| walk.ends_at(&place, from));
        if none_is_due && before.is_none_or(|before| walk.ends_at(&place, before)) {
            // Nothing settles before it is accepted: nothing behind is old enough.
            return Ok(chosen);
        }
        add(&mut walk.met, place.number, place.time());
        let is_excess = place.settlement.is_none()
            && n_excess > 0
            && (spared_from.is_none() || is_before(place.settled_at, spared_from));
        let is_due =
            place.is_settled && (is_excess || is_before(place.settled_at, before)) && !is_held(&place);
        if is_due {
            match verified(connection, place.number) {
                Ok((summary, bytes)) => {
                    n_excess = n_excess.saturating_sub(1);
                    n_bytes += bytes;
                    chosen.items.push(summary);
                }
                Err(fault) => return stopped(chosen, walk, fault),
            }
        } else if place.is_settled {
            walk.met_unplaced |= place.settlement.is_none();
        }
        chosen.end = place.number;
        if chosen.items.len() == REMOVED_PER_STEP_MAX || n_bytes >= BYTES_PER_STEP_MAX {
            chosen.has_more = true;
            return Ok(chosen);
        }
    }
    chosen.has_more = n_rows == ROWS_PER_STEP_MAX;
    chosen.is_at_last = !chosen.has_more;
    Ok(chosen)
}

fn is_before(settled_at: Option<i64>, before: Option<i64>) -> bool {
    if planted::is_on(Bug::LiveRemoved) && settled_at.is_none() {
        return before.is_some();
    }
    matches!((settled_at, before), (Some(settled_at), Some(before)) if settled_at < before)
}

/// The step ends in front of damage, or with it if it is the first.
fn stopped(
    mut chosen: Chosen<StoredSummary>,
    walk: &mut Walk,
    fault: StoreFault,
) -> Result<Chosen<StoredSummary>, StoreFault> {
    let StoreFault::Corrupt { number, .. } = fault else {
        return Err(fault);
    };
    walk.met = None;
    if chosen.items.is_empty() {
        walk.number = number;
        return Err(fault);
    }
    chosen.has_more = true;
    Ok(chosen)
}

/// What the walk needs of a row.
struct Place {
    number: u64,
    is_settled: bool,
    settled_at: Option<i64>,
    accepted_at: i64,
    settlement: Option<u64>,
}

impl Place {
    /// It settled no earlier, also if the clock was set back meanwhile.
    fn time(&self) -> i64 {
        self.settled_at.unwrap_or(i64::MAX).min(self.accepted_at)
    }

    fn next(rows: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<Self>> {
        let Some(row) = rows.next()? else { return Ok(None) };
        let state: i64 = row.get(1)?;
        Ok(Some(Self {
            number: number_of(row.get(0)?)?,
            is_settled: state == column_state(StoredState::Settled) || planted::is_on(Bug::LiveRemoved),
            settled_at: row.get(2)?,
            accepted_at: row.get(3)?,
            settlement: settlement_of(row.get(4)?),
        }))
    }
}

/// Returns the index columns, proven by the accepted record's checksum: nothing is removed by a damaged key, and
/// what is left of an execution carries no damaged id.
fn verified(connection: &Connection, number: u64) -> Result<(StoredSummary, usize), StoreFault> {
    let sql = format!(
        "SELECT {SUMMARY}, a.checksum, a.record FROM execution e \
         LEFT JOIN accepted_record a ON a.number = e.number WHERE e.number = ?1"
    );
    let check = |row: &Row<'_>| -> rusqlite::Result<Option<usize>> {
        let sum: Option<i64> = row.get(BEHIND_SUMMARY)?;
        let record = row.get_ref(BEHIND_SUMMARY + 1)?;
        let is_whole = sum == Some(accepted_checksum(row, record)?);
        Ok(match record {
            ValueRef::Blob(record) if is_whole => Some(record.len()),
            _ => None,
        })
    };
    let found = connection.prepare_cached(&sql).and_then(|mut select| {
        select.query_row([column_number(number)], |row| Ok((summary(row), check(row)?)))
    });
    match found.map_err(|error| reading(number, PART_ACCEPTED, error))? {
        (Ok(summary), Some(bytes)) => Ok((summary, bytes)),
        (Err(fault), _) => Err(fault),
        (Ok(_), None) => Err(StoreFault::Corrupt {
            number,
            part: PART_ACCEPTED,
        }),
    }
}

/// Removes one execution and keeps its ids. Returns its place in the order of settling; 0 if it has none.
fn remove(connection: &Connection, summary: &StoredSummary, now_unix_ms: i64) -> Result<u64, StoreFault> {
    let removed = RemovedExecution::of(summary, now_unix_ms);
    let number = [column_number(summary.number)];
    let delete = |sql| connection.prepare_cached(sql)?.execute(number);
    let apply = || -> rusqlite::Result<Option<Option<[u8; 8]>>> {
        let sql = "DELETE FROM execution WHERE number = ?1 AND state = 2 RETURNING settlement";
        let mut deleted = connection.prepare_cached(sql)?;
        let place = deleted.query_row(number, |row| row.get(0)).optional()?;
        delete("DELETE FROM accepted_record WHERE number = ?1")?;
        delete("DELETE FROM settled_record WHERE number = ?1")?;
        if !planted::is_on(Bug::RemovedIdReusable) {
            tombstones::insert(connection, &removed)?;
        }
        Ok(place)
    };
    let place = apply().map_err(|error| damage(summary.number, PART_INDEX, error))?;
    let place = place.expect("what is removed was seen settled a moment ago, and nobody else writes");
    Ok(settlement_of(place).unwrap_or_default())
}

/// Returns a key that an index holds already, or lacks, is damage of that one execution.
fn damage(number: u64, part: &'static str, error: rusqlite::Error) -> StoreFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => StoreFault::Corrupt { number, part },
        _ => reading(number, part, error),
    }
}
