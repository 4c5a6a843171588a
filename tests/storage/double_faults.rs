//! A restart that is itself hit: by the power, by a kill, behind a crash or behind a failed sync.

use escapement_store::Store;
use escapement_test_disk::{Disk, Failure, Plan};

use crate::dice::{Dice, long};
use crate::moments::{record, record_all, recovers};
use crate::place::{self, DATABASE, LOG};
use crate::truth::{Expected, Truth};
use crate::workload::{lives, truths};

/// Opens the store and cuts the power around each call of that; how many calls there were.
fn restart_is_cut(disk: &Disk, expected: &Expected, n_dice: u64, when: &dyn Fn() -> String) -> u64 {
    let calls = disk.counts().calls();
    disk.record();
    let store = place::open(disk).unwrap_or_else(|fault| panic!("{}: {fault:?}", when()));
    expected.clone().found(&store, when);
    let n_calls = disk.counts().calls() - calls;
    for (call, moment) in disk.recorded().into_iter().enumerate() {
        for seed in 0..n_dice {
            let disk = moment.fork();
            let mut dice = Dice::new(seed * 7919 + call as u64);
            disk.power_cut(&mut |bound| dice.below(bound));
            let when = || {
                format!(
                    "{}, power cut behind call {call} of the restart, dice {seed}",
                    when()
                )
            };
            recovers(&disk, expected.clone(), &when);
        }
    }
    n_calls
}

#[test]
fn the_power_goes_around_every_call_of_a_restart() {
    let (step, n_dice) = if long() { (1, 8) } else { (23, 1) };
    let (mut n_restarts, mut n_calls) = (0, 0);
    for (life, recorded) in record_all().into_iter().enumerate() {
        for (call, (disk, expected)) in recorded.moments.into_iter().enumerate().step_by(step) {
            disk.process_killed();
            let when = || format!("life {life}, killed behind call {call}");
            n_calls += restart_is_cut(&disk, &expected, n_dice, &when);
            n_restarts += 1;
        }
    }
    println!("{n_restarts} restarts, {n_calls} calls in them");
}

/// Linux takes pages as clean whose sync has failed. A restart still reads them from the page cache, so it must
/// write them again before it builds on them.
#[test]
fn the_power_goes_around_every_call_of_a_restart_behind_a_failed_sync() {
    let n_dice = if long() { 24 } else { 3 };
    let life = &lives()[0];
    let truths = truths(&Truth::default(), life);
    let (mut n_failed, mut n_calls) = (0, 0);
    let calls_max = record(&Disk::new(), &Truth::default(), life).n_calls;
    for nth in 1..=calls_max {
        let disk = Disk::new();
        disk.plan(Plan {
            fail_nth: Some((nth, Failure::SyncFails)),
            ..Plan::default()
        });
        let expected = match place::open(&disk) {
            Err(_) => Expected::certain(truths[0].clone()),
            Ok(mut store) => match life.iter().position(|batch| store.commit(batch).is_err()) {
                None => continue,
                Some(failed) => Expected {
                    certain: truths[failed].clone(),
                    possible: Some(truths[failed + 1].clone()),
                },
            },
        };
        // The process exits, and starts again while the page cache is as it was.
        disk.process_killed();
        if shows_what_is_not_there(&disk) {
            n_calls += restart_is_cut(&disk, &expected, n_dice, &|| format!("call {nth} failed"));
            n_failed += 1;
        }
    }
    println!("{n_failed} failures, {n_calls} calls in restarts");
    assert!(n_failed > 5, "{n_failed}");
}

/// Returns true if the page cache shows as clean what the disk does not have.
fn shows_what_is_not_there(disk: &Disk) -> bool {
    let dropped = disk.fork();
    dropped.drop_page_cache();
    [DATABASE, LOG]
        .iter()
        .any(|name| dropped.content(name) != disk.content(name))
}
