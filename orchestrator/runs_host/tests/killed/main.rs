//! Runs that use every type of step, or a planner, killed at every write: nothing is repeated or lost, and they end as they would have.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod plans;
mod world;

use bytes::Bytes;
use escapement_run::journal::Entry;
use escapement_run::record;
use escapement_runs_host::{NotCreated, PIECE_BYTES_MAX, RunExport};
use escapement_store::runs::RunStore;
use escapement_store_kit::MemoryFault;

use plans::Wanted;
use world::{Contract, START, World, id};

fn names(journal: &[Entry]) -> Vec<&'static str> {
    journal
        .iter()
        .map(|entry| entry.event.as_ref().unwrap().name())
        .collect()
}

/// Without what a restart adds.
fn undisturbed(names: Vec<&'static str>) -> Vec<&'static str> {
    names
        .into_iter()
        .filter(|name| *name != "run_recovered")
        .collect()
}

/// Runs to its end what is killed at each of its writes, once before and once after the disk has it.
fn killed_at_every_write(wanted: Wanted, contract: Contract, mut judge: impl FnMut(&World, &World)) {
    let mut calm = World::new(wanted, contract);
    calm.run();
    let n_writes = calm.disk.n_commits();
    assert!(n_writes > 12, "{wanted:?}: {n_writes}");
    for write in 0..n_writes {
        for fault in [MemoryFault::WrittenNotSynced, MemoryFault::SyncedNotAcknowledged] {
            let mut world = World::new(wanted, contract);
            (0..write).for_each(|_| world.disk.pass_next_commit());
            world.disk.fail_next_commit(fault);
            world.run();
            assert_eq!(world.n_crashes, 1, "{wanted:?}, write {write}, {fault:?}");
            let journal = world.journal(id(1));
            let end = names(&journal).pop();
            assert_eq!(end, Some("run_completed"), "{wanted:?}, write {write}, {fault:?}");
            // Whatever was tried again, each handler did its work once, a planner, too.
            let calls = &world.outside.calls;
            assert!(
                calls.values().all(|n| *n == 1),
                "{wanted:?}, write {write}, {fault:?}"
            );
            let n_calm = calm.outside.calls.len();
            assert_eq!(calls.len(), n_calm, "{wanted:?}, write {write}, {fault:?}");
            judge(&calm, &world);
        }
    }
}

// RUN-9.3, RUN-9.4, RUN-4.2, RUN-4.4, RUN-8.4, RUN-8.5, RUN-8.6, RUN-11.2, RUN-12.6
#[test]
fn a_kill_at_every_write_repeats_nothing_and_loses_nothing() {
    for wanted in [Wanted::EveryType, Wanted::Goal, Wanted::Verbs] {
        killed_at_every_write(wanted, Contract::Apart, |calm, world| {
            let found = undisturbed(names(&world.journal(id(1))));
            assert_eq!(found, names(&calm.journal(id(1))), "{wanted:?}");
        });
    }
}

// RUN-11.2, RUN-11.6, RUN-11.8, RUN-12.6
#[test]
fn the_run_of_a_goal_that_is_killed_goes_through_every_kind_of_replan() {
    let mut world = World::new(Wanted::Goal, Contract::Apart);
    world.run();
    let names = names(&world.journal(id(1)));
    let count = |name: &str| names.iter().filter(|one| **one == name).count();
    let told = [
        "generation_started",
        "plan_summary",
        "approval_requested",
        "replan_triggered",
        "step_memoized",
    ];
    assert_eq!(told.map(count), [4, 3, 3, 2, 1], "{names:?}");
    assert_eq!(
        world.outside.calls.len(),
        4 + 3,
        "four plans, and three calls for their steps"
    );
}

// RUN-8.1, RUN-8.2, RUN-8.4, RUN-8.5, RUN-8.6, RUN-8.7
#[test]
fn the_run_of_verbs_that_is_killed_is_asked_for_each_of_them() {
    let mut world = World::new(Wanted::Verbs, Contract::Apart);
    world.run();
    let names = names(&world.journal(id(1)));
    let count = |name: &str| names.iter().filter(|one| **one == name).count();
    let told = [
        "checkpoint_created",
        "pause_requested",
        "run_resumed",
        "run_rolled_back",
        "step_skipped",
        "step_failed",
    ];
    assert_eq!(told.map(count), [1, 3, 3, 3, 2, 2], "{names:?}");
    let message = "an effect before each question that was gone back from, and two to the end";
    assert_eq!(world.outside.calls.len(), 2 + 2, "{message}");
}

// RUN-5.2, RUN-9.4, RUN-11.2
#[test]
fn a_kill_of_runs_and_contract_together_repeats_only_what_nobody_had_done() {
    let mut doubts = 0;
    for wanted in [Wanted::EveryType, Wanted::Goal, Wanted::Verbs] {
        let asked = |world: &World| {
            let names = names(&world.journal(id(1)));
            names
                .iter()
                .filter(|name| **name == "input_requested" || **name == "approval_requested")
                .count()
        };
        killed_at_every_write(wanted, Contract::Together, |calm, world| {
            doubts += asked(world) - asked(calm);
        });
    }
    assert!(
        doubts > 0,
        "at least one effect was in doubt, and a person was asked"
    );
}

// RUN-9.3
#[test]
fn what_is_not_durable_is_not_sent() {
    let mut world = World::new(Wanted::EveryType, Contract::Apart);
    world.host.create(Wanted::EveryType.create(), START).unwrap();
    assert!(world.host.poll_effects().is_empty());
    let batch = world.host.poll_batch().unwrap();
    assert!(world.host.poll_effects().is_empty());
    let outcome = world.store.commit(&batch).unwrap();
    world.host.handle_committed(outcome);
    assert_eq!(world.host.poll_effects().len(), 1);
}

#[test]
fn the_record_of_a_run_is_its_journal_with_all_that_it_refers_to() {
    let mut world = World::new(Wanted::EveryType, Contract::Apart);
    world.run();
    let reader = world.store.reader().unwrap();
    let mut export = RunExport::begin(&*reader, id(1)).unwrap().unwrap();
    let mut file = Vec::new();
    while let Some(piece) = export.next_piece(&*reader).unwrap() {
        assert!(piece.len() <= PIECE_BYTES_MAX);
        file.extend_from_slice(&piece);
    }
    let (record, faults) = record::read(&Bytes::from(file)).unwrap();
    assert_eq!((record.run_id, faults), (id(1), Vec::new()));
    let entries: Vec<Entry> = record.entries.iter().map(|entry| entry.entry.clone()).collect();
    assert_eq!(entries, world.journal(id(1)));
    assert!(RunExport::begin(&*reader, id(9)).unwrap().is_none());
}

#[test]
fn a_request_that_is_repeated_has_the_run_that_it_made() {
    let mut world = World::new(Wanted::EveryType, Contract::Apart);
    world.host.create(Wanted::EveryType.create(), START).unwrap();
    let again = |world: &mut World| {
        let mut again = Wanted::EveryType.create();
        again.run.run_id = id(2);
        world.host.create(again, START).unwrap_err()
    };
    assert_eq!(again(&mut world), NotCreated::Exists(id(1), Some([1; 32])));
    let batch = world.host.poll_batch().unwrap();
    assert_eq!(
        again(&mut world),
        NotCreated::Exists(id(1), Some([1; 32])),
        "on its way"
    );
    let outcome = world.store.commit(&batch).unwrap();
    world.host.handle_committed(outcome);
    assert_eq!(again(&mut world), NotCreated::Exists(id(1), Some([1; 32])));
}
