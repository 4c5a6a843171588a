//! Notices: rows of `notice`. Looks into none.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use super::tally::RunTally;
use crate::StoreFault;
use crate::database::connection::working;
use crate::database::values::{checksum, column_number, number_of};
use crate::runs::limits::NOTICE_AGE_MS_MAX;
use crate::runs::notices::{NewNotice, StoredNotice};

/// Columns in the order in which they are bound, read and summed; the sum is the one behind them.
const NAMES: &str = "place, stream, n, at, record, checksum";

/// Writes notices, and lets what is too much of their streams or too old go.
pub(super) fn insert(
    connection: &Connection,
    tally: &mut RunTally,
    notices: &[NewNotice],
) -> rusqlite::Result<()> {
    for new in notices {
        let last = connection
            .prepare_cached("SELECT n FROM notice WHERE stream = ?1 ORDER BY place DESC LIMIT 1")?
            .query_row([&new.stream], |row| row.get(0).and_then(number_of))
            .optional()?;
        tally.notice_last += 1;
        let notice = StoredNotice {
            number: tally.notice_last,
            stream: new.stream.clone(),
            n: last.unwrap_or(0) + 1,
            at: new.at,
            record: new.record.clone(),
        };
        let sql = format!("INSERT OR REPLACE INTO notice ({NAMES}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
        connection.prepare_cached(&sql)?.execute(params![
            column_number(notice.number),
            notice.stream,
            column_number(notice.n),
            notice.at,
            &notice.record[..],
            sum(&notice),
        ])?;
        let too_many = column_number(notice.n.saturating_sub(new.kept_max));
        let first_two = "SELECT place FROM notice WHERE stream = ?1 ORDER BY place LIMIT 2";
        connection
            .prepare_cached(&format!(
                "DELETE FROM notice WHERE place IN ({first_two}) AND n <= ?2"
            ))?
            .execute(params![notice.stream, too_many])?;
    }
    if let Some(newest) = notices.iter().map(|notice| notice.at).max() {
        // Those in front of the first that is not old: what is left of a stream is its end.
        let oldest = "SELECT place, at FROM notice NOT INDEXED ORDER BY place LIMIT ?1";
        let young = format!("SELECT min(place) FROM ({oldest}) WHERE at >= ?2");
        connection
            .prepare_cached(&format!(
                "DELETE FROM notice WHERE place IN (SELECT place FROM ({oldest})) \
                 AND place < ifnull(({young}), {})",
                i64::MAX
            ))?
            .execute(params![
                2 * notices.len() as i64,
                newest.saturating_sub(NOTICE_AGE_MS_MAX)
            ])?;
    }
    Ok(())
}

/// Which notice of the stream is the last one up to that number, 0 if there is none; `None` if some behind it may be gone.
/// `last` is the last number that was given.
pub(super) fn until(
    connection: &Connection,
    stream: &str,
    number: u64,
    last: u64,
) -> rusqlite::Result<Option<u64>> {
    let until = "SELECT n FROM notice WHERE stream = ?1 AND place <= ?2 ORDER BY place DESC LIMIT 1";
    let found = connection
        .prepare_cached(until)?
        .query_row(params![stream, column_number(number)], |row| {
            row.get(0).and_then(number_of)
        })
        .optional()?;
    if found.is_some() {
        return Ok(found);
    }
    let first = "SELECT n FROM notice WHERE stream = ?1 ORDER BY place LIMIT 1";
    let first: Option<i64> = connection
        .prepare_cached(first)?
        .query_row([stream], |row| row.get(0))
        .optional()?;
    // A stream of which nothing was left has begun anew; what came before lay in front of all that is left.
    let kept_from: Option<i64> = connection
        .prepare_cached("SELECT min(place) FROM notice")?
        .query_row([], |row| row.get(0))?;
    let kept_from = kept_from.unwrap_or(column_number(last) + 1);
    let is_whole = first.is_none_or(|n| n == 1) && column_number(number) + 1 >= kept_from;
    Ok(is_whole.then_some(0))
}

/// Notices of a stream behind that number, at most `limit`. Leaves out what is damaged.
pub(super) fn page(
    connection: &Connection,
    stream: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredNotice>, StoreFault> {
    let sql = format!("SELECT {NAMES} FROM notice WHERE stream = ?1 AND place > ?2 ORDER BY place");
    let mut select = connection.prepare_cached(&sql).map_err(working)?;
    let after = column_number(after.min(i64::MAX.unsigned_abs()));
    let mut rows = select.query(params![stream, after]).map_err(working)?;
    let mut page = Vec::new();
    while page.len() < limit {
        let Some(row) = rows.next().map_err(working)? else {
            break;
        };
        page.extend(decode(row)?);
    }
    Ok(page)
}

/// Places behind that one, at most `limit`, each with whether its row is whole.
pub(super) fn places(
    connection: &Connection,
    after: i64,
    limit: usize,
) -> Result<Vec<(i64, bool)>, StoreFault> {
    let sql = format!("SELECT {NAMES} FROM notice NOT INDEXED WHERE place > ?1 ORDER BY place LIMIT ?2");
    let mut select = connection.prepare_cached(&sql).map_err(working)?;
    let mut rows = select.query(params![after, limit as i64]).map_err(working)?;
    let mut places = Vec::new();
    while let Some(row) = rows.next().map_err(working)? {
        let place = row.get(0).map_err(working)?;
        places.push((place, decode(row)?.is_some()));
    }
    Ok(places)
}

/// Returns a row of [`NAMES`]; `None` if it is damaged.
fn decode(row: &Row<'_>) -> Result<Option<StoredNotice>, StoreFault> {
    let read = || -> rusqlite::Result<_> {
        let notice = StoredNotice {
            number: row.get(0).and_then(number_of)?,
            stream: row.get(1)?,
            n: row.get(2).and_then(number_of)?,
            at: row.get(3)?,
            record: bytes::Bytes::copy_from_slice(row.get_ref(4)?.as_blob()?),
        };
        let is_sound = row.get::<_, i64>(5)? == sum(&notice);
        Ok(is_sound.then_some(notice))
    };
    match read() {
        Ok(read) => Ok(read),
        Err(error) => match error.sqlite_error_code() {
            None | Some(ErrorCode::DatabaseCorrupt) => Ok(None),
            Some(_) => Err(working(error)),
        },
    }
}

fn sum(notice: &StoredNotice) -> i64 {
    checksum([
        ValueRef::Integer(column_number(notice.number)),
        ValueRef::Text(notice.stream.as_bytes()),
        ValueRef::Integer(column_number(notice.n)),
        ValueRef::Integer(notice.at),
        ValueRef::Blob(&notice.record),
    ])
}
