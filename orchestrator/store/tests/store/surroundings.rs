//! What happens to the files of a store from outside: who may read them, who takes them away, and what is damaged in them.

use std::fs::Permissions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use escapement_store::backup::{RestoreOptions, back_up, restore};
use escapement_store::embedded::{Examiner, GivenUp};
use escapement_store::{Embedded, EmbeddedOptions, Outcome, Store, StoreFault};
use escapement_store_kit::conformance::Sample;
use rusqlite::Connection;

use crate::opened::{open, refused};
use crate::scratch::Scratch;

fn repaired(directory: &Path) -> Result<Vec<String>, StoreFault> {
    let options = EmbeddedOptions {
        repair: true,
        ..EmbeddedOptions::default()
    };
    Embedded::open(directory, options).map(|store| store.opening().repaired.clone())
}

/// Settled, running and queued ones in turn.
fn furnished(n_executions: u64) -> (Scratch, Vec<Sample>) {
    let directory = Scratch::new();
    let mut store = open(directory.path());
    let samples: Vec<Sample> = (1..=n_executions).map(Sample::new).collect();
    for (number, sample) in (1u64..).zip(&samples) {
        let mut batch = vec![sample.accept()];
        match number % 3 {
            0 => batch.push(sample.settle(1)),
            1 => batch.push(sample.start()),
            _ => {}
        }
        store.commit(&batch).unwrap();
    }
    (directory, samples)
}

fn tamper(directory: &Scratch, sql: &str) {
    let connection = Connection::open(directory.path().join("store.db")).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn is_clean(directory: &Path) -> bool {
    let mut examiner = Examiner::open(directory).unwrap();
    examiner.examine_all(&mut |_| {}).unwrap().is_clean() && examiner.structure().unwrap().is_empty()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn every_file_is_its_owners_alone_also_those_of_an_earlier_version() {
    let (directory, _) = furnished(3);
    let open_to_all =
        |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open_to_all(directory.path(), 0o755);
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        open_to_all(&entry.unwrap().path(), 0o644);
    }
    let store = open(directory.path());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path);
    }
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(mode(directory.path()), 0o700);
    assert_eq!(store.opening().mode_for_others, None);
    drop(store);

    // A directory that holds more than a store belongs to somebody who may want it as it is.
    std::fs::write(directory.path().join("more"), "").unwrap();
    open_to_all(directory.path(), 0o750);
    let store = open(directory.path());
    assert_eq!(store.opening().mode_for_others, Some(0o750));
    assert_eq!(mode(directory.path()), 0o750);
}

#[test]
fn an_opening_says_where_the_store_is_and_whether_it_is_new() {
    let directory = Scratch::new();
    for is_new in [true, false] {
        let store = open(directory.path());
        let opening = store.opening();
        assert_eq!((opening.is_new, opening.schema_version > 2), (is_new, true));
        assert!(opening.directory.is_absolute() && opening.directory.ends_with(directory.path()));
    }
}

#[test]
fn nothing_is_acknowledged_on_files_that_are_not_in_their_place_any_more() {
    for what in ["directory", "database", "log", "directory is another"] {
        let (directory, _) = furnished(3);
        let mut store = open(directory.path());
        store.commit(&[]).unwrap();
        match what {
            "database" => std::fs::remove_file(directory.path().join("store.db")).unwrap(),
            "log" => std::fs::remove_file(directory.path().join("store.db-wal")).unwrap(),
            _ => std::fs::remove_dir_all(directory.path()).unwrap(),
        }
        if what == "directory is another" {
            drop(open(directory.path()));
        }
        let fault = store.commit(&[Sample::new(10).accept()]).unwrap_err();
        let said = std::error::Error::source(&fault).unwrap().to_string();
        assert!(matches!(fault, StoreFault::Fatal(_)), "{what}: {fault:?}");
        assert!(said.contains("removed or replaced"), "{what}: {said}");
        let fault = store.commit(&[]).unwrap_err();
        assert!(matches!(fault, StoreFault::Fatal(_)), "{what}: {fault:?}");
    }
    let (directory, _) = furnished(3);
    let mut store = open(directory.path());
    std::fs::remove_dir_all(directory.path()).unwrap();
    let fault = store.commit(&[]).unwrap_err();
    assert!(
        matches!(fault, StoreFault::Fatal(_)),
        "also without a write: {fault:?}"
    );
}

