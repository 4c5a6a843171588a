//! The table of executions as the check of its indexes knows it. Walks nothing.

use rusqlite::Connection;

use super::reader::fetch;
use crate::StoreFault;
use crate::database::indexes::{Index, Table};

pub(crate) const TABLE: Table = Table {
    name: "execution",
    keys: &[
        "execution_id",
        "plan_id",
        "parent_execution_id",
        "CAST(namespace AS BLOB)",
        "settlement",
        "iif(state < 2, x'', NULL)",
    ],
    indexes: &[
        Index {
            what: "index entries by execution id",
            name: "execution_by_id",
            key: "execution_id",
            condition: "true",
            order: "execution_id",
        },
        Index {
            what: "index entries by plan id",
            name: "execution_by_plan",
            key: "plan_id",
            condition: "true",
            order: "plan_id",
        },
        Index {
            what: "index entries by parent",
            name: "execution_by_parent",
            key: "parent_execution_id",
            condition: "parent_execution_id IS NOT NULL",
            order: "parent_execution_id, number",
        },
        Index {
            what: "index entries by namespace",
            name: "execution_by_namespace",
            key: "CAST(namespace AS BLOB)",
            condition: "namespace IS NOT NULL",
            order: "namespace, number",
        },
        Index {
            what: "index entries by settlement",
            name: "execution_by_settlement",
            key: "settlement",
            condition: "settlement IS NOT NULL",
            order: "settlement",
        },
        Index {
            what: "index entries of unsettled executions",
            name: "execution_unsettled",
            key: "x''",
            condition: "state < 2",
            order: "number",
        },
    ],
    n_cut: 2,
    is_sound,
};

fn is_sound(connection: &Connection, number: u64) -> Result<bool, StoreFault> {
    match fetch(connection, number) {
        Ok(_) => Ok(true),
        Err(StoreFault::Corrupt { .. }) => Ok(false),
        Err(fault) => Err(fault),
    }
}
