//! Random histories: batches, restarts, kills, power cuts, failing calls, a disk that is full for a while. One
//! seed makes one history.

use escapement_store::{Embedded, Store, StoreFault};
use escapement_test_disk::{Disk, Failure, Plan, Stop};

use crate::dice::{Dice, seeds, seeds_from};
use crate::place;
use crate::truth::{Expected, Truth};
use crate::workload::random_batch;

/// What happened in all of them.
#[derive(Debug, Default)]
struct Happened {
    commits: u64,
    full: u64,
    fatal: u64,
    kills: u64,
    cuts: u64,
    failed_starts: u64,
}

/// How a process ended, for the next one.
fn end(disk: &Disk, dice: &mut Dice, happened: &mut Happened) {
    if dice.one_in(2) {
        happened.cuts += 1;
        disk.power_cut(&mut |bound| dice.below(bound));
    } else {
        happened.kills += 1;
        disk.process_killed();
        if dice.one_in(2) {
            disk.drop_page_cache();
        }
    }
    disk.set_full(false);
}

fn plan(dice: &mut Dice) -> Plan {
    let nth = 1 + dice.below(120);
    match dice.below(4) {
        0 => Plan::default(),
        1 => Plan {
            stop_at: Some((nth, if dice.one_in(2) { Stop::Before } else { Stop::After })),
            ..Plan::default()
        },
        2 => Plan {
            fail_nth_read: Some(1 + dice.below(200)),
            ..Plan::default()
        },
        _ => {
            let failures = [
                Failure::Full,
                Failure::Io,
                Failure::ShortWrite,
                Failure::SyncFails,
            ];
            let which = usize::try_from(dice.below(4)).expect("below 4");
            Plan {
                fail_nth: Some((nth, failures[which])),
                ..Plan::default()
            }
        }
    }
}

/// Commits until the process must end; what may be there of the last batch.
fn live(
    store: &mut Embedded,
    disk: &Disk,
    truth: &mut Truth,
    dice: &mut Dice,
    happened: &mut Happened,
    seed: u64,
) -> Option<Truth> {
    for _ in 0..dice.below(14) {
        disk.set_full(dice.one_in(6));
        let batch = random_batch(dice, truth);
        let mut whole = truth.clone();
        let expected = whole.apply(&batch);
        match store.commit(&batch) {
            Ok(outcomes) => {
                assert_eq!(outcomes, expected, "seed {seed}");
                *truth = whole;
                happened.commits += 1;
            }
            Err(StoreFault::Full(_)) => happened.full += 1,
            Err(StoreFault::Fatal(_)) => {
                happened.fatal += 1;
                return Some(whole);
            }
            Err(fault) => panic!("seed {seed}: {fault:?}"),
        }
    }
    None
}

fn history(seed: u64, happened: &mut Happened) {
    let mut dice = Dice::new(seed);
    let disk = Disk::new();
    let mut expected = Expected::default();
    for _ in 0..2 + dice.below(6) {
        disk.plan(plan(&mut dice));
        let Ok(mut store) = place::open(&disk) else {
            happened.failed_starts += 1;
            end(&disk, &mut dice, happened);
            continue;
        };
        if disk.is_stopped() {
            end(&disk, &mut dice, happened);
            continue;
        }
        disk.plan(Plan::default());
        let mut truth = expected.found(&store, &|| format!("seed {seed}"));
        disk.plan(plan(&mut dice));
        let possible = live(&mut store, &disk, &mut truth, &mut dice, happened, seed);
        if dice.one_in(3) && possible.is_none() && !disk.is_stopped() {
            // Closing may fail as well; nothing durable depends on it.
            drop(store);
        }
        end(&disk, &mut dice, happened);
        expected = Expected {
            certain: truth,
            possible,
        };
    }
    disk.plan(Plan::default());
    let store = place::open(&disk).unwrap_or_else(|fault| panic!("seed {seed}: {fault:?}"));
    expected.found(&store, &|| format!("seed {seed}, at the end"));
}

#[test]
fn random_histories_lose_nothing_acknowledged() {
    let mut happened = Happened::default();
    let n_seeds = seeds(60);
    for seed in seeds_from()..seeds_from() + n_seeds {
        history(seed, &mut happened);
    }
    println!("{n_seeds} histories: {happened:?}");
    let Happened {
        commits,
        full,
        fatal,
        kills,
        cuts,
        failed_starts,
    } = happened;
    for (what, count) in [
        ("commits", commits),
        ("full disks", full),
        ("fatal faults", fatal),
        ("kills", kills),
        ("power cuts", cuts),
        ("failed starts", failed_starts),
    ] {
        assert!(count > 0, "no {what} happened");
    }
}
