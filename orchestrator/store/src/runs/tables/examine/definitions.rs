//! The pages of an examination that are about saved plans and action profiles. Remembers nothing.

use rusqlite::{Connection, params};

use super::runs::lookup;
use crate::StoreFault;
use crate::database::connection::{is_damage, working};
use crate::examination::{ExaminedPage, Finding, Next, PAGE_MAX};
use crate::runs::tables::{definitions, rows};

/// One page of saved plans and action profiles.
pub(crate) fn page(connection: &Connection, after: u64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let listed = match definitions::page(connection, after, PAGE_MAX) {
        Ok(listed) => listed,
        Err(StoreFault::Fatal(source)) => {
            let said = format!("saved plans and action profiles: {source}");
            page.findings.push(Finding::Store(said));
            return Ok((page, Next::Notices { after: 0 }));
        }
        Err(fault) => return Err(fault),
    };
    let mut end = after;
    for (number, read) in &listed {
        end = *number;
        page.n_definitions += 1;
        let is_whole = match read {
            Ok(definition) => {
                let told = |error: rusqlite::Error| match error {
                    error if is_damage(&error) => Ok(false),
                    error => Err(working(error)),
                };
                definitions::is_indexed(connection, definition).or_else(told)?
                    && is_pinned_whole(connection, *number).or_else(told)?
            }
            Err(_) => false,
        };
        if !is_whole {
            page.findings.push(Finding::Definition { number: *number });
        }
    }
    let next = if listed.len() < PAGE_MAX {
        Next::Notices { after: 0 }
    } else {
        Next::Definitions { after: end }
    };
    Ok((page, next))
}

/// Whether every content that a definition refers to is there.
fn is_pinned_whole(connection: &Connection, number: u64) -> rusqlite::Result<bool> {
    let pins = definitions::pins_of(number);
    for digest in rows::digests(connection, pins)? {
        let is_there = lookup(connection, "SELECT place FROM content WHERE digest = ?1", &digest)?.is_some();
        let sql = "SELECT 1 FROM pin INDEXED BY pin_by_digest WHERE digest = ?1 AND number = ?2";
        let is_both_ways = connection.prepare_cached(sql)?.exists(params![digest, pins])?;
        if !(is_there && is_both_ways) {
            return Ok(false);
        }
    }
    Ok(true)
}
