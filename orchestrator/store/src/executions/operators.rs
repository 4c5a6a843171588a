//! Rows of operators' entries: appended within a batch, read with their outcomes, and held against their chain.
//! Decides nothing about what they say.

use escapement_model::BootId;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::list::{saturated, saturated_limit};
use super::tally::ExecutionTally;
use crate::database::connection::{reading, working};
use crate::database::values::{column_number, number_of};
use crate::examination::Link;
use crate::operators::OPERATORS_REMOVED_MAX;
use crate::{
    Conflict, OPERATOR_ENTRY_BYTES_MAX, OperatorAction, OperatorDeed, OperatorEntry, OperatorFilter,
    OperatorIntent, OperatorWrite, Outcome, StoreFault,
};

/// What a damaged entry is called.
const PART_OPERATORS: &str = "entry of operators";
/// All columns in the order of [`entry`].
const COLUMNS: &str =
    "number, at, boot_id, intent, name, kind, issuer, peer, rpc, request, outcome, previous_hash, hash";
const INSERT: &str = "INSERT INTO operator_entry (number, at, boot_id, intent, name, kind, issuer, peer, rpc, \
     request, outcome, previous_hash, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

/// Appends an entry, and removes old ones as it says.
pub(crate) fn append(
    connection: &Connection,
    tally: &mut ExecutionTally,
    write: &OperatorWrite,
) -> Result<Outcome, StoreFault> {
    let n_bytes = write.deed.n_bytes();
    assert!(n_bytes <= OPERATOR_ENTRY_BYTES_MAX, "an entry of {n_bytes} bytes");
    if let OperatorDeed::Outcome { intent, .. } = &write.deed
        && let Some(conflict) = conflict(connection, *intent)?
    {
        return Ok(Outcome::Conflict(conflict));
    }
    let number = tally.operators_last + 1;
    let entry = OperatorEntry::behind(number, last_hash(connection, tally.operators_last)?, write);
    insert(connection, &entry).map_err(working)?;
    tally.operators_last = number;
    if let Some(keep_from) = write.keep_from {
        remove(connection, keep_from, number).map_err(working)?;
    }
    Ok(Outcome::Done { number })
}

/// Why there can be no outcome of that intent.
fn conflict(connection: &Connection, intent: u64) -> Result<Option<Conflict>, StoreFault> {
    let sql = "SELECT intent IS NULL, EXISTS (SELECT 1 FROM operator_entry WHERE intent = ?1) \
               FROM operator_entry WHERE number = ?1";
    let found: Option<(bool, bool)> = connection
        .prepare_cached(sql)
        .and_then(|mut select| {
            let flags = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            select.query_row([saturated(intent)], flags).optional()
        })
        .map_err(working)?;
    Ok(match found {
        Some((true, false)) => None,
        Some((true, true)) => Some(Conflict::AlreadySettled),
        Some((false, _)) | None => Some(Conflict::NotFound),
    })
}

/// Returns the hash of the last entry; zeros if it is not there, which an examination finds if it should be.
fn last_hash(connection: &Connection, number: u64) -> Result<[u8; 32], StoreFault> {
    let found = connection
        .prepare_cached("SELECT hash FROM operator_entry WHERE number = ?1")
        .and_then(|mut select| {
            select
                .query_row([column_number(number)], |row| row.get(0))
                .optional()
        })
        .map_err(|error| reading(number, PART_OPERATORS, error))?;
    Ok(found.unwrap_or_default())
}

fn insert(connection: &Connection, entry: &OperatorEntry) -> rusqlite::Result<()> {
    let (intent_number, outcome, intent) = match &entry.deed {
        OperatorDeed::Intent(intent) => (None, None, Some(intent)),
        OperatorDeed::Outcome { intent, outcome } => (Some(column_number(*intent)), Some(outcome), None),
    };
    connection.prepare_cached(INSERT)?.execute(params![
        column_number(entry.number),
        entry.at,
        entry.boot_id.as_bytes(),
        intent_number,
        intent.map(|intent| &intent.name),
        intent.map(|intent| &intent.kind),
        intent.map(|intent| &intent.issuer),
        intent.map(|intent| &intent.peer),
        intent.map(|intent| &intent.rpc),
        intent.map(|intent| &intent.request),
        outcome,
        entry.previous_hash,
        entry.hash,
    ])?;
    Ok(())
}

