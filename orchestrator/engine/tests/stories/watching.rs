//! Watchers see everything once, in order, and nothing that may be taken back.

use crate::world::{World, plan};
use escapement_engine::{CallerId, Input, Reply, WaitFor, WriteOutcome};

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
    let id = world.submit(1, &plan(1, &["a"]).build(), WaitFor::Settled);
    world.input(Input::Watch {
        caller: CallerId(5),
        execution_id: id,
        from_sequence: 0,
    });
    world.input(Input::Watch {
        caller: CallerId(6),
        execution_id: id,
        from_sequence: 3,
    });
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
    let id = world.submit(1, &plan(1, &["a"]).build(), WaitFor::Accepted);
    world.input(Input::Watch {
        caller: CallerId(5),
        execution_id: id,
        from_sequence: 1,
    });
    let assignment = world.one_assignment(1);
    world.store_answers = false;
    let before = sequences(&world, 5).len();
    world.complete(1, assignment.token);
    assert_eq!(sequences(&world, 5).len(), before, "decided, not durable");
    let (write, _) = world.writes.last().unwrap().clone();
    world.input(Input::Stored {
        write,
        outcome: WriteOutcome::Durable,
    });
    assert!(sequences(&world, 5).len() > before);
}

#[test]
fn a_watcher_of_an_execution_that_is_not_live_is_sent_to_the_store() {
    let mut world = World::new();
    let id = world.id();
    world.input(Input::Watch {
        caller: CallerId(5),
        execution_id: id,
        from_sequence: 1,
    });
    assert!(matches!(world.replies[&5], Reply::NotLive));
}
