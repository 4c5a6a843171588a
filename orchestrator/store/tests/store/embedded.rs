//! What only the embedded store promises: its files, its lock, what it does about loss and damage.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use bytes::Bytes;
use escapement_store::{
    Conflict, Embedded, EmbeddedOptions, ListFilter, Outcome, Store, StoreFault, StoredState, Write,
};
use escapement_store_kit::conformance::Sample;
use rusqlite::Connection;

use crate::opened::{open, refused};
use crate::scratch::Scratch;

fn accepting_loss(directory: &Scratch) -> Embedded {
    let options = EmbeddedOptions {
        accept_loss: true,
        ..EmbeddedOptions::default()
    };
    Embedded::open(directory.path(), options).unwrap()
}

/// Returns a store with ten executions, odd numbers settled, closed again.
fn furnished() -> (Scratch, Vec<Sample>) {
    let directory = Scratch::new();
    let samples: Vec<Sample> = (1..=10)
        .map(|seed| Sample::with_record_bytes(seed, 2000))
        .collect();
    let mut store = open(&directory);
    for (number, sample) in (1u64..).zip(&samples) {
        store.commit(&[sample.accept()]).unwrap();
        if number % 2 == 1 {
            store.commit(&[sample.settle(1)]).unwrap();
        }
    }
    (directory, samples)
}

fn database(directory: &Scratch) -> std::path::PathBuf {
    directory.path().join("store.db")
}

/// Changes the closed store's file behind its back.
fn tamper(directory: &Scratch, sql: &str) {
    Connection::open(database(directory))
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

#[test]
fn a_second_orchestrator_on_the_directory_is_refused() {
    let directory = Scratch::new();
    let first = open(&directory);
    let fault = refused(&directory);
    assert!(
        matches!(&fault, StoreFault::Locked { path, .. } if path.ends_with("lock")),
        "{fault:?}"
    );
    let said = fault.to_string();
    assert!(
        said.contains("stop it or give this one another directory"),
        "{said}"
    );
    assert!(
        said.contains(&format!("process {} on host", std::process::id())),
        "{said}"
    );
    // A lock that somebody takes for a leftover and deletes changes nothing.
    std::fs::remove_file(directory.path().join("lock")).unwrap();
    let fault = refused(&directory);
    assert!(matches!(fault, StoreFault::Locked { .. }), "{fault:?}");
    drop(first);
    open(&directory);
}

#[test]
fn a_start_waits_for_a_holder_that_is_about_to_end() {
    let directory = Scratch::new();
    let holder = open(&directory);
    let started = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| (started.wait(), drop(open(&directory))));
        started.wait();
        std::thread::yield_now();
        drop(holder);
    });
}

