//! The schema of the executions' file. Applies nothing.

use crate::database::schema::Schema;

/// Marked "ESCP".
pub(super) const SCHEMA: Schema = Schema {
    migrations: &[
        include_str!("0001_executions.sql"),
        include_str!("0002_removal.sql"),
        include_str!("0003_starts.sql"),
        include_str!("0004_outlines.sql"),
        include_str!("0005_actions.sql"),
        include_str!("0006_namespaces.sql"),
        include_str!("0007_operators.sql"),
        include_str!("0008_settlements.sql"),
    ],
    application_id: 0x4553_4350,
};
