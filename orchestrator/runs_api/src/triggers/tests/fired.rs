//! Firings that are known with the responder that caused them.

use std::sync::Arc;

use escapement_access::{Grant, NamespaceScope, Principal, PrincipalKind, Role};
use escapement_run::journal::Responder;
use escapement_run::{Blobs, Run};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use tonic::Request;

use super::world::{World, nothing, on_event};
use crate::triggers::firing::STARTED;

/// Creates the request of a caller with a token of that name.
pub(super) fn by<T>(name: &str, message: T) -> Request<T> {
    let roles = [Role::Submitter].into_iter().collect();
    let mut principal = Principal::anonymous(vec![Grant::new(roles, NamespaceScope::All)]);
    (principal.name, principal.kind) = (name.into(), PrincipalKind::Token);
    let mut request = Request::new(message);
    request.extensions_mut().insert(Arc::new(principal));
    request
}

async fn fired_by(world: &World, run_id: &str) -> Option<Responder> {
    let look = |run: &Run, _: &dyn Blobs| run.state().spec.fired_by.clone();
    let seen = world.maker.handle().look(run_id.parse().unwrap(), look).await;
    seen.unwrap().map(|fired_by| *fired_by)
}

// RUN-6.8
#[tokio::test]
async fn a_run_knows_the_one_that_fired_its_trigger_and_the_one_that_published_its_event() {
    let world = World::new();
    let trigger = world.trigger(on_event("e"), nothing(), "").await;
    let fire = |request_id: &str| v1::FireTriggerRequest {
        trigger_id: trigger.clone(),
        request_id: request_id.to_owned(),
        ..v1::FireTriggerRequest::default()
    };
    let fired = world.triggers.fire_trigger(by("eve", fire("1"))).await.unwrap();
    let firing = fired.into_inner().firing.unwrap();
    assert_eq!(
        (firing.status.as_str(), firing.fired_by.as_str()),
        (STARTED, "eve")
    );
    let responder = fired_by(&world, &firing.run_id).await.unwrap();
    assert_eq!((responder.id.as_str(), responder.verified), ("eve", true));

    let event = v1::PublishEventRequest {
        r#type: "e".to_owned(),
        id: "1".to_owned(),
        ..v1::PublishEventRequest::default()
    };
    let told = world.triggers.publish_event(by("bob", event)).await.unwrap();
    let firing = told.into_inner().firings.remove(0);
    assert_eq!(firing.fired_by, "bob");
    assert_eq!(fired_by(&world, &firing.run_id).await.unwrap().id, "bob");

    // Without credentials no caller is known.
    let fired = world
        .triggers
        .fire_trigger(Request::new(fire("2")))
        .await
        .unwrap();
    assert_eq!(fired.into_inner().firing.unwrap().fired_by, "");
}

#[tokio::test]
async fn an_event_without_an_id_gets_one_and_is_another_event_each_time() {
    let world = World::new();
    world.trigger(on_event("e"), nothing(), "").await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let event = v1::PublishEventRequest {
            r#type: "e".to_owned(),
            ..v1::PublishEventRequest::default()
        };
        let answer = world
            .triggers
            .publish_event(by("bob", event))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(answer.firings.len(), 1);
        seen.push((answer.id, answer.firings[0].run_id.clone()));
    }
    assert!(!seen[0].0.is_empty() && seen[0].0 != seen[1].0 && seen[0].1 != seen[1].1);
    let again = v1::PublishEventRequest {
        r#type: "e".to_owned(),
        id: seen[0].0.clone(),
        ..v1::PublishEventRequest::default()
    };
    let answer = world
        .triggers
        .publish_event(by("bob", again))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.firings[0].run_id, seen[0].1);
}
