//! The pages of an examination that are about runs, contents and what is left of removed runs. Remembers nothing.

use escapement_model::chain::{chain_begin, chain_next};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::indexes;
use crate::StoreFault;
use crate::database::connection::{is_damage, working};
use crate::database::values::{column_number, number_of};
use crate::examination::{ExaminedPage, Finding, Next, PAGE_BYTES_MAX, PAGE_MAX};
use crate::runs::stored::RunSummary;
use crate::runs::tables::columns::{PART_CONTENT, PART_ENTRY, PART_ROW, corrupt, reading};
use crate::runs::tables::tally::RunTally;
use crate::runs::tables::{endings, requests, rows, tombstones};
use crate::tally_part::Part as _;

/// One page of runs.
pub(crate) fn runs(connection: &Connection, after: u64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let mut end = after;
    let numbers = numbers_behind(connection, after)?;
    let n_listed = numbers.len();
    for number in numbers {
        if page.n_bytes >= PAGE_BYTES_MAX {
            return Ok((page, Next::Runs { after: end }));
        }
        end = number;
        if !is_there(connection, number)? {
            continue;
        }
        let (n_bytes, parts) = parts_of(connection, number)?;
        page.n_runs += 1;
        page.n_bytes += n_bytes;
        if !parts.is_empty() {
            page.findings.push(Finding::Run {
                number,
                run_id: rows::run_id_at(connection, number)?,
                parts,
            });
        }
    }
    let next = if n_listed < PAGE_MAX {
        Next::Contents { after: 0 }
    } else {
        Next::Runs { after: end }
    };
    Ok((page, next))
}

/// Returns the next numbers. If the table does not list them for damage, all that there could be.
pub(crate) fn numbers_behind(connection: &Connection, after: u64) -> Result<Vec<u64>, StoreFault> {
    let sql = "SELECT number FROM run NOT INDEXED WHERE number > ?1 ORDER BY number LIMIT ?2";
    let listed = connection.prepare_cached(sql).and_then(|mut select| {
        select
            .query_map(params![column_number(after), PAGE_MAX as i64], |row| {
                row.get(0).and_then(number_of)
            })?
            .collect::<rusqlite::Result<Vec<u64>>>()
    });
    match listed {
        Ok(numbers) => Ok(numbers),
        Err(error) if is_damage(&error) => {
            let last = RunTally::load(connection).map_err(working)?.number_last;
            Ok((after + 1..=last).take(PAGE_MAX).collect())
        }
        Err(error) => Err(working(error)),
    }
}

/// True if there is a row, or if damage hides whether there is.
pub(crate) fn is_there(connection: &Connection, number: u64) -> Result<bool, StoreFault> {
    let sql = "SELECT number FROM run NOT INDEXED WHERE number = ?1";
    match lookup(connection, sql, &column_number(number)) {
        Ok(found) => Ok(found.is_some()),
        Err(error) if is_damage(&error) => Ok(true),
        Err(error) => Err(working(error)),
    }
}

/// Bytes of a run, and what of it is damaged or missing.
pub(in crate::runs::tables) fn parts_of(
    connection: &Connection,
    number: u64,
) -> Result<(u64, Vec<&'static str>), StoreFault> {
    let mut parts = Vec::new();
    let mut n_bytes = 0;
    if let Some(run) = noted(
        rows::row(connection, number).and_then(|run| run.ok_or_else(|| corrupt(number, PART_ROW))),
        &mut parts,
    )? {
        indexes::note(connection, &run, &mut parts)?;
        if !endings::is_indexed(connection, number)? {
            parts.push("index by ending");
        }
        noted(journal(connection, &run, &mut n_bytes), &mut parts)?;
        if let Some(Some(snapshot)) = noted(rows::snapshot(connection, &run), &mut parts)? {
            n_bytes += snapshot.bytes.len() as u64;
        }
    }
    noted(pinned(connection, number), &mut parts)?;
    for request in noted(rows::input_requests_of(connection, number), &mut parts)?.unwrap_or_default() {
        let sql = "SELECT place FROM input_request WHERE input_request_id = ?1";
        match lookup(connection, sql, request.id.as_bytes()) {
            Ok(Some(place)) if place == column_number(request.number) => {}
            Ok(_) => parts.push("index of input requests"),
            Err(error) if is_damage(&error) => parts.push("index of input requests"),
            Err(error) => return Err(working(error)),
        }
    }
    for answered in noted(requests::of_run(connection, number), &mut parts)?.unwrap_or_default() {
        let sql = "SELECT place FROM request WHERE key = ?1";
        match lookup(connection, sql, &answered.request.key) {
            Ok(Some(place)) if place == column_number(answered.place) => {}
            Ok(_) => parts.push("index of answered requests"),
            Err(error) if is_damage(&error) => parts.push("index of answered requests"),
            Err(error) => return Err(working(error)),
        }
    }
    parts.dedup();
    Ok((n_bytes, parts))
}

