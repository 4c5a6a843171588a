//! Stores of runs as earlier versions of this program have left them: the schema is taken back step by step, and is to the letter
//! what those versions made.
#![allow(dead_code, reason = "not every test needs all of it")]

use rusqlite::Connection;
use std::path::Path;

/// What each version added, and what takes it away again.
pub(crate) const STEPS: [(&str, &str); 4] = [
    (include_str!("../../src/runs/embedded/0001_runs.sql"), ""),
    (
        include_str!("../../src/runs/embedded/0002_namespaces.sql"),
        "DROP INDEX run_by_namespace; DROP INDEX input_request_by_namespace; DROP INDEX definition_by_namespace; \
         ALTER TABLE run DROP COLUMN namespace; ALTER TABLE input_request DROP COLUMN namespace; \
         ALTER TABLE definition DROP COLUMN namespace",
    ),
    (
        include_str!("../../src/runs/embedded/0003_endings.sql"),
        "DROP INDEX run_by_ending; ALTER TABLE run DROP COLUMN ending; \
         ALTER TABLE tally DROP COLUMN endings_last; ALTER TABLE tally DROP COLUMN endings_removed",
    ),
    (
        include_str!("../../src/runs/embedded/0004_lists.sql"),
        "DROP INDEX run_by_namespace_and_owner; DROP INDEX run_by_namespace_and_state; DROP INDEX run_live_by_owner; \
         DROP INDEX input_request_by_namespace_and_owner; DROP INDEX definition_by_namespace_and_owner; \
         DROP INDEX run_by_namespace; DROP INDEX input_request_by_namespace; DROP INDEX definition_by_namespace; \
         CREATE INDEX run_by_namespace ON run (namespace, priority, created_at, number) WHERE namespace IS NOT NULL; \
         CREATE INDEX input_request_by_namespace ON input_request (namespace, place) \
             WHERE namespace IS NOT NULL AND closed_at IS NULL; \
         CREATE INDEX definition_by_namespace ON definition (kind, namespace, priority, created_at, number) \
             WHERE namespace IS NOT NULL",
    ),
];

/// Tables and indexes, and what they are made with, but for how that is laid out.
pub(crate) fn schema(connection: &Connection) -> Vec<String> {
    let mut select = connection
        .prepare("SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .unwrap();
    let made = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let words = |made: String| made.split_whitespace().collect::<Vec<_>>().join(" ");
    made.map(|made| words(made.unwrap())).collect()
}

/// Takes a closed store back to an earlier version, to the letter.
pub(crate) fn take_back(directory: &Path, version: usize) {
    let connection = Connection::open(directory.join("runs.db")).unwrap();
    for (_, away) in STEPS[version..].iter().rev() {
        connection.execute_batch(away).unwrap();
    }
    connection
        .pragma_update(None, "user_version", i64::try_from(version).unwrap())
        .unwrap();
    let first = Connection::open_in_memory().unwrap();
    for (made, _) in &STEPS[..version] {
        first.execute_batch(made).unwrap();
    }
    assert_eq!(schema(&connection), schema(&first), "version {version}");
}
