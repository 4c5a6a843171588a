//! What is known of triggers in memory is what is stored of them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use tokio::runtime::Handle;
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
        // The call is dropped as soon as it has spawned the task that makes the change, before that task runs.
        let n_tasks = || Handle::current().metrics().num_alive_tasks();
        let before = n_tasks();
        poll_fn(|context| {
            assert!(
                creating.as_mut().poll(context).is_pending(),
                "it is answered before it is stored"
            );
            if n_tasks() > before {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
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