/// What was read; damage is noted.
fn noted<T>(read: Result<T, StoreFault>, parts: &mut Vec<&'static str>) -> Result<Option<T>, StoreFault> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreFault::CorruptRun { part, .. }) => {
            parts.push(part);
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Every entry and every link, the last of which stands in the row.
fn journal(connection: &Connection, run: &RunSummary, n_bytes: &mut u64) -> Result<(), StoreFault> {
    let mut is_chain = true;
    // The link in front of the first entry is unknown if earlier ones were dropped.
    let mut before = (run.first_seq == 1).then(|| chain_begin(&run.run_id));
    rows::entries(connection, run, run.first_seq, |entry| {
        *n_bytes += entry.bytes.len() as u64;
        if let Some(before) = &before {
            is_chain &= chain_next(before, entry.seq, &entry.bytes) == entry.link;
        }
        before = Some(entry.link);
        is_chain
    })?;
    if is_chain && before.is_none_or(|last| last == run.last_link) {
        return Ok(());
    }
    Err(corrupt(run.number, PART_ENTRY))
}

/// Whether every content that the run refers to is there; their bytes are looked at on pages of their own.
fn pinned(connection: &Connection, number: u64) -> Result<(), StoreFault> {
    let damaged = |error| reading(number, PART_CONTENT, error);
    for digest in rows::digests(connection, column_number(number)).map_err(damaged)? {
        let is_there = lookup(connection, "SELECT place FROM content WHERE digest = ?1", &digest);
        let is_both_ways = rows::is_pinned_by(connection, &digest, column_number(number)).map_err(working)?;
        match is_there {
            Ok(Some(_)) if is_both_ways => {}
            Ok(_) => return Err(corrupt(number, PART_CONTENT)),
            Err(error) if is_damage(&error) => return Err(corrupt(number, PART_CONTENT)),
            Err(error) => return Err(working(error)),
        }
    }
    Ok(())
}

pub(crate) fn lookup(connection: &Connection, sql: &str, key: &dyn ToSql) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(sql)?
        .query_row([key], |row| row.get(0))
        .optional()
}

/// One page of contents.
pub(crate) fn contents(connection: &Connection, after: i64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let (mut end, mut n_listed) = (after, 0);
    let sql = "SELECT digest, revision, revision_checksum, bytes, place FROM content NOT INDEXED WHERE place > ?1 \
               ORDER BY place LIMIT ?2";
    let mut select = connection.prepare_cached(sql).map_err(working)?;
    let mut rows = select.query(params![after, PAGE_MAX as i64]).map_err(working)?;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) if is_damage(&error) => {
                let said = format!("contents behind place {end} cannot be read");
                page.findings.push(Finding::Store(said));
                return Ok((page, Next::Definitions { after: 0 }));
            }
            Err(error) => return Err(working(error)),
        };
        n_listed += 1;
        end = row.get(4).map_err(working)?;
        page.n_contents += 1;
        page.findings.extend(content(connection, row, &mut page.n_bytes)?);
        if page.n_bytes >= PAGE_BYTES_MAX {
            return Ok((page, Next::Contents { after: end }));
        }
    }
    let next = if n_listed < PAGE_MAX {
        Next::Definitions { after: 0 }
    } else {
        Next::Contents { after: end }
    };
    Ok((page, next))
}

