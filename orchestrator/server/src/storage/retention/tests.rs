#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_store::REMOVED_PER_STEP_MAX;
use escapement_store_kit::conformance::Sample;
use escapement_store_kit::{Memory, MemoryFault};

fn keeping(count: u64) -> Maintenance {
    let policy = Removal {
        keep_settled_count: Some(count),
        ..Removal::default()
    };
    Maintenance::new(policy, Clock::start(), None, FeedMark::default())
}

fn settled(n_executions: u64) -> Memory {
    let mut store = Memory::new();
    for seed in 0..n_executions {
        let sample = Sample::new(seed);
        store.commit(&[sample.accept(), sample.settle(1)]).unwrap();
    }
    store
}

#[test]
fn where_everything_is_kept_the_writer_is_never_disturbed() {
    let maintenance = Maintenance::new(Removal::default(), Clock::start(), None, FeedMark::default());
    let late = Instant::now() + Duration::from_secs(1_000_000);
    assert_eq!(maintenance.patience(late), None);
    assert!(!maintenance.is_due(late, false) && !maintenance.is_due(late, true));
}

#[test]
fn a_step_is_due_sooner_where_no_write_waits() {
    let maintenance = keeping(0);
    let now = Instant::now();
    assert!(maintenance.is_due(now, false));
    assert!(!maintenance.is_due(now, true), "writes come first");
    assert!(
        maintenance.is_due(now + REMOVAL_PATIENCE, true),
        "but not for ever"
    );
}

#[test]
fn while_there_is_more_the_pauses_are_short_and_then_they_are_long() {
    let mut store = settled(REMOVED_PER_STEP_MAX as u64 + 3);
    let mut maintenance = keeping(1);
    maintenance.step(&mut store).unwrap();
    let patience = maintenance.patience(Instant::now()).unwrap();
    assert!(patience < REMOVAL_INTERVAL, "{patience:?}");
    maintenance.step(&mut store).unwrap();
    let patience = maintenance.patience(Instant::now()).unwrap();
    assert!(patience > REMOVAL_INTERVAL / 2, "{patience:?}");
    assert_eq!(store.reader().unwrap().counts().unwrap().settled, 1);
}

#[test]
fn a_store_without_space_is_asked_again_later_and_a_broken_one_is_told() {
    let mut store = settled(3);
    let mut maintenance = keeping(0);
    store.disk().fail_next_commit(MemoryFault::Full);
    maintenance.step(&mut store).unwrap();
    assert!(maintenance.patience(Instant::now()).unwrap() > REMOVAL_INTERVAL / 2);
    maintenance.step(&mut store).unwrap();
    assert_eq!(store.reader().unwrap().counts().unwrap().removed, 3);

    let mut store = settled(3);
    store.disk().fail_next_commit(MemoryFault::Fatal);
    assert!(matches!(keeping(0).step(&mut store), Err(StoreFault::Fatal(_))));
}

#[test]
fn a_wall_clock_that_jumps_ahead_removes_nothing_early() {
    let mut maintenance = keeping(0);
    let now = maintenance.clock.now();
    // As if the wall clock had been an hour behind at the start and was set right since.
    maintenance.start.unix_ms = now.unix_ms - 3_600_000;
    assert!(maintenance.unix_ms() < now.unix_ms - 3_000_000);
    // A clock that is set back counts as it is: that only keeps more.
    maintenance.start.unix_ms = now.unix_ms + 3_600_000;
    assert!(maintenance.unix_ms() < now.unix_ms + 3_000_000);
}

#[test]
fn a_machine_that_begins_in_a_wrong_year_removes_nothing_early() {
    let day_ms = 86_400_000;
    let policy = Removal {
        keep_settled_ms: Some(2 * day_ms),
        ..Removal::default()
    };
    let mut store = settled(5);
    // The samples are years older than the clock of this machine.
    let newest_ms = Sample::new(4).settled_at();
    Maintenance::new(policy, Clock::start(), Some(newest_ms), FeedMark::default())
        .step(&mut store)
        .unwrap();
    assert_eq!(store.reader().unwrap().counts().unwrap().settled, 5);
    // With nothing to compare with the clock counts.
    Maintenance::new(policy, Clock::start(), None, FeedMark::default())
        .step(&mut store)
        .unwrap();
    assert_eq!(store.reader().unwrap().counts().unwrap().removed, 5);
}

#[test]
fn results_that_runs_have_not_read_after_a_start_stay() {
    let caught_up = CaughtUp::default();
    let mut store = settled(3);
    let mut maintenance = keeping(0).once(caught_up);
    maintenance.step(&mut store).unwrap();
    assert_eq!(store.reader().unwrap().counts().unwrap().settled, 3);
    assert!(
        !maintenance.is_due(Instant::now(), false),
        "it is looked again later"
    );
    let mut maintenance = maintenance.once(CaughtUp::already());
    maintenance.step(&mut store).unwrap();
    assert_eq!(store.reader().unwrap().counts().unwrap().settled, 0);
}
