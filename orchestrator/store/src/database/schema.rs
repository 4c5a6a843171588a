//! Brings a file to the schema of this program, forward only. Changes no data of a newer program.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::connection::opening;
use crate::StoreFault;

/// The tables with the row of `tally`, without their indexes.
pub(crate) const TABLES: &str = include_str!("../schema/tables.sql");
/// The indexes of the tables.
pub(crate) const INDEXES: &str = include_str!("../schema/indexes.sql");

/// The migrations of the store's file.
pub(crate) const MIGRATIONS: &[&str] = &[concat!(
    include_str!("../schema/tables.sql"),
    include_str!("../schema/indexes.sql")
)];

/// The schema of one kind of file.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The version of an empty file on which the first migration was applied.
    pub(crate) first_version: i64,
    /// The migrations, of one version each. Never edited once a release has them, only added to.
    pub(crate) migrations: &'static [&'static str],
    /// Marks the file as one of this kind.
    pub(crate) application_id: i64,
}

impl Schema {
    /// Applies what is missing, each migration in a transaction of its own.
    pub(crate) fn migrate(&self, connection: &mut Connection, path: &Path) -> Result<(), StoreFault> {
        let failed = |error| opening(path, error);
        let known = self.known();
        let (found, application) = versions(connection, path)?;
        let ours = application == self.application_id;
        let fresh = application == 0 && found == 0 && is_empty(connection, path)?;
        let is_known = ours && (self.first_version..=known).contains(&found);
        if !(fresh || is_known) {
            return Err(StoreFault::Incompatible {
                path: path.to_owned(),
                found,
                known,
            });
        }
        let missing = (self.first_version..)
            .zip(self.migrations)
            .filter(|(version, _)| *version > found);
        for (version, sql) in missing {
            let transaction = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failed)?;
            transaction.execute_batch(sql).map_err(failed)?;
            transaction
                .pragma_update(None, "user_version", version)
                .map_err(failed)?;
            transaction
                .pragma_update(None, "application_id", self.application_id)
                .map_err(failed)?;
            transaction.commit().map_err(failed)?;
        }
        Ok(())
    }

    /// Returns true if a file is one of this kind, of any version.
    pub(crate) fn is_of(&self, connection: &Connection) -> bool {
        let found = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0));
        found.is_ok_and(|found| found == self.application_id)
    }

    /// Returns the newest schema version.
    pub(crate) fn known(&self) -> i64 {
        self.first_version - 1 + i64::try_from(self.migrations.len()).expect("migrations are few")
    }

    /// Refuses a file that has another schema than this program's, older ones included. Changes nothing.
    pub(crate) fn require_newest(&self, connection: &Connection, path: &Path) -> Result<(), StoreFault> {
        let (found, application) = versions(connection, path)?;
        let known = self.known();
        if application == self.application_id && found == known {
            return Ok(());
        }
        Err(StoreFault::Incompatible {
            path: path.to_owned(),
            found,
            known,
        })
    }
}

/// True if nothing was ever made in the file, or all of it is lost.
pub(crate) fn is_empty(connection: &Connection, path: &Path) -> Result<bool, StoreFault> {
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map(|n_tables: i64| n_tables == 0)
        .map_err(|error| opening(path, error))
}

/// Returns schema version and kind of the file.
pub(crate) fn versions(connection: &Connection, path: &Path) -> Result<(i64, i64), StoreFault> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    pragma("user_version")
        .and_then(|found| Ok((found, pragma("application_id")?)))
        .map_err(|error| opening(path, error))
}
