//! Files of an earlier version become a store: whole, damaged, cut short, or missing their end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use escapement_store::backup::{RestoreOptions, back_up, restore};
use escapement_store::embedded::{
    Converted, Examination, Examiner, Finding, convert, open_reader, open_run_reader, try_to_convert,
};
use escapement_store::runs::RunStore;
use escapement_store::{Embedded, EmbeddedOptions, Outcome, Store, StoreFault};
use escapement_store_kit::conformance::Sample;
use escapement_store_kit::earlier::{EXECUTIONS, RUNS};
use escapement_store_kit::runs::conformance::RunSample;
use rusqlite::Connection;

use crate::earlier::{executions_of, take_back};
use crate::opened::{commit, open, refused};
use crate::scratch::Scratch;

const N_EXECUTIONS: u64 = 12;
const N_RUNS: u64 = 5;

/// Creates twelve executions, every third of them settled, and five runs, in the files of the last version with two databases.
fn furnished() -> Scratch {
    let directory = Scratch::new();
    let mut store = open(&directory);
    for seed in 1..=N_EXECUTIONS {
        let sample = Sample::new(seed);
        let mut batch = vec![sample.accept()];
        if seed % 3 == 0 {
            batch.push(sample.settle(1));
        }
        Store::commit(&mut store, &batch).unwrap();
    }
    for sample in (1..=N_RUNS).map(RunSample::new) {
        commit(&mut store, [sample.create(), sample.append(2, 4)]);
    }
    drop(store);
    take_back(
        directory.path(),
        EXECUTIONS.migrations.len(),
        RUNS.migrations.len(),
    );
    directory
}

