//! Every call of the workload fails once: no space, an I/O error, half a write, a failed sync. The process goes
//! on as the store tells it to, and ends in one of three ways.

use escapement_store::{Embedded, Store, StoreFault, Write};
use escapement_test_disk::{Disk, Failure, Plan};

use crate::dice::{Dice, long};
use crate::moments::{record, recovers};
use crate::place;
use crate::truth::{Expected, Truth};
use crate::workload::{Life, lives, sample};

const FAILURES: [Failure; 4] = [
    Failure::Full,
    Failure::Io,
    Failure::ShortWrite,
    Failure::SyncFails,
];

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The store is closed.
    Closed,
    /// Killed, and the kernel forgets what counts as clean.
    Killed,
    /// The power goes.
    PowerCut,
}

const ENDS: [End; 3] = [End::Closed, End::Killed, End::PowerCut];

/// What was met on the way.
#[derive(Debug, Default)]
struct Met {
    full: u64,
    fatal: u64,
    refused_to_open: u64,
    unharmed: u64,
}

/// Says whether the planned failure leaves the process a choice.
fn is_lack_of_space(failure: Failure) -> bool {
    matches!(failure, Failure::Full | Failure::ShortWrite)
}

/// Opens; where that fails, which it may once, opens again in the same process.
fn open(disk: &Disk, failure: Failure, met: &mut Met, when: &dyn Fn() -> String) -> Embedded {
    match place::open(disk) {
        Ok(store) => store,
        Err(fault) => {
            match fault {
                StoreFault::Full(_) => assert!(is_lack_of_space(failure), "{}: {fault:?}", when()),
                StoreFault::Open { .. } | StoreFault::Fatal(_) => {}
                fault => panic!("{}: {fault:?}", when()),
            }
            met.refused_to_open += 1;
            place::open(disk).unwrap_or_else(|fault| panic!("{}: the second time: {fault:?}", when()))
        }
    }
}

/// Commits one batch as the writer thread of the orchestrator does; `None` behind a fatal fault.
fn commit(
    store: &mut Embedded,
    disk: &Disk,
    batch: &[Write],
    truth: &mut Truth,
    failure: Failure,
    met: &mut Met,
    when: &dyn Fn() -> String,
) -> Option<()> {
    match store.commit(batch) {
        Ok(outcomes) => assert_eq!(outcomes, truth.apply(batch), "{}", when()),
        Err(StoreFault::Full(_)) => {
            assert!(is_lack_of_space(failure), "{}: full for no reason", when());
            met.full += 1;
            Expected::certain(truth.clone()).found(store, when);
            let outcomes = store.commit(batch).unwrap_or_else(|fault| {
                panic!("{}: there is space again, but {fault:?}", when());
            });
            assert_eq!(outcomes, truth.apply(batch), "{}", when());
        }
        Err(StoreFault::Fatal(_)) => {
            met.fatal += 1;
            let calls = disk.counts().calls();
            for _ in 0..2 {
                let refused = store.commit(&[sample(50).accept()]);
                assert!(
                    matches!(refused, Err(StoreFault::Fatal(_))),
                    "{}: {refused:?}",
                    when()
                );
            }
            assert_eq!(disk.counts().calls(), calls, "{}: touched the file again", when());
            return None;
        }
        Err(fault) => panic!("{}: {fault:?}", when()),
    }
    Some(())
}

/// Lives a life in which one call fails; what must be there in the end.
fn live(
    disk: &Disk,
    before: &Truth,
    life: &Life,
    nth: u64,
    failure: Failure,
    end: End,
    met: &mut Met,
) -> Expected {
    let when = || format!("{failure:?} at call {nth}, {end:?}");
    let mut truth = before.clone();
    disk.plan(Plan {
        fail_nth: Some((nth, failure)),
        ..Plan::default()
    });
    let mut store = open(disk, failure, met, &when);
    let mut possible = None;
    for batch in life {
        if commit(&mut store, disk, batch, &mut truth, failure, met, &when).is_none() {
            let mut whole = truth.clone();
            whole.apply(batch);
            possible = Some(whole);
            break;
        }
    }
    // A checkpoint whose failure nobody was told of refuses what follows.
    if possible.is_none() && commit(&mut store, disk, &[], &mut truth, failure, met, &when).is_some() {
        met.unharmed += 1;
    }
    if end == End::Closed {
        drop(store);
    }
    Expected {
        certain: truth,
        possible,
    }
}

#[test]
fn every_call_fails_once_in_every_way_and_nothing_acknowledged_is_lost() {
    let disk = Disk::new();
    let mut truth = Truth::default();
    let mut met = Met::default();
    let (mut n_calls, mut n_swept, mut n_runs) = (0, 0, 0);
    for (number, life) in lives().iter().enumerate() {
        let start = disk.fork();
        let recorded = record(&disk, &truth, life);
        n_calls += recorded.n_calls;
        for nth in 1..=recorded.n_calls {
            n_swept += 1;
            for (index, failure) in FAILURES.into_iter().enumerate() {
                for (turn, end) in ENDS.into_iter().enumerate() {
                    // Each failure meets each end; in the short run not at the same call.
                    if !long() && (nth as usize + index) % ENDS.len() != turn {
                        continue;
                    }
                    let disk = start.fork();
                    let expected = live(&disk, &truth, life, nth, failure, end, &mut met);
                    let mut dice = Dice::new(nth);
                    match end {
                        End::Closed => {}
                        End::Killed => {
                            disk.process_killed();
                            disk.drop_page_cache();
                        }
                        End::PowerCut => disk.power_cut(&mut |bound| dice.below(bound)),
                    }
                    disk.plan(Plan::default());
                    let when = || format!("life {number}, {failure:?} at call {nth}, {end:?}");
                    recovers(&disk, expected, &when);
                    n_runs += 1;
                }
            }
        }
        truth = recorded.after;
    }
    println!("{n_calls} calls, {n_swept} swept in {n_runs} runs: {met:?}");
    assert_eq!(n_swept, n_calls, "every call is swept");
    assert!(
        met.full > 0 && met.fatal > 0 && met.refused_to_open > 0 && met.unharmed > 0,
        "{met:?}"
    );
}

#[test]
fn a_full_disk_refuses_writes_shows_everything_and_goes_on_when_there_is_space() {
    let disk = Disk::new();
    let mut store = place::open(&disk).unwrap();
    let mut truth = Truth::default();
    let mut n_refused = 0;
    for number in 1..=60 {
        let batch = [sample(number).accept(), sample(number).settle(1)];
        disk.set_full(true);
        if let Err(fault) = store.commit(&batch) {
            assert!(matches!(fault, StoreFault::Full(_)), "{fault:?}");
            n_refused += 1;
            Expected::certain(truth.clone()).found(&store, &|| format!("full at {number}"));
            store.commit(&batch).unwrap_err();
            disk.set_full(false);
            store.commit(&batch).unwrap();
        }
        truth.apply(&batch);
    }
    assert!(n_refused > 1, "a full disk refuses growth: {n_refused}");
    disk.set_full(true);
    disk.process_killed();
    disk.set_full(false);
    recovers(&disk, Expected::certain(truth), &|| "after the kill".to_owned());
}
