//! The end of the write-ahead log: what nobody was told of may go, what was acknowledged may not.

use escapement_store::{EmbeddedOptions, Store, StoreFault};
use escapement_test_disk::Disk;

use crate::moments::recovers;
use crate::place::{self, DATABASE, LOG, MARK, open_with};
use crate::truth::{Expected, Truth};
use crate::workload::sample;

/// Returns a killed process with everything in its log: the disk, the truth, and the log's length behind each commit.
fn killed(n_commits: u64) -> (Disk, Vec<Truth>, Vec<usize>) {
    let disk = Disk::new();
    let mut store = place::open(&disk).unwrap();
    let mut truths = vec![Truth::default()];
    let mut lengths = vec![0];
    for number in 1..=n_commits {
        let batch = [sample(number).accept()];
        let mut truth = truths.last().unwrap().clone();
        assert_eq!(store.commit(&batch).unwrap(), truth.apply(&batch));
        truths.push(truth);
        lengths.push(disk.content(LOG).unwrap().len());
    }
    disk.process_killed();
    (disk, truths, lengths)
}

#[test]
fn an_unacknowledged_tail_that_is_torn_anywhere_goes_and_the_rest_stays() {
    let (disk, truths, lengths) = killed(4);
    let log = disk.content(LOG).unwrap();
    let certain = truths[3].clone();
    // The mark of the third commit: nobody was told of the fourth.
    let (before, ..) = killed(3);
    let mark = before.content(MARK).unwrap();
    for length in (lengths[3]..lengths[4]).step_by(199) {
        for filled in [false, true] {
            let disk = disk.copy();
            disk.put(MARK, Some(&mark));
            let mut torn = log[..length].to_vec();
            if filled {
                torn.resize(log.len(), 0xa5);
            }
            disk.put(LOG, Some(&torn));
            recovers(&disk, Expected::certain(certain.clone()), &|| {
                format!("cut at {length}")
            });
        }
    }
}

#[test]
fn an_acknowledged_tail_that_is_cut_off_anywhere_is_refused_and_nothing_is_changed() {
    let (disk, _, lengths) = killed(4);
    let log = disk.content(LOG).unwrap();
    for length in (0..lengths[4]).step_by(3989) {
        let disk = disk.copy();
        disk.put(LOG, Some(&log[..length]));
        is_refused(&disk);
    }
    let disk = disk.copy();
    disk.put(LOG, None);
    is_refused(&disk);
}

#[test]
fn a_log_that_is_gone_or_foreign_is_refused_although_the_database_is_whole() {
    let (disk, ..) = killed(57);
    let database = disk.content(DATABASE).unwrap();
    assert!(database.len() > 20 * 4096, "a checkpoint was made");
    for log in [None, Some(vec![]), Some(vec![7; 100_000])] {
        let disk = disk.copy();
        disk.put(LOG, log.as_deref());
        is_refused(&disk);
    }
}

/// Refused with the gap, any number of times, without a change of what could still be rescued.
#[track_caller]
fn is_refused(disk: &Disk) {
    let files = || [DATABASE, LOG, MARK].map(|name| disk.content(name).filter(|file| !file.is_empty()));
    let before = files();
    for _ in 0..2 {
        let fault = place::open(disk).unwrap_err();
        assert!(matches!(fault, StoreFault::Gap { .. }), "{fault:?}");
        assert!(files() == before, "a refused start changes nothing");
    }
}

#[test]
fn an_accepted_loss_gives_no_number_twice() {
    let (disk, truths, _) = killed(57);
    disk.put(LOG, None);
    let options = EmbeddedOptions {
        accept_loss: true,
        ..EmbeddedOptions::default()
    };
    let mut store = open_with(&disk, options).unwrap();
    let outcomes = store.commit(&[sample(200).accept()]).unwrap();
    assert_eq!(outcomes, [escapement_store::Outcome::Done { number: 58 }]);
    let reader = store.reader().unwrap();
    let known = truths[57].executions();
    let n_left = known
        .iter()
        .filter(|known| {
            let found = reader.execution(known.stored.summary.execution_id).unwrap();
            assert!(found.is_none() || found.as_ref() == Some(&known.stored));
            found.is_some()
        })
        .count();
    assert!((1..57).contains(&n_left), "{n_left} of 57 are left");
    drop(store);
    place::open(&disk).expect("the loss is part of the file now");
}
