//! Who may open a directory.

use escapement_store::{Store, StoreFault};
use escapement_test_disk::{Disk, Failure, Plan};

use crate::place;
use crate::truth::{Expected, Truth};
use crate::workload::sample;

#[test]
fn a_second_opener_is_refused_and_disturbs_nothing() {
    let disk = Disk::new();
    let mut store = place::open(&disk).unwrap();
    let mut truth = Truth::default();
    for number in 1..=5 {
        let batch = [sample(number).accept()];
        let calls = disk.counts().calls();
        let refused = place::open(&disk).unwrap_err();
        assert!(matches!(refused, StoreFault::Locked { .. }), "{refused:?}");
        assert_eq!(disk.counts().calls(), calls, "it only looked");
        assert_eq!(store.commit(&batch).unwrap(), truth.apply(&batch));
    }
    drop(store);
    let store = place::open(&disk).expect("the directory is free again");
    Expected::certain(truth).found(&store, &|| "reopened".to_owned());
}

/// Where SQLite could not write its journal mode, a store without a write-ahead log would open, for instance.
#[test]
fn no_failed_call_of_a_first_start_goes_unnoticed() {
    let disk = Disk::new();
    let store = place::open(&disk).unwrap();
    let n_calls = disk.counts().calls();
    drop(store);
    let unnoticed = |nth: &u64| {
        let disk = Disk::new();
        disk.plan(Plan {
            fail_nth: Some((*nth, Failure::Io)),
            ..Plan::default()
        });
        place::open(&disk).is_ok()
    };
    let found: Vec<u64> = (1..=n_calls).filter(unnoticed).collect();
    assert!(found.is_empty(), "of {n_calls} calls, {found:?} may fail");
}
