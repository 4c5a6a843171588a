//! Holds tables, indexes and mark of an executions' file against each other before it is served. Writes only what
//! the operator asks to make anew.

use std::path::Path;

use super::Embedded;
use super::removal::Walk;
use super::schema::SCHEMA;
use super::table::TABLE;
use super::tally::{self, Accepted};
use crate::StoreFault;
use crate::database::indexes::{self, Cut};
use crate::database::opening::HeldDirectory;
use crate::database::{EXECUTIONS, EmbeddedOptions, connection};

pub(super) fn open(directory: &Path, options: &EmbeddedOptions) -> Result<Embedded, StoreFault> {
    let held = HeldDirectory::hold(directory, &EXECUTIONS, options)?;
    let mut connection = held.connect(&SCHEMA, options)?;
    // First, because it brings what the others read into memory.
    let indexes_agree = indexes::agree(
        &connection,
        &TABLE,
        &|| held.walker(),
        Cut::of(options.checkpointing),
    );
    // Before the log is emptied: if something is missing, what is left of the log stays as it is.
    let mut repaired = Vec::new();
    if options.repair || (!indexes_agree && options.accept_loss) {
        // Before the tally, whose counts go along an index.
        connection::bound_work(&mut connection)?;
        indexes::rebuild(&connection)?;
        repaired.push("indexes".to_owned());
    } else if !indexes_agree {
        indexes::check(&connection, &TABLE)?;
    }
    let accepted = Accepted {
        counts: options.repair || options.accept_loss,
        loss: options.accept_loss,
    };
    connection::bound_work(&mut connection)?;
    let tally = tally::check(&connection, held.mark(), accepted, &mut repaired)?;
    let (database, opening) = held.serve(&SCHEMA, connection, tally.mark(), repaired, options)?;
    Ok(Embedded {
        opening,
        database,
        tally,
        walk: Walk::default(),
    })
}
