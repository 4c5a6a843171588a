//! Watchers see everything once, in order, and nothing that may be taken back.

use crate::world::{World, plan, watch_of};
use escapement_engine::{CallerId, Input, IsAll, Piece, Reply, Watch, Watched, WriteOutcome};
use escapement_model::ExecutionId;

fn sequences(world: &World, caller: u64) -> Vec<u64> {
    let prefix = format!("entries {caller} [");
    let lines = world.log.iter().filter_map(|line| line.strip_prefix(&prefix));
    lines
        .flat_map(|line| line.split(']').next().unwrap().split(", "))
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().unwrap())
        .collect()
}

#[test]
fn a_watcher_sees_every_entry_once_and_the_end_last() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.run(1, plan(1, &["a"]));
    world.watch(5, id, 0);
    world.watch(6, id, 3);
    let assignment = world.one_assignment(1);
    world.started(1, assignment.token);
    world.complete(1, assignment.token);
    let last = world.settlement(1).audit.len() as u64;
    assert_eq!(sequences(&world, 5), (1..=last).collect::<Vec<_>>());
    assert_eq!(sequences(&world, 6), (3..=last).collect::<Vec<_>>());
    assert!(
        world
            .log
            .iter()
            .any(|line| line.starts_with("entries 5") && line.ends_with("settled true"))
    );
}

//
#[test]
fn a_watcher_hears_of_the_outcome_only_when_it_is_durable() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    world.watch(5, id, 1);
    let assignment = world.one_assignment(1);
    world.store_answers = false;
    let before = sequences(&world, 5).len();
    world.complete(1, assignment.token);
    assert_eq!(sequences(&world, 5).len(), before, "decided, not durable");
    world.answer_last(WriteOutcome::Durable);
    assert!(sequences(&world, 5).len() > before);
}

/// One piece, asked for by hand.
fn ask(world: &mut World, caller: u64, id: ExecutionId, from_sequence: u64, waits: bool) {
    world.input(Input::Watch(watch_of(caller, id, from_sequence, waits)));
}

/// The same, behind an entry with this hash.
fn ask_after(world: &mut World, caller: u64, id: ExecutionId, from_sequence: u64, after_hash: [u8; 32]) {
    world.input(Input::Watch(Watch {
        after_hash: Some(after_hash),
        ..watch_of(caller, id, from_sequence, true)
    }));
}

fn piece(world: &World, caller: u64) -> (Vec<u64>, bool) {
    match &world.replies[&caller] {
        Reply::Watched(Watched::Entries(entries, IsAll(is_all))) => {
            (entries.iter().map(|entry| entry.sequence).collect(), *is_all)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_watcher_of_an_execution_that_is_not_live_is_sent_to_the_store() {
    let mut world = World::new();
    let id = world.id();
    ask(&mut world, 5, id, 1, true);
    assert!(world.is_not_live(5));
}

#[test]
fn a_caller_gets_one_piece_and_nothing_more_until_it_asks_again() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    ask(&mut world, 5, id, 1, true);
    assert_eq!(piece(&world, 5), (vec![1, 2, 3], false));
    let assignment = world.one_assignment(1);
    world.started(1, assignment.token);
    // The world itself checks that nobody is answered twice.
    ask(&mut world, 6, id, 4, true);
    assert_eq!(piece(&world, 6), (vec![4, 5], true));
}

#[test]
fn whoever_does_not_wait_is_answered_although_there_is_nothing_to_see() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    ask(&mut world, 5, id, 1_000, false);
    assert_eq!(piece(&world, 5), (vec![], true));
    ask(&mut world, 6, id, u64::MAX, false);
    assert_eq!(piece(&world, 6), (vec![], true));
    ask(&mut world, 7, id, 2, false);
    assert_eq!(piece(&world, 7), (vec![2, 3, 4], true));
}

//
#[test]
fn what_was_seen_can_be_asked_for_while_the_outcome_is_being_written_and_the_outcome_cannot() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    let assignment = world.one_assignment(1);
    world.started(1, assignment.token);
    world.store_answers = false;
    world.complete(1, assignment.token);
    ask(&mut world, 5, id, 4, true);
    assert_eq!(piece(&world, 5), (vec![4, 5], true));
    ask(&mut world, 6, id, 6, false);
    assert_eq!(piece(&world, 6), (vec![], true));
    ask(&mut world, 7, id, 6, true);
    assert!(!world.replies.contains_key(&7), "decided, not durable");
    world.answer_last(WriteOutcome::Durable);
    assert!(
        matches!(&world.replies[&7], Reply::Watched(Watched::Settled(persisted)) if persisted.audit.len() > 6)
    );
}

#[test]
fn a_watcher_that_names_what_it_saw_learns_whether_it_is_there() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    ask(&mut world, 5, id, 1, true);
    let Reply::Watched(Watched::Entries(entries, _)) = &world.replies[&5] else {
        panic!("{:?}", world.replies[&5])
    };
    let hashes: Vec<[u8; 32]> = entries.iter().map(|entry| entry.hash).collect();
    ask_after(&mut world, 6, id, 3, hashes[1]);
    assert_eq!(piece(&world, 6), (vec![3, 4], true));
    // Another entry's hash, an entry that is not there yet, and none at all.
    for (caller, from_sequence) in [(7, 4), (8, 6), (9, 1), (10, u64::MAX)] {
        ask_after(&mut world, caller, id, from_sequence, hashes[1]);
        assert!(
            matches!(world.replies[&caller], Reply::Watched(Watched::Rewritten)),
            "{from_sequence}"
        );
    }
}

#[test]
fn a_watcher_that_goes_is_forgotten_and_the_others_are_not() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    ask(&mut world, 5, id, 5, true);
    ask(&mut world, 6, id, 5, true);
    world.input(Input::CallerGone(CallerId(5)));
    let assignment = world.one_assignment(1);
    world.started(1, assignment.token);
    assert!(!world.replies.contains_key(&5));
    assert_eq!(piece(&world, 6), (vec![5], true));
}

#[test]
fn large_entries_make_small_pieces_and_one_always_fits() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    let id = world.accept(1, plan(1, &["a"]));
    let piece_of_one = Piece {
        entries_max: 100,
        bytes_max: 1,
    };
    world.input(Input::Watch(Watch {
        piece: piece_of_one,
        ..watch_of(5, id, 1, true)
    }));
    assert_eq!(piece(&world, 5), (vec![1], false));
}
