//! Brings the file to the schema of this program, forward only. Changes no data of a newer program.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::connection::opening;
use crate::StoreFault;

/// The migrations; the schema version is the count of those that were applied. Never edited, only added to.
const MIGRATIONS: [&str; 5] = [
    include_str!("0001_executions.sql"),
    include_str!("0002_removal.sql"),
    include_str!("0003_starts.sql"),
    include_str!("0004_outlines.sql"),
    include_str!("0005_actions.sql"),
];

/// Marks the file as ours: "ESCP".
const APPLICATION_ID: i64 = 0x4553_4350;

/// Applies what is missing, each migration in a transaction of its own.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreFault> {
    let failed = |error| opening(path, error);
    let known = known();
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed)?;
    let application: i64 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(failed)?;
    let ours = application == APPLICATION_ID;
    let fresh = application == 0 && found == 0 && is_empty(connection, path)?;
    if !(ours || fresh) || !(0..=known).contains(&found) {
        return Err(StoreFault::Incompatible {
            path: path.to_owned(),
            found,
            known,
        });
    }
    for (version, sql) in (1i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction
            .pragma_update(None, "user_version", version)
            .map_err(failed)?;
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

/// True if nothing was ever made in the file, or all of it is lost.
pub(super) fn is_empty(connection: &Connection, path: &Path) -> Result<bool, StoreFault> {
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map(|n_tables: i64| n_tables == 0)
        .map_err(|error| opening(path, error))
}

/// The newest schema version.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("migrations are few")
}

/// Refuses a file that has another schema than this program's, older ones included. Changes nothing.
pub(super) fn require_newest(connection: &Connection, path: &Path) -> Result<(), StoreFault> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let found = pragma("user_version").map_err(|error| opening(path, error))?;
    let application = pragma("application_id").map_err(|error| opening(path, error))?;
    if application == APPLICATION_ID && found == known() {
        return Ok(());
    }
    Err(StoreFault::Incompatible {
        path: path.to_owned(),
        found,
        known: known(),
    })
}
