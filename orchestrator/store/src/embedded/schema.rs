//! The schema of the store's file.

use crate::database::schema::{MIGRATIONS, Schema};

/// Marked "ESCS". Versions 1 to 8 are those of a file for executions alone.
pub(super) const SCHEMA: Schema = Schema {
    first_version: 9,
    migrations: MIGRATIONS,
    application_id: 0x4553_4353,
};
