//! Stores as earlier versions of this program have left them: the schema is taken back step by step, and is to the letter
//! what those versions made.

use rusqlite::Connection;
use std::path::Path;

/// What each version of a schema added, and what takes it away again.
pub(crate) type Steps = [(&'static str, &'static str)];

/// Those of the store of executions.
pub(crate) const EXECUTIONS: &Steps = &[
    (include_str!("../../src/embedded/0001_executions.sql"), ""),
    (
        include_str!("../../src/embedded/0002_removal.sql"),
        "DROP TABLE removed_execution; ALTER TABLE tally DROP COLUMN n_removed; \
         ALTER TABLE tally DROP COLUMN n_forgotten",
    ),
    (
        include_str!("../../src/embedded/0003_starts.sql"),
        "ALTER TABLE execution DROP COLUMN start_checksum",
    ),
    (
        include_str!("../../src/embedded/0004_outlines.sql"),
        "ALTER TABLE execution DROP COLUMN outline",
    ),
    (
        include_str!("../../src/embedded/0005_actions.sql"),
        "DROP TABLE action_memory",
    ),
    (
        include_str!("../../src/embedded/0006_namespaces.sql"),
        "DROP INDEX execution_by_namespace; ALTER TABLE execution DROP COLUMN namespace",
    ),
    (
        include_str!("../../src/embedded/0007_operators.sql"),
        "DROP TABLE operator_entry; ALTER TABLE tally DROP COLUMN operators_last",
    ),
    (
        include_str!("../../src/embedded/0008_settlements.sql"),
        "DROP INDEX execution_by_settlement; ALTER TABLE execution DROP COLUMN settlement; \
         ALTER TABLE tally DROP COLUMN settlements_last; ALTER TABLE tally DROP COLUMN settlements_removed",
    ),
];

/// Those of the store of runs.
pub(crate) const RUNS: &Steps = &[
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
         CREATE INDEX input_request_by_namespace ON input_request (namespace, place)\n    \
         WHERE namespace IS NOT NULL AND closed_at IS NULL; \
         CREATE INDEX definition_by_namespace ON definition (kind, namespace, priority, created_at, number)\n    \
         WHERE namespace IS NOT NULL",
    ),
];

/// Takes a closed store, or a backup, back to an earlier version. What that version did not know is lost.
pub(crate) fn take_back(steps: &Steps, file: &Path, version: usize) {
    let connection = Connection::open(file).unwrap();
    for (_, away) in steps[version..].iter().rev() {
        connection.execute_batch(away).unwrap();
    }
    connection
        .pragma_update(None, "user_version", i64::try_from(version).unwrap())
        .unwrap();
    let first = Connection::open_in_memory().unwrap();
    for (made, _) in &steps[..version] {
        first.execute_batch(made).unwrap();
    }
    assert_eq!(schema(&connection), schema(&first), "version {version}");
}

/// Returns each table and index with the words that it was made with.
pub(crate) fn schema(connection: &Connection) -> Vec<String> {
    let sql = "SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name";
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
