//! Runs in the order in which they ended. Gives no place away.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{PART_ROW, SUMMARY, corrupt, reading, summary};
use super::tally::RunTally;
use crate::StoreFault;
use crate::database::connection::{is_damage, working};
use crate::database::values::{column_number, number_of};
use crate::runs::stored::{EndedPage, RunSummary};
use crate::tally_part::Part as _;

/// Returns a place as a column, which sorts as the places do.
pub(super) fn column(place: u64) -> [u8; 8] {
    place.to_be_bytes()
}

/// What ended behind that place, at most `limit` runs, in one transaction of the caller.
pub(super) fn page(connection: &Connection, after: u64, limit: i64) -> Result<EndedPage, StoreFault> {
    let tally = RunTally::load(connection).map_err(working)?;
    let mut page = EndedPage {
        last: tally.endings_last,
        removed: tally.endings_removed,
        ..EndedPage::default()
    };
    let sql = "SELECT ending, number FROM run INDEXED BY run_by_ending \
               WHERE ending IS NOT NULL AND ending > ?1 ORDER BY ending LIMIT ?2";
    let mut select = connection.prepare_cached(sql).map_err(working)?;
    let mut places = select.query(params![column(after), limit]).map_err(working)?;
    while let Some(row) = places.next().map_err(working)? {
        let place = row.get(0).map(u64::from_be_bytes).map_err(working)?;
        let number = row.get(1).and_then(number_of).map_err(working)?;
        match ended(connection, number) {
            Ok((Some(stands_at), run)) if stands_at == place => page.runs.push((place, run)),
            Ok(_) | Err(StoreFault::CorruptRun { .. }) => {
                page.damaged = Some(place);
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(page)
}

/// Returns a run that has ended, with its place.
fn ended(connection: &Connection, number: u64) -> Result<(Option<u64>, RunSummary), StoreFault> {
    let sql = format!("SELECT {SUMMARY}, ending FROM run WHERE number = ?1");
    let damaged = |error| reading(number, PART_ROW, error);
    let read = |row: &Row<'_>| Ok((row.get::<_, Option<[u8; 8]>>("ending")?, summary(row)));
    let mut select = connection.prepare_cached(&sql).map_err(damaged)?;
    let found = select.query_row([column_number(number)], read).optional();
    match found.map_err(damaged)? {
        Some((place, Ok(run))) if run.progress.ended_at.is_some() => Ok((place.map(u64::from_be_bytes), run)),
        Some((_, Err(fault))) => Err(fault),
        Some((_, Ok(_))) | None => Err(corrupt(number, PART_ROW)),
    }
}

/// Returns the place of a run; `None` if it has none.
pub(super) fn place_of(connection: &Connection, number: u64) -> Result<Option<u64>, StoreFault> {
    let sql = "SELECT ending FROM run WHERE number = ?1";
    let found = connection
        .prepare_cached(sql)
        .and_then(|mut select| {
            let found = select.query_row([column_number(number)], |row| row.get::<_, Option<[u8; 8]>>(0));
            found.optional()
        })
        .map_err(|error| reading(number, PART_ROW, error))?;
    Ok(found.flatten().map(u64::from_be_bytes))
}

/// True if the index leads from the place of a run to the run, or it has none.
pub(super) fn is_indexed(connection: &Connection, number: u64) -> Result<bool, StoreFault> {
    let sql = "SELECT iif(r.ending IS NULL, r.number, (SELECT i.number FROM run i \
               INDEXED BY run_by_ending WHERE i.ending = r.ending)) FROM run r NOT INDEXED WHERE r.number = ?1";
    let found = connection.prepare_cached(sql).and_then(|mut select| {
        let found = select.query_row([column_number(number)], |row| row.get::<_, Option<i64>>(0));
        found.optional()
    });
    match found {
        Ok(found) => Ok(found.flatten() == Some(column_number(number))),
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(working(error)),
    }
}
