//! Tests of the limits on triggers: the cost of matching one event, and the usage of a namespace.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config as Kind;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use serde_json::json;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use super::world::{World, creation, nothing, object, on_event};
use crate::triggers::firing::{FAILED, STARTED};

/// Creates an event of 900 KiB whose keys lie below one other key.
fn dense() -> Opaque {
    let mut encoded = Vec::new();
    for n in 0..60_000 {
        // A key of five digits and `true`.
        encoded.extend([10, 11, 10, 5]);
        encoded.extend(format!("{n:05}").bytes());
        encoded.extend([18, 2, 32, 1]);
    }
    let keys = Opaque::from_encoded(Bytes::from(encoded));
    StructBuilder::new().object("o", keys.as_encoded()).build()
}

async fn publish(world: &World, id: &str) -> Vec<v1::Firing> {
    let request = v1::PublishEventRequest {
        r#type: "dense".to_owned(),
        id: id.to_owned(),
        data: Some(dense()),
        ..v1::PublishEventRequest::default()
    };
    let told = world.triggers.publish_event(Request::new(request)).await;
    told.unwrap().into_inner().firings
}

fn filtered(expression: String, any_of: Option<Opaque>) -> Kind {
    Kind::Event(v1::EventFilter {
        r#type: "dense".to_owned(),
        expression,
        any_of,
        ..v1::EventFilter::default()
    })
}

// TRIG-3.5
#[tokio::test]
async fn a_filter_that_costs_too_much_for_an_event_has_a_failed_firing_and_holds_up_no_other() {
    let world = World::new();
    let sizes = format!("{} > 0", vec!["size(input.o)"; 40].join(" + "));
    let costly = world.trigger(filtered(sizes, None), nothing(), "").await;
    let found = "'59999' in input.o".to_owned();
    let other = world.trigger(filtered(found, None), nothing(), "").await;
    let missed = world
        .trigger(filtered("'x' in input.o".to_owned(), None), nothing(), "")
        .await;
    for _ in 0..2 {
        // The same event again finds the same firings.
        let firings = publish(&world, "one").await;
        assert_eq!(firings.len(), 2);
        let of = |trigger_id: &str| firings.iter().find(|firing| firing.trigger_id == trigger_id);
        let failed = of(&costly).unwrap();
        assert_eq!(
            (
                failed.status.as_str(),
                failed.reason.as_str(),
                failed.run_id.as_str()
            ),
            (FAILED, "FILTER_TOO_COSTLY", "")
        );
        assert_eq!(of(&other).unwrap().status, STARTED);
    }
    assert!(world.firings(&missed).await.is_empty());
    assert_eq!(world.kept(&costly).await.fire_count, 0);
}

// TRIG-3.5
#[tokio::test]
async fn as_many_values_as_a_filter_may_have_are_looked_for_at_the_price_of_their_keys() {
    let world = World::new();
    // Short ones: a filter has 64 KiB.
    let wanted: Vec<_> = (0..239).map(|_| json!("")).chain([json!(true)]).collect();
    let keys = (0..64).map(|n| (format!("/o/{n:05}"), json!(wanted)));
    let any_of = object(&json!(keys.collect::<serde_json::Map<_, _>>()));
    let trigger = world
        .trigger(filtered(String::new(), Some(any_of)), nothing(), "")
        .await;
    publish(&world, "one").await;
    assert_eq!(world.firings(&trigger).await[0].status, STARTED);
}

async fn looked_at(world: &World, interval_ms: i64, trigger_id: &str) -> Result<String, Status> {
    let condition = Kind::Condition(v1::Condition {
        expression: "input.runs.failed > 100".to_owned(),
        check_interval_ms: Some(interval_ms),
        ..v1::Condition::default()
    });
    let asked = creation(condition, nothing(), "");
    let trigger = match trigger_id {
        "" => {
            world
                .triggers
                .create_trigger(Request::new(asked))
                .await?
                .into_inner()
                .trigger
        }
        trigger_id => {
            let request = v1::UpdateTriggerRequest {
                trigger: asked.trigger.map(|trigger| v1::Trigger {
                    trigger_id: trigger_id.to_owned(),
                    ..trigger
                }),
                ..v1::UpdateTriggerRequest::default()
            };
            world
                .triggers
                .update_trigger(Request::new(request))
                .await?
                .into_inner()
                .trigger
        }
    };
    Ok(trigger.unwrap().trigger_id)
}

// TRIG-1.5
#[tokio::test]
async fn the_conditions_of_a_namespace_are_looked_at_so_often_at_most() {
    let world = World::new();
    let mut made = Vec::new();
    for _ in 0..19 {
        made.push(looked_at(&world, 1_000, "").await.unwrap());
    }
    let is_refused = |refused: Result<String, Status>| {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        let details = refused.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "TOO_MANY_LOOKS");
    };
    let slow = looked_at(&world, 31_536_000_000, "").await.unwrap();
    is_refused(looked_at(&world, 1_000, "").await);
    // A refused trigger has taken no slot.
    looked_at(&world, 1_000, &slow).await.unwrap();
    is_refused(looked_at(&world, 1_000, "").await);
    // What is looked at less often gives some back.
    looked_at(&world, 3_000, &made[0]).await.unwrap();
    looked_at(&world, 2_000, "").await.unwrap();
    let enable = |enabled| v1::EnableTriggerRequest {
        trigger_id: made[1].clone(),
        enabled,
        ..v1::EnableTriggerRequest::default()
    };
    world
        .triggers
        .enable_trigger(Request::new(enable(false)))
        .await
        .unwrap();
    let last = looked_at(&world, 1_000, "").await.unwrap();
    let enabled = world.triggers.enable_trigger(Request::new(enable(true))).await;
    is_refused(enabled.map(|_| String::new()));
    let request = v1::DeleteTriggerRequest {
        trigger_id: last,
        ..v1::DeleteTriggerRequest::default()
    };
    world
        .triggers
        .delete_trigger(Request::new(request))
        .await
        .unwrap();
    world
        .triggers
        .enable_trigger(Request::new(enable(true)))
        .await
        .unwrap();
    // Another kind of trigger takes no check.
    world.trigger(on_event("e"), nothing(), "").await;
}