fn tamper(directory: &Scratch, database: &str, sql: &str) {
    let connection = Connection::open(directory.path().join(database)).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn examine(directory: &Path) -> (Examination, Vec<Finding>) {
    let mut found = Vec::new();
    let mut examiner = Examiner::open(directory).unwrap();
    let examined = examiner.examine_all(&mut |finding| found.push(finding.clone()));
    (examined.unwrap(), found)
}

/// Returns the files of a directory and of those in it, with what stands in them.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

/// Checks that all rows are there, and that the store takes more.
fn assert_whole(directory: &Path) {
    let (examined, found) = examine(directory);
    assert_eq!(found, []);
    assert_eq!((examined.n_executions, examined.n_runs), (N_EXECUTIONS, N_RUNS));
    let mut store = open(directory);
    let reader = Store::reader(&store).unwrap();
    for (number, sample) in (1u64..).zip((1..=N_EXECUTIONS).map(Sample::new)) {
        let expected = match number % 3 {
            0 => sample.settled(sample.accepted(number), 1),
            _ => sample.accepted(number),
        };
        assert_eq!(reader.execution(sample.execution_id()).unwrap(), Some(expected));
    }
    let late = Sample::new(100);
    let outcomes = Store::commit(&mut store, &[late.accept()]).unwrap();
    assert_eq!(
        outcomes,
        [Outcome::Done {
            number: N_EXECUTIONS + 1
        }]
    );
    commit(
        &mut store,
        [RunSample::new(1).append(6, 1), RunSample::new(100).create()],
    );
    let run = RunStore::reader(&store)
        .unwrap()
        .summary(RunSample::new(100).run_id());
    assert_eq!(run.unwrap().unwrap().number, N_RUNS + 1);
}

#[test]
fn the_old_files_are_kept_and_earlier_programs_refuse_the_new_ones() {
    let directory = furnished();
    let before = files(directory.path());
    let store = open(&directory);
    let expected = Converted {
        n_executions: N_EXECUTIONS,
        n_runs: N_RUNS,
    };
    assert_eq!(store.opening().converted, Some(expected));
    assert!(!store.opening().is_new);
    drop(store);
    assert_whole(directory.path());
    let again = open(&directory);
    assert_eq!(again.opening().converted, None);
    drop(again);
    assert!(!directory.path().join("restoring").exists());
    let kept = directory.path().join("before-store");
    for name in ["executions.db", "runs.db"] {
        let rows = |path: &Path| {
            let connection = Connection::open(path).unwrap();
            connection.query_row("SELECT n_commits FROM tally", [], |row| row.get::<_, i64>(0))
        };
        assert!(before.contains_key(&directory.path().join(name)));
        assert!(rows(&kept.join(name)).is_ok(), "{name}");
    }
    let guard = Connection::open(directory.path().join("executions.db")).unwrap();
    let pragma = |name| {
        guard
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(
        (pragma("user_version"), pragma("application_id")),
        (1_000, 0x4553_4350)
    );
}

#[test]
fn a_conversion_can_be_tried_and_done_ahead() {
    let directory = furnished();
    let expected = Some(Converted {
        n_executions: N_EXECUTIONS,
        n_runs: N_RUNS,
    });
    assert_eq!(try_to_convert(directory.path(), false).unwrap(), expected);
    let left: Vec<PathBuf> = files(directory.path()).into_keys().collect();
    let places = ["executions.db", "lock", "runs.db"].map(|name| directory.path().join(name));
    assert_eq!(left, places);
    assert_eq!(convert(directory.path(), false).unwrap(), expected);
    assert_eq!(convert(directory.path(), false).unwrap(), None);
    assert_eq!(try_to_convert(directory.path(), false).unwrap(), None);
    assert_whole(directory.path());
}

#[test]
fn readers_refuse_files_of_an_earlier_version() {
    let directory = furnished();
    let before = files(directory.path());
    for fault in [
        open_reader(directory.path()).map(drop).unwrap_err(),
        open_run_reader(directory.path()).map(drop).unwrap_err(),
        Examiner::open(directory.path()).map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(
                fault,
                StoreFault::Incompatible {
                    found: 8,
                    known: 9,
                    ..
                }
            ),
            "{fault:?}"
        );
        assert!(fault.to_string().contains("start this program's"), "{fault}");
    }
    assert_eq!(files(directory.path()), before);
}

#[test]
fn damaged_rows_stay_damaged_and_harm_themselves_alone() {
    let directory = furnished();
    tamper(
        &directory,
        "executions.db",
        "UPDATE accepted_record SET record = x'00' WHERE number = 4; UPDATE execution SET user_id = 'x' WHERE number = 5",
    );
    tamper(
        &directory,
        "runs.db",
        "UPDATE journal SET entry = x'00' WHERE place = (3 << 32) + 2; UPDATE run SET priority = 77 WHERE number = 4",
    );
    drop(open(&directory));
    let (examined, found) = examine(directory.path());
    assert_eq!((examined.n_executions, examined.n_runs), (N_EXECUTIONS, N_RUNS));
    let of_executions = [4, 5].map(|number| Finding::Execution {
        number,
        execution_id: Some(Sample::new(number).execution_id()),
        parts: vec!["accepted record"],
    });
    let of_runs = [(3, "journal"), (4, "index row")].map(|(number, part)| Finding::Run {
        number,
        run_id: Some(RunSample::new(number).run_id()),
        parts: vec![part],
    });
    assert_eq!(found, [&of_executions[..], &of_runs[..]].concat());
}

#[test]
fn a_loss_refuses_the_conversion_until_it_is_accepted() {
    for (database, sql, what) in [
        (
            "executions.db",
            "DELETE FROM execution WHERE number = 4",
            "executions",
        ),
        (
            "executions.db",
            "DELETE FROM accepted_record WHERE number = 12",
            "accepted records up to the last",
        ),
        ("runs.db", "DELETE FROM run WHERE number = 5", "runs"),
        (
            "executions.db",
            "UPDATE tally SET n_commits = n_commits - 1",
            "commits",
        ),
        ("runs.db", "UPDATE tally SET n_commits = n_commits - 1", "commits"),
    ] {
        let directory = furnished();
        // Marks as the earlier version has left them.
        for (name, mark) in [("executions.db", "mark"), ("runs.db", "runs.mark")] {
            let connection = Connection::open(directory.path().join(name)).unwrap();
            let words: (i64, i64) = connection
                .query_row("SELECT n_commits, number_last FROM tally", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .unwrap();
            let mut bytes = [&b"escpmark"[..], &words.0.to_le_bytes(), &words.1.to_le_bytes()].concat();
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            std::fs::write(directory.path().join(mark), bytes).unwrap();
        }
        tamper(&directory, database, sql);
        let fault = refused(&directory);
        assert!(
            matches!(fault, StoreFault::Gap { what: said, .. } if said == what),
            "{sql}: {fault:?}"
        );
        assert!(!directory.path().join("store.db").exists(), "{sql}");
        assert!(directory.path().join(database).exists(), "{sql}");
        let accepting = EmbeddedOptions {
            accept_loss: true,
            ..EmbeddedOptions::default()
        };
        let mut store = Embedded::open(directory.path(), accepting).unwrap();
        let outcomes = Store::commit(&mut store, &[Sample::new(100).accept()]).unwrap();
        assert_eq!(
            outcomes,
            [Outcome::Done {
                number: N_EXECUTIONS + 1
            }],
            "{sql}"
        );
        commit(&mut store, [RunSample::new(100).create()]);
        let run = RunStore::reader(&store)
            .unwrap()
            .summary(RunSample::new(100).run_id());
        assert_eq!(run.unwrap().unwrap().number, N_RUNS + 1, "{sql}");
    }
}

#[test]
fn a_database_that_does_not_read_refuses_and_changes_nothing() {
    let directory = furnished();
    let path = directory.path().join("runs.db");
    let root: i64 = Connection::open(&path)
        .unwrap()
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'journal'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = usize::try_from(root - 1).unwrap() * 4096;
    bytes[at..at + 200].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let fault = refused(&directory);
    assert!(
        matches!(&fault, StoreFault::Damaged { path: of, .. } if *of == path),
        "{fault:?}"
    );
    assert!(!directory.path().join("store.db").exists());
    assert!(directory.path().join("executions.db").exists());
}

#[test]
fn a_conversion_that_was_cut_short_is_finished() {
    // Each list: what of a whole conversion is undone, the last first, and so what a crash can have left undone.
    let steps: [(&str, &str); 5] = [
        ("executions.db", ""),
        ("store.db", "restoring/store.db"),
        ("before-store/runs.db", "runs.db"),
        ("before-store/executions.db", "executions.db"),
        ("before-store", ""),
    ];
    for n_undone in 0..=steps.len() {
        let directory = furnished();
        let staged = {
            let other = Scratch::new();
            std::fs::create_dir_all(other.path()).unwrap();
            for name in ["executions.db", "runs.db"] {
                std::fs::copy(directory.path().join(name), other.path().join(name)).unwrap();
            }
            drop(open(&other));
            std::fs::read(other.path().join("store.db")).unwrap()
        };
        let place = |name: &str| directory.path().join(name);
        drop(open(&directory));
        std::fs::create_dir(place("restoring")).unwrap();
        std::fs::write(place("restoring/converted"), b"").unwrap();
        for (made, back) in &steps[..n_undone] {
            match *back {
                "" if place(made).is_dir() => std::fs::remove_dir_all(place(made)).unwrap(),
                "" => std::fs::remove_file(place(made)).unwrap(),
                "restoring/store.db" => {
                    std::fs::rename(place(made), place(back)).unwrap();
                    assert_eq!(std::fs::read(place(back)).unwrap().len(), staged.len());
                    let _ = std::fs::remove_file(place("store.mark"));
                }
                back => std::fs::rename(place(made), place(back)).unwrap(),
            }
        }
        drop(open(&directory));
        assert_whole(directory.path());
        assert!(!place("restoring").exists(), "{n_undone}");
        assert!(place("before-store/executions.db").exists(), "{n_undone}");
    }
    // Before the marker: half a copy is thrown away.
    let directory = furnished();
    std::fs::create_dir(directory.path().join("restoring")).unwrap();
    std::fs::write(directory.path().join("restoring/store.db"), b"half").unwrap();
    drop(open(&directory));
    assert_whole(directory.path());
}

#[test]
fn a_backup_is_restored_where_a_store_was_converted() {
    let directory = furnished();
    drop(open(&directory));
    let elsewhere = Scratch::new();
    std::fs::create_dir_all(elsewhere.path()).unwrap();
    let file = elsewhere.path().join("backup");
    back_up(directory.path(), &file, false, &mut |_| {}).unwrap();
    for path in files(directory.path()).into_keys() {
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with("store.") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let options = RestoreOptions {
        run_queued: true,
        ..RestoreOptions::default()
    };
    let restored = restore(&file, directory.path(), options, &mut |_| {}, &mut |_| Ok(0)).unwrap();
    assert!(restored.is_kept);
    assert_whole(directory.path());
}

#[test]
fn files_of_another_conversion_are_never_overwritten() {
    let directory = furnished();
    std::fs::create_dir(directory.path().join("before-store")).unwrap();
    let fault = refused(&directory);
    assert!(matches!(fault, StoreFault::Exists { .. }), "{fault:?}");
    assert!(directory.path().join("executions.db").exists());
}

#[test]
fn executions_without_runs_are_a_store_too() {
    let directory = Scratch::new();
    let newest = Scratch::new();
    let sample = Sample::new(1);
    Store::commit(&mut open(&newest), &[sample.accept()]).unwrap();
    std::fs::create_dir_all(directory.path()).unwrap();
    executions_of(
        &newest.path().join("store.db"),
        &directory.path().join("executions.db"),
        EXECUTIONS.migrations.len(),
    );
    let store = open(&directory);
    assert_eq!(store.opening().converted.unwrap().n_executions, 1);
    assert_eq!(
        RunStore::reader(&store).unwrap().counts().unwrap(),
        Default::default()
    );
}
