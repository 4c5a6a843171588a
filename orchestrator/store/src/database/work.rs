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

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreFault> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute([]))
        .map_err(working)?;
    Ok(())
}
