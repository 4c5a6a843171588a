//! What is known of triggers in memory is what is stored of them.

use std::pin::pin;

use escapement_store::runs::DefinitionKind;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::Request;

use super::world::{PATIENCE, World, create, creation, nothing, on_event};
use crate::triggers::Triggers;
use crate::triggers::firing::STARTED;

#[tokio::test]
async fn a_trigger_saved_right_after_a_start_keeps_the_events_of_the_others() {
    let world = World::new();
    let trigger = world.trigger(on_event("goal_completed"), nothing(), "").await;
    // As after a start, nothing is known yet of what is stored.
    let triggers = Triggers::new(world.maker.clone());
    create(&triggers, on_event("run_failed"), nothing(), "").await;
    world.reaches_a_goal().await;
    let serving = tokio::spawn(triggers.serve());
    assert_eq!(world.fires(&trigger).await.status, STARTED);
    serving.abort();
}

#[tokio::test]
async fn a_trigger_is_known_whose_caller_has_gone() {
    let world = World::new();
    assert_eq!(world.publish("e", "nobody listens").await, Ok(0));
    {
        let request = Request::new(creation(on_event("e"), nothing(), ""));
        let mut creating = pin!(world.triggers.create_trigger(request));
        while world.definitions(DefinitionKind::Trigger).await.is_empty() {
            tokio::select! {
                biased;
                _ = &mut creating => panic!("it is stored before it is answered"),
                () = yield_now() => {}
            }
        }
    }
    let is_known = async {
        for n in 0.. {
            if world.publish("e", &format!("{n}")).await == Ok(1) {
                return;
            }
            yield_now().await;
        }
    };
    timeout(PATIENCE, is_known).await.expect("it fires");
}
