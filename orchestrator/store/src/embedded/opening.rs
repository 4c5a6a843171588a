//! Holds tables, indexes and mark of the file against each other before it is served. Writes only what the operator asks to
//! make anew.

use std::path::Path;

use super::Embedded;
use super::schema::SCHEMA;
use crate::StoreFault;
use crate::database::indexes::{self, Cut, Table};
use crate::database::opening::HeldDirectory;
use crate::database::{EmbeddedOptions, Lock, connection};
use crate::tally::{self, Accepted};
use crate::{executions, runs};

/// Returns the tables whose indexes are checked: a lookup, a repeated request, an answer or a restart depends on them.
fn tables() -> impl Iterator<Item = &'static Table> {
    [&executions::TABLE].into_iter().chain(runs::tables::TABLES)
}

/// Opens a store of this version. `lock` is the lock of its directory, if this process has it already.
pub(super) fn open(
    directory: &Path,
    lock: Option<Lock>,
    options: &EmbeddedOptions,
) -> Result<Embedded, StoreFault> {
    let held = HeldDirectory::hold(directory, lock, options)?;
    let mut connection = held.connect(&SCHEMA, options)?;
    // First, because it brings what the others read into memory.
    let indexes_agree = tables().all(|table| {
        let cut = Cut::of(options.checkpointing);
        indexes::agree(&connection, table, &|| held.walker(), cut)
    });
    // Before the log is emptied: if something is missing, what is left of the log stays as it is.
    let mut repaired = Vec::new();
    if options.repair || (!indexes_agree && options.accept_loss) {
        // Before the tally, whose counts go along an index.
        connection::bound_work(&mut connection)?;
        indexes::rebuild(&connection)?;
        repaired.push("indexes".to_owned());
    } else if !indexes_agree {
        for table in tables() {
            indexes::check(&connection, table)?;
        }
    }
    let accepted = Accepted {
        counts: options.repair || options.accept_loss,
        loss: options.accept_loss,
    };
    connection::bound_work(&mut connection)?;
    let tally = tally::check(&connection, held.mark(), accepted, &mut repaired)?;
    let (database, opening) = held.serve(&SCHEMA, connection, tally.mark(), repaired, options)?;
    Ok(Embedded::new(opening, tally, database))
}
