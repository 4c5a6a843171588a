//! Stores as earlier versions of this program have left them: two databases, in the schema of those versions to the letter.

use escapement_store_kit::earlier::{EXECUTIONS, EarlierDatabase, RUNS};
use rusqlite::Connection;
use std::path::Path;

/// Columns of today's counters with other names in the executions' database.
const OF_EXECUTIONS: [(&str, &str); 7] = [
    ("number_last", "execution_last"),
    ("n_lost", "executions_lost"),
    ("n_queued", "executions_queued"),
    ("n_running", "executions_running"),
    ("n_settled", "executions_settled"),
    ("n_removed", "executions_removed"),
    ("n_forgotten", "executions_forgotten"),
];

/// Columns with other names in the runs' database.
const OF_RUNS: [(&str, &str); 6] = [
    ("number_last", "run_last"),
    ("n_lost", "runs_lost"),
    ("n_live", "runs_live"),
    ("n_ended", "runs_ended"),
    ("n_removed", "runs_removed"),
    ("n_forgotten", "runs_forgotten"),
];

/// Replaces a closed store by the files of earlier versions. Columns that those versions did not know are lost.
pub(crate) fn take_back(directory: &Path, version_of_executions: usize, version_of_runs: usize) {
    let store = directory.join("store.db");
    executions_of(&store, &directory.join("executions.db"), version_of_executions);
    runs_of(&store, &directory.join("runs.db"), version_of_runs);
    for name in ["store.db", "store.mark"] {
        let _may_be_none = std::fs::remove_file(directory.join(name));
    }
}

/// Makes the executions' database of a version of a store that is closed.
pub(crate) fn executions_of(store: &Path, file: &Path, version: usize) {
    copy(store, file, &EXECUTIONS, version, &OF_EXECUTIONS);
}

/// Makes the runs' database in the same way.
pub(crate) fn runs_of(store: &Path, file: &Path, version: usize) {
    copy(store, file, &RUNS, version, &OF_RUNS);
}

fn copy(store: &Path, file: &Path, earlier: &EarlierDatabase, version: usize, of_tally: &[(&str, &str)]) {
    let connection = Connection::open(file).unwrap();
    for migration in &earlier.migrations[..version] {
        connection.execute_batch(migration).unwrap();
    }
    let (version, kind) = (i64::try_from(version).unwrap(), earlier.application_id);
    connection.pragma_update(None, "user_version", version).unwrap();
    connection.pragma_update(None, "application_id", kind).unwrap();
    connection
        .execute("ATTACH ?1 AS newest", [store.to_str().unwrap()])
        .unwrap();
    for table in strings(
        &connection,
        "SELECT name FROM main.sqlite_schema WHERE type = 'table'",
    ) {
        let select = format!("SELECT name FROM pragma_table_info('{table}', 'main')");
        let columns = strings(&connection, &select);
        let theirs: Vec<&str> = columns
            .iter()
            .map(|column| {
                let other = of_tally
                    .iter()
                    .find(|(ours, _)| table == "tally" && ours == column);
                other.map_or(column.as_str(), |(_, theirs)| theirs)
            })
            .collect();
        let (ours, theirs) = (columns.join(", "), theirs.join(", "));
        let sql = format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} ({ours}) SELECT {theirs} FROM newest.{table}"
        );
        connection.execute_batch(&sql).unwrap();
    }
}

fn strings(connection: &Connection, sql: &str) -> Vec<String> {
    let mut select = connection.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
