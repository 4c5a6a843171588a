//! A kill, a power cut and every failure around every call: nothing acknowledged is lost, and nothing half done stays.

use escapement_store::Embedded;
use escapement_store::StoreFault;
use escapement_test_disk::{Disk, Failure, Plan};

use super::{Act, Life, Truth, act, commit, lives, open, sample_of};
use crate::dice::{Dice, long};

/// What must be found: what was acknowledged, or that with what was under way.
#[derive(Clone, Debug)]
struct Expected {
    certain: Truth,
    possible: Option<Truth>,
}

/// Opens, finds what must be there, and goes on.
fn recovers(disk: &Disk, expected: &Expected, when: &str) {
    let mut store = open(disk).unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
    let truths = [Some(&expected.certain), expected.possible.as_ref()];
    let differences = truths.map(|truth| truth.map(|truth| truth.differs(&store)));
    let Some(place) = differences.iter().position(|found| *found == Some(None)) else {
        panic!("{when}: {differences:?}");
    };
    let mut truth = truths[place].unwrap().clone();
    let next = commit([sample_of(9).create()]);
    act(&mut store, &next).unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
    truth.apply(&next);
    assert_eq!(truth.differs(&store), None, "{when}");
    let mut examiner = store.examiner().unwrap();
    let examination = examiner.examine_all(&mut |finding| panic!("{when}: {finding:?}"));
    assert!(examination.unwrap().is_clean());
}

/// Lives one life with everything acknowledged; the truth after each act, and the call that was its last.
fn record(disk: &Disk, before: &Truth, life: &Life) -> (Vec<Truth>, Vec<u64>, u64) {
    let calls_before = disk.counts().calls();
    let n_calls = || disk.counts().calls() - calls_before;
    let mut store = open(disk).unwrap();
    let (mut truths, mut ends) = (vec![before.clone()], vec![n_calls()]);
    for step in life {
        act(&mut store, step).unwrap();
        let mut truth = truths.last().unwrap().clone();
        truth.apply(step);
        truths.push(truth);
        ends.push(n_calls());
    }
    drop(store);
    (truths, ends, n_calls())
}

#[test]
fn a_kill_or_a_power_cut_around_every_call_loses_no_run() {
    let n_dice = if long() { 40 } else { 1 };
    let disk = Disk::new();
    let mut before = Truth::default();
    let mut n_moments = 0;
    for (number, life) in lives().iter().enumerate() {
        disk.record();
        let (truths, ends, _) = record(&disk, &before, life);
        for (call, moment) in (0..).zip(disk.recorded()) {
            let acknowledged = ends[1..].iter().filter(|end| **end <= call).count();
            let is_under_way = call > ends[acknowledged];
            let expected = Expected {
                certain: truths[acknowledged].clone(),
                possible: truths.get(acknowledged + 1).filter(|_| is_under_way).cloned(),
            };
            for seed in 0..n_dice {
                let disk = moment.fork();
                let mut dice = Dice::new(seed * 1_000_003 + call);
                disk.power_cut(&mut |bound| dice.below(bound));
                let when = format!("life {number}, power cut behind call {call}, dice {seed}");
                recovers(&disk, &expected, &when);
            }
            recovers(
                &moment,
                &expected,
                &format!("life {number}, killed behind call {call}"),
            );
            n_moments += 1;
        }
        before = truths.last().unwrap().clone();
    }
    println!("{n_moments} moments");
    assert!(n_moments > 100, "the workload makes calls");
}

/// Lives a life in which one call fails, as the orchestrator would.
fn live(disk: &Disk, before: &Truth, life: &Life, failure: Failure, when: &str) -> Expected {
    let is_lack_of_space = matches!(failure, Failure::Full | Failure::ShortWrite);
    let mut truth = before.clone();
    let mut possible = None;
    let mut store = open(disk).or_else(|fault| match fault {
        StoreFault::Full(_) | StoreFault::Open { .. } | StoreFault::Fatal(_) => open(disk),
        fault => Err(fault),
    });
    let store: &mut Embedded = store.as_mut().unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
    for step in life {
        let mut after = truth.clone();
        after.apply(step);
        match act(store, step) {
            Ok(()) => {}
            Err(StoreFault::Full(_)) => {
                assert!(is_lack_of_space, "{when}: full for no reason");
                assert_eq!(truth.differs(store), None, "{when}");
                act(store, step).unwrap_or_else(|fault| panic!("{when}: again: {fault:?}"));
            }
            Err(StoreFault::Fatal(_)) => {
                let refused = act(store, &Act::Commit(Default::default()));
                assert!(
                    matches!(refused, Err(StoreFault::Fatal(_))),
                    "{when}: {refused:?}"
                );
                possible = Some(after);
                break;
            }
            Err(fault) => panic!("{when}: {fault:?}"),
        }
        truth = after;
    }
    Expected {
        certain: truth,
        possible,
    }
}

#[test]
fn every_call_fails_once_in_every_way_and_no_run_is_lost() {
    let disk = Disk::new();
    let mut before = Truth::default();
    let (mut n_runs, mut n_fatal) = (0, 0);
    for (number, life) in lives().iter().enumerate() {
        let start = disk.fork();
        let (truths, _, n_calls) = record(&disk, &before, life);
        for nth in 1..=n_calls {
            let failures = [
                Failure::Full,
                Failure::Io,
                Failure::ShortWrite,
                Failure::SyncFails,
            ];
            for (index, failure) in failures.into_iter().enumerate() {
                // In the short run each call fails in two ways and ends in one.
                if !long() && (nth as usize + index) % 2 == 1 {
                    continue;
                }
                let disk = start.fork();
                let when = format!("life {number}, {failure:?} at call {nth}");
                disk.plan(Plan {
                    fail_nth: Some((nth, failure)),
                    ..Plan::default()
                });
                let expected = live(&disk, &before, life, failure, &when);
                n_fatal += u64::from(expected.possible.is_some());
                let mut dice = Dice::new(nth);
                if nth % 2 == 0 {
                    disk.power_cut(&mut |bound| dice.below(bound));
                } else {
                    disk.process_killed();
                    disk.drop_page_cache();
                }
                disk.plan(Plan::default());
                recovers(&disk, &expected, &when);
                n_runs += 1;
            }
        }
        before = truths.last().unwrap().clone();
    }
    println!("{n_runs} runs, {n_fatal} fatal");
    assert!(n_runs > 200 && n_fatal > 20, "{n_runs} runs, {n_fatal} fatal");
}
