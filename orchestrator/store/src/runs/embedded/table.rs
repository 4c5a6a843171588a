//! The table of runs as the check of its indexes knows it: those that a lookup by id, a repeated request or a restart
//! depends on. Lists are left to an examination. Walks nothing.

use rusqlite::Connection;

use super::rows;
use crate::StoreFault;
use crate::database::indexes::{Index, Table};

pub(super) const TABLE: Table = Table {
    name: "run",
    keys: &["run_id", "request_key", "iif(ended_at IS NULL, x'', NULL)"],
    indexes: &[
        Index {
            what: "index entries by run id",
            name: "run_by_id",
            key: "run_id",
            condition: "true",
            order: "run_id",
        },
        Index {
            what: "index entries by request",
            name: "run_by_request",
            key: "request_key",
            condition: "request_key IS NOT NULL",
            order: "request_key",
        },
        Index {
            what: "index entries of live runs",
            name: "run_live",
            key: "x''",
            condition: "ended_at IS NULL",
            order: "number",
        },
    ],
    n_cut: 1,
    is_sound,
};

fn is_sound(connection: &Connection, number: u64) -> Result<bool, StoreFault> {
    match rows::row(connection, number) {
        Ok(found) => Ok(found.is_some()),
        Err(StoreFault::CorruptRun { .. }) => Ok(false),
        Err(fault) => Err(fault),
    }
}