/// What is wrong with one content.
fn content(connection: &Connection, row: &Row<'_>, n_bytes: &mut u64) -> Result<Option<Finding>, StoreFault> {
    let mut read = || -> rusqlite::Result<_> {
        *n_bytes += row.get_ref(3)?.as_blob()?.len() as u64;
        rows::content_of(row)
    };
    let (digest, is_sound) = match read() {
        Ok((digest, is_sound)) => (Some(digest), is_sound),
        Err(error) if is_damage(&error) => (None, false),
        Err(error) => return Err(working(error)),
    };
    let Some(known) = &digest else {
        return Ok(Some(Finding::Content {
            digest,
            runs: Vec::new(),
            definitions: Vec::new(),
        }));
    };
    if is_sound && rows::is_pinned(connection, known).map_err(working)? {
        return Ok(None);
    }
    Ok(Some(Finding::Content {
        digest,
        runs: rows::pins(connection, known)?,
        definitions: rows::pins_of_definitions(connection, known)?,
    }))
}

/// One page of what is left of removed runs.
pub(crate) fn removed(connection: &Connection, after: i64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let listed = match tombstones::page(connection, after, PAGE_MAX) {
        Ok(listed) => listed,
        Err(StoreFault::Fatal(source)) => {
            let said = format!("ids of removed runs: {source}");
            page.findings.push(Finding::Store(said));
            return Ok((page, Next::Numbers));
        }
        Err(fault) => return Err(fault),
    };
    let mut end = after;
    for (place, removed) in &listed {
        end = *place;
        page.n_runs_removed += 1;
        let damaged = match removed {
            Ok(left) => {
                let found = noted(tombstones::find(connection, &left.run_id), &mut Vec::new())?;
                (found.flatten().as_ref() != Some(left)).then_some(left.number)
            }
            Err(StoreFault::CorruptRun { number, .. }) => Some(*number),
            Err(_) => Some(0),
        };
        page.findings
            .extend(damaged.map(|number| Finding::RemovedRun { number }));
    }
    let next = if listed.len() < PAGE_MAX {
        Next::Numbers
    } else {
        Next::RemovedRuns { after: end }
    };
    Ok((page, next))
}

/// Pairs of counts that must be the same, of one moment.
pub(crate) const SAME_COUNTS: [(&str, &str, &str); 10] = [
    (
        "entries of the index by run id",
        "SELECT count(*) FROM run NOT INDEXED",
        "SELECT count(run_id) FROM run INDEXED BY run_by_id WHERE run_id IS NOT NULL",
    ),
    (
        "entries of the index by state",
        "SELECT count(*) FROM run NOT INDEXED",
        "SELECT count(state) FROM run INDEXED BY run_by_state WHERE state IS NOT NULL",
    ),
    (
        "entries of the index by ending",
        "SELECT count(ending) FROM run NOT INDEXED",
        "SELECT count(*) FROM run INDEXED BY run_by_ending WHERE ending IS NOT NULL",
    ),
    (
        "snapshots",
        "SELECT count(*) FROM run NOT INDEXED WHERE snapshot_seq > 0",
        "SELECT count(*) FROM snapshot",
    ),
    (
        "entries of journals",
        "SELECT coalesce(sum(next_seq - first_seq), 0) FROM run NOT INDEXED",
        "SELECT count(*) FROM journal",
    ),
    (
        "references to contents",
        "SELECT count(*) FROM pin",
        "SELECT count(digest) FROM pin INDEXED BY pin_by_digest WHERE digest IS NOT NULL",
    ),
    (
        "entries of the index by revision",
        "SELECT count(revision) FROM content NOT INDEXED",
        "SELECT count(revision) FROM content INDEXED BY content_by_revision WHERE revision IS NOT NULL",
    ),
    (
        "entries of the index by saved plan",
        "SELECT count(plan) FROM run NOT INDEXED",
        "SELECT count(plan) FROM run INDEXED BY run_by_plan_and_number WHERE plan IS NOT NULL",
    ),
    (
        "entries of the index by namespace",
        "SELECT count(namespace) FROM run NOT INDEXED",
        "SELECT count(namespace) FROM run INDEXED BY run_by_namespace WHERE namespace IS NOT NULL",
    ),
    (
        "entries of the index of answered requests",
        "SELECT count(*) FROM request NOT INDEXED",
        "SELECT count(key) FROM request INDEXED BY request_by_key WHERE key IS NOT NULL",
    ),
];

#[cfg(test)]
mod tests;
