//! A store that is large enough to be checked by several threads, each with parts of the table and of the indexes.
//! What is wrong anywhere is found as in a small store.

use escapement_store::{Embedded, EmbeddedOptions, Store, StoreFault, Write};
use escapement_store_kit::conformance::Sample;
use rusqlite::Connection;

use crate::scratch::Scratch;

/// Two parts of each walk.
const N_EXECUTIONS: u64 = 33_000;
const N_UNSETTLED: u64 = 1_000;

fn open(directory: &Scratch) -> Result<Embedded, StoreFault> {
    Embedded::open(directory.path(), EmbeddedOptions::default())
}

fn filled() -> Scratch {
    let directory = Scratch::new();
    let mut store = open(&directory).unwrap();
    for batch in (1..=N_EXECUTIONS).collect::<Vec<_>>().chunks(5_000) {
        let writes = batch.iter().flat_map(|number| {
            let sample = Sample::with_record_bytes(*number, 8);
            let end = (*number <= N_EXECUTIONS - N_UNSETTLED).then(|| sample.settle(1));
            [sample.accept()].into_iter().chain(end)
        });
        store.commit(&writes.collect::<Vec<Write>>()).unwrap();
    }
    directory
}

fn connection(directory: &Scratch) -> Connection {
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    connection.execute_batch("PRAGMA writable_schema = on").unwrap();
    connection
}

/// Runs a statement while an index is not there, so that it keeps what it said before.
fn behind_the_back_of(directory: &Scratch, index: &str, sql: &str) {
    let hide = "DELETE FROM sqlite_schema WHERE name = ?1 RETURNING tbl_name, rootpage, sql";
    let (table, page, definition): (String, i64, String) = connection(directory)
        .query_row(hide, [index], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap();
    assert_eq!(connection(directory).execute(sql, []).unwrap(), 1);
    let show = "INSERT INTO sqlite_schema VALUES ('index', ?1, ?2, ?3, ?4)";
    connection(directory)
        .execute(show, (index, table, page, definition))
        .unwrap();
}

/// The index says something else of one execution than its row, which is as it was.
fn with_a_wrong_entry(
    directory: &Scratch,
    index: &str,
    column: &str,
    number: u64,
    wrong: &str,
) -> StoreFault {
    let row = format!("WHERE number = {number}");
    let keep = format!("CREATE TABLE kept AS SELECT {column} AS was FROM execution {row}");
    connection(directory).execute_batch(&keep).unwrap();
    let spoil = format!("UPDATE execution SET {column} = {wrong} {row}");
    connection(directory).execute(&spoil, []).unwrap();
    let restore = format!("UPDATE execution SET {column} = (SELECT was FROM kept) {row}");
    behind_the_back_of(directory, index, &restore);

    let fault = open(directory).unwrap_err();

    behind_the_back_of(directory, index, &spoil);
    connection(directory).execute(&restore, []).unwrap();
    connection(directory).execute_batch("DROP TABLE kept").unwrap();
    fault
}

#[test]
fn one_wrong_entry_anywhere_in_a_large_store_is_found() {
    let directory = filled();
    let (low, high) = ("zeroblob(16)", "x'ffffffffffffffffffffffffffffffff'");
    // The first, the last, and those around the cut.
    for (number, wrong) in [
        (1, high),
        (N_EXECUTIONS / 2 - 1, high),
        (N_EXECUTIONS / 2, low),
        (N_EXECUTIONS, low),
    ] {
        for (index, column, what) in [
            ("execution_by_id", "execution_id", "index entries by execution id"),
            ("execution_by_plan", "plan_id", "index entries by plan id"),
        ] {
            let fault = with_a_wrong_entry(&directory, index, column, number, wrong);
            assert!(
                matches!(fault, StoreFault::Indexes { what: found, expected: N_EXECUTIONS, .. } if found == what),
                "{number} {index} {wrong}: {fault:?}"
            );
        }
    }
    // With everything as it was, it opens.
    assert_eq!(
        open(&directory)
            .unwrap()
            .reader()
            .unwrap()
            .counts()
            .unwrap()
            .accepted(),
        N_EXECUTIONS
    );
}

#[test]
fn an_execution_that_is_missing_in_a_large_store_is_found() {
    let directory = filled();
    connection(&directory)
        .execute_batch("DELETE FROM execution WHERE number = 16500")
        .unwrap();
    let fault = open(&directory).unwrap_err();
    assert!(
        matches!(
            fault,
            StoreFault::Gap {
                what: "executions",
                ..
            }
        ),
        "{fault:?}"
    );
}
