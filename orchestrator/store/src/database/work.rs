//! The transaction of one change. Writes no row.

use rusqlite::Connection;

use super::connection::working;
use super::values::column_number;
use crate::StoreFault;

/// Opens it, on what this process has left in the file: the tally must say that many commits.
pub(crate) fn begin(connection: &Connection, n_commits: u64) -> Result<(), StoreFault> {
    execute(connection, "BEGIN IMMEDIATE")?;
    let found: i64 = connection
        .prepare_cached("SELECT n_commits FROM tally")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .map_err(working)?;
    if found != column_number(n_commits) {
        return Err(StoreFault::Fatal("another process has written this store".into()));
    }
    Ok(())
}

/// Makes it durable.
pub(crate) fn commit(connection: &Connection) -> Result<(), StoreFault> {
    execute(connection, "COMMIT")
}

/// Undoes what a failed change left open.
pub(crate) fn roll_back(connection: &Connection) -> Result<(), StoreFault> {
    if connection.is_autocommit() {
        Ok(())
    } else {
        execute(connection, "ROLLBACK")
    }
}

/// Applies something within the open transaction, wholly or not at all. After an error that is not fatal it is undone.
pub(crate) fn whole<T, E: Undone>(
    connection: &Connection,
    apply: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    execute(connection, "SAVEPOINT part")?;
    let applied = apply();
    if connection.is_autocommit() {
        // SQLite has undone the whole transaction, since the disk is full.
        return applied;
    }
    match &applied {
        // The file is not touched again after a fatal fault, not even to undo.
        Err(undone) if undone.is_fatal() => return applied,
        Err(_) => {
            let undo = execute(connection, "ROLLBACK TO part");
            undo.map_err(|fault| StoreFault::Fatal(fault.into()))?;
        }
        Ok(_) => {}
    }
    execute(connection, "RELEASE part")?;
    applied
}

/// Reason to undo a part of a transaction.
pub(crate) trait Undone: From<StoreFault> {
    /// Returns true if the file must not be touched again.
    fn is_fatal(&self) -> bool;
}

impl Undone for StoreFault {
    fn is_fatal(&self) -> bool {
        matches!(self, Self::Fatal(_))
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreFault> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute([]))
        .map_err(working)?;
    Ok(())
}
