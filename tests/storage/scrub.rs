//! The scrub of a store on a disk where one read fails.

use std::sync::mpsc::channel;
use std::time::Duration;

use escapement_commands::scrub::Scrub;
use escapement_store::{Embedded, Store};
use escapement_test_disk::{Disk, Plan};

use crate::place;
use crate::workload::sample;

/// Number of executions; more than a page of the scrub has.
const N_EXECUTIONS: u64 = 200;
/// Most rows of a page of the scrub.
const PAGE_ROWS_MAX: u64 = 64;
const LIMIT: Duration = Duration::from_secs(60);

/// Returns a store with executions.
fn filled() -> (Disk, Embedded) {
    let disk = Disk::new();
    let mut store = place::open(&disk).unwrap();
    for number in 0..N_EXECUTIONS {
        store.commit(&[sample(number).accept()]).unwrap();
    }
    (disk, store)
}

/// Plans the failure of a read.
fn fail_read(disk: &Disk, nth: u64) {
    disk.plan(Plan {
        fail_nth_read: Some(nth),
        ..Plan::default()
    });
}

/// Returns the number of executions that one pass reads, and of pages that it cannot read, if this read fails.
fn pass(disk: &Disk, store: &Embedded, nth: u64) -> (u64, u64) {
    let mut examiner = store.examiner().unwrap();
    fail_read(disk, nth);
    let (mut n_executions, mut n_unread) = (0, 0);
    loop {
        let is_last = match examiner.step() {
            Ok(page) => {
                n_executions += page.n_executions;
                page.is_last
            }
            Err(_) => {
                n_unread += 1;
                examiner.skip_page()
            }
        };
        if is_last {
            disk.plan(Plan::default());
            return (n_executions, n_unread);
        }
    }
}

#[test]
fn an_unreadable_page_hides_no_other_page_from_the_scrub() {
    let (disk, store) = filled();
    let before = disk.counts().reads;
    assert_eq!(pass(&disk, &store, u64::MAX), (N_EXECUTIONS, 0));
    let n_reads = disk.counts().reads - before;
    let mut n_of_executions = 0;
    for nth in 1..=n_reads {
        let (n_executions, n_unread) = pass(&disk, &store, nth);
        assert!(n_unread <= 1, "read {nth}: {n_unread} pages");
        let n_hidden = N_EXECUTIONS - n_executions;
        assert!(
            n_hidden <= n_unread * PAGE_ROWS_MAX,
            "read {nth}: {n_hidden} rows"
        );
        n_of_executions += u64::from(n_hidden > 0);
    }
    assert!(n_of_executions > 3, "{n_of_executions} of {n_reads} reads");
}

#[test]
fn the_scrub_counts_an_unreadable_page_and_ends_its_pass() {
    let (disk, store) = filled();
    let mut reads = 1..1_000;
    let nth = reads.find(|nth| pass(&disk, &store, *nth).1 == 1).unwrap();
    let examiner = store.examiner().unwrap();
    fail_read(&disk, nth);
    let (told, passes) = channel();
    let told = move |n_findings| {
        // The test may have ended.
        let _ended = told.send(n_findings);
    };
    let scrub = Scrub::start(examiner, Duration::from_millis(1), told).unwrap();
    assert_eq!(passes.recv_timeout(LIMIT), Ok(1));
    assert_eq!(
        passes.recv_timeout(LIMIT),
        Ok(0),
        "the next pass reads everything"
    );
    drop(scrub);
}
