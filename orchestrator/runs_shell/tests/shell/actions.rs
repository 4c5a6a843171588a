//! Tests of the knowledge of actions, with a contract whose answers the test sets.

use std::time::Duration;

use crate::fake::FakeContract;
use crate::world::{World, unknown_call};
use escapement_run::ShownState;
use escapement_run::catalogue::{CATALOGUE_BYTES_MAX, Catalogue, SCHEMA_BYTES_MAX};
use escapement_run::spec::{EffectClass, Risk};
use escapement_runs_shell::catalogue::{catalogue, catalogue_of, profiles_for};
use escapement_runs_shell::{EffectsConfig, SeenActions, perform};
use escapement_store::runs::{DefinitionKind, RunReader, RunStore};
use escapement_store_kit::runs::MemoryRunsDisk;
use escapement_wire::v1;
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

fn action(name: &str) -> v1::Action {
    v1::Action {
        name: name.to_owned(),
        description: format!("Does {name}."),
        input_schema: r#"{"type":"object"}"#.to_owned(),
        workers: 1,
        ..v1::Action::default()
    }
}

fn all(seen: &SeenActions) -> Catalogue {
    chosen(seen, &|_| true)
}

fn chosen(seen: &SeenActions, is_wanted: &dyn Fn(&str) -> bool) -> Catalogue {
    let store = MemoryRunsDisk::new().open();
    catalogue_of(&*store.reader().unwrap(), seen, is_wanted).unwrap()
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    let actions = catalogue.actions.iter();
    actions.map(|action| action.profile.action.as_str()).collect()
}

#[tokio::test]
async fn an_action_that_a_worker_has_just_offered_is_in_the_catalogue_of_the_next_run() {
    let World { handle, outgoing, .. } = World::new();
    let fleet = FakeContract::offering(Vec::new());
    let config = EffectsConfig {
        max_executions: 1,
        waiting_bytes: 0,
    };
    perform(fleet.clone(), &handle, config, outgoing, &Handle::current());
    while fleet.n_asked() == 0 {
        tokio::task::yield_now().await;
    }
    for n in 1..=3 {
        fleet.offer(vec![action(&format!("read {n}"))]);
        let known = timeout(Duration::from_secs(3), catalogue(&handle, |_| true)).await;
        let known = known.expect("long before it would be asked by itself").unwrap();
        assert_eq!(names(&known), [format!("read {n}")]);
    }
    handle.stop();
}

#[test]
fn what_nobody_offers_is_in_no_catalogue_and_what_was_said_is_remembered_as_long_as_the_name() {
    let seen = SeenActions::default();
    let declared = v1::Action {
        workers: 0,
        declared: true,
        ..action("declared")
    };
    seen.told(vec![action("gone"), action("here"), declared]);
    assert_eq!(names(&all(&seen)), ["gone", "here"]);
    assert!(!seen.contains("declared"));
    // The contract remembers the name alone.
    let remembered = v1::Action {
        name: "gone".to_owned(),
        registered_for_ms: Some(1000),
        ..v1::Action::default()
    };
    seen.told(vec![remembered, action("here")]);
    assert_eq!(all(&seen).find("gone").unwrap().description, "Does gone.");
    seen.told(vec![action("here")]);
    assert_eq!(names(&all(&seen)), ["here"]);
    assert!(seen.contains("gone"), "it was offered once");
    assert_eq!(names(&chosen(&seen, &|name| name != "here")), [""; 0]);
    // No worker has described it.
    let profile = &all(&seen).actions[0].profile;
    assert_eq!(
        (profile.effect(), profile.risk(), profile.idempotent, profile.seen),
        (EffectClass::SideEffect, Risk::Unusual, false, true)
    );
    let store = MemoryRunsDisk::new().open();
    let names = ["here", "never"].into();
    let profiles = profiles_for(&*store.reader().unwrap(), &names, &seen).unwrap();
    assert_eq!((profiles[0].seen, profiles[1].seen), (true, false));
}

#[test]
fn what_workers_say_of_an_action_is_its_profile_as_long_as_the_operator_says_nothing() {
    let seen = SeenActions::default();
    let declared = v1::Action {
        traits: Some(v1::ActionTraits {
            effect: v1::action_traits::Effect::World.into(),
            risk: v1::action_traits::Risk::Safe.into(),
            idempotent: true,
            output_schema: "{}".to_owned(),
            produces: vec!["image".to_owned()],
            alternatives: vec!["other".to_owned()],
            not_for_planners: true,
        }),
        ..action("draw")
    };
    seen.told(vec![declared, action("silent")]);
    let catalogue = all(&seen);
    let profile = &catalogue.find("draw").unwrap().profile;
    assert_eq!(
        (
            profile.effect(),
            profile.risk(),
            profile.idempotent,
            profile.attempt_ms
        ),
        (EffectClass::World, Risk::Safe, true, 0)
    );
    assert_eq!(profile.produces, ["image"]);
    assert_eq!(profile.alternatives, ["other"]);
    assert!(profile.not_for_planners);
    let silent = &catalogue.find("silent").unwrap().profile;
    assert_eq!(
        (silent.effect(), silent.risk()),
        (EffectClass::SideEffect, Risk::Unusual)
    );
}

