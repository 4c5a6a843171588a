//! The order in which runs ended, as the file has it: across the migration, and if it is damaged.

use crate::earlier;
use crate::opened::{commit, open};
use crate::scratch::Scratch;
use escapement_store::embedded::{Examiner, Finding};
use escapement_store::runs::RunStore;
use escapement_store::{Embedded, EmbeddedOptions, StoreFault};
use escapement_store_kit::earlier::EXECUTIONS;
use escapement_store_kit::runs::conformance::RunSample;
use rusqlite::Connection;
use std::path::Path;

fn end_at_once(store: &mut Embedded, seed: u64) {
    let mut write = RunSample::new(seed).create();
    write.progress.ended_at = Some(i64::try_from(seed).unwrap());
    commit(store, [write]);
}

/// Places with the numbers of their runs.
fn places(store: &Embedded) -> Vec<(u64, u64)> {
    let page = store.reader().unwrap().ended(0, 100).unwrap();
    page.runs
        .iter()
        .map(|(place, run)| (*place, run.number))
        .collect()
}

fn tamper(directory: &Scratch, sql: &str) {
    let file = directory.path().join("store.db");
    Connection::open(file).unwrap().execute_batch(sql).unwrap();
}

fn findings(directory: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut examiner = Examiner::open(directory).unwrap();
    let examined = examiner.examine_all(&mut |finding| found.push(finding.clone()));
    assert_eq!(examined.unwrap().is_clean(), found.is_empty());
    found
}

#[test]
fn what_ended_before_places_were_kept_has_none_and_what_ends_behind_begins_with_the_first() {
    let directory = Scratch::new();
    let living = RunSample::new(3);
    {
        let mut store = open(directory.path());
        end_at_once(&mut store, 1);
        end_at_once(&mut store, 2);
        commit(&mut store, [living.create()]);
    }
    earlier::take_back(directory.path(), EXECUTIONS.migrations.len(), 2);
    let mut store = open(directory.path());
    assert_eq!(places(&store), []);
    commit(&mut store, [living.end(2)]);
    end_at_once(&mut store, 4);
    assert_eq!(places(&store), [(1, 3), (2, 4)]);
    drop(store);
    assert_eq!(findings(directory.path()), []);
}

#[test]
fn a_place_that_changed_by_itself_is_damage() {
    let hide = "PRAGMA writable_schema = ON; CREATE TABLE hidden AS SELECT * FROM sqlite_schema \
                WHERE name = 'run_by_ending'; DELETE FROM sqlite_schema WHERE name = 'run_by_ending'";
    let show =
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM hidden; DROP TABLE hidden";
    for ending in ["x'0000000000000007'", "NULL"] {
        let directory = Scratch::new();
        {
            let mut store = open(directory.path());
            end_at_once(&mut store, 1);
            end_at_once(&mut store, 2);
            end_at_once(&mut store, 3);
        }
        tamper(&directory, hide);
        tamper(
            &directory,
            &format!("UPDATE run SET ending = {ending} WHERE number = 2"),
        );
        tamper(&directory, show);
        let found = findings(directory.path());
        assert!(!found.is_empty(), "{ending}");
        let reader = escapement_store::embedded::open_run_reader(directory.path()).unwrap();
        let page = reader.ended(0, 100).unwrap();
        assert_eq!((page.runs.len(), page.damaged), (1, Some(2)), "{ending}");
        let behind = reader.ended(2, 100).unwrap();
        assert_eq!((behind.runs.len(), behind.damaged), (1, None), "{ending}");
        let opened = Embedded::open(directory.path(), EmbeddedOptions::default());
        assert!(
            matches!(
                opened,
                Err(StoreFault::Indexes {
                    what: "index entries by ending",
                    ..
                })
            ),
            "{ending}: {opened:?}"
        );
    }
}
