//! Bytes of registered actions: each owner has at most as many as it leaves free.

use crate::world::{World, action, hello_of};
use escapement_engine::{ActionRefusal, ActionSpec, FromWorker, Notice, ToWorker};
use escapement_model::limits::{INPUT_SCHEMA_BYTES_MAX, SESSION_ACTIONS_MAX};

/// Bytes of all actions, and of one without its texts.
const ALL_BYTES: usize = 64 << 20;
const ONE_BYTES: usize = 1 << 10;

/// Returns as many actions as a session may have, under unique names of 100 bytes.
fn names(number: u64) -> Vec<ActionSpec> {
    let name = |k| action(&format!("{number:050}{k:050}"));
    (0..SESSION_ACTIONS_MAX).map(name).collect()
}

/// Begins a session of its own instance for the owner, and gives what of it was refused.
fn begin(world: &mut World, session: u64, owner: &str, actions: Vec<ActionSpec>) -> Vec<ActionRefusal> {
    let mut hello = hello_of(session as u8, owner);
    (hello.owner, hello.actions, hello.max_in_flight) = (owner.into(), actions, 1);
    world.open(session, hello);
    match world.take_sent(session).remove(0) {
        ToWorker::Welcome(welcome) => welcome.refused_actions,
        other => panic!("{other:?}"),
    }
}

fn register(world: &mut World, session: u64, revision: u64, actions: Vec<ActionSpec>) {
    world.say(session, FromWorker::RegisterActions { revision, actions });
}

#[test]
fn a_flood_of_names_leaves_half_to_others_and_names_the_field() {
    let mut world = World::new();
    let (mut n_taken, mut refused) = (0, Vec::new());
    for session in 1..=40 {
        let actions = names(session);
        refused = begin(&mut world, session, "greedy", actions);
        n_taken += SESSION_ACTIONS_MAX - refused.len();
    }
    // The last one is judged by what was free before it.
    assert_eq!(n_taken, (ALL_BYTES / (ONE_BYTES + 100)).div_ceil(2));
    assert_eq!(refused.len(), SESSION_ACTIONS_MAX);
    assert!(refused[0].reason.starts_with("name: "), "{}", refused[0].reason);
    assert_eq!(begin(&mut world, 41, "modest", names(41)), []);
}

#[test]
fn names_that_were_dropped_count_until_they_are_forgotten() {
    let mut world = World::with(|config| config.registration_grace_ms = 10_000);
    for session in 1..=2 {
        assert_eq!(begin(&mut world, session, "greedy", names(100 * session)), []);
        for revision in 1..=20 {
            register(&mut world, session, revision, names(100 * session + revision));
        }
    }
    let [Notice::Refused { reason, .. }] = &world.notices[..] else {
        panic!("told once: {:?}", world.notices);
    };
    assert!(reason.starts_with("name: "), "{reason}");
    assert_eq!(begin(&mut world, 3, "modest", names(61)), []);
    // Names without a session are forgotten, and their bytes are free again.
    world.pass(3_600_000);
    assert_eq!(begin(&mut world, 4, "greedy", names(62)), []);
}

#[test]
fn texts_count_with_who_said_them_last_and_the_largest_field_is_named() {
    let mut world = World::new();
    let large = |number: u64| {
        let mut actions = names(number);
        actions.truncate(60);
        for action in &mut actions {
            action.input_schema = "x".repeat(INPUT_SCHEMA_BYTES_MAX);
        }
        actions
    };
    let mut n_refused = Vec::new();
    for session in 1..=10 {
        n_refused.push(begin(&mut world, session, "greedy", large(session)).len());
    }
    let n_taken = 600 - n_refused.iter().sum::<usize>();
    let n_all = ALL_BYTES / (ONE_BYTES + 100 + INPUT_SCHEMA_BYTES_MAX);
    assert_eq!(n_taken, n_all.div_ceil(2));
    let refused = begin(&mut world, 11, "greedy", large(11));
    assert!(
        refused[0].reason.starts_with("input_schema: "),
        "{}",
        refused[0].reason
    );
    assert_eq!(
        begin(&mut world, 20, "greedy", large(1)),
        [],
        "the same again costs nothing"
    );
    // The last owner to describe an action is charged for it.
    assert_eq!(begin(&mut world, 12, "modest", large(1)), []);
    let n_refused = begin(&mut world, 13, "greedy", large(13)).len();
    assert!((1..60).contains(&n_refused), "{n_refused}");
}
