//! Contents and which runs refer to them: each is kept as long as one does. Looks into none.

use rusqlite::{Connection, params};

use super::columns::{PART_CONTENT, reading};
use super::refusal::Refusal;
use super::rows;
use crate::StoreFault;
use crate::database::values::column_number;
use crate::runs::write::{RunConflict, RunWrite};

const INSERT: &str = "INSERT OR IGNORE INTO content (digest, bytes) VALUES (?1, ?2)";
const PIN: &str = "INSERT OR IGNORE INTO pin (number, digest) VALUES (?1, ?2)";
const UNPIN: &str = "DELETE FROM pin WHERE number = ?1 AND digest = ?2";
const IS_THERE: &str = "SELECT 1 FROM content WHERE digest = ?1";
const IS_PINNED: &str = "SELECT 1 FROM pin INDEXED BY pin_by_digest WHERE digest = ?1";
const DELETE: &str = "DELETE FROM content WHERE digest = ?1";

/// Keeps and pins what the write says.
pub(super) fn apply(connection: &Connection, number: u64, write: &RunWrite) -> Result<(), Refusal> {
    let number = column_number(number);
    let pin = |digest| connection.prepare_cached(PIN)?.execute(params![number, digest]);
    for content in &write.contents {
        connection
            .prepare_cached(INSERT)?
            .execute(params![content.digest(), &content.bytes()[..]])?;
        pin(content.digest())?;
    }
    for digest in &write.pinned {
        if !connection.prepare_cached(IS_THERE)?.exists([digest])? {
            return Err(RunConflict::ContentMissing { digest: *digest }.into());
        }
        pin(*digest)?;
    }
    Ok(())
}

/// Releases what the write says, after every write of its batch was applied.
pub(super) fn release_some(connection: &Connection, write: &RunWrite) -> Result<(), Refusal> {
    if write.released.is_empty() {
        return Ok(());
    }
    let number = rows::number(connection, &write.run_id)?.ok_or(RunConflict::NotFound)?;
    for digest in &write.released {
        release(connection, column_number(number), digest)?;
    }
    Ok(())
}

/// Releases everything that a run refers to.
pub(super) fn release_all(connection: &Connection, number: u64) -> Result<(), StoreFault> {
    for digest in rows::digests(connection, number)? {
        release(connection, column_number(number), &digest)
            .map_err(|error| reading(number, PART_CONTENT, error))?;
    }
    Ok(())
}

fn release(connection: &Connection, number: i64, digest: &[u8; 32]) -> rusqlite::Result<()> {
    connection
        .prepare_cached(UNPIN)?
        .execute(params![number, digest])?;
    if !connection.prepare_cached(IS_PINNED)?.exists([digest])? {
        connection.prepare_cached(DELETE)?.execute([digest])?;
    }
    Ok(())
}
