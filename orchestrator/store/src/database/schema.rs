//! Brings a file to the schema of this program, forward only. Changes no data of a newer program.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::connection::opening;
use crate::StoreFault;

/// The schema of one kind of file.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The migrations; the schema version is the count of those that were applied. Never edited, only added to.
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
        if !(ours || fresh) || !(0..=known).contains(&found) {
            return Err(StoreFault::Incompatible {
                path: path.to_owned(),
                found,
                known,
            });
        }
        let missing = (1i64..)
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

    /// Returns the newest schema version.
    pub(crate) fn known(&self) -> i64 {
        i64::try_from(self.migrations.len()).expect("migrations are few")
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

/// Schema version and kind of the file.
fn versions(connection: &Connection, path: &Path) -> Result<(i64, i64), StoreFault> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    pragma("user_version")
        .and_then(|found| Ok((found, pragma("application_id")?)))
        .map_err(|error| opening(path, error))
}