#[test]
fn what_another_process_has_written_is_never_built_on() {
    let (directory, samples) = furnished(3);
    let mut store = open(directory.path());
    tamper(&directory, "UPDATE tally SET n_commits = n_commits + 1");
    let fault = store.commit(&[samples[0].settle(1)]).unwrap_err();
    let said = std::error::Error::source(&fault).unwrap().to_string();
    assert_eq!(said, "another process has written this store");
}

/// Overwrites the root page of an index.
fn destroy(directory: &Scratch, index: &str) {
    let database = directory.path().join("store.db");
    let root: u32 = Connection::open(&database)
        .unwrap()
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?1",
            [index],
            |row| row.get(0),
        )
        .unwrap();
    let file = std::fs::File::options().write(true).open(database).unwrap();
    file.write_all_at(&[0; 200], u64::from(root - 1) * 4096).unwrap();
}

#[test]
fn an_index_that_cannot_be_read_is_made_anew_and_no_record_is_lost() {
    for index in [
        "execution_by_id",
        "execution_by_plan",
        "execution_by_parent",
        "execution_by_namespace",
        "execution_unsettled",
        "removed_by_id",
    ] {
        let (directory, samples) = furnished(60);
        destroy(&directory, index);
        if index.starts_with("execution") {
            let fault = refused(directory.path());
            assert!(
                matches!(fault, StoreFault::Indexes { found: None, .. }),
                "{index}: {fault:?}"
            );
            assert!(fault.to_string().contains("check --repair"), "{fault}");
        }
        let said = repaired(directory.path()).unwrap();
        assert_eq!(said, ["indexes"], "{index}");
        assert!(is_clean(directory.path()), "{index}");
        let store = open(directory.path());
        let reader = store.reader().unwrap();
        for (number, sample) in (1u64..).zip(&samples) {
            let expected = match number % 3 {
                0 => sample.settled(sample.accepted(number), 1),
                1 => sample.started(number),
                _ => sample.accepted(number),
            };
            assert_eq!(reader.execution(sample.execution_id()).unwrap(), Some(expected));
        }
    }
    // The way that RELIABILITY promises does the same.
    let (directory, _) = furnished(6);
    destroy(&directory, "execution_by_parent");
    let options = EmbeddedOptions {
        accept_loss: true,
        ..EmbeddedOptions::default()
    };
    drop(Embedded::open(directory.path(), options).unwrap());
    drop(open(directory.path()));
}

