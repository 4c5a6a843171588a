//! Contents and who refers to them: each is kept as long as a run or a definition does. Looks into none.

use rusqlite::{Connection, params};

use super::columns::{PART_CONTENT, reading, revision_sum};
use super::refusal::Refusal;
use super::rows;
use crate::StoreFault;
use crate::database::values::column_number;
use crate::runs::content::Content;
use crate::runs::write::{RunConflict, RunWrite};

const INSERT: &str = "INSERT INTO content (digest, revision, revision_checksum, bytes) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (digest) DO UPDATE SET revision = excluded.revision, revision_checksum = excluded.revision_checksum \
     WHERE revision IS NULL AND excluded.revision IS NOT NULL";
const PIN: &str = "INSERT OR IGNORE INTO pin (number, digest) VALUES (?1, ?2)";
const UNPIN: &str = "DELETE FROM pin WHERE number = ?1 AND digest = ?2";
const NO_DOCUMENTS: &str = "SELECT digest FROM pin WHERE number = ?1 \
     AND EXISTS (SELECT 1 FROM content WHERE content.digest = pin.digest AND content.revision IS NULL)";
const IS_THERE: &str = "SELECT 1 FROM content WHERE digest = ?1";
const IS_PINNED: &str = "SELECT 1 FROM pin INDEXED BY pin_by_digest WHERE digest = ?1";
const DELETE: &str = "DELETE FROM content WHERE digest = ?1";

/// Keeps and pins what the write says.
pub(super) fn apply(connection: &Connection, number: u64, write: &RunWrite) -> Result<(), Refusal> {
    match pin_all(connection, column_number(number), &write.contents, &write.pinned)? {
        None => Ok(()),
        Some(digest) => Err(RunConflict::ContentMissing { digest }.into()),
    }
}

/// Keeps these contents and pins them and those that are there already, for a run or, under its negative number, a
/// definition; gives back the first that is not there.
pub(super) fn pin_all(
    connection: &Connection,
    number: i64,
    contents: &[Content],
    pinned: &[[u8; 32]],
) -> rusqlite::Result<Option<[u8; 32]>> {
    let pin = |digest| connection.prepare_cached(PIN)?.execute(params![number, digest]);
    for content in contents {
        let (digest, revision) = (content.digest(), content.revision());
        let sum = revision.map(|revision| revision_sum(&digest, &revision));
        connection
            .prepare_cached(INSERT)?
            .execute(params![digest, revision, sum, &content.bytes()[..]])?;
        pin(digest)?;
    }
    for digest in pinned {
        if !connection.prepare_cached(IS_THERE)?.exists([digest])? {
            return Ok(Some(*digest));
        }
        pin(*digest)?;
    }
    Ok(None)
}

/// Returns those of these contents that are there.
pub(super) fn those_there(connection: &Connection, digests: &[[u8; 32]]) -> rusqlite::Result<Vec<[u8; 32]>> {
    let mut is_there = connection.prepare_cached(IS_THERE)?;
    let mut there = Vec::with_capacity(digests.len());
    for digest in digests {
        if is_there.exists([digest])? {
            there.push(*digest);
        }
    }
    Ok(there)
}

/// Releases what the write says, after every write of its batch was applied.
pub(super) fn release_some(connection: &Connection, write: &RunWrite) -> Result<(), Refusal> {
    if write.released.is_empty() && !write.purges {
        return Ok(());
    }
    let number = rows::number(connection, &write.run_id)?.ok_or(RunConflict::NotFound)?;
    let number = column_number(number);
    for digest in &write.released {
        release(connection, number, digest)?;
    }
    if write.purges {
        for digest in no_documents(connection, number)? {
            release(connection, number, &digest)?;
        }
    }
    Ok(())
}

/// What a run refers to and is no document of a revision.
fn no_documents(connection: &Connection, number: i64) -> rusqlite::Result<Vec<[u8; 32]>> {
    let mut select = connection.prepare_cached(NO_DOCUMENTS)?;
    select.query_map([number], |row| row.get(0))?.collect()
}

/// Releases everything that a run refers to.
pub(super) fn release_all(connection: &Connection, number: u64) -> Result<(), StoreFault> {
    for digest in rows::digests(connection, column_number(number))
        .map_err(|error| reading(number, PART_CONTENT, error))?
    {
        release(connection, column_number(number), &digest)
            .map_err(|error| reading(number, PART_CONTENT, error))?;
    }
    Ok(())
}

/// Releases one content, and drops it if nothing else refers to it.
pub(super) fn release(connection: &Connection, number: i64, digest: &[u8; 32]) -> rusqlite::Result<()> {
    connection
        .prepare_cached(UNPIN)?
        .execute(params![number, digest])?;
    if !connection.prepare_cached(IS_PINNED)?.exists([digest])? {
        connection.prepare_cached(DELETE)?.execute([digest])?;
    }
    Ok(())
}
