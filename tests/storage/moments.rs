//! A process is killed, or the power is cut, before and after every call of the workload. No call fails here.

use escapement_store::Store;
use escapement_test_disk::Disk;

use crate::dice::{Dice, long};
use crate::place;
use crate::truth::{Expected, Truth};
use crate::workload::{Life, lives, sample, truths};

/// A life without any fault: the disk between all of its calls, and what must be there at each moment.
pub(crate) struct Recorded {
    /// Number `n` is from between call `n` and the next.
    pub(crate) moments: Vec<(Disk, Expected)>,
    pub(crate) n_calls: u64,
    pub(crate) after: Truth,
}

/// Lives one life, with everything acknowledged.
pub(crate) fn record(disk: &Disk, before: &Truth, life: &Life) -> Recorded {
    let truths = truths(before, life);
    disk.record();
    let calls_before = disk.counts().calls();
    let n_calls = || disk.counts().calls() - calls_before;
    let mut store = place::open(disk).unwrap();
    // The last call of opening, and of each batch.
    let mut ends = vec![n_calls()];
    let mut truth = before.clone();
    for batch in life {
        assert_eq!(store.commit(batch).unwrap(), truth.apply(batch));
        ends.push(n_calls());
    }
    drop(store);
    let n_calls = n_calls();

    let expected = |call: u64| {
        // Batches that were acknowledged at the latest before the next call.
        let acknowledged = ends[1..].iter().filter(|end| **end <= call).count();
        let under_way = call > ends[acknowledged];
        Expected {
            certain: truths[acknowledged].clone(),
            possible: truths.get(acknowledged + 1).filter(|_| under_way).cloned(),
        }
    };
    let moments = (0..)
        .zip(disk.recorded())
        .map(|(call, disk)| (disk, expected(call)));
    Recorded {
        moments: moments.collect(),
        n_calls,
        after: truth,
    }
}

/// Returns all lives of the workload, one after the other on one disk.
pub(crate) fn record_all() -> Vec<Recorded> {
    let disk = Disk::new();
    let mut truth = Truth::default();
    let mut all = Vec::new();
    for life in lives() {
        let recorded = record(&disk, &truth, &life);
        truth = recorded.after.clone();
        all.push(recorded);
    }
    all
}

/// Opens, finds what must be there, and goes on: the next number is given, and a restart shows it all.
#[track_caller]
pub(crate) fn recovers(disk: &Disk, expected: Expected, when: &dyn Fn() -> String) {
    let mut store = place::open(disk).unwrap_or_else(|fault| panic!("{}: {fault:?}", when()));
    let mut truth = expected.found(&store, when);
    let batch = [sample(100).accept()];
    let outcomes = store
        .commit(&batch)
        .unwrap_or_else(|fault| panic!("{}: {fault:?}", when()));
    assert_eq!(outcomes, truth.apply(&batch), "{}", when());
    drop(store);
    let store = place::open(disk).unwrap_or_else(|fault| panic!("{}: again: {fault:?}", when()));
    Expected::certain(truth).found(&store, when);
}

#[test]
fn a_kill_or_a_power_cut_around_every_call_loses_nothing_acknowledged() {
    let n_dice = if long() { 40 } else { 2 };
    let (mut n_calls, mut n_swept, mut n_cuts, mut n_kills) = (0, 0, 0, 0);
    for (life, recorded) in record_all().into_iter().enumerate() {
        n_calls += recorded.n_calls;
        for (call, (moment, expected)) in recorded.moments.into_iter().enumerate() {
            // Moment 0 is before the first call; every other one is behind its call and before the next.
            n_swept += u64::from(call > 0);
            for seed in 0..n_dice {
                let disk = moment.fork();
                let mut dice = Dice::new(seed * 1_000_003 + call as u64);
                disk.power_cut(&mut |bound| dice.below(bound));
                let when = || format!("life {life}, power cut behind call {call}, dice {seed}");
                recovers(&disk, expected.clone(), &when);
                n_cuts += 1;
            }
            let when = || format!("life {life}, killed behind call {call}");
            recovers(&moment, expected, &when);
            n_kills += 1;
        }
    }
    println!("{n_calls} calls, {n_swept} swept: {n_kills} kills, {n_cuts} power cuts");
    assert!(n_calls > 100, "the workload makes calls");
    assert_eq!(n_swept, n_calls, "every call is swept");
}