#[test]
fn the_directory_is_created_for_its_user_only() {
    let parent = Scratch::new();
    let nested = parent.path().join("a/b");
    drop(Embedded::open(&nested, EmbeddedOptions::default()).unwrap());
    assert_eq!(nested.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_its_cause() {
    let parent = Scratch::new();
    std::fs::create_dir_all(parent.path()).unwrap();
    std::fs::write(parent.path().join("file"), "in the way").unwrap();
    let fault = Embedded::open(&parent.path().join("file/store"), EmbeddedOptions::default()).unwrap_err();
    assert!(matches!(fault, StoreFault::Open { .. }), "{fault:?}");
    assert!(
        fault.to_string().contains("file/store") && fault.source().is_some(),
        "{fault}"
    );
}

#[test]
fn closing_leaves_an_empty_log() {
    let (directory, _) = furnished();
    let log = directory
        .path()
        .join("store.db-wal")
        .metadata()
        .map_or(0, |log| log.len());
    assert_eq!(log, 0);
}

#[test]
fn a_newer_schema_is_refused_and_untouched() {
    let (directory, _) = furnished();
    tamper(&directory, "PRAGMA user_version = 99");
    let fault = refused(&directory);
    assert!(
        matches!(
            fault,
            StoreFault::Incompatible {
                found: 99,
                known: 9,
                ..
            }
        ),
        "{fault:?}"
    );
    let connection = Connection::open(database(&directory)).unwrap();
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    assert_eq!(version.unwrap(), 99);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let directory = Scratch::new();
    std::fs::create_dir_all(directory.path()).unwrap();
    tamper(&directory, "CREATE TABLE theirs (x); PRAGMA user_version = 1");
    assert!(matches!(
        refused(&directory),
        StoreFault::Incompatible { found: 1, .. }
    ));
    std::fs::write(database(&directory), [7; 8192]).unwrap();
    assert!(matches!(refused(&directory), StoreFault::Damaged { .. }));
}

#[test]
fn a_missing_execution_refuses_to_open_until_the_loss_is_accepted() {
    let (directory, samples) = furnished();
    tamper(&directory, "DELETE FROM execution WHERE number = 4");
    let fault = refused(&directory);
    assert!(
        matches!(
            fault,
            StoreFault::Gap {
                what: "executions",
                expected: 10,
                found: 9
            }
        ),
        "{fault:?}"
    );

    let mut store = accepting_loss(&directory);
    let reader = store.reader().unwrap();
    assert!(reader.execution(samples[3].execution_id()).unwrap().is_none());
    assert_eq!(reader.list(&ListFilter::default(), None, 100).unwrap().len(), 9);
    let counts = reader.counts().unwrap();
    assert_eq!((counts.queued, counts.running, counts.settled), (4, 0, 5));
    assert_eq!(
        store.commit(&[Sample::new(50).accept()]).unwrap(),
        [Outcome::Done { number: 11 }]
    );
    drop(store);
    // Accepted once, the loss is no gap any more.
    open(&directory);
}

#[test]
fn a_lost_end_refuses_to_open_and_its_numbers_are_never_given_again() {
    let (directory, _) = furnished();
    let early = std::fs::read(database(&directory)).unwrap();
    let mut store = open(&directory);
    store
        .commit(&[Sample::new(60).accept(), Sample::new(61).accept()])
        .unwrap();
    drop(store);
    // As after a restored backup, or a write-ahead log whose end was lost: the database alone looks whole.
    std::fs::write(database(&directory), early).unwrap();

    let fault = refused(&directory);
    assert!(
        matches!(fault, StoreFault::Gap { what: "commits", .. }),
        "{fault:?}"
    );
    let mut store = accepting_loss(&directory);
    assert_eq!(
        store.commit(&[Sample::new(62).accept()]).unwrap(),
        [Outcome::Done { number: 13 }]
    );
    drop(store);
    open(&directory);
}

#[test]
fn a_flipped_bit_in_the_write_ahead_log_is_not_passed_over_in_silence() {
    let directory = Scratch::new();
    let copy = Scratch::new();
    let mut store = open(&directory);
    for seed in 1..=10 {
        store.commit(&[Sample::new(seed).accept()]).unwrap();
    }
    // A copy of the living files is what a kill would leave; the flip is in the middle of the log.
    std::fs::create_dir_all(copy.path()).unwrap();
    for name in ["store.db", "store.db-wal", "store.mark"] {
        std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    let log = copy.path().join("store.db-wal");
    flip(&log, log.metadata().unwrap().len() / 2);
    let fault = refused(&copy);
    assert!(
        matches!(
            fault,
            StoreFault::Gap {
                what: "commits",
                expected: 10,
                ..
            }
        ),
        "{fault:?}"
    );
}

#[test]
fn missing_last_records_refuse_to_open_until_the_loss_is_accepted() {
    for (table, what, number) in [
        ("accepted_record", "accepted records up to the last", 10),
        ("settled_record", "settled records up to the last", 9),
    ] {
        let (directory, samples) = furnished();
        tamper(
            &directory,
            &format!("DELETE FROM {table} WHERE number = {number}"),
        );
        let fault = refused(&directory);
        assert!(
            matches!(fault, StoreFault::Gap { what: said, .. } if said == what),
            "{fault:?}"
        );
        drop(accepting_loss(&directory));
        let store = open(&directory);
        let fault = store
            .reader()
            .unwrap()
            .execution(samples[number - 1].execution_id())
            .unwrap_err();
        assert!(matches!(fault, StoreFault::Corrupt { number: found, .. } if found == number as u64));
    }
}

/// Flips one bit of a file.
fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Exactly one execution is damaged, in this part; everything else reads as it was written.
fn only_is_damaged(directory: &Scratch, samples: &[Sample], damaged: u64, part: &str) {
    let store = open(directory);
    let reader = store.reader().unwrap();
    for (number, sample) in (1u64..).zip(samples) {
        let (execution, audit) = (
            reader.execution(sample.execution_id()),
            reader.audit(sample.execution_id()),
        );
        let faults = [execution.err(), audit.err()];
        let expected = if number == damaged { 1 } else { 0 };
        assert_eq!(
            faults.iter().flatten().count(),
            expected,
            "number {number}: {faults:?}"
        );
        for fault in faults.into_iter().flatten() {
            assert!(
                matches!(fault, StoreFault::Corrupt { number, part: it } if (number, it) == (damaged, part)),
                "{fault:?}"
            );
        }
    }
}

#[test]
fn a_changed_column_or_record_is_detected_and_local() {
    for (number, sql, part) in [
        (
            5,
            "UPDATE accepted_record SET record = zeroblob(2000) WHERE number = 5",
            "accepted record",
        ),
        (
            6,
            "UPDATE execution SET plan_name = 'forged' WHERE number = 6",
            "accepted record",
        ),
        (
            6,
            "UPDATE execution SET priority = priority + 1 WHERE number = 6",
            "accepted record",
        ),
        (
            7,
            "UPDATE settled_record SET result = substr(result, 2) WHERE number = 7",
            "result record",
        ),
        (
            7,
            "UPDATE execution SET status = 3 WHERE number = 7",
            "result record",
        ),
        (7, "DELETE FROM settled_record WHERE number = 7", "result record"),
        (
            7,
            "UPDATE settled_record SET audit = x'00' WHERE number = 7",
            "audit record",
        ),
        (
            8,
            "DELETE FROM accepted_record WHERE number = 8",
            "accepted record",
        ),
    ] {
        let (directory, samples) = furnished();
        tamper(&directory, sql);
        if sql.starts_with("DELETE FROM settled") {
            // Both records of the settled execution are gone, and both reads say so.
            let store = open(&directory);
            let reader = store.reader().unwrap();
            assert!(reader.execution(samples[6].execution_id()).is_err(), "{sql}");
            assert!(reader.audit(samples[6].execution_id()).is_err(), "{sql}");
            continue;
        }
        only_is_damaged(&directory, &samples, number, part);
    }
}

#[test]
fn a_flipped_bit_in_the_file_is_detected_and_local() {
    let (directory, samples) = furnished();
    let clean = std::fs::read(database(&directory)).unwrap();
    for (number, bytes, part) in [
        (2, &samples[1].accept.record, "accepted record"),
        (3, &samples[2].result, "result record"),
        (9, &samples[8].audit, "audit record"),
    ] {
        let needle = &bytes[500..532];
        std::fs::write(database(&directory), &clean).unwrap();
        // A page that was split keeps a dead copy, too; whichever is the living one, it is hit.
        for (at, window) in clean.windows(needle.len()).enumerate() {
            if window == needle {
                flip(&database(&directory), at as u64 + 7);
            }
        }
        only_is_damaged(&directory, &samples, number, part);
    }
}

#[test]
fn a_page_ends_in_front_of_a_damaged_execution_and_can_go_on_behind_it() {
    let (directory, _) = furnished();
    tamper(
        &directory,
        "UPDATE accepted_record SET record = x'00' WHERE number = 6",
    );
    let store = open(&directory);
    let reader = store.reader().unwrap();
    let numbers = |after| {
        let page = reader.unsettled(after, 100)?;
        Ok::<Vec<u64>, StoreFault>(page.iter().map(|execution| execution.summary.number).collect())
    };
    assert_eq!(numbers(None).unwrap(), [2, 4]);
    assert!(matches!(
        numbers(Some(4)),
        Err(StoreFault::Corrupt { number: 6, .. })
    ));
    assert_eq!(numbers(Some(6)).unwrap(), [8, 10]);
    // Its index row tells whose it is, so that it can still be settled.
    let rows = reader.list(&ListFilter::default(), Some(7), 1).unwrap();
    assert_eq!((rows[0].number, rows[0].state), (6, StoredState::Queued));

    tamper(&directory, "UPDATE execution SET state = 7 WHERE number = 5");
    let listed = |before| {
        let page = reader.list(&ListFilter::default(), before, 100)?;
        Ok::<Vec<u64>, StoreFault>(page.iter().map(|summary| summary.number).collect())
    };
    assert_eq!(listed(None).unwrap(), [10, 9, 8, 7, 6]);
    assert!(matches!(
        listed(Some(6)),
        Err(StoreFault::Corrupt { number: 5, .. })
    ));
    assert_eq!(listed(Some(5)).unwrap(), [4, 3, 2, 1]);
}

#[test]
fn a_page_of_summaries_passes_over_damaged_records_and_ends_in_front_of_a_damaged_row() {
    let (directory, _) = furnished();
    tamper(
        &directory,
        "UPDATE accepted_record SET record = x'00' WHERE number = 6",
    );
    tamper(
        &directory,
        "UPDATE execution SET plan_id = x'00' WHERE number = 8",
    );
    let store = open(&directory);
    let reader = store.reader().unwrap();
    let numbers = |after| {
        let page = reader.unsettled_summaries(after, 100)?;
        Ok::<Vec<u64>, StoreFault>(page.iter().map(|summary| summary.number).collect())
    };
    assert_eq!(numbers(None).unwrap(), [2, 4, 6]);
    assert!(matches!(
        numbers(Some(6)),
        Err(StoreFault::Corrupt { number: 8, .. })
    ));
    assert_eq!(numbers(Some(8)).unwrap(), [10]);
}

#[test]
fn a_page_of_large_records_ends_early_and_loses_none() {
    let directory = Scratch::new();
    let mut store = open(&directory);
    let record = Bytes::from(vec![7; 4 << 20]);
    for seed in 1..=20 {
        let mut sample = Sample::new(seed);
        sample.accept.record = record.clone();
        store.commit(&[sample.accept()]).unwrap();
    }
    let reader = store.reader().unwrap();
    let (mut numbers, mut pages) = (Vec::new(), Vec::new());
    loop {
        let page = reader.unsettled(numbers.last().copied(), 1000).unwrap();
        if page.is_empty() {
            break;
        }
        pages.push(page.len());
        numbers.extend(page.iter().map(|execution| execution.summary.number));
    }
    assert_eq!(pages, [16, 4], "64 MiB are 16 records of 4 MiB");
    assert!(numbers.into_iter().eq(1..=20));
}

#[test]
fn a_full_disk_answers_full_writes_nothing_and_recovers() {
    let directory = Scratch::new();
    let options = EmbeddedOptions {
        pages_max: Some(200),
        ..EmbeddedOptions::default()
    };
    let mut store = Embedded::open(directory.path(), options).unwrap();
    let (small, large) = (Sample::new(1), Sample::with_record_bytes(2, 1 << 20));
    store.commit(&[small.accept()]).unwrap();
    let before = store.reader().unwrap().counts().unwrap();

    for _ in 0..3 {
        let fault = store
            .commit(&[Sample::new(3).accept(), large.accept(), small.settle(1)])
            .unwrap_err();
        assert!(
            matches!(fault, StoreFault::Full(_)) && fault.source().is_some(),
            "{fault:?}"
        );
        assert!(fault.to_string().contains("free space"), "{fault}");
    }
    let reader = store.reader().unwrap();
    assert_eq!(reader.counts().unwrap(), before);
    assert_eq!(
        reader.execution(small.execution_id()).unwrap(),
        Some(small.accepted(1))
    );

    // What fits still fits, and with space again the rest does too.
    assert_eq!(
        store.commit(&[Sample::new(3).accept()]).unwrap(),
        [Outcome::Done { number: 2 }]
    );
    drop(reader);
    drop(store);
    let mut store = open(&directory);
    assert_eq!(
        store.commit(&[large.accept()]).unwrap(),
        [Outcome::Done { number: 3 }]
    );
}

#[test]
fn a_file_that_another_process_holds_is_busy_and_then_goes_on() {
    let directory = Scratch::new();
    let mut store = open(&directory);
    let intruder = Connection::open(database(&directory)).unwrap();
    intruder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let fault = store.commit(&[Sample::new(1).accept()]).unwrap_err();
    assert!(matches!(fault, StoreFault::Busy(_)), "{fault:?}");
    intruder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(
        store.commit(&[Sample::new(1).accept()]).unwrap(),
        [Outcome::Done { number: 1 }]
    );
}

#[test]
fn behind_a_fatal_fault_every_commit_is_refused() {
    let directory = Scratch::new();
    let mut store = open(&directory);
    store.commit(&[Sample::new(1).accept()]).unwrap();
    tamper(&directory, "ALTER TABLE settled_record RENAME TO elsewhere");
    let fault = store.commit(&[Sample::new(1).settle(1)]).unwrap_err();
    assert!(
        matches!(fault, StoreFault::Fatal(_)) && fault.source().is_some(),
        "{fault:?}"
    );
    for batch in [&[Sample::new(2).accept()][..], &[]] {
        assert!(matches!(store.commit(batch), Err(StoreFault::Fatal(_))));
    }
    drop(store);
    tamper(&directory, "ALTER TABLE elsewhere RENAME TO settled_record");
    let mut store = open(&directory);
    assert_eq!(
        store.commit(&[Sample::new(1).settle(1)]).unwrap(),
        [Outcome::Done { number: 1 }]
    );
}

#[test]
fn checkpoints_keep_the_log_short_under_load_with_readers() {
    let directory = Scratch::new();
    let mut store = open(&directory);
    let reader = store.reader().unwrap();
    let log = directory.path().join("store.db-wal");
    let record = Bytes::from(vec![7; 1 << 20]);
    for seed in 0..300 {
        let mut sample = Sample::new(seed);
        sample.accept.record = record.clone();
        store.commit(&[sample.accept()]).unwrap();
        assert_eq!(reader.counts().unwrap().queued, seed + 1);
    }
    // 300 MiB went through; the log never held more than what arrives while 32 MiB are copied.
    let megabytes = log.metadata().unwrap().len() >> 20;
    assert!(megabytes < 200, "the log has {megabytes} MiB");
    let again: Vec<Write> = vec![Sample::new(0).accept()];
    let outcomes = store.commit(&again).unwrap();
    assert!(matches!(
        outcomes[0],
        Outcome::Conflict(Conflict::ExecutionIdUsed { .. })
    ));
}

#[test]
fn numbers_that_no_store_writes_are_faults() {
    let far = i64::MAX;
    for sql in [
        "UPDATE tally SET n_commits = -1".to_owned(),
        "UPDATE tally SET execution_last = -7".to_owned(),
        format!("UPDATE tally SET executions_lost = {far}, runs_lost = {far}"),
        format!(
            "UPDATE tally SET executions_queued = {far}, executions_running = {far}, executions_settled = {far}"
        ),
        "UPDATE execution SET number = -1 WHERE number = 10".to_owned(),
    ] {
        let (directory, _) = furnished();
        tamper(&directory, &sql);
        let opened = Embedded::open(directory.path(), EmbeddedOptions::default());
        assert!(opened.is_err() || !sql.contains("tally"), "{sql}");
        drop(opened);
        // It may open then; what it says is a fault or a number.
        let accepting = EmbeddedOptions {
            accept_loss: true,
            ..EmbeddedOptions::default()
        };
        if let Ok(store) = Embedded::open(directory.path(), accepting) {
            let reader = store.reader().unwrap();
            let _ = reader.list(&ListFilter::default(), None, 100);
            let _ = reader.unsettled(None, 100);
        }
    }
}