#[test]
fn a_catalogue_is_bounded_and_says_what_it_leaves_out() {
    let seen = SeenActions::default();
    let sized = |name: &str, bytes: usize| v1::Action {
        input_schema: "x".repeat(bytes),
        ..action(name)
    };
    seen.told(vec![
        sized("a", SCHEMA_BYTES_MAX),
        sized("b", SCHEMA_BYTES_MAX + 1),
    ]);
    let catalogue = all(&seen);
    assert_eq!(catalogue.actions[0].input_schema.len(), SCHEMA_BYTES_MAX);
    let large = &catalogue.actions[1];
    assert!(large.is_schema_left_out && large.input_schema.is_empty());
    let many = (0..40).map(|n| sized(&format!("n{n:02}"), SCHEMA_BYTES_MAX));
    seen.told(many.collect());
    let catalogue = all(&seen);
    assert!(catalogue.encoded_len() <= CATALOGUE_BYTES_MAX);
    assert_eq!(catalogue.actions.len() + catalogue.n_left_out as usize, 40);
    assert!(catalogue.n_left_out > 20);
    assert_eq!(catalogue.actions.last().unwrap().profile.action, "n14");
}

fn safe(name: &str) -> v1::Action {
    v1::Action {
        traits: Some(v1::ActionTraits {
            effect: v1::action_traits::Effect::Pure.into(),
            risk: v1::action_traits::Risk::Safe.into(),
            ..v1::ActionTraits::default()
        }),
        ..action(name)
    }
}

fn carry_out(world: &mut World, fleet: &FakeContract) {
    let (_, nobody) = unbounded_channel();
    let outgoing = std::mem::replace(&mut world.outgoing, nobody);
    let config = EffectsConfig {
        max_executions: 1,
        waiting_bytes: 0,
    };
    perform(fleet.clone(), &world.handle, config, outgoing, &Handle::current());
}

/// Returns true if the store has the description of `echo`.
async fn is_kept(world: &World) -> bool {
    let read = |reader: &dyn RunReader| reader.definition(DefinitionKind::OfferedAction, "echo");
    world.handle.readers().read(read).await.unwrap().is_some()
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), waits).await.expect("soon");
}

// RUN-2.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_workers_said_of_an_action_outlasts_the_process_as_long_as_its_name() {
    let mut world = World::new();
    let fleet = FakeContract::offering(Vec::new());
    fleet.offer(vec![safe("echo")]);
    carry_out(&mut world, &fleet);
    while !is_kept(&world).await {
        tokio::task::yield_now().await;
    }

    // No worker is there yet, and the contract has remembered the name alone.
    let mut world = world.killed();
    world.handle.seen().wait_at_most(Duration::from_secs(600));
    let fleet = FakeContract::offering(Vec::new());
    fleet.offer(vec![v1::Action {
        name: "echo".to_owned(),
        registered_for_ms: Some(1000),
        ..v1::Action::default()
    }]);
    carry_out(&mut world, &fleet);
    until(|| fleet.n_asked() > 0).await;
    let seen = world.handle.seen().clone();
    let read = move |reader: &dyn RunReader| profiles_for(reader, &["echo", "other"].into(), &seen);
    let profiles = world.handle.readers().read(read).await.unwrap();
    assert_eq!(
        (profiles[0].effect(), profiles[0].risk(), profiles[0].unknown),
        (EffectClass::Pure, Risk::Safe, false)
    );
    assert!(profiles[1].unknown, "nobody has said anything of it");

    // Once its name is forgotten, so is what was said.
    let mut world = world.killed();
    carry_out(&mut world, &FakeContract::offering(Vec::new()));
    while is_kept(&world).await {
        tokio::task::yield_now().await;
    }
}

// RUN-2.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_an_action_that_nobody_described_waits_until_a_worker_does_or_time_is_over() {
    let mut world = World::new();
    world.handle.seen().wait_at_most(Duration::from_secs(600));
    let fleet = FakeContract::offering(Vec::new());
    carry_out(&mut world, &fleet);
    let run_id = world.handle.create(unknown_call("echo")).await.unwrap().run_id;
    let state = || async {
        let looked = world.handle.look(run_id, |run, _| run.shown());
        looked.await.unwrap()
    };
    let n_asked = fleet.n_asked();
    until(|| fleet.n_asked() > n_asked + 1).await;
    assert_eq!(state().await, ShownState::Queued);
    fleet.offer(vec![safe("echo")]);
    while state().await == ShownState::Queued {
        tokio::task::yield_now().await;
    }
    // The contract of this test takes no attempt.
    assert_ne!(
        state().await,
        ShownState::Waiting,
        "what is safe asks nobody at level 2"
    );

    let mut world = World::new();
    world.handle.seen().wait_at_most(Duration::from_millis(50));
    carry_out(&mut world, &FakeContract::offering(Vec::new()));
    let run_id = world.handle.create(unknown_call("echo")).await.unwrap().run_id;
    let state = || async {
        let looked = world.handle.look(run_id, |run, _| run.shown());
        looked.await.unwrap()
    };
    while state().await == ShownState::Queued {
        tokio::task::yield_now().await;
    }
    assert_eq!(state().await, ShownState::Waiting, "nobody said that it is safe");
}
