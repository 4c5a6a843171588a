//! The pages of an examination that are about notices. Remembers nothing.

use rusqlite::Connection;

use super::runs::lookup;
use crate::StoreFault;
use crate::database::connection::{is_damage, working};
use crate::database::values::number_of;
use crate::examination::{ExaminedPage, Finding, Next, PAGE_MAX};
use crate::runs::tables::notices;

/// One page of notices.
pub(crate) fn page(connection: &Connection, after: i64) -> Result<(ExaminedPage, Next), StoreFault> {
    let mut page = ExaminedPage::default();
    let listed = match notices::places(connection, after, PAGE_MAX) {
        Ok(listed) => listed,
        Err(StoreFault::Fatal(source)) => {
            page.findings.push(Finding::Store(format!("notices: {source}")));
            return Ok((page, Next::RemovedRuns { after: 0 }));
        }
        Err(fault) => return Err(fault),
    };
    for (place, is_whole) in &listed {
        let sql = "SELECT place FROM notice INDEXED BY notice_by_stream \
                   WHERE stream = (SELECT stream FROM notice NOT INDEXED WHERE place = ?1) AND place = ?1";
        let is_indexed = match lookup(connection, sql, place) {
            Ok(found) => found == Some(*place),
            Err(error) if is_damage(&error) => false,
            Err(error) => return Err(working(error)),
        };
        if !(*is_whole && is_indexed) {
            let number = number_of(*place).unwrap_or(0);
            page.findings.push(Finding::Notice { number });
        }
    }
    let next = match listed.last() {
        Some((last, _)) if listed.len() == PAGE_MAX => Next::Notices { after: *last },
        _ => Next::RemovedRuns { after: 0 },
    };
    Ok((page, next))
}
