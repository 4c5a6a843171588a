//! Firings that wait for a run of their trigger to end.

use escapement_store::runs::DefinitionKind;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config as Kind;

use super::world::{World, on_event, question};
use crate::triggers::firing::{STARTED, WAITING};

fn on_session() -> Kind {
    Kind::Condition(v1::Condition {
        expression: "input.session.on".to_owned(),
        session_id: "s".to_owned(),
        cooldown_ms: Some(0),
        ..v1::Condition::default()
    })
}

/// Looks at a trigger as if it were due.
async fn look(world: &World, trigger_id: &str) {
    world.triggers.handle_due(trigger_id).await.unwrap();
}

/// The session is off, and then on again; each is seen.
async fn edge(world: &World, trigger_id: &str) {
    for on in [false, true] {
        world.turn("s", on).await;
        look(world, trigger_id).await;
    }
}

#[tokio::test]
async fn an_edge_that_has_waited_starts_its_run() {
    let world = World::new();
    world.session("s").await;
    let trigger = world.trigger(on_session(), question(), "queue").await;
    edge(&world, &trigger).await;
    edge(&world, &trigger).await;
    let [second, first] = &world.firings(&trigger).await[..] else {
        panic!("two firings")
    };
    assert_eq!(
        (first.status.as_str(), second.status.as_str()),
        (STARTED, WAITING)
    );
    world.cancel(&first.run_id).await;
    look(&world, &trigger).await;
    let [second, _first] = &world.firings(&trigger).await[..] else {
        panic!("two firings")
    };
    assert_eq!((second.status.as_str(), second.event_id.as_str()), (STARTED, "2"));
    assert!(world.kept(&trigger).await.waiting.is_empty());
}

#[tokio::test]
async fn a_firing_that_goes_on_waiting_is_written_once() {
    let world = World::new();
    let trigger = world.trigger(on_event("e"), question(), "queue").await;
    for id in ["1", "2", "3"] {
        assert_eq!(world.publish("e", id).await, Ok(1));
    }
    let waiting = world.kept(&trigger).await.waiting;
    assert_eq!(waiting.len(), 2);
    for _ in 0..3 {
        look(&world, &trigger).await;
    }
    for firing in world.definitions(DefinitionKind::Firing).await {
        assert_eq!(firing.version, 1);
    }
    assert_eq!(world.kept(&trigger).await.waiting, waiting);
}

// TRIG-4.4
#[tokio::test]
async fn a_condition_is_looked_at_however_often_its_trigger_is_changed() {
    let world = World::new();
    world.session("s").await;
    let trigger = world.trigger(on_session(), question(), "queue").await;
    let due = || world.triggers.index().due_of(&trigger).unwrap();
    let first = due();
    for _ in 0..3 {
        world.triggers.reload(&trigger).await.unwrap();
        assert_eq!(due(), first, "a change moves no look");
    }
    look(&world, &trigger).await;
    assert!(due() >= first, "the next one follows an interval later");
}
