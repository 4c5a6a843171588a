//! A step of forgetting the ids of removed executions. Removes no execution.

use rusqlite::Connection;

use super::{Walk, apply, damage};
use crate::executions::tally::ExecutionTally;
use crate::executions::tombstones::{self, PART_REMOVED, Placed};
use crate::removal::REMOVED_PER_STEP_MAX;
use crate::{Removal, Removed, StoreFault};

/// Forgets the ids of executions that were removed long enough ago, one step of them.
pub(crate) fn forget_ids(
    connection: &Connection,
    tally: &mut ExecutionTally,
    walk: &mut Walk,
    policy: &Removal,
    now_unix_ms: i64,
) -> Result<Removed, StoreFault> {
    let Some(before) = policy.removed_before(now_unix_ms) else {
        return Ok(Removed::default());
    };
    let mut due = Vec::new();
    for Placed { place, removed } in tombstones::page(connection, walk.place, REMOVED_PER_STEP_MAX)? {
        match removed {
            Ok(removed) if removed.removed_at < before => due.push((place, removed.number)),
            Err(fault) if due.is_empty() => {
                walk.place = place;
                return Err(fault);
            }
            Ok(_) | Err(_) => break,
        }
    }
    let first = due.first().map(|(place, _)| *place);
    let applied = apply(connection, tally, &mut due, |tally, (place, number)| {
        tally.n_removed -= 1;
        tally.n_forgotten += 1;
        connection
            .prepare_cached("DELETE FROM removed_execution WHERE place = ?1")
            .and_then(|mut delete| delete.execute([place]))
            .map_err(|error| damage(*number, PART_REMOVED, error))?;
        Ok(())
    });
    match (applied, first) {
        (Err(fault @ StoreFault::Corrupt { .. }), Some(first)) => {
            walk.place = first;
            Err(fault)
        }
        (Err(fault), _) => Err(fault),
        (Ok(()), _) => {
            let has_more = due.len() == REMOVED_PER_STEP_MAX;
            if !has_more {
                walk.place = 0;
            }
            Ok(Removed {
                n_executions: 0,
                n_ids: due.len() as u64,
                has_more,
            })
        }
    }
}
