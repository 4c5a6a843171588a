//! What only the embedded store promises about removal: its file, its witnesses, and what it does about damage.

use escapement_store::{Embedded, EmbeddedOptions, Outcome, Removal, Removed, Store, StoreFault, Write};
use escapement_store_kit::conformance::Sample;
use rusqlite::Connection;

use crate::opened::open;
use crate::scratch::Scratch;

fn gap(directory: &Scratch) -> (&'static str, u64, u64) {
    match Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap_err() {
        StoreFault::Gap {
            what,
            expected,
            found,
        } => (what, expected, found),
        fault => panic!("{fault:?}"),
    }
}

/// Changes the closed store's file behind its back.
fn tamper(directory: &Scratch, sql: &str) {
    Connection::open(directory.path().join("store.db"))
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

fn keep(count: u64) -> Removal {
    Removal {
        keep_settled_count: Some(count),
        ..Removal::default()
    }
}

fn remove_all(store: &mut Embedded, policy: &Removal, now_unix_ms: i64) -> Removed {
    let mut sum = Removed::default();
    loop {
        let removed = store.remove_settled(policy, now_unix_ms).unwrap();
        sum.n_executions += removed.n_executions;
        sum.n_ids += removed.n_ids;
        if !removed.has_more {
            return sum;
        }
    }
}

/// Twelve executions, the even ones settled; 2, 4, 6 and 8 removed, and 2 and 4 forgotten.
fn furnished() -> (Scratch, Vec<Sample>) {
    let directory = Scratch::new();
    let samples: Vec<Sample> = (1..=12)
        .map(|seed| Sample::with_record_bytes(seed, 2000))
        .collect();
    let mut store = open(&directory);
    for (number, sample) in (1u64..).zip(&samples) {
        store.commit(&[sample.accept()]).unwrap();
        if number % 2 == 0 {
            store.commit(&[sample.settle(1)]).unwrap();
        }
    }
    assert_eq!(remove_all(&mut store, &keep(4), 100).n_executions, 2);
    let forgetting = Removal {
        keep_ids_ms: Some(50),
        ..keep(2)
    };
    let removed = remove_all(&mut store, &forgetting, 200);
    assert_eq!((removed.n_executions, removed.n_ids), (2, 2));
    (directory, samples)
}

#[test]
fn what_is_lost_behind_removals_is_detected() {
    let (directory, _) = furnished();
    drop(open(&directory));
    for (sql, expected) in [
        ("DELETE FROM execution WHERE number = 3", ("executions", 12, 11)),
        ("DELETE FROM execution WHERE number = 10", ("executions", 12, 11)),
        (
            "DELETE FROM removed_execution WHERE number = 6",
            ("ids of removed executions", 2, 1),
        ),
        (
            "UPDATE tally SET executions_forgotten = 1",
            ("executions", 12, 11),
        ),
        (
            "UPDATE execution SET state = 1 WHERE number = 10",
            ("running executions", 0, 1),
        ),
        (
            "DELETE FROM settled_record WHERE number = 12",
            ("settled records up to the last", 12, 10),
        ),
    ] {
        let (directory, _) = furnished();
        tamper(&directory, sql);
        assert_eq!(gap(&directory), expected, "{sql}");
        let options = EmbeddedOptions {
            accept_loss: true,
            ..EmbeddedOptions::default()
        };
        let mut store = Embedded::open(directory.path(), options).unwrap();
        let outcomes = store.commit(&[Sample::new(99).accept()]).unwrap();
        assert_eq!(outcomes, [Outcome::Done { number: 13 }], "{sql}");
        drop(store);
        // Accepted once, the loss is no gap any more.
        open(&directory);
    }
}

#[test]
fn a_database_from_before_a_removal_is_behind_its_mark() {
    let (directory, _) = furnished();
    let file = directory.path().join("store.db");
    let early = std::fs::read(&file).unwrap();
    let mut store = open(&directory);
    assert_eq!(remove_all(&mut store, &keep(0), 300).n_executions, 2);
    drop(store);
    std::fs::write(&file, early).unwrap();
    assert_eq!(gap(&directory).0, "commits");
}

#[test]
fn what_settled_before_there_were_places_goes_first() {
    let directory = Scratch::new();
    let mut store = open(&directory);
    let samples: Vec<Sample> = (1..=8).map(Sample::new).collect();
    for sample in &samples {
        store.commit(&[sample.accept()]).unwrap();
    }
    // The first two to be accepted are the last two to settle.
    for index in [4, 5, 6, 7, 2, 3, 1, 0] {
        store.commit(&[samples[index].settle(1)]).unwrap();
    }
    drop(store);
    // An earlier version settled four of them.
    tamper(
        &directory,
        "UPDATE execution SET settlement = NULL WHERE number IN (5, 6, 7, 8)",
    );
    let mut store = open(&directory);
    for (count, places, removed) in [
        (6, vec![5, 6, 7, 8], 0),
        (4, vec![5, 6, 7, 8], 0),
        (3, vec![6, 7, 8], 5),
        (1, vec![8], 7),
    ] {
        remove_all(&mut store, &keep(count), 100);
        let page = store.reader().unwrap().settled(0, 10).unwrap();
        let kept: Vec<u64> = page.executions.iter().map(|(place, _)| *place).collect();
        assert_eq!((kept, page.removed), (places, removed), "keeping {count}");
    }
}

#[test]
fn what_is_damaged_is_passed_over_and_all_others_are_removed() {
    for sql in [
        "UPDATE execution SET plan_name = 'forged' WHERE number = 5",
        "UPDATE accepted_record SET record = x'00' WHERE number = 5",
        "UPDATE execution SET request_digest = zeroblob(32) WHERE number = 5",
        "DELETE FROM accepted_record WHERE number = 5",
        "UPDATE execution SET execution_id = x'00' WHERE number = 5",
        "INSERT INTO removed_execution SELECT 1, 5, execution_id, plan_id, request_digest, 0, 0, 0 \
         FROM execution WHERE number = 5; UPDATE tally SET executions_removed = 1, execution_last = 11",
    ] {
        let directory = Scratch::new();
        let mut store = open(&directory);
        let samples: Vec<Sample> = (1..=10).map(Sample::new).collect();
        for sample in &samples {
            store.commit(&[sample.accept(), sample.settle(1)]).unwrap();
        }
        drop(store);
        tamper(&directory, sql);
        let mut store = open(&directory);
        let (mut n_removed, mut faults) = (0, Vec::new());
        loop {
            match store.remove_settled(&keep(0), 7) {
                Ok(removed) => {
                    n_removed += removed.n_executions;
                    if !removed.has_more {
                        break;
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
        assert_eq!(n_removed, 9, "{sql}");
        assert!(
            matches!(faults[..], [StoreFault::Corrupt { number: 5, .. }]),
            "{sql}: {faults:?}"
        );
        // It goes on, and the store opens.
        store.commit(&[Sample::new(50).accept()]).unwrap();
        drop(store);
        open(&directory);
    }
}

#[test]
fn damaged_ids_are_passed_over_and_all_others_are_forgotten() {
    let (directory, samples) = furnished();
    tamper(
        &directory,
        "UPDATE removed_execution SET settled_at = 0 WHERE number = 6",
    );
    let mut store = open(&directory);
    let reader = store.reader().unwrap();
    let fault = reader.removed(samples[5].execution_id()).unwrap_err();
    assert!(
        matches!(fault, StoreFault::Corrupt { number: 6, .. }),
        "{fault:?}"
    );
    // Which request it was for cannot be told, so the accept is no conflict and no success.
    let fault = store.commit(&[samples[5].accept()]).unwrap_err();
    assert!(
        matches!(fault, StoreFault::Corrupt { number: 6, .. }),
        "{fault:?}"
    );
    let policy = Removal {
        keep_ids_ms: Some(1),
        ..Removal::default()
    };
    let fault = store.remove_settled(&policy, 900).unwrap_err();
    assert!(
        matches!(fault, StoreFault::Corrupt { number: 6, .. }),
        "{fault:?}"
    );
    let removed = store.remove_settled(&policy, 900).unwrap();
    assert_eq!((removed.n_ids, removed.has_more), (1, false));
}

#[test]
fn a_full_disk_stops_a_removal_whole() {
    let directory = Scratch::new();
    let samples: Vec<Sample> = (1..=100).map(Sample::new).collect();
    let mut store = open(&directory);
    for sample in &samples {
        store.commit(&[sample.accept(), sample.settle(1)]).unwrap();
    }
    drop(store);
    let n_pages = |directory: &Scratch| {
        let connection = Connection::open(directory.path().join("store.db")).unwrap();
        connection
            .pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0))
            .unwrap()
    };
    let options = EmbeddedOptions {
        pages_max: Some(n_pages(&directory)),
        ..EmbeddedOptions::default()
    };
    let mut store = Embedded::open(directory.path(), options).unwrap();
    // Whether the first pages fit depends on what is free; nothing is ever half removed.
    let removed = match store.remove_settled(&keep(0), 7) {
        Ok(removed) => removed.n_executions,
        Err(StoreFault::Full(_)) => 0,
        Err(fault) => panic!("{fault:?}"),
    };
    let counts = store.reader().unwrap().counts().unwrap();
    assert_eq!((counts.settled, counts.removed), (100 - removed, removed));
    drop(store);
    let mut store = open(&directory);
    assert_eq!(remove_all(&mut store, &keep(0), 8).n_executions, 100 - removed);
}

#[test]
fn freed_space_is_used_again() {
    let directory = Scratch::new();
    let mut store = open(&directory);
    let mut seeds = 1..;
    let mut turn = |store: &mut Embedded| {
        for _ in 0..40 {
            let samples: Vec<Sample> = seeds
                .by_ref()
                .take(8)
                .map(|seed| Sample::with_record_bytes(seed, 10_000))
                .collect();
            let batch: Vec<Write> = samples
                .iter()
                .flat_map(|sample| [sample.accept(), sample.settle(1)])
                .collect();
            store.commit(&batch).unwrap();
            let policy = Removal {
                keep_ids_ms: Some(0),
                ..keep(100)
            };
            remove_all(store, &policy, store_time(&samples));
        }
    };
    let size = || directory.path().join("store.db").metadata().unwrap().len() >> 10;
    turn(&mut store);
    drop(store);
    let (mut store, first) = (open(&directory), size());
    for _ in 0..5 {
        turn(&mut store);
    }
    drop(store);
    let last = size();
    assert!(last <= first + first / 4, "{first} KiB became {last} KiB");
}

/// Returns a time that goes on with the samples.
fn store_time(samples: &[Sample]) -> i64 {
    samples.last().unwrap().settled_at()
}
