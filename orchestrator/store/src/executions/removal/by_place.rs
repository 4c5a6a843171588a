//! A step of removal by number: takes the executions that settled first, in the order of settling.
//! Removes nothing for its age, and nothing that has no place in that order.
//!
//! A reader of the feed reads on from any place behind the highest one that was removed, so nothing is removed before what settled earlier.

use rusqlite::{Connection, params};

use super::{BYTES_PER_STEP_MAX, Walk, apply, remove, verified};
use crate::database::connection::working;
use crate::database::values::number_of;
use crate::executions::columns::{PART_INDEX, settlement_column};
use crate::executions::tally::ExecutionTally;
use crate::removal::REMOVED_PER_STEP_MAX;
use crate::{Removal, StoreFault, StoredState, StoredSummary};

/// How many it removed. Damage is passed in the next step.
pub(super) fn remove_first_settled(
    connection: &Connection,
    tally: &mut ExecutionTally,
    walk: &mut Walk,
    (n_excess, spared_from): (u64, Option<i64>),
    policy: &Removal,
    now_unix_ms: i64,
) -> Result<u64, StoreFault> {
    let is_kept = |place, settled_at| {
        spared_from.is_some_and(|from| settled_at >= from)
            || policy.holds(Some(place), Some(settled_at), now_unix_ms)
    };
    let mut chosen = choose(connection, walk, n_excess, is_kept)?;
    let first = chosen.first().map(|(place, _)| *place);
    let applied = apply(connection, tally, &mut chosen, |tally, (place, summary)| {
        tally.n_settled -= 1;
        tally.n_removed += 1;
        tally.settlements_removed = tally.settlements_removed.max(*place);
        if remove(connection, summary, now_unix_ms)? != *place {
            return Err(damaged(summary.number));
        }
        Ok(())
    });
    match (applied, first) {
        (Err(fault @ StoreFault::Corrupt { .. }), Some(first)) => {
            walk.settlement = first;
            Err(fault)
        }
        (Err(fault), _) => Err(fault),
        (Ok(()), _) => Ok(chosen.len() as u64),
    }
}

/// The first ones behind what is damaged, with their places; none behind one that is kept, by its place and its time of settling.
fn choose(
    connection: &Connection,
    walk: &mut Walk,
    n_excess: u64,
    is_kept: impl Fn(u64, i64) -> bool,
) -> Result<Vec<(u64, StoredSummary)>, StoreFault> {
    // A page of the index that is damaged must not keep what is old enough: the next step looks for that.
    walk.is_index_passed = true;
    let limit = n_excess.min(REMOVED_PER_STEP_MAX as u64) as i64;
    let sql = "SELECT settlement, number FROM execution INDEXED BY execution_by_settlement \
               WHERE settlement IS NOT NULL AND settlement > ?1 ORDER BY settlement LIMIT ?2";
    let mut select = connection.prepare_cached(sql).map_err(working)?;
    let places = select
        .query_map(params![settlement_column(walk.settlement), limit], |row| {
            Ok((row.get(0).map(u64::from_be_bytes)?, number_of(row.get(1)?)?))
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(working)?;
    walk.is_index_passed = false;
    let (mut chosen, mut n_bytes) = (Vec::new(), 0);
    for (place, number) in places {
        let found = verified(connection, number).and_then(|(summary, bytes)| match summary.settled_at {
            Some(settled_at) if summary.state == StoredState::Settled => Ok((summary, settled_at, bytes)),
            _ => Err(damaged(number)),
        });
        match found {
            Ok((_, settled_at, _)) if is_kept(place, settled_at) => break,
            Ok((summary, _, bytes)) => {
                n_bytes += bytes;
                chosen.push((place, summary));
            }
            Err(StoreFault::Corrupt { .. }) if !chosen.is_empty() => break,
            Err(fault) => {
                if matches!(fault, StoreFault::Corrupt { .. }) {
                    walk.settlement = place;
                }
                return Err(fault);
            }
        }
        if n_bytes >= BYTES_PER_STEP_MAX {
            break;
        }
    }
    Ok(chosen)
}

fn damaged(number: u64) -> StoreFault {
    StoreFault::Corrupt {
        number,
        part: PART_INDEX,
    }
}