#[test]
fn counts_are_made_anew_and_a_loss_is_not_accepted_by_a_repair() {
    let (directory, _) = furnished(9);
    tamper(
        &directory,
        "UPDATE tally SET executions_queued = 7, executions_settled = 1",
    );
    assert!(matches!(refused(directory.path()), StoreFault::Gap { .. }));
    assert_eq!(repaired(directory.path()).unwrap().len(), 2);
    let counts = open(directory.path()).reader().unwrap().counts().unwrap();
    assert_eq!((counts.queued, counts.running, counts.settled), (3, 3, 3));
    assert!(is_clean(directory.path()));

    tamper(&directory, "DELETE FROM execution WHERE number = 4");
    let fault = repaired(directory.path()).unwrap_err();
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

#[test]
fn one_damaged_execution_is_given_up_and_its_ids_stay_used() {
    let (directory, samples) = furnished(9);
    tamper(
        &directory,
        "UPDATE accepted_record SET record = x'00' WHERE number IN (4, 5); \
         UPDATE settled_record SET audit = x'00' WHERE number = 6; \
         UPDATE execution SET execution_id = x'00', state = 2 WHERE number = 4",
    );
    let mut store = Embedded::open(
        directory.path(),
        EmbeddedOptions {
            repair: true,
            ..EmbeddedOptions::default()
        },
    )
    .unwrap();
    let done = |number: usize| GivenUp::Done {
        execution_id: Some(samples[number - 1].execution_id()),
    };
    assert_eq!(store.give_up(3, 7).unwrap(), GivenUp::Whole);
    assert_eq!(store.give_up(4, 7).unwrap(), GivenUp::Done { execution_id: None });
    assert_eq!(store.give_up(5, 7).unwrap(), done(5));
    assert_eq!(store.give_up(6, 7).unwrap(), done(6));
    assert_eq!(store.give_up(6, 7).unwrap(), GivenUp::Missing);
    assert_eq!(store.give_up(99, 7).unwrap(), GivenUp::Missing);
    let outcomes = store
        .commit(&[samples[4].accept(), Sample::new(50).accept()])
        .unwrap();
    assert!(
        matches!(outcomes[..], [Outcome::Conflict(_), Outcome::Done { number: 10 }]),
        "{outcomes:?}"
    );
    drop(store);
    assert!(is_clean(directory.path()));
    assert_eq!(
        open(directory.path())
            .reader()
            .unwrap()
            .counts()
            .unwrap()
            .accepted(),
        9
    );
}

#[test]
fn a_restore_that_failed_leaves_nothing_that_opens_and_is_repeated() {
    let (directory, _) = furnished(60);
    let backup = directory.path().join("backup");
    back_up(directory.path(), &backup, false, &mut |_| {}).unwrap();
    let bytes = std::fs::read(&backup).unwrap();
    let broken = directory.path().join("broken");
    let target = Scratch::new();
    let restore = |file: &Path| {
        let restored = restore(
            file,
            target.path(),
            RestoreOptions::default(),
            &mut |_| {},
            &mut |_| Ok(0),
        )?;
        Ok::<_, StoreFault>(restored.is_kept)
    };
    for content in [&bytes[..bytes.len() / 2], b"no backup at all", b""] {
        std::fs::write(&broken, content).unwrap();
        let fault = restore(&broken).unwrap_err();
        assert!(
            matches!(&fault, StoreFault::NoBackup { path, .. } if *path == broken),
            "{fault:?}"
        );
        let fault = refused(target.path());
        assert!(matches!(fault, StoreFault::Unfinished { .. }), "{fault:?}");
        assert!(fault.to_string().contains("orchestrator restore"), "{fault}");
    }
    let empty: Vec<_> = std::fs::read_dir(target.path().join("restoring"))
        .unwrap()
        .collect();
    assert!(empty.is_empty(), "{empty:?}");
    assert!(restore(&backup).unwrap());
    assert!(!target.path().join("restoring").exists());
    drop(open(target.path()));
}

#[test]
fn a_database_whose_head_is_damaged_is_called_damaged() {
    let (directory, _) = furnished(3);
    let file = std::fs::File::options()
        .write(true)
        .open(directory.path().join("store.db"))
        .unwrap();
    file.write_all_at(&[0x11], 16).unwrap();
    for fault in [
        refused(directory.path()),
        Examiner::open(directory.path()).unwrap_err(),
    ] {
        assert!(matches!(fault, StoreFault::Damaged { .. }), "{fault:?}");
    }
}

#[test]
fn a_damaged_request_does_not_hide_a_result_that_is_whole() {
    let (directory, samples) = furnished(6);
    tamper(
        &directory,
        "UPDATE accepted_record SET record = x'00' WHERE number IN (3, 4, 6); \
         UPDATE settled_record SET result = x'00' WHERE number = 6",
    );
    let reader = open(directory.path()).reader().unwrap();
    let found = reader
        .execution_or_ending(samples[2].execution_id())
        .unwrap()
        .unwrap();
    let whole = samples[2].settled(samples[2].accepted(3), 1);
    assert_eq!((found.summary, found.result), (whole.summary, whole.result));
    assert!(found.record.is_empty());
    for number in [4, 6] {
        let fault = reader
            .execution_or_ending(samples[number - 1].execution_id())
            .unwrap_err();
        assert!(
            matches!(
                fault,
                StoreFault::Corrupt {
                    part: "accepted record",
                    ..
                }
            ),
            "{fault:?}"
        );
    }
}