/// Removes from the lowest number on what is older, but never the newest entry, on whose hash the next one is built.
fn remove(connection: &Connection, keep_from: i64, newest: u64) -> rusqlite::Result<()> {
    let oldest = connection
        .prepare_cached("SELECT number, at FROM operator_entry ORDER BY number LIMIT ?1")?
        .query_map([saturated_limit(OPERATORS_REMOVED_MAX)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<Vec<(i64, i64)>>>()?;
    let due = oldest
        .iter()
        .take_while(|(number, at)| *at < keep_from && *number < column_number(newest));
    if let Some((last_due, _)) = due.last() {
        connection
            .prepare_cached("DELETE FROM operator_entry WHERE number <= ?1")?
            .execute([last_due])?;
    }
    Ok(())
}

/// Acts, the newest first.
pub(crate) fn actions(
    connection: &Connection,
    filter: &OperatorFilter,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<OperatorAction>, StoreFault> {
    // One read transaction, so that an intent and its outcome are of one moment.
    let transaction = connection.unchecked_transaction().map_err(working)?;
    let mut sql = format!("SELECT {COLUMNS} FROM operator_entry e WHERE intent IS NULL");
    let mut bound = Vec::new();
    let conditions = [
        (
            " AND number < ?",
            before.map(|before| Value::Integer(saturated(before))),
        ),
        (" AND name = ?", filter.name.clone().map(Value::Text)),
        (" AND rpc = ?", filter.rpc.clone().map(Value::Text)),
    ];
    for (condition, value) in conditions {
        if let Some(value) = value {
            sql.push_str(condition);
            bound.push(value);
        }
    }
    if filter.is_open {
        sql.push_str(" AND NOT EXISTS (SELECT 1 FROM operator_entry o WHERE o.intent = e.number)");
    }
    sql.push_str(" ORDER BY number DESC LIMIT ?");
    bound.push(Value::Integer(saturated_limit(limit)));
    let mut select = transaction.prepare_cached(&sql).map_err(working)?;
    let mut rows = select.query(params_from_iter(bound)).map_err(working)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(working)? {
        let intent = sound(row)?;
        let outcome = outcome_of(&transaction, intent.number)?;
        found.push(OperatorAction { intent, outcome });
    }
    Ok(found)
}

fn outcome_of(connection: &Connection, intent: u64) -> Result<Option<OperatorEntry>, StoreFault> {
    let sql = format!("SELECT {COLUMNS} FROM operator_entry WHERE intent = ?1");
    let mut select = connection.prepare_cached(&sql).map_err(working)?;
    let mut rows = select.query([column_number(intent)]).map_err(working)?;
    rows.next().map_err(working)?.map(sound).transpose()
}

/// Returns an entry whose hash is right.
fn sound(row: &Row<'_>) -> Result<OperatorEntry, StoreFault> {
    let number = row.get(0).and_then(number_of).map_err(working)?;
    let entry = entry(row).map_err(|error| reading(number, PART_OPERATORS, error))?;
    if entry.link() != entry.hash {
        return Err(StoreFault::Corrupt {
            number,
            part: PART_OPERATORS,
        });
    }
    Ok(entry)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<OperatorEntry> {
    let intent: Option<i64> = row.get(3)?;
    let deed = match intent {
        Some(intent) => OperatorDeed::Outcome {
            intent: number_of(intent)?,
            outcome: row.get(10)?,
        },
        None => OperatorDeed::Intent(OperatorIntent {
            name: row.get(4)?,
            kind: row.get(5)?,
            issuer: row.get(6)?,
            peer: row.get(7)?,
            rpc: row.get(8)?,
            request: row.get(9)?,
        }),
    };
    Ok(OperatorEntry {
        number: row.get(0).and_then(number_of)?,
        at: row.get(1)?,
        boot_id: BootId::new(row.get(2)?),
        deed,
        previous_hash: row.get(11)?,
        hash: row.get(12)?,
    })
}

/// A page of the chain.
#[derive(Debug, Default)]
pub(crate) struct LinkPage {
    pub(super) n_entries: usize,
    /// Entries that are not as they were written, or do not follow the one before.
    pub(super) damaged: Vec<u64>,
    /// The last one.
    pub(super) last: Link,
}

/// Looks at the next entries.
pub(crate) fn examine(connection: &Connection, from: Link, limit: usize) -> Result<LinkPage, StoreFault> {
    let sql = format!("SELECT {COLUMNS} FROM operator_entry WHERE number > ?1 ORDER BY number LIMIT ?2");
    let mut select = connection.prepare_cached(&sql).map_err(working)?;
    let bound = params![column_number(from.number), saturated_limit(limit)];
    let mut rows = select.query(bound).map_err(working)?;
    let mut page = LinkPage {
        last: from,
        ..LinkPage::default()
    };
    // What it followed may have been removed since: then, as for the first that is kept, nothing says what stood before.
    let mut is_first = from.number == 0 || !is_there(connection, from.number)?;
    while let Some(row) = rows.next().map_err(working)? {
        page.n_entries += 1;
        let number = row.get(0).and_then(number_of).map_err(working)?;
        let follows = |entry: &OperatorEntry| match is_first {
            true => number > 1 || entry.previous_hash == [0; 32],
            false => number == page.last.number + 1 && entry.previous_hash == page.last.hash,
        };
        match sound(row) {
            Ok(entry) if follows(&entry) => {}
            Ok(_) | Err(StoreFault::Corrupt { .. }) => page.damaged.push(number),
            Err(fault) => return Err(fault),
        }
        is_first = false;
        // What follows is held against the hash that stands here, so that one damaged entry is one finding.
        page.last = Link {
            number,
            hash: row.get(12).unwrap_or_default(),
        };
    }
    Ok(page)
}

fn is_there(connection: &Connection, number: u64) -> Result<bool, StoreFault> {
    connection
        .prepare_cached("SELECT 1 FROM operator_entry WHERE number = ?1")
        .and_then(|mut select| select.exists([column_number(number)]))
        .map_err(working)
}
