//! What only the memory store promises: faults and crashes on demand.

use escapement_store::{Outcome, Store, StoreFault};
use escapement_store_kit::conformance::Sample;
use escapement_store_kit::{Memory, MemoryFault};

#[test]
fn a_full_or_busy_disk_writes_nothing_and_goes_on() {
    let mut store = Memory::new();
    store.disk().fail_next_commit(MemoryFault::Full);
    store.disk().fail_next_commit(MemoryFault::Busy);
    let batch = [Sample::new(1).accept()];
    assert!(matches!(store.commit(&batch), Err(StoreFault::Full(_))));
    assert!(matches!(store.commit(&batch), Err(StoreFault::Busy(_))));
    assert_eq!(store.commit(&batch).unwrap(), [Outcome::Done { number: 1 }]);
}

#[test]
fn faults_come_in_the_order_in_which_they_were_put() {
    let mut store = Memory::new();
    store.disk().pass_next_commit();
    store.disk().fail_next_commit(MemoryFault::Full);
    store.commit(&[Sample::new(1).accept()]).unwrap();
    store.commit(&[]).expect("an empty batch meets no fault");
    assert!(matches!(
        store.commit(&[Sample::new(2).accept()]),
        Err(StoreFault::Full(_))
    ));
    assert_eq!(store.disk().n_commits(), 1);
}

#[test]
fn a_crash_loses_exactly_what_was_not_synced() {
    for (fault, expected) in [
        (MemoryFault::Fatal, 1),
        (MemoryFault::WrittenNotSynced, 1),
        (MemoryFault::SyncedNotAcknowledged, 2),
    ] {
        let mut store = Memory::new();
        let disk = store.disk();
        store.commit(&[Sample::new(1).accept()]).unwrap();
        disk.fail_next_commit(fault);
        assert!(matches!(
            store.commit(&[Sample::new(2).accept()]),
            Err(StoreFault::Fatal(_))
        ));
        assert!(
            matches!(
                store.commit(&[Sample::new(3).accept()]),
                Err(StoreFault::Fatal(_))
            ),
            "it is dead"
        );

        let mut store = disk.crash();
        assert_eq!(
            store.reader().unwrap().counts().unwrap().accepted(),
            expected,
            "{fault:?}"
        );
        let outcomes = store.commit(&[Sample::new(4).accept()]).unwrap();
        assert_eq!(outcomes, [Outcome::Done { number: expected + 1 }], "{fault:?}");
    }
}

#[test]
fn a_store_from_before_the_crash_is_refused() {
    let mut old = Memory::new();
    let reader = old.reader().unwrap();
    let _new = old.disk().crash();
    assert!(matches!(
        old.commit(&[Sample::new(1).accept()]),
        Err(StoreFault::Fatal(_))
    ));
    assert!(matches!(reader.counts(), Err(StoreFault::Fatal(_))));
}
